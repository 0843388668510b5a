"""All that the render loop and the server share: pictures and news one way, messages the other.

Nothing waits: the newest picture replaces the one before, whether anybody got that or not.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from realtime_lrp.commands.serve.messages import Message
from realtime_lrp.realtime.latest import Item

MOST_VIEWERS = 40
CONTROL_PLACES = 8  # further places, for those who control

MOST_MESSAGES = 1000
"""Messages that wait for the render loop; further ones push out the oldest."""

WATCHED_S = 2.0
"""The view counts as watched until this long after a picture was last on a screen."""

T = TypeVar("T")


class Due(NamedTuple):
    """What a viewer gets next; b"" or None: nothing of that kind."""

    news: bytes
    own_map: bytes  # the map of a picture of its own camera
    picture: Item[bytes] | None  # of the view, as JPEG
    concepts: bytes  # channels with their maps


class Viewer:
    """One viewer's side; for the server's thread, but `waits`."""

    def __init__(self) -> None:
        self.latency_ms = 0.0  # from capture to screen of the last picture that was confirmed
        self._wake = asyncio.Event()
        self._map = b""
        self._shows, self._knows, self._concepts = 0, b"", b""
        self._sent: Item[bytes] | None = None

    def waits(self, newest: int) -> bool:
        """Whether it has shown the newest picture and could show another one. Any thread."""
        return self._sent is None and self._shows == newest

    def wake(self) -> None:
        """Lets it look for something new."""
        self._wake.set()

    def confirm(self) -> None:
        """What was sent last is on the screen. For `Exchange.confirm`."""
        if self._sent:
            self.latency_ms = 1000 * (time.monotonic() - self._sent.time)
        self._sent = None
        self._wake.set()

    def give_map(self, message: bytes) -> None:
        """Offers the map of the viewer's own picture; a newer one replaces it."""
        self._map = message
        self._wake.set()

    async def next(self, exchange: "Exchange") -> Due:
        """Waits for something to send.

        A picture that is returned has to be confirmed before another one is, or concepts are.
        """
        while not any(due := self._due(exchange)):
            await self._wake.wait()
            self._wake.clear()
        self._map = b""
        self._knows, self._concepts = due.news or self._knows, due.concepts or self._concepts
        if due.picture:
            self._sent, self._shows = due.picture, due.picture.number
        return due

    def _due(self, exchange: "Exchange") -> Due:
        newest, free = exchange.picture, self._sent is None
        return Due(
            exchange.news if exchange.news != self._knows else b"",
            self._map,
            newest if newest and free and newest.number != self._shows else None,
            exchange.concepts if free and exchange.concepts != self._concepts else b"",
        )


class Exchange:
    """What the two threads share. Times are those of `time.monotonic()`."""

    def __init__(self) -> None:
        self.picture: Item[bytes] | None = None  # the newest one, as JPEG
        self.news = b""  # the newest figures and settings, JSON
        self.concepts = b""  # the newest channels with their maps, see `news.concepts_message`
        self.labels = b""  # what the page needs to know once, JSON; b"" until there is a network
        self.turned = time.monotonic()  # when the render loop last took its turn
        self.confirmed = time.monotonic()  # when a picture was last on somebody's screen
        self._viewers: set[Viewer] = set()
        self._messages: deque[Message] = deque(maxlen=MOST_MESSAGES)
        self._jobs: deque[tuple[Callable[[], Any], Future]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._published = 0

    # For the render loop

    @property
    def watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._viewers)

    @property
    def view_watched(self) -> bool:
        """Whether the view is on a screen: visitors with their own camera do not see it."""
        return self.watched and time.monotonic() - self.confirmed < WATCHED_S

    @property
    def picture_wanted(self) -> bool:
        """Whether somebody waits for a picture newer than the newest one here."""
        newest = self.picture.number if self.picture else 0
        return any(viewer.waits(newest) for viewer in tuple(self._viewers))

    def publish(self, jpeg: bytes, captured: float) -> None:
        """Offers a picture to everybody who is ready for it."""
        self._published += 1
        self.picture = Item(jpeg, self._published, captured)
        self._wake_all()

    def publish_news(self, news: bytes) -> None:
        """Offers figures and settings to everybody who is ready for them."""
        if news != self.news:
            self.news = news
            self._wake_all()

    def publish_concepts(self, message: bytes) -> None:
        """Offers channels and their maps to everybody who is ready for them."""
        self.concepts = message
        self._wake_all()

    def messages(self) -> list[Message]:
        """What pages have sent since the last call."""
        return [self._messages.popleft() for _ in range(len(self._messages))]

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
            loop.call_soon_threadsafe(self._wake_viewers)

    # For the server's thread

    def _wake_viewers(self) -> None:
        for viewer in self._viewers:
            viewer.wake()

    def join(self, controls: bool = False) -> Viewer | None:
        """A new viewer, who has to `leave`; None if there are too many.

        Who controls has places that others cannot take.
        """
        if len(self._viewers) >= MOST_VIEWERS + CONTROL_PLACES * controls:
            return None
        if not self.view_watched:
            self.picture = None  # it is as old as the last look at the view
        self._loop = asyncio.get_running_loop()
        viewer = Viewer()
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Forgets a viewer."""
        self._viewers.discard(viewer)

    def confirm(self, viewer: Viewer) -> None:
        """The picture that a viewer got last is on the screen."""
        self.confirmed = time.monotonic()
        viewer.confirm()

    def put(self, message: Message) -> None:
        """Hands a message to the render loop."""
        self._messages.append(message)

    async def in_render_loop(self, job: Callable[[], T], timeout_s: float = 5.0) -> T:
        """Has the render loop do something; raises TimeoutError if it does not get to it."""
        future: Future = Future()
        self._jobs.append((job, future))
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
