"""The supervised source: readers that may be given up, and a thread that watches them.

A reader is the only one that touches its source; it puts frames into a slot. The supervisor says
what is wrong with the picture, gives up a reader that hangs in its driver, and opens the source
again, for ever. A source that cannot be opened at the start is an error, unless the capture is
patient.
"""

import logging
import random
import re
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from realtime_lrp.errors import UnavailableError, first_line, masked
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.video.source import Source

PAUSES_S = (0.5, 1.0, 2.0, 3.0)
JITTER = 0.2
HEALTHY_S = 30.0
"""After so long with pictures the pauses begin anew."""

FIRST_FRAME_S = 12.0
STALLED_S = 1.5
"""A source that gives no picture for so long is lost; after GIVEN_UP_S its reader is given up."""
GIVEN_UP_S = 3.0
OPENING_S = 15.0
"""How long opening may take."""
STILL_S = 5.0
"""After so long the same picture, or a black one, is told."""
BLACK = 2.0
WATCH_S = 0.05
CLOSING_S = 0.5
"""How long the next reader waits for the one before; at the end of the program JOIN_S."""
JOIN_S = 2.0

LOST = "picture lost, trying to get it back"
FROZEN = "the picture stands still"
DARK = "the picture is black"
WAITING = "waiting for the picture"
NO_PICTURE = "no picture: "
"""Before the reason why a source gives none: it was switched to, or cannot be opened again."""

log = logging.getLogger(__name__)

OpenSource = Callable[[threading.Event], Source]
"""Opens a source; gets the event that ends its waits."""

Turn = Callable[[np.ndarray], np.ndarray]
"""What a frame goes through."""


class Clock:
    """The time that a capture lives by."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits until an event is set, at most so long; whether it is."""
        return event.wait(seconds)


CLOCK = Clock()


