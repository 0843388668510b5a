"""The server's answers: the page, its pictures as WebSocket and as MJPEG, figures, snapshots.

Runs in the server's thread. There is a route for each thing; no path leads to a file.
"""

import asyncio
import io
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from realtime_lrp.commands.serve.access import Role, Tokens, qr_code
from realtime_lrp.commands.serve.exchange import MOST_VIEWERS, Exchange, Viewer
from realtime_lrp.commands.serve.messages import Shown, examples, read_message
from realtime_lrp.commands.serve.server import OPEN
from realtime_lrp.commands.serve.visitors import Visitors
from realtime_lrp.errors import first_line
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.realtime.viewer.lecture import Words
from realtime_lrp.results.companions import Snapshot, encode_view, write_data

TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml",
}  # fmt: skip
FILES = {one.name: one for one in (files("realtime_lrp.commands.serve") / "page").iterdir()}
PAGES = {f"/{name}": name for name in FILES if not name.endswith(".html")}
PAGES |= {"/": "index.html", "/view": "index.html"}
"""Path -> file in `page/`. The page knows its path: `/view` is the picture alone."""

SAID = {
    ".html": re.compile(r"""(?<=>)([^<>]+)(?=<)|(?<=(?:abel|itle|lder|.alt)=")([^"]+)"""),
    ".js": re.compile(r"""(?<=")([A-Z][^"\n]+|[^"\n]* [^"\n]*)(?=")"""),
}
"""The text for people in a file: between tags and in attributes; a script's sentences."""

HUNG_S = 15.0  # a render loop that takes no turn for this long hangs
TRY_AGAIN, POLICY = 1013, 1008  # why a WebSocket is closed

log = logging.getLogger(__name__)


