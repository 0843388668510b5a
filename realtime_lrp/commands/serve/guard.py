"""Access: checks host, origin and token of each request, and adds the headers of every answer.

A page of another site must not reach this one through a visitor's browser: `Host` has to be a
number or a name of this machine (against DNS rebinding), `Origin` that of the page itself.
"""

import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from realtime_lrp.commands.serve.tokens import Role, Tokens

OPEN = "/healthz"
"""The one path that needs no token."""

MOST_FIELDS = 10
"""Fields of a query, and tokens that are looked at."""

MOST_HEAD = 16 * 1024
"""Bytes of a request's head."""

MOST_REQUESTS = 120
"""Requests at the same time, WebSockets too; who controls is always let in."""

WRONG_HOST = "403: this server does not answer under that name. Add it to serve.names.\n"
WRONG_ORIGIN = "403: only the server's own page may ask for this.\n"
NO_TOKEN = (
    "401: the token is missing or out of date. Open the address that realtime-lrp serve printed, "
    "with all that follows the question mark.\n"
)

TOO_LARGE = "431: the request's head is too large.\n"
TOO_MANY = "503: too many requests at the same time.\n"

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer. A connection carries one request: none waits for the next."""


class Guard:
    """Lets requests through to the app; `scope["role"]` says what they may do.

    Args:
      app: answers what is let through.
      tokens: of the roles.
      names: further names of this machine.
      port: on which the server listens; cookies are shared by all servers of a machine.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        names: Iterable[str],
        port: int,
    ):
        self._app, self._tokens = app, tokens
        here = socket.gethostname().lower()
        self._names = {"localhost", here, f"{here.split('.')[0]}.local"}
        self._further = {name.lower().rstrip(".") for name in names}
        self._cookie = f"realtime_lrp_{port}"
        self._requests = 0  # of those who do not control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEAD:
            await refuse(scope, send, 431, TOO_LARGE)
        elif not self._is_own_host(headers.getlist("host")):
            await refuse(scope, send, 403, WRONG_HOST)
        elif not self._is_own_origin(headers):
            await refuse(scope, send, 403, WRONG_ORIGIN)
        elif scope["path"] == OPEN:
            await self._app(scope, receive, with_headers(send))
        elif (found := self._role(scope, headers)) is None:
            await refuse(scope, send, 401, NO_TOKEN)
        else:
            await self._let_in(scope, receive, send, *found)

    async def _let_in(
        self, scope: Scope, receive: Receive, send: Send, role: Role, token: str
    ) -> None:
        """Answers who has a token, unless too many others without control are there."""
        scope["role"] = role
        scope["know"](tuple(scope["client"]))
        counted = role is not Role.CONTROL
        if counted and self._requests >= MOST_REQUESTS:
            await refuse(scope, send, 503, TOO_MANY)
            return
        self._requests += counted
        try:
            send = with_headers(send, self._cookie_for(scope, role, token))
            await self._app(scope, receive, send)
        finally:
            self._requests -= counted

    def _is_own_host(self, hosts: list[str]) -> bool:
        """Whether the address is a number or a name of this machine, not any name that leads here.

        Args:
          hosts: all `Host` headers.
        """
        host = hostname(hosts[0]) if len(hosts) == 1 else ""
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

    def _role(self, scope: Scope, headers: Headers) -> tuple[Role, str] | None:
        """The highest role of the tokens in address and cookies, and its token."""
        given: list[str] = []
        with suppress(ValueError):  # too many fields
            query = scope["query_string"].decode("latin-1")
            given += parse_qs(query, max_num_fields=MOST_FIELDS).get("token", [])
        given += self._cookies(headers)
        tokens = {self._tokens.role(token): token for token in given[:MOST_FIELDS]}
        return next(((role, tokens[role]) for role in Role if role in tokens), None)

    def _cookies(self, headers: Headers) -> list[str]:
        """The values of our own cookies, whatever other servers of this host have set."""
        given = ";".join(headers.getlist("cookie")).split(";")
        pairs = [one.strip().partition("=") for one in given]
        return [value for name, _, value in pairs if name.startswith(f"{self._cookie}_")]

    def _cookie_for(self, scope: Scope, role: Role, token: str) -> str:
        """The cookie that lets the page load what belongs to it; only for requests of pages."""
        if scope["type"] != "http":
            return ""
        secure = "; Secure" if scope["scheme"] == "https" else ""
        name = f"{self._cookie}_{role.value}"
        return f"{name}={token}; HttpOnly; SameSite=Strict{secure}"


def hostname(address: str) -> str:
    """The host out of HOST:PORT, in lower case; "" if that is no address."""
    try:
        parts = urlsplit(f"//{address}")
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""
    return "" if parts.path or parts.query or parts.username is not None else host


def with_headers(send: Send, cookie: str = "") -> Send:
    """Adds the headers to what is sent, and a cookie if it is not ""."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if cookie:
                headers.append("Set-Cookie", cookie)
        await send(message)

    return send_with_headers


async def refuse(scope: Scope, send: Send, status: int, text: str) -> None:
    """Answers a request, or a WebSocket's handshake, with an error."""
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    send = with_headers(send)
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
