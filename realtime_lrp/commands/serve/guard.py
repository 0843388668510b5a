"""Access: checks host, origin and token of each request.

A page of another site must not reach this one through a visitor's browser: `Host` has to be a
number or a name of this machine (against DNS rebinding), `Origin` has to be the page's own.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from realtime_lrp.commands.serve.tokens import Role, Tokens

OPEN = "/healthz"  # the one path that needs no token
MOST_HEAD = 16 * 1024  # bytes of a request's head
SENDING_S = 30.0  # who takes nothing for this long is gone

TOO_LARGE = 431, "431: the request's head is too large.\n"
WRONG_HOST = 403, "403: this server does not answer under that name. Add it to serve.names.\n"
WRONG_ORIGIN = 403, "403: only the server's own page may ask for this.\n"
NO_TOKEN = (
    401,
    "401: the token is missing or out of date. Open the address that realtime-lrp serve printed, "
    "with all that follows the question mark.\n",
)


class Guard:
    """Lets requests through to the app; `scope["role"]` says what they may do.

    `names` are further names of this machine. The port is in the names of cookies, which all
    servers of a machine share.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, names: Iterable[str], port: int):
        self._app, self._tokens = app, tokens
        here = socket.gethostname().lower()
        self._names = {"localhost", here, f"{here.split('.')[0]}.local"}
        self._further = {name.lower().rstrip(".") for name in names}
        self._cookie = f"realtime_lrp_{port}_"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        if refusal:
            status, text = refusal
            await PlainTextResponse(text, status)(scope, receive, send)
        else:
            await self._app(scope, receive, self._sender(scope, send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request is refused; None: it is not, and its role is noted."""
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEAD:
            return TOO_LARGE
        if not self._is_own_host(hostname(headers.get("host", ""))):
            return WRONG_HOST
        if not self._is_own_origin(headers):
            return WRONG_ORIGIN
        if scope["path"] == OPEN:
            return None
        tokens = {self._tokens.role(token): token for token in self._given_tokens(scope)}
        for role in Role:  # the highest one first
            if role in tokens:
                scope["role"], scope["token"] = role, tokens[role]
                return None
        return NO_TOKEN

    def _is_own_host(self, host: str) -> bool:
        """Whether a host is a number or a name of this machine, not any name that leads here."""
        if host in self._names or host in self._further:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def _is_own_origin(self, headers: Headers) -> bool:
        """Whether the page that asks is ours. Programs other than browsers send no origin."""
        origins = headers.getlist("origin")
        if not origins:
            return True
        address = origins[0].partition("://")[2].lower()
        own = address == headers["host"].lower() or hostname(address) in self._further
        return len(origins) == 1 and own

    def _given_tokens(self, scope: Scope) -> list[str]:
        """The tokens in address and cookies; other servers of this host set cookies, too."""
        asked = HTTPConnection(scope)
        cookies = [value for name, value in asked.cookies.items() if name.startswith(self._cookie)]
        return [*asked.query_params.getlist("token"), *cookies]

    def _sender(self, scope: Scope, send: Send) -> Send:
        """Sends in time, or raises TimeoutError; adds the cookie for what belongs to the page."""
        cookie = ""
        if scope["type"] == "http" and "role" in scope:
            secure = "; Secure" if scope["scheme"] == "https" else ""
            name = self._cookie + scope["role"].value
            cookie = f"{name}={scope['token']}; HttpOnly; SameSite=Strict{secure}"

        async def send_in_time(message: Message) -> None:
            if cookie and message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Set-Cookie", cookie)
            await asyncio.wait_for(send(message), SENDING_S)

        return send_in_time


def hostname(address: str) -> str:
    """The host out of HOST:PORT, in lower case; "" if that is no address."""
    try:
        parts = urlsplit(f"//{address}")
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""
    return "" if parts.path or parts.query or parts.username is not None else host
