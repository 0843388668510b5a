"""What the server answers: the page, its pictures as WebSocket and as MJPEG, figures, snapshots.

Runs in the server's thread. There is a route for each thing; no path leads to a file.
"""

import asyncio
import io
import logging
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from realtime_lrp.commands.serve.exchange import MOST_VIEWERS, Exchange, Viewer
from realtime_lrp.commands.serve.guard import OPEN
from realtime_lrp.commands.serve.messages import Shown, read_message
from realtime_lrp.commands.serve.qr import svg
from realtime_lrp.commands.serve.tokens import Role, Tokens
from realtime_lrp.commands.serve.visitors import Visitors
from realtime_lrp.errors import first_line
from realtime_lrp.results.snapshot import Snapshot, encode_view, write_data

SCRIPTS = ("page", "link", "camera", "concepts", "figures", "painting", "recording")

PAGES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in SCRIPTS},
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/view": ("index.html", "text/html"),
}
"""Path -> file in `page/` and its type. The page knows its path: `/view` is the picture alone."""

HUNG_S = 15.0
"""A render loop that takes no turn for this long hangs."""

SENDING_S = 30.0
"""A viewer that takes nothing for this long is gone."""

LATENCY = struct.Struct("<I")
"""Before the JPEG of the view: the viewer's latency, in tenths of a millisecond."""

VIEW, OWN_MAP, CONCEPTS = b"v", b"m", b"c"
"""First byte of what is no text: a picture of the view, the map of the viewer's own picture, or
channels with their maps."""

BOUNDARY = b"picture"
TRY_AGAIN, POLICY = 1013, 1008
"""Why a WebSocket is closed."""

log = logging.getLogger(__name__)


class App:
    """The answers; `figures` and `snapshot` are called in the render loop."""

    def __init__(
        self,
        exchange: Exchange,
        tokens: Tokens,
        figures: Callable[[], dict[str, Any]],
        snapshot: Callable[[], Snapshot | None],
        visitors: Visitors,
        examples: Callable[[str, str], bytes],
    ):
        self._visitors, self._examples = visitors, examples
        self._exchange, self._tokens = exchange, tokens
        self._figures, self._snapshot = figures, snapshot

    def routes(self) -> ASGIApp:
        """The application."""
        return Router(
            redirect_slashes=False,
            routes=[
                *(_page(path, name, kind) for path, (name, kind) in PAGES.items()),
                Route(OPEN, self._health),
                Route("/figures", self._answer_figures),
                Route("/qr.svg", self._qr_code),
                Route("/snapshot.png", self._picture_file),
                Route("/snapshot.npz", self._data_file),
                Route("/gallery.jpg", self._examples_picture),
                Route("/view.mjpg", Film(self._exchange)),
                WebSocketRoute("/ws", self._socket),
            ],
        )

    async def _health(self, request: Request) -> Response:
        hangs = time.monotonic() - self._exchange.turned > HUNG_S
        return PlainTextResponse("hangs\n" if hangs else "ok\n", 503 if hangs else 200)

    async def _qr_code(self, request: Request) -> Response:
        """The QR code of the address for watching. The page knows under which name it is opened."""
        if request.scope["role"] is not Role.CONTROL:
            return PlainTextResponse("403: with this token you can only watch.\n", 403)
        address = request.query_params.get("address", "")
        if not address.endswith(f"token={self._tokens[Role.WATCH]}"):
            return PlainTextResponse("400: that is not the address for watching.\n", 400)
        try:
            body = await run_in_threadpool(svg, address)
        except ValueError as error:
            return PlainTextResponse(f"400: {error}\n", 400)
        return Response(body, media_type="image/svg+xml")

    async def _answer_figures(self, request: Request) -> Response:
        try:
            figures = await self._exchange.in_render_loop(self._figures)
        except TimeoutError:
            return PlainTextResponse("503: the viewer does not answer.\n", 503)
        return Response(msgspec.json.encode(figures), media_type="application/json")

    async def _examples_picture(self, request: Request) -> Response:
        """The gallery's pictures of a channel; watchers see them too."""
        asked = request.query_params
        layer, channel = asked.get("layer", ""), asked.get("channel", "")
        body = await run_in_threadpool(self._examples, layer, channel)
        if not body:
            return PlainTextResponse("404: there are no pictures of that channel.\n", 404)
        return Response(body, media_type="image/jpeg")

    async def _picture_file(self, request: Request) -> Response:
        return await self._file(request, ".png", encode_view)

    async def _data_file(self, request: Request) -> Response:
        return await self._file(request, ".npz", _data)

    async def _file(
        self, request: Request, suffix: str, encode: Callable[[Snapshot], bytes]
    ) -> Response:
        """What is shown now, as a file to download."""
        if request.scope["role"] is not Role.CONTROL:
            return PlainTextResponse("403: with this token you can only watch.\n", 403)
        try:
            snapshot = await self._exchange.in_render_loop(self._snapshot)
        except TimeoutError:
            return PlainTextResponse("503: the viewer does not answer.\n", 503)
        if snapshot is None:
            return PlainTextResponse("404: there is no map yet.\n", 404)
        body = await run_in_threadpool(encode, snapshot)
        name = time.strftime(f"realtime_lrp-%Y%m%d-%H%M%S{suffix}")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(body, media_type="application/octet-stream", headers=headers)

    async def _socket(self, socket: WebSocket) -> None:
        """One viewer, from the handshake to the end."""
        await socket.accept()
        viewer = self._exchange.join(socket.scope["role"] is Role.CONTROL)
        if viewer is None:
            reason = f"{MOST_VIEWERS} others are watching; try again later"
            await socket.close(TRY_AGAIN, reason)
            return
        role = socket.scope["role"]
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
            self._exchange.leave(viewer)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, socket: WebSocket, viewer: Viewer, role: Role) -> None:
        """Sends what the viewer needs to know once, then news and pictures."""
        own: dict[str, Any] = {"type": "role", "control": role is Role.CONTROL}
        if role is Role.CONTROL:
            own["watch"] = self._tokens[Role.WATCH]
        await _in_time(socket.send_text(msgspec.json.encode(own).decode()))
        labels = b""
        while True:
            due = await viewer.next(self._exchange)
            if labels != self._exchange.labels:
                labels = self._exchange.labels
                await _in_time(socket.send_text(labels.decode()))
            if due.news:
                await _in_time(socket.send_text(due.news.decode()))
            if due.concepts:
                await _in_time(socket.send_bytes(CONCEPTS + due.concepts))
            if due.picture:
                latency = LATENCY.pack(min(round(10 * viewer.latency_ms), 2**32 - 1))
                await _in_time(socket.send_bytes(VIEW + latency + due.picture.jpeg))
            if due.own_map:
                await _in_time(socket.send_bytes(OWN_MAP + due.own_map))

    async def _receive(self, socket: WebSocket, viewer: Viewer, role: Role) -> None:
        """Takes the viewer's messages; ends the connection of who sends wrong ones."""
        loop = asyncio.get_running_loop()
        visitor = self._visitors.join(lambda answer: _soon(loop, viewer.give_map, answer))
        try:
            while (raw := await socket.receive())["type"] != "websocket.disconnect":
                if picture := raw.get("bytes"):
                    if self._visitors.put(visitor, picture):
                        continue
                    await socket.close(POLICY, "a picture has ended the decoder")
                    return
                message = read_message(raw.get("text") or "")
                if isinstance(message, Shown):
                    self._exchange.confirm(viewer)
                elif role is Role.CONTROL:
                    self._exchange.put(message)
        except ValueError:
            await socket.close(POLICY, "that is no message of this page")
        finally:
            self._visitors.leave(visitor)


