"""The web server: uvicorn in a thread of its own, with limits for clients that mean harm.

A connection carries one request, which has to be complete and answered in time, unless it streams.
`connections` limits how many there are.
"""

import asyncio
import errno
import logging
import os
import socket
import ssl
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame
from websockets.server import ServerProtocol

from realtime_lrp.commands.serve.connections import BACKLOG, CountingSocket
from realtime_lrp.commands.serve.guard import MOST_HEAD
from realtime_lrp.commands.serve.messages import MOST_BYTES
from realtime_lrp.commands.serve.rate_limit import RateLimit
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.program import shows_tracebacks

REQUEST_S = 10.0
"""A request that is not complete and answered after this long is cut off."""

SWEEP_S = 1.0
"""How often silent connections are looked for."""

PING_S = 20.0
"""How often WebSockets are asked whether they live, and how long the answer may take."""

ENDING_S = 1.0
"""How long connections have to end."""

log = logging.getLogger(__name__)


def listen(
    host: str, port: int, settings: tuple[str, str] = ("--host", "--port")
) -> CountingSocket:
    """A socket that listens.

    Args:
      host: address or name of this machine.
      port: 0 is any free one.
      settings: what sets host and port, for messages.

    Raises:
      UnavailableError: it cannot listen there.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.create_server(
            address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=_is_dual(str(address[0]))
        )
        return CountingSocket(made.family, made.type, made.proto, fileno=made.detach())
    except (OSError, UnicodeError) as error:
        raise UnavailableError(_why_not(host, port, error, *settings)) from None


def _is_dual(address: str) -> bool:
    """Whether a socket for all addresses of IPv6 is to have those of IPv4, too."""
    return address == "::" and socket.has_dualstack_ipv6()


def _why_not(host: str, port: int, error: Exception, host_set: str, port_set: str) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return (
            f"Port {port} of {host} is in use. "
            f"Choose another one with {port_set}, or end the program that uses it."
        )
    if number == errno.EACCES:
        return f"Port {port} is only for the administrator. Choose one above 1023 with {port_set}."
    reason = getattr(error, "strerror", None) or error
    if number and not isinstance(error, socket.gaierror):
        reason = os.strerror(number)  # without what Python adds
    return (
        f"{host!r} is no address of this machine ({reason}). "
        f"Expected 127.0.0.1, 0.0.0.0 or one that the machine has; see {host_set}."
    )


class Server:
    """Answers on a socket while it is entered.

    Args:
      app: the answers.
      listening: the socket, see `listen`; it is closed at the end.
      tls: what it speaks HTTPS with; None for HTTP.
    """

    def __init__(self, app: ASGIApp, listening: CountingSocket, tls: ssl.SSLContext | None = None):
        for name in ("uvicorn", "uvicorn.error"):  # its lines hold addresses with tokens
            level = logging.WARNING if shows_tracebacks() else logging.CRITICAL
            logging.getLogger(name).setLevel(level)
        self._app, self._socket = app, listening
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer, interface="asgi3", http=_Http, ws=_WebSocket, lifespan="off",
                log_config=None, access_log=False, server_header=False, proxy_headers=False,
                ws_max_size=MOST_BYTES, ws_ping_interval=PING_S, ws_ping_timeout=PING_S,
                ws_per_message_deflate=False, backlog=BACKLOG,
                h11_max_incomplete_event_size=MOST_HEAD, timeout_graceful_shutdown=int(ENDING_S),
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

    def check(self) -> None:
        """Raises an error if the server has ended by itself.

        Raises:
          UnavailableError: it has.
        """
        if not self._thread.is_alive():
            raise UnavailableError("The web server has ended. Start it again; see -vv for why.")

    def _run(self) -> None:
        try:
            # On Windows asyncio's usual loop accepts by itself, and counts nothing.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve())
        except (Exception, SystemExit) as error:
            log.error("the web server failed: %s", error)

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._note_error)
        sweeping = asyncio.create_task(self._sweep())
        try:
            await self._server.serve([self._socket])
        finally:
            sweeping.cancel()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._socket.cut_off_silent()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the app say which connections have shown a token."""
        scope["know"] = self._socket.know
        await self._app(scope, receive, send)

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs the first error of a connection, without a traceback."""
        self._socket.complain(f"a connection failed: {context.get('exception') or context}")


class _Http(H11Protocol):
    """One connection, cut off if its request takes too long."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_S, self._cut_off)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _cut_off(self) -> None:
        if self.transport.is_closing():  # as a WebSocket; over TLS it forgets its protocol then
            return
        upgraded = self.transport.get_protocol() is not self
        if not upgraded and not (self.scope and self.scope.get("streams")):
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
        self._limit = RateLimit()

    def recv_frame(self, frame: Frame) -> None:
        if not self._limit.take():
            self.fail(CloseCode.POLICY_VIOLATION, "too many messages")
            raise ProtocolError("too many frames")
        super().recv_frame(frame)
