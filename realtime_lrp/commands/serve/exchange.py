"""All that the render loop and the server share: pictures and news one way, messages the other.

Nothing waits: the newest picture replaces the one before, whether anybody got that or not.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from realtime_lrp.commands.serve.messages import Message
from realtime_lrp.realtime.latest import Item

MOST_VIEWERS = 40
CONTROL_PLACES = 8  # further places, for those who control
MOST_MESSAGES = 1000  # messages that wait for the render loop; further ones push out the oldest
WATCHED_S = 2.0  # the view counts as watched until this long after a picture was last on a screen

T = TypeVar("T")


class Viewer:
    """One viewer's side; for the server's thread, but `sent` and `shows`."""

    def __init__(self) -> None:
        self.latency_ms = 0.0  # capture to screen, of the last picture that was confirmed
        self.awake = asyncio.Event()  # set: there may be something new
        self.shows = 0  # number of the picture that was sent last
        self.sent: Item[bytes] | None = None  # what was sent last; None once it is confirmed
        self._map = b""  # the map of the newest picture of its own camera
        self._knows: dict[str, str | bytes] = {}

    def confirm(self, exchange: "Exchange") -> None:
        """Notes that the last sent picture is on the screen."""
        exchange.confirmed = now = time.monotonic()
        if self.sent:
            self.latency_ms = 1000 * (now - self.sent.time)
        self.sent = None
        self.awake.set()

    def give_map(self, message: bytes) -> None:
        """Offers the map of the viewer's own picture; a newer one replaces it."""
        self._map = message
        self.awake.set()

    async def next(self, exchange: "Exchange") -> tuple[list[str | bytes], Item[bytes] | None]:
        """Waits for something to send: messages, and a picture of the view.

        A picture that is returned has to be confirmed before another one is, or concepts are.
        """
        while True:
            newest = exchange.picture
            free = self.sent is None
            news = {
                kind: message
                for kind, message in exchange.said.items()
                if message != self._knows.get(kind, "") and (free or kind != "concepts")
            }
            picture = newest if newest and free and newest.number != self.shows else None
            if news or self._map or picture:
                break
            await self.awake.wait()
            self.awake.clear()
        self._knows |= news
        messages = [*news.values(), *([self._map] if self._map else [])]
        self._map = b""
        if picture:
            self.sent = picture
            self.shows = picture.number
        return messages, picture


class Exchange:
    """Data that the two threads share. Times come from `time.monotonic()`."""

    def __init__(self) -> None:
        self.picture: Item[bytes] | None = None  # the newest one, as JPEG
        # The newest message of each kind, "" while there is none; JSON, with a picture as bytes.
        self.said: dict[str, str | bytes] = {"choices": "", "news": "", "concepts": ""}
        self.turned = time.monotonic()  # when the render loop last took its turn
        self.confirmed = time.monotonic()  # when a picture was last on somebody's screen
        self.viewers: set[Viewer] = set()
        self.inbox: deque[Message] = deque(maxlen=MOST_MESSAGES)
        self._jobs: deque[tuple[Callable[[], Any], Future]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._published = 0

    # For the render loop

    @property
    def view_watched(self) -> bool:
        """Whether the view is on a screen: visitors with their own camera do not see it."""
        return bool(self.viewers) and time.monotonic() - self.confirmed < WATCHED_S

    @property
    def picture_wanted(self) -> bool:
        """Whether somebody waits for a picture newer than the newest one here."""
        newest = self.picture.number if self.picture else 0
        return any(not viewer.sent and viewer.shows == newest for viewer in tuple(self.viewers))

    def publish(self, jpeg: bytes, captured: float) -> None:
        """Offers a picture to everybody who is ready for it."""
        self._published += 1
        self.picture = Item(jpeg, self._published, captured)
        self._wake_all()

    def say(self, kind: str, message: str | bytes) -> None:
        """Offers a message to everybody who is ready for it."""
        if message != self.said[kind]:
            self.said[kind] = message
            self._wake_all()

    def messages(self) -> list[Message]:
        return [self.inbox.popleft() for _ in range(len(self.inbox))]

    def run_jobs(self) -> None:
        """Does what the server has asked for."""
        for _ in range(len(self._jobs)):
            job, future = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except Exception as error:
                    future.set_exception(error)

    def _wake_all(self) -> None:
        loop = self._loop
        if loop and not loop.is_closed():
            for viewer in tuple(self.viewers):
                loop.call_soon_threadsafe(viewer.awake.set)

    # For the server's thread

    def join(self, controls: bool = False) -> Viewer | None:
        """A new one of the `viewers`; None if there are too many. Control has own places."""
        if len(self.viewers) >= MOST_VIEWERS + CONTROL_PLACES * controls:
            return None
        if not self.view_watched:
            self.picture = None  # it is as old as the last look at the view
        self._loop = asyncio.get_running_loop()
        viewer = Viewer()
        self.viewers.add(viewer)
        return viewer

    async def in_render_loop(self, job: Callable[[], T]) -> T:
        """Has the render loop do something; raises TimeoutError if it does not get to it."""
        future: Future = Future()
        self._jobs.append((job, future))
        return await asyncio.wait_for(asyncio.wrap_future(future), 5.0)
