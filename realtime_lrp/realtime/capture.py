"""Keeps a live source going: a thread that reads it, and a supervisor that replaces that thread.

Only the reader touches its source. The supervisor says what is wrong with the picture, leaves a
reader behind that hangs, and opens the source again, for ever.
"""

import logging
import random
import re
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from realtime_lrp.errors import UnavailableError, first_line, masked
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.video.source import Source

PAUSES_S = (0.5, 1.0, 2.0, 3.0)  # before the first, second, ... attempt to open a lost source
JITTER = 0.2  # pauses vary at random by this share
HEALTHY_S = 30.0  # after this long with pictures the pauses begin again with the shortest
FIRST_FRAME_S = 12.0  # maximum wait for the first frame at the start
STALLED_S = 1.5  # a steady source that gives no picture for this long counts as lost
GIVEN_UP_S = 3.0  # after this long its reader is left behind and the source is opened again
OPENING_S = 15.0  # maximum time for opening a source
PAUSES = 8  # the last pauses between pictures that tell the rhythm of a source
TIMES_LATE = 2.5  # a source is late after this many of its usual pauses, lost after twice as many
STILL_S = 5.0  # after this long a notice says that the picture stands still, or is black
BLACK = 2.0  # pictures whose mean is not above this are black
WATCH_S = 0.05  # how often the supervisor looks at the reader
CLOSING_S = 0.5  # how long the next reader waits for the previous one to end
JOIN_S = 2.0  # how long the end of the program waits for the reader
LOST = "picture lost, trying to get it back"
FROZEN = "the picture stands still"
DARK = "the picture is black"
WAITING = "waiting for the picture"
BACK = "the picture is back"
NO_PICTURE = "no picture: "  # stands before the reason why a source cannot be opened (again)
log = logging.getLogger(__name__)
OpenSource = Callable[[threading.Event], Source]  # gets the event that ends its waits
Transform = Callable[[np.ndarray], np.ndarray]  # changes each picture, for example mirrors it


class Clock:
    """The clock of a capture; tests have their own."""

    def now(self) -> float:
        """Monotonic time in seconds."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits at most this long for an event; returns whether it is set."""
        return event.wait(seconds)


CLOCK = Clock()