class Film:
    """The pictures as MJPEG, which OBS and other programs read. An ASGI app of its own."""

    def __init__(self, exchange: Exchange):
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await PlainTextResponse("405: only GET.\n", 405)(scope, receive, send)
            return
        viewer = self._exchange.join(scope["role"] is Role.CONTROL)
        if viewer is None:
            text = f"503: {MOST_VIEWERS} others are watching.\n"
            await PlainTextResponse(text, 503)(scope, receive, send)
            return
        scope["streams"] = True
        gone = asyncio.create_task(_gone(receive))
        sending = asyncio.create_task(self._send(viewer, send))
        try:
            await asyncio.wait([gone, sending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            scope["streams"] = False
            self._exchange.leave(viewer)
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def _send(self, viewer: Viewer, send: Send) -> None:
        kind = b"multipart/x-mixed-replace; boundary=" + BOUNDARY
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
        await send(start)
        between = b"--" + BOUNDARY + b"\r\n"
        await send({"type": "http.response.body", "body": between, "more_body": True})
        while True:
            if picture := (await viewer.next(self._exchange)).picture:
                head = b"Content-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n"
                part = head % len(picture.jpeg) + picture.jpeg + b"\r\n" + between
                body = {"type": "http.response.body", "body": part, "more_body": True}
                await _in_time(send(body))
                self._exchange.confirm(viewer)


def _page(path: str, name: str, kind: str) -> Route:
    """The route of a file in `page/`, which is read once."""
    body = (files("realtime_lrp.commands.serve") / "page" / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(body, media_type=kind)

    return Route(path, answer)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[bytes], None], answer: bytes) -> None:
    """Calls something in the server's thread, unless the server has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, answer)


async def _gone(receive: Receive) -> None:
    """Waits until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _in_time(sending: Any) -> None:
    """Waits until something is sent.

    Raises:
      TimeoutError: the viewer takes nothing.
    """
    await asyncio.wait_for(sending, SENDING_S)


def _data(snapshot: Snapshot) -> bytes:
    with io.BytesIO() as file:
        write_data(file, snapshot)
        return file.getvalue()
