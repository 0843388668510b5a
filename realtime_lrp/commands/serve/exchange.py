"""All that the render loop and the server share: pictures and news one way, messages the other.

The methods of each side say which thread they are for. Nothing waits: the newest picture replaces
the one before, whether anybody got that or not.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from realtime_lrp.commands.serve.messages import Message

MOST_VIEWERS = 40
"""Viewers at the same time, at most."""

CONTROL_PLACES = 8
"""Further places, for those who control."""

MOST_MESSAGES = 1000
"""Messages that wait for the render loop; further ones push out the oldest."""

WATCHED_S = 2.0
"""The view counts as watched until this long after a picture was last on a screen."""

T = TypeVar("T")


@dataclass(frozen=True)
class Picture:
    """An encoded picture, the same for all viewers.

    Attributes:
      jpeg: its bytes.
      number: 1 for the first picture, then one more for each.
      captured: `time.monotonic()` when it was captured.
    """

    jpeg: bytes
    number: int
    captured: float


class Viewer:
    """One viewer's side; for the server's thread, but `waits`.

    Attributes:
      latency_ms: from capture to screen of the last picture that was confirmed; 0 before.
    """

    def __init__(self) -> None:
        self.latency_ms = 0.0
        self._wake = asyncio.Event()
        self._map = b""
        self._shows, self._knows, self._concepts = 0, b"", b""
        self._sent: Picture | None = None

    def waits(self, newest: int) -> bool:
        """Whether it has shown the newest picture and could show another one. Any thread."""
        return self._sent is None and self._shows == newest

    def wake(self) -> None:
        """Lets it look for something new."""
        self._wake.set()

    def confirm(self) -> None:
        """What was sent last is on the screen. For `Exchange.confirm`."""
        if self._sent:
            self.latency_ms = 1000 * (time.monotonic() - self._sent.captured)
        self._sent = None
        self._wake.set()

    def give_map(self, message: bytes) -> None:
        """Offers the map of the viewer's own picture; a newer one replaces it."""
        self._map = message
        self._wake.set()

    async def next(self, exchange: "Exchange") -> "Due":
        """Waits for something to send.

        A picture that is returned has to be confirmed before another one is, or concepts are.
        """
        while True:
            if due := self._due(exchange):
                return due
            await self._wake.wait()
            self._wake.clear()

    def _due(self, exchange: "Exchange") -> "Due | None":
        """What is to be sent now; None for nothing."""
        news = exchange.news if exchange.news != self._knows else b""
        newest, free = exchange.picture, self._sent is None
        picture = newest if newest and free and newest.number != self._shows else None
        concepts = exchange.concepts if free and exchange.concepts != self._concepts else b""
        own_map = self._map
        if not (news or own_map or picture or concepts):
            return None
        self._knows, self._map = exchange.news, b""
        if concepts:
            self._concepts = concepts
        if picture:
            self._sent, self._shows = picture, picture.number
        return Due(news, own_map, picture, concepts)


@dataclass(frozen=True)
class Due:
    """What a viewer gets next.

    Attributes:
      news: b"" for none.
      own_map: the map of its own picture, or b"".
      picture: of the view, or None.
      concepts: channels with their maps, or b"".
    """

    news: bytes
    own_map: bytes
    picture: Picture | None
    concepts: bytes


class Exchange:
    """What the two threads share.

    Attributes:
      picture: the newest one, or None.
      news: the newest figures and settings, JSON.
      concepts: the newest channels with their maps; see `serve.concepts`.
      labels: what the page needs to know once, JSON; b"" until the network is loaded.
      turned: `time.monotonic()` when the render loop last took its turn.
      confirmed: `time.monotonic()` when a picture of the view was last on somebody's screen.
    """

    def __init__(self) -> None:
        self.picture: Picture | None = None
        self.news = self.labels = self.concepts = b""
        self.turned = self.confirmed = time.monotonic()
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
        self.picture = Picture(jpeg, self._published, captured)
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
        """Has the render loop do something; returns what it returns.

        Raises:
          TimeoutError: it did not get to it in time.
        """
        future: Future = Future()
        self._jobs.append((job, future))
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