@dataclass
class App:
    """The answers; `figures` and `snapshot` are called in the render loop."""

    exchange: Exchange
    tokens: Tokens
    fingerprint: str
    figures: Callable[[], dict[str, Any]]
    snapshot: Callable[[], Snapshot | None]
    visitors: Visitors
    gallery: Callable[[], Gallery | None]
    words: Words

    def routes(self) -> ASGIApp:
        no_answer = PlainTextResponse("503: the viewer does not answer.\n", 503)
        app = Starlette(
            exception_handlers={TimeoutError: lambda *_: no_answer},
            routes=[
                *(_page(path, name, self.words) for path, name in PAGES.items()),
                Route(OPEN, self._health),
                Route("/figures", self._answer_figures),
                Route("/qr.svg", self._qr_code),
                Route("/snapshot.png", partial(self._file, ".png", encode_view)),
                Route("/snapshot.npz", partial(self._file, ".npz", _data)),
                Route("/gallery.jpg", self._examples_picture),
                Route("/view.mjpg", self._film),
                WebSocketRoute("/ws", self._socket),
            ],
        )
        app.router.redirect_slashes = False
        return app

    async def _health(self, request: Request) -> Response:
        hangs = time.monotonic() - self.exchange.turned > HUNG_S
        return PlainTextResponse("hangs\n" if hangs else "ok\n", 503 if hangs else 200)

    async def _qr_code(self, request: Request) -> Response:
        """The QR code of the address for watching. The page knows under which name it is opened."""
        _check_control(request)
        address = request.query_params.get("address", "")
        if not address.endswith(f"token={self.tokens[Role.WATCH]}"):
            raise HTTPException(400, "400: that is not the address for watching.\n")
        try:
            body = await run_in_threadpool(qr_code, address)
        except ValueError as error:
            raise HTTPException(400, f"400: {error}\n") from None
        return Response(body, media_type="image/svg+xml")

    async def _answer_figures(self, request: Request) -> Response:
        figures = await self.exchange.in_render_loop(self.figures)
        return Response(msgspec.json.encode(figures), media_type="application/json")

    async def _examples_picture(self, request: Request) -> Response:
        """The gallery's pictures of a channel; watchers see them too."""
        asked = [request.query_params.get(name, "") for name in ("layer", "channel")]
        body = await run_in_threadpool(examples, self.gallery(), *asked)
        if not body:
            raise HTTPException(404, "404: there are no pictures of that channel.\n")
        return Response(body, media_type="image/jpeg")

    async def _file(
        self, suffix: str, encode: Callable[[Snapshot], bytes], request: Request
    ) -> Response:
        _check_control(request)
        snapshot = await self.exchange.in_render_loop(self.snapshot)
        if snapshot is None:
            raise HTTPException(404, "404: there is no map yet.\n")
        body = await run_in_threadpool(encode, snapshot)
        name = time.strftime(f"realtime_lrp-%Y%m%d-%H%M%S{suffix}")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(body, media_type="application/octet-stream", headers=headers)

    async def _film(self, request: Request) -> ASGIApp:
        """The pictures as MJPEG, which OBS and other programs read, until the viewer goes."""
        viewer = self.exchange.join(request.scope["role"] is Role.CONTROL)
        if viewer is None:
            raise HTTPException(503, f"503: {MOST_VIEWERS} others are watching.\n")
        kind = "multipart/x-mixed-replace; boundary=picture"
        film = StreamingResponse(self._parts(viewer), media_type=kind)

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            scope["streams"] = True
            try:
                await film(scope, receive, send)
            finally:
                scope["streams"] = False
                self.exchange.viewers.discard(viewer)

        return stream

    async def _parts(self, viewer: Viewer) -> AsyncIterator[bytes]:
        """The parts of a film, each when the one before has been taken."""
        yield b"--picture\r\n"
        while True:
            _, picture = await viewer.next(self.exchange)
            if picture:
                head = b"Content-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n"
                yield head % len(picture.value) + picture.value + b"\r\n--picture\r\n"
                viewer.confirm(self.exchange)

    async def _socket(self, socket: WebSocket) -> None:
        await socket.accept()
        role = socket.scope["role"]
        viewer = self.exchange.join(role is Role.CONTROL)
        if viewer is None:
            await socket.close(TRY_AGAIN, f"{MOST_VIEWERS} others are watching; try again later")
            return
        tasks = [
            asyncio.create_task(self._send(socket, viewer, role)),
            asyncio.create_task(self._receive(socket, viewer, role)),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                if error := task.exception():
                    log.info("a viewer is cut off: %s", first_line(error))
        finally:
            self.exchange.viewers.discard(viewer)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, socket: WebSocket, viewer: Viewer, role: Role) -> None:
        """Sends what the viewer needs to know once, then news and pictures."""
        control = role is Role.CONTROL
        shared = (self.tokens[Role.WATCH], self.fingerprint) if control else ("", "")
        rights = {"type": "role", "control": control, "watch": shared[0], "fingerprint": shared[1]}
        await socket.send_text(msgspec.json.encode(rights).decode())
        while True:
            waiting, picture = await viewer.next(self.exchange)
            if picture:
                tenths = min(round(10 * viewer.latency_ms), 2**32 - 1)  # tenths of a millisecond
                waiting.append(b"v" + tenths.to_bytes(4, "little") + picture.value)
            for message in waiting:
                send: Any = socket.send_text if isinstance(message, str) else socket.send_bytes
                await send(message)

    async def _receive(self, socket: WebSocket, viewer: Viewer, role: Role) -> None:
        """Takes the viewer's messages; ends the connection of who sends wrong ones."""
        loop = asyncio.get_running_loop()

        def answer(message: bytes) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(viewer.give_map, message)

        visitor = self.visitors.join(answer)
        try:
            while (raw := await socket.receive())["type"] != "websocket.disconnect":
                if picture := raw.get("bytes"):
                    if self.visitors.put(visitor, picture):
                        continue
                    await socket.close(POLICY, "a picture has ended the decoder")
                    return
                message = read_message(raw.get("text") or "")
                if isinstance(message, Shown):
                    viewer.confirm(self.exchange)
                elif role is Role.CONTROL:
                    self.exchange.inbox.append(message)
        except ValueError:
            await socket.close(POLICY, "that is no message of this page")
        finally:
            self.visitors.leave(visitor)


def _page(path: str, name: str, words: Words) -> Route:
    """The route of a file in `page/`, which is read once, in the language of `words`."""
    text = FILES[name].read_text(encoding="utf-8")
    if said := SAID.get(Path(name).suffix):
        text = said.sub(lambda found: words.within(found[0]), text)
    text = text.replace('lang="en"', f'lang="{words.language}"')
    answer = Response(text, media_type=TYPES[Path(name).suffix])
    return Route(path, answer, methods=["GET"])


def _check_control(request: Request) -> None:
    if request.scope["role"] is not Role.CONTROL:
        raise HTTPException(403, "403: with this token you can only watch.\n")


def _data(snapshot: Snapshot) -> bytes:
    with io.BytesIO() as file:
        write_data(file, snapshot)
        return file.getvalue()