class Capture:
    """Keeps a source alive.

    Args:
      open_source: opens the source.
      turned: what each frame goes through, for example a mirror.
      open_isolated: opens it so that it can be closed even where it hangs; used instead once a
        reader hung.
      clock: the time it lives by.
      patient: whether a source that cannot be opened at the start is tried again like any other.

    Attributes:
      frames: the slot that holds the newest frame, uint8 [H, W, 3] RGB.
      trouble: what is wrong with the picture at the moment: LOST, FROZEN, DARK, WAITING, or
        NO_PICTURE and the reason once opening it has failed; else "".
      reconnects: how often the source gave pictures again after a loss.
      next_try: when a lost source is opened again, by the clock.
    """

    def __init__(
        self,
        open_source: OpenSource,
        turned: Turn = lambda picture: picture,
        open_isolated: OpenSource | None = None,
        clock: Clock = CLOCK,
        patient: bool = False,
    ):
        self.frames: Slot[np.ndarray] = Slot()
        self.trouble = ""
        self.reconnects = 0
        self._turned, self._clock = turned, clock
        self._course = SourceHistory(open_source, open_isolated)
        self._reader: _Reader | None = None
        self.next_try = 0.0
        self._starting, self._stopped = not patient, False
        self._error: Exception | None = None
        self._lock = threading.Lock()  # held where any of these changes
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._started = clock.now()

    def start(self) -> None:
        """Begins to open the source."""
        self._started = self._clock.now()
        self._thread.start()

    def __enter__(self) -> "Capture":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._clock.wait(self._ended, JOIN_S)

    def end(self) -> None:
        """Lets no further frame come."""
        with self._lock:
            self._stopped = True
            self._leave_reader()

    def check(self) -> None:
        """Raises what ended the supervisor.

        Raises:
          Error: the source could not be opened, or gave no frame at the start.
        """
        if self._error is not None:
            raise self._error
        if self._starting and self._clock.now() - self._started > FIRST_FRAME_S:
            raise UnavailableError(
                f"The source gave no picture within {FIRST_FRAME_S:.0f} seconds. "
                "Check it, or choose another with --source."
            )

    def switch(self, open_source: OpenSource, open_isolated: OpenSource | None = None) -> None:
        """Goes over to another source; no frame of the present one comes any more.

        It is opened until it gives pictures; why it does not is told by `trouble`.

        Args:
          open_source: opens the source.
          open_isolated: opens it so that it can be closed even where it hangs.
        """
        with self._lock:
            self._course = SourceHistory(open_source, open_isolated)
            self._starting, self.trouble = False, ""
            self._leave_reader()

    @property
    def supervised(self) -> bool:
        """Whether its supervisor runs."""
        return self._thread.is_alive()

    @property
    def described(self) -> str:
        """What the present source is; "" where none is open."""
        return self._source().described

    @property
    def controllable(self) -> bool:
        """Whether the present source can be paused, stepped and skipped."""
        return self._source().controllable

    def pause(self, paused: bool) -> None:
        """Keeps the next frames of a recording back, or lets them come again."""
        self._source().pause(paused)

    def step(self) -> None:
        """Lets one further frame of a recording come while it is paused."""
        self._source().step()

    def skip(self, files: int) -> None:
        """Goes so many files on, or back where it is negative."""
        self._source().skip(files)

    def _source(self) -> Source:
        reader = self._reader
        return (reader and reader.source) or _NO_SOURCE

    def _run(self) -> None:
        while reader := self._next_reader():
            while self._goes_on(reader):
                self._clock.wait(self._wake, WATCH_S)
            reader.cut_off()
            self._clock.wait(reader.ended, JOIN_S if self._stopped else CLOSING_S)
            self._clock.wait(self._wake, self._pause_after(reader))
        self._ended.set()

    def _next_reader(self) -> "_Reader | None":
        """Starts a reader; None where the capture ends."""
        with self._lock:
            if self._stopped:
                return None
            self._wake.clear()
            self._reader = _Reader(self._course, self._turned, self.frames, self._clock)
            self._reader.start()
            return self._reader

    def _leave_reader(self) -> None:
        """Lets the present reader's frames come no more; `_lock` is held."""
        if self._reader:
            self._reader.cut_off()
            self._reader = None
        self._wake.set()

    def _goes_on(self, reader: "_Reader") -> bool:
        ended = reader.ended.is_set()  # asked first: its last frame is judged below
        with self._lock:
            return self._reader is reader and self._judge(reader) and not ended

    def _judge(self, reader: "_Reader") -> bool:
        """Tells what is wrong with the picture; whether the reader may go on."""
        now, source, course = self._clock.now(), reader.source, reader.course
        if reader.count:
            self._starting, course.missing = False, LOST
        if not source or not reader.count or source.steady:
            silent = now - reader.newest
            if silent > STALLED_S and not self._starting:
                self._miss(course)
                return silent <= (GIVEN_UP_S if source else OPENING_S)
        if not source or not reader.count:
            return True
        self.reconnects += course.lost
        course.lost = False
        black = reader.bright < reader.newest  # which does not stand still
        if source.alive and not black and now - reader.changed > STILL_S:
            self._tell(FROZEN)
            known, course.reopened = course.reopened == reader.changed, reader.changed
            return known
        self._tell(DARK if source.alive and now - reader.bright > STILL_S else "")
        return True

    def _pause_after(self, reader: "_Reader") -> float:
        """Notes how a reader ended; seconds until the next one begins."""
        with self._lock:
            if self._reader is not reader:  # the capture ends, or goes over to another source
                return 0.0
            self._reader, course = None, reader.course
            error = reader.error or UnavailableError("The source opened but gave no picture.")
            if self._starting:
                self._error, self._stopped = error, True
                return 0.0
            if not reader.ended.is_set():
                log.warning("the source hangs: its reader is left behind")
                course.hung = True
            if reader.lost:
                log.info("%s", reader.error or "the source ended")
                if not reader.count:
                    course.missing = NO_PICTURE + _reason(error)
                self._miss(course)
            pause_s = course.pause_after(reader.newest - reader.since)
            self.next_try = self._clock.now() + pause_s
            return pause_s

    def _miss(self, course: "SourceHistory") -> None:
        """Tells that a source gives no picture."""
        course.lost = course.lost or course.missing == LOST
        self._tell(course.missing)

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("%s", trouble or "the picture is back")
            self.trouble = trouble


