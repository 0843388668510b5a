"""The web server: uvicorn in a thread of its own, behind a guard, with limits that uvicorn lacks.

A page of another site must not reach this one through a visitor's browser: `Host` has to be a
number or a name of this machine (against DNS rebinding), `Origin` has to be the page's own, and
each request needs a token. A public page stands behind a proxy.
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame
from websockets.server import ServerProtocol

from realtime_lrp.commands.serve.access import Role, Tokens
from realtime_lrp.commands.serve.messages import MOST_BYTES
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.program import shows_tracebacks

log = logging.getLogger(__name__)

OPEN = "/healthz"  # the one path that needs no token
MOST_HEAD = 16 * 1024  # bytes of a request's head
SENDING_S = 30.0  # who takes nothing for this long is gone

TOO_LARGE = "431: the request's head is too large.\n"
WRONG_HOST = "403: this server does not answer under that name. Add it to serve.names.\n"
WRONG_ORIGIN = "403: only the server's own page may ask for this.\n"
NO_TOKEN = (
    "401: the token is missing or out of date. Open the address that realtime-lrp serve printed, "
    "with all that follows the question mark.\n"
)


class _GoneError(Exception):
    """The client takes nothing any more."""


class Guard:
    """Lets requests through to the app; `scope["role"]` says what they may do.

    `names` are further names of this machine. The port is in the names of cookies, which all
    servers of a machine share.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, names: Iterable[str], port: int):
        self._app = app
        self._tokens = tokens
        here = socket.gethostname().lower()
        self._names = {"localhost", here, f"{here.split('.')[0]}.local"}
        self._further = {name.lower().rstrip(".") for name in names}
        self._cookie = f"realtime_lrp_{port}_"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refusal := self._refusal(scope):
            await PlainTextResponse(refusal, int(refusal[:3]))(scope, receive, send)
        else:
            with suppress(_GoneError):
                await self._app(scope, receive, self._sender(scope, send))

    def _refusal(self, scope: Scope) -> str:
        """Why a request is refused; "": it is not, and its role is noted."""
        asked = HTTPConnection(scope)
        headers = asked.headers
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEAD:
            return TOO_LARGE
        host = hostname(headers.get("host", ""))
        try:
            # a number or a name of this machine, not any name that leads here
            own = host in self._names | self._further or bool(ipaddress.ip_address(host))
        except ValueError:
            own = False
        if not own:
            return WRONG_HOST
        origins = headers.getlist("origin")  # programs other than browsers send none
        address = "".join(origins).partition("://")[2].lower()
        ours = address == headers["host"].lower() or hostname(address) in self._further
        if origins and not (ours and len(origins) == 1):
            return WRONG_ORIGIN
        if scope["path"] == OPEN:
            return ""
        # other servers of this host set cookies, too
        cookies = [value for name, value in asked.cookies.items() if name.startswith(self._cookie)]
        given = [*asked.query_params.getlist("token"), *cookies]
        tokens = {self._tokens.role(token): token for token in given}
        for role in Role:  # the highest one first
            if role in tokens:
                scope["role"] = role
                scope["token"] = tokens[role]
                return ""
        return NO_TOKEN

    def _sender(self, scope: Scope, send: Send) -> Send:
        """Sends in time, or raises _GoneError; adds the cookie for what belongs to the page."""
        cookie = ""
        if scope["type"] == "http" and "role" in scope:
            secure = "; Secure" if scope["scheme"] == "https" else ""
            name = self._cookie + scope["role"].value
            cookie = f"{name}={scope['token']}; HttpOnly; SameSite=Strict{secure}"

        async def send_in_time(message: Message) -> None:
            if cookie and message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Set-Cookie", cookie)
            try:
                await asyncio.wait_for(send(message), SENDING_S)
            except TimeoutError:
                raise _GoneError("it takes nothing") from None

        return send_in_time


def hostname(address: str) -> str:
    """The host out of HOST:PORT, in lower case; "" if that is no address."""
    try:
        parts = urlsplit(f"//{address}")
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""
    return "" if parts.path or parts.query or parts.username is not None else host