class Capture:
    """Reads a source and opens it again when it is lost; None stands for no source yet.

    One that cannot be opened at the start is an error.
    """

    def __init__(
        self,
        open_source: OpenSource | None,
        transform: Transform = lambda picture: picture,
        clock: Clock = CLOCK,
    ):
        self.frames: Slot[np.ndarray] = Slot()  # uint8 [H, W, 3] RGB
        self.trouble = ""  # LOST, FROZEN, DARK, WAITING, or NO_PICTURE and the reason
        self.good_at = clock.now()  # when the source was chosen, or last gave good pictures
        self.reconnects = 0  # how often pictures came again after a loss
        self._transform = transform
        self._clock = clock
        self._history = SourceHistory(open_source)
        self._reader: SourceThread | None = None
        self.next_try = 0.0  # when a lost source is opened again, in the clock's time
        self._starting = open_source is not None
        self._stopped = False
        self._error: Exception | None = None
        self._lock = threading.Lock()  # guards all of the above
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._started = clock.now()

    def start(self) -> None:
        self._started = self._clock.now()
        self._thread.start()

    def __enter__(self) -> "Capture":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._clock.wait(self._ended, JOIN_S)

    def end(self) -> None:
        with self._lock:
            self._stopped = True
            self._drop_reader()

    def check(self) -> None:
        """Raises what ended the supervisor."""
        if self._error is not None:
            raise self._error
        now = self._clock.now()
        reader = self._reader
        hears = reader and reader.source and now - reader.heard < GIVEN_UP_S
        if self._starting and now - self._started > FIRST_FRAME_S and not hears:
            raise UnavailableError(
                f"The source gave no picture within {FIRST_FRAME_S:.0f} seconds. "
                "Check it, or choose another with --source."
            )

    def switch(self, open_source: OpenSource | None) -> None:
        """Changes to another source, retried until it gives pictures, see `trouble`; or to none."""
        with self._lock:
            self._history = SourceHistory(open_source)
            self._starting = False
            self.trouble = ""
            self.good_at = self._clock.now()
            self._drop_reader()

    @property
    def begins(self) -> bool:
        """Whether the source has given no picture yet, and no error."""
        return self._history.missing == WAITING

    @property
    def rests(self) -> bool:
        """Whether there is no source at the moment."""
        return self._history.open is None

    @property
    def supervised(self) -> bool:
        return self._thread.is_alive()

    @property
    def source(self) -> Source:
        """The present source; one that does nothing while none is open."""
        reader = self._reader
        return (reader and reader.source) or _NO_SOURCE

    def _run(self) -> None:
        try:
            while reader := self._next_reader():
                while self._goes_on(reader):
                    self._clock.wait(self._wake, WATCH_S)
                reader.stop()
                self._clock.wait(reader.ended, JOIN_S if self._stopped else CLOSING_S)
                self._clock.wait(self._wake, self._pause_after(reader))
        except Exception as error:
            self._error = error
        self._ended.set()

    def _next_reader(self) -> "SourceThread | None":
        """Starts a reader as soon as there is a source; None if the capture is to end."""
        while True:
            with self._lock:
                if self._stopped:
                    return None
                self._wake.clear()
                if self._history.open:
                    self._reader = SourceThread(
                        self._history, self._transform, self.frames, self._clock
                    )
                    self._reader.start()
                    return self._reader
            self._clock.wait(self._wake, WATCH_S)

    def _drop_reader(self) -> None:
        """Ignores all further frames of the present reader; `_lock` is held."""
        if self._reader:
            self._reader.stop()
            self._reader = None
        self._wake.set()

    def _goes_on(self, reader: "SourceThread") -> bool:
        ended = reader.ended.is_set()  # asked before its last frame is judged
        with self._lock:
            return self._reader is reader and self._judge(reader) and not ended

    def _judge(self, reader: "SourceThread") -> bool:
        """Sets `trouble`; returns whether the reader may go on."""
        now = self._clock.now()
        source = reader.source
        history = reader.history
        if reader.count:
            self._starting = False
            history.missing = LOST
        late_s, lost_s = reader.limits()
        watched = not source or not reader.count or source.steady
        if watched and now - reader.newest > late_s and not self._starting:
            if source and reader.count and source.patience_s and not history.pauses:
                self._set_trouble(WAITING)
            else:
                self._set_missing(history)
            return now - reader.heard <= lost_s
        if not source or not reader.count:
            return True
        first = not history.lost and self.trouble.startswith((WAITING, NO_PICTURE))
        good = "pictures come" if first else BACK
        self.reconnects += history.lost
        history.lost = False
        still_s = max(STILL_S, late_s)
        black = reader.bright < reader.newest  # a black picture does not count as still
        if source.alive and not black and reader.newest - reader.changed > still_s:
            self._set_trouble(FROZEN)
            known = history.reopened == reader.changed
            history.reopened = reader.changed
            return known
        dark = source.alive and reader.newest - reader.bright > still_s
        self._set_trouble(DARK if dark else "", good)
        if not dark:
            self.good_at = now
        return True

    def _pause_after(self, reader: "SourceThread") -> float:
        """Notes how a reader ended; returns the seconds until the next one begins."""
        with self._lock:
            if self._reader is not reader:  # the capture ends, or another source was chosen
                return 0.0
            self._reader = None
            history = reader.history
            error = reader.error or UnavailableError("The source opened but gave no picture.")
            if self._starting:
                self._error = error
                self._stopped = True
                return 0.0
            if not reader.ended.is_set():
                if reader.source and reader.source.patience_s:
                    history.pauses.append(self._clock.now() - reader.newest)  # it may be so slow
                log.warning("the source hangs: its reader is left behind")
            if reader.lost:
                log.info("%s", reader.error or "the source ended")
                if not reader.count:
                    first = re.split(r"(?<=[.!?]) (?=[A-Z])", first_line(error))[0]
                    history.missing = NO_PICTURE + masked(first)
                self._set_missing(history)
            history.tries = 1 if reader.newest - reader.since > HEALTHY_S else history.tries + 1
            pause_s = PAUSES_S[min(history.tries, len(PAUSES_S)) - 1]
            pause_s *= random.uniform(1 - JITTER, 1 + JITTER)
            self.next_try = self._clock.now() + pause_s
            return pause_s

    def _set_missing(self, history: "SourceHistory") -> None:
        history.lost = history.lost or history.missing == LOST
        self._set_trouble(history.missing)

    def _set_trouble(self, trouble: str, good: str = BACK) -> None:
        if trouble != self.trouble:
            log.warning("%s", trouble or good)
            self.trouble = trouble


