"""What phones get: the page, and a WebSocket that takes their pictures while it is their turn."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from realtime_lrp.commands.serve.guard import OPEN
from realtime_lrp.commands.serve.page_files import page_routes
from realtime_lrp.commands.serve.phones.turns import Phone, Status, Turns

PAGES = {
    "/": ("phone.html", "text/html"),
    "/phone.css": ("phone.css", "text/css"),
    "/phone.js": ("phone.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Path -> file in `page/` and its type."""

MOST_SOCKETS = 40
"""Phones that are connected at the same time, at most."""

MOST_OF_ADDRESS = 12
"""Of these from one address."""

LONGEST_S = 900.0
"""A connection ends after this long: then the code has to be scanned again."""

STATUS_S, SENDING_S = 0.25, 10.0
"""How often a phone is told where it stands if that has changed, and how long it may take that."""

JOIN = "join"
"""What a phone sends to get into the line."""

LEAVE = "leave"
"""What it sends to get out of it."""

TRY_AGAIN, POLICY, NORMAL = 1013, 1008, 1000
"""Why a WebSocket is closed."""


class PhoneApp:
    """The answers.

    Args:
      turns: whose phone is shown.
      texts: language -> the texts of the page; the first language is the default.
    """

    def __init__(self, turns: Turns, texts: Mapping[str, Mapping[str, str]]):
        self._turns, self._texts = turns, texts
        self._hosts: Counter[str] = Counter()  # address -> its sockets

    def routes(self) -> ASGIApp:
        """The application."""
        return Router(
            redirect_slashes=False,
            routes=[
                *page_routes(PAGES),
                Route(OPEN, self._health),
                WebSocketRoute("/ws", self._socket),
            ],
        )

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _socket(self, socket: WebSocket) -> None:
        """One phone, from the handshake to the end."""
        await socket.accept()
        host = socket.client.host if socket.client else ""
        if self._hosts.total() >= MOST_SOCKETS or self._hosts[host] >= MOST_OF_ADDRESS:
            await socket.close(TRY_AGAIN)
            return
        self._hosts[host] += 1
        phone = Phone(host)
        tasks = [
            asyncio.create_task(self._send(socket, phone)),
            asyncio.create_task(self._receive(socket, phone)),
        ]
        try:
            await asyncio.wait(tasks, timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hosts -= Counter([host])  # keeps no zeros
            self._turns.leave(phone)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(RuntimeError):  # it is closed
                await socket.close(NORMAL)

    async def _send(self, socket: WebSocket, phone: Phone) -> None:
        """Sends the texts, then where the phone stands, whenever that changes."""
        language = best_language(socket.headers.get("accept-language", ""), list(self._texts))
        texts = {"type": "texts", "language": language, **self._texts[language]}
        await _send_json(socket, texts)
        told: Status | None = None
        while True:
            status = self._turns.status(phone)
            if status != told:
                told = status
                await _send_json(socket, {"type": "status", **msgspec.to_builtins(status)})
            if phone.expelled:
                await socket.close(POLICY, "a picture has ended the decoder")
                return
            await asyncio.sleep(STATUS_S)

    async def _receive(self, socket: WebSocket, phone: Phone) -> None:
        """Takes pictures; ends the connection of who sends too many, or something else."""
        while (raw := await socket.receive())["type"] != "websocket.disconnect":
            if picture := raw.get("bytes"):
                self._turns.put(phone, picture)
            elif raw.get("text") == JOIN:
                if not self._turns.join(phone):
                    await _send_json(socket, {"type": "status", "state": "full", "seconds": 0})
            elif raw.get("text") == LEAVE:
                self._turns.leave(phone)
            else:
                await socket.close(POLICY, "that is no message of this page")
                return


async def _send_json(socket: WebSocket, message: dict[str, Any]) -> None:
    """Sends a message.

    Raises:
      TimeoutError: the phone takes nothing.
    """
    text = msgspec.json.encode(message).decode()
    await asyncio.wait_for(socket.send_text(text), SENDING_S)


def best_language(wanted: str, known: Sequence[str]) -> str:
    """The first language of an `Accept-Language` header that is known, else the first known one."""
    for entry in wanted[:200].split(","):
        code = entry.split(";")[0].strip().lower()
        for language in known:
            if code and code.split("-")[0] == language.lower().split("-")[0]:
                return language
    return known[0]