REQUEST_S = 10.0  # a request that is not complete and answered after this long is cut off
MOST_STRANGERS = 64  # connections that have shown no token; one more cuts off the oldest of them
PROMPT_S = 0.1  # nobody is cut off before: the request is on the way
MOST_CONNECTIONS = 400  # further requests are refused; below the usual 1024 files
BACKLOG = 128  # connections that the kernel keeps until they are accepted
FRAMES_PER_S, BURST = 100.0, 300  # most frames from a WebSocket's client: each second, at once
PING_S = 20.0  # how often WebSockets are asked whether they live, and how long they may take
ENDING_S = 1.0  # how long connections have to end

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address or name of this machine; port 0 is any free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = address[0] == "::" and socket.has_dualstack_ipv6()  # addresses of IPv4, too
        return socket.create_server(
            address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both
        )
    except (OSError, UnicodeError) as error:
        reason, _, _ = str(getattr(error, "strerror", error)).partition(" (while")
        raise UnavailableError(
            f"The page cannot be served at port {port} of {host!r} ({reason}). Expected an address "
            "of this machine (127.0.0.1, 0.0.0.0, see --host) and a port above 1023 that no other "
            "program uses (--port)."
        ) from None


class Server:
    """Answers on a socket while it is entered, by HTTPS if there is a `tls`; then closes it."""

    def __init__(self, app: ASGIApp, listening: socket.socket, tls: ssl.SSLContext | None = None):
        for name in ("uvicorn", "uvicorn.error"):  # its lines hold addresses with tokens
            level = logging.WARNING if shows_tracebacks() else logging.CRITICAL
            logging.getLogger(name).setLevel(level)
        self._socket = listening
        self._complained = False
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, interface="asgi3", http=_Http, ws=_WebSocket, loop="asyncio", lifespan="off",
                log_config=None, access_log=False, server_header=False, proxy_headers=False,
                headers=list(HEADERS.items()), backlog=BACKLOG, limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=MOST_HEAD, ws_max_size=MOST_BYTES,
                ws_ping_interval=PING_S, ws_ping_timeout=PING_S, ws_per_message_deflate=False,
                timeout_graceful_shutdown=int(ENDING_S),
                ssl_context_factory=(lambda config, default: tls) if tls else None,
            )
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.should_exit = True
        self._thread.join(3 * ENDING_S)
        self._socket.close()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.get_loop().set_exception_handler(self._note_error)
                runner.run(self._server.serve([self._socket]))
        except (Exception, SystemExit) as error:
            log.error("the web server failed: %s", error)

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs the first error of a connection, without a traceback."""
        if not self._complained:
            self._complained = True
            error = context.get("exception") or context["message"]
            log.warning("a connection failed: %s (the log omits further ones)", error)


class _Http(H11Protocol):
    """One connection: its requests have to be made, and their answers taken, in time.

    Where too many connections have shown no token, the oldest one is cut off: who sends a request
    at once gets an answer.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = time.monotonic()
        self._restart_deadline()
        crowded = len(self.connections) > MOST_CONNECTIONS // 2  # uvicorn refuses beyond the most
        self.loop.call_later(0 if crowded else PROMPT_S, self._make_room)

    def _make_room(self) -> None:
        strangers = [
            connection
            for connection in self.connections
            if isinstance(connection, _Http) and not connection.transport.is_closing()
            if not (connection.scope and "role" in connection.scope)
        ]
        if len(strangers) > MOST_STRANGERS:
            min(strangers, key=lambda one: one._since).transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._restart_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _restart_deadline(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S, self._cut_off)

    def _cut_off(self) -> None:
        if self.scope and self.scope.get("streams"):
            self._restart_deadline()
        elif self in self.connections:  # else it is a WebSocket's by now
            self.transport.abort()


class _WebSocket(WebSocketsSansIOProtocol):
    """One WebSocket, cut off if it sends too many frames, or takes no end of the connection."""

    def __init__(self, *arguments: Any, **fields: Any):
        super().__init__(*arguments, **fields)
        self.conn = _Frames(max_size=MOST_BYTES, logger=self.logger)

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self.loop.call_later(ENDING_S, self.transport.abort)


class _Frames(ServerProtocol):
    """The frames of a WebSocket: pings, pongs and empty ones take time like any other."""

    def __init__(self, **fields: Any):
        super().__init__(**fields)
        self._left = float(BURST)
        self._since = time.monotonic()

    def recv_frame(self, frame: Frame) -> None:
        now = time.monotonic()
        self._left = min(BURST, self._left + FRAMES_PER_S * (now - self._since)) - 1
        self._since = now
        if self._left < 0:
            self.fail(CloseCode.POLICY_VIOLATION, "too many messages")
            raise ProtocolError("too many frames")
        super().recv_frame(frame)