@dataclass
class SourceHistory:
    """A source over all its readers.

    Attributes:
      open, open_isolated: how it is opened.
      missing: what is told while it gives no picture.
      lost: it gave pictures, and gives none now.
      hung: a reader of it hung.
      tries: how often it was opened since it was healthy.
      reopened: since when the picture stood still that it was opened again for.
      last: the fingerprint of its last picture, and when the first like it came.
    """

    open: OpenSource
    open_isolated: OpenSource | None
    missing: str = WAITING
    lost: bool = False
    hung: bool = False
    tries: int = 0
    reopened: float | None = None
    last: tuple[int, float] = (-1, 0.0)

    def opening(self) -> OpenSource:
        """How the next reader opens it."""
        return self.open_isolated if self.hung and self.open_isolated else self.open

    def pause_after(self, lasted_s: float) -> float:
        """Seconds until it is opened again after pictures came for so long."""
        if lasted_s > HEALTHY_S:
            self.tries = 0
        pause_s = PAUSES_S[min(self.tries, len(PAUSES_S) - 1)]
        self.tries += 1
        return pause_s * random.uniform(1 - JITTER, 1 + JITTER)


class _Reader(threading.Thread):
    """Opens a source and reads it, until it is lost or cut off.

    Attributes:
      course: what it reads.
      source: once it is open.
      count: how many frames came.
      since: when opening began, then when it was done.
      newest, changed, bright: when the last frame came, the first one like it (of whatever
        reader), the last one that is not black; until the first one came, `since`.
      error: what ended it, if it was an exception.
      lost: it ended by itself.
      ended: set at the end.
    """

    def __init__(self, course: SourceHistory, turned: Turn, frames: Slot[np.ndarray], clock: Clock):
        super().__init__(name="reader", daemon=True)
        self.course, self._turned, self._frames, self._clock = course, turned, frames, clock
        self._open = course.opening()
        self._stop, self._lock = threading.Event(), threading.Lock()
        self.source: Source | None = None
        self.count = 0
        self.since = self.newest = self.changed = self.bright = clock.now()
        self.error: Exception | None = None
        self.lost, self.ended = False, threading.Event()

    def run(self) -> None:
        try:
            with self._open(self._stop) as source:
                self.since = self.newest = self.bright = self._clock.now()
                self.source = source
                while (picture := source.read()) is not None:
                    self._hand_over(picture, self._clock.now())
                    if self._stop.is_set():
                        break
        except Exception as error:
            self.error = error
        self.lost = not self._stop.is_set()
        self.ended.set()

    def cut_off(self) -> None:
        """Lets it end; what it still reads is thrown away."""
        with self._lock:
            self._stop.set()

    def _hand_over(self, picture: np.ndarray, captured: float) -> None:
        turned = self._turned(picture)
        with self._lock:
            if not self._stop.is_set():
                self._look_at(picture, captured)
                self._frames.put(turned, captured)

    def _look_at(self, picture: np.ndarray, now: float) -> None:
        rows, columns = picture.shape[:2]
        small = picture[:: max(1, rows // 36), :: max(1, columns // 64)]
        print_ = zlib.crc32(small.tobytes())
        if print_ != self.course.last[0]:
            self.course.last = print_, now
        self.changed = self.course.last[1]
        if small.mean() > BLACK:
            self.bright = now
        self.newest = now
        self.count += 1


def _reason(error: Exception) -> str:
    """The first sentence of an error, without what may be secret in it."""
    return masked(re.split(r"(?<=[.!?]) (?=[A-Z])", first_line(error))[0])


_NO_SOURCE = Source(threading.Event())