@dataclass
class SourceHistory:
    """Knowledge of a source that outlives its readers."""

    open: OpenSource | None  # opens it; None stands for no source
    missing: str = WAITING  # what `trouble` says while it gives no picture
    lost: bool = False  # it gave pictures, and gives none now
    pauses: deque[float] = field(default_factory=lambda: deque(maxlen=PAUSES))
    tries: int = 0  # how often it was opened since it was last healthy
    reopened: float | None = None  # start of the freeze that caused the last reopening
    # checksum of its last picture, and when the first picture with that checksum came
    last: tuple[int, float] = (-1, 0.0)


class SourceThread(threading.Thread):
    """Opens a source and reads it until it is lost or stopped."""

    def __init__(
        self, history: SourceHistory, transform: Transform, frames: Slot[np.ndarray], clock: Clock
    ):
        super().__init__(name="reader", daemon=True)
        self.history = history
        self._transform = transform
        self._frames = frames
        self._clock = clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.source: Source | None = None
        self.count = 0
        self.since = clock.now()  # when opening began; once the source is open, when it was
        self.newest = self.since  # when the last frame came
        self.heard = self.since  # when the last frame or sign of life came
        self.changed = self.since  # when the first frame like the last one came, of any reader
        self.bright = self.since  # when the last frame came that is not black
        self.error: Exception | None = None
        self.lost = False
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            assert self.history.open, "without a source no reader is started"
            with self.history.open(self._stopping) as source:
                self.since = self.newest = self.heard = self.bright = self._clock.now()
                self.source = source
                source.on_wait = self._hear
                while (picture := source.read()) is not None:
                    self._hand_over(picture, self._clock.now(), source.described)
                    if self._stopping.is_set():
                        break
        except Exception as error:
            self.error = error
        self.lost = not self._stopping.is_set()
        self.ended.set()

    def stop(self) -> None:
        """Asks it to end; what it still reads is thrown away."""
        with self._lock:
            self._stopping.set()

    def limits(self) -> tuple[float, float]:
        """After how many seconds without a picture it is late, without a sign of life lost."""
        if self.source is None:
            return STALLED_S, OPENING_S
        late_s = max(STALLED_S, TIMES_LATE * max(self.history.pauses, default=0.0))
        patience_s = 0.0 if self.history.pauses else self.source.patience_s
        return late_s, max(GIVEN_UP_S, 2 * late_s, patience_s)

    def _hear(self) -> None:
        self.heard = self._clock.now()

    def _hand_over(self, picture: np.ndarray, captured: float, source: str) -> None:
        """Puts a frame into the slot, and notes what it says about the source."""
        transformed = self._transform(picture)
        rows, columns = picture.shape[:2]
        small = picture[:: max(1, rows // 36), :: max(1, columns // 64)]
        checksum = zlib.crc32(small.tobytes())
        history = self.history
        with self._lock:
            if self._stopping.is_set():
                return
            if checksum != history.last[0]:
                history.last = checksum, captured
            self.changed = history.last[1]
            if small.mean() > BLACK:
                self.bright = captured
            if self.count:
                history.pauses.append(captured - self.newest)
            self.newest = self.heard = captured
            self.count += 1
            self._frames.put(transformed, captured, source)


_NO_SOURCE = Source(threading.Event())
