"""The supervised source: readers that may be given up, and a thread that watches them.

A reader is the only one that touches its source; it puts frames into a slot. The supervisor says
what is wrong with the picture, gives up a reader that hangs in its driver, and opens the source
again, for ever. A source that cannot be opened at the start is an error.
"""

import logging
import random
import threading
import time
import zlib
from collections.abc import Callable

import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video.slot import Slot
from realtime_lrp.video.sources import Source

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
JOIN_S = 2.0

LOST = "picture lost, trying to get it back"
FROZEN = "the picture stands still"
DARK = "the picture is black"

log = logging.getLogger(__name__)


class Capture:
    """Keeps a source alive.

    Args:
      open_source: opens the source; gets the event that ends its waits.
      turned: what each frame goes through, for example a mirror.

    Attributes:
      frames: the slot that holds the newest frame, uint8 [H, W, 3] RGB.
      trouble: what is wrong with the picture at the moment, LOST, FROZEN or DARK; else "".
      reconnects: how often the source gave pictures again after a loss.
    """

    def __init__(
        self,
        open_source: Callable[[threading.Event], Source],
        turned: Callable[[np.ndarray], np.ndarray] = lambda picture: picture,
    ):
        self.frames: Slot[np.ndarray] = Slot()
        self.trouble = ""
        self.reconnects = 0
        self._open = open_source
        self._turned = turned
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._started = time.monotonic()

    def __enter__(self) -> "Capture":
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._stop.set()
        self._thread.join(JOIN_S)

    def check(self) -> None:
        """Raises what ended the supervisor.

        Raises:
          Error: the source could not be opened, or gave no frame at the start.
        """
        if self._error is not None:
            raise self._error
        if not self.frames.count and time.monotonic() - self._started > FIRST_FRAME_S:
            raise UnavailableError(
                f"The source gave no picture within {FIRST_FRAME_S:.0f} seconds. "
                "Check it, or choose another with --source."
            )

    def _run(self) -> None:
        failures, reopened_still, reader = 0, False, None
        while not self._stop.is_set():
            reader = _Reader(self._open, self._turned, self.frames, reader)
            begun, after_loss = time.monotonic(), self.trouble == LOST
            still = self._watch(reader, reopened_still)
            reader.give_up(wait_s=JOIN_S if self._stop.is_set() else 0.2)
            self.reconnects += bool(after_loss and reader.count and not reader.noticed)
            if not self.frames.count and not self._stop.is_set():
                self._error = reader.error or UnavailableError(
                    "The source opened but gave no picture."
                )
                return
            if self._stop.is_set():
                return
            if reader.error:
                log.info("%s", reader.error)
            lasted = time.monotonic() - begun if reader.count else 0.0
            failures = 0 if lasted > HEALTHY_S or (reader.count and not failures) else failures + 1
            reopened_still = still
            if not still:
                self._tell(LOST)
            pause = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
            self._stop.wait(pause * random.uniform(1 - JITTER, 1 + JITTER))

    def _watch(self, reader: "_Reader", reopened_still: bool) -> bool:
        """Returns when the source has to be opened again; whether because the picture is still."""
        reader.start()
        while not self._stop.wait(WATCH_S) and reader.is_alive():
            now = time.monotonic()
            if reader.count and not reader.noticed:
                reader.noticed = True
                self.reconnects += self.trouble == LOST
            if not reader.count:
                waited = OPENING_S if reader.source is None else GIVEN_UP_S
                if now - reader.since > waited and self.frames.count:
                    return False
                continue
            silent = now - reader.newest if reader.source and reader.source.steady else 0.0
            if silent > GIVEN_UP_S:
                log.warning("the source hangs: its reader is given up")
                return False
            if silent > STALLED_S:
                self._tell(LOST)
            elif reader.source and reader.source.alive and now - reader.changed > STILL_S:
                self._tell(FROZEN)
                if not reopened_still:
                    return True
            elif reader.source and reader.source.alive and now - reader.bright > STILL_S:
                self._tell(DARK)
            else:
                reopened_still = reopened_still and now - reader.changed > STALLED_S
                self._tell("")
        return False

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("%s", trouble or "the picture is back")
            self.trouble = trouble


class _Reader(threading.Thread):
    """Opens a source and reads it, until it is lost or given up.

    Attributes:
      source: once it is open.
      count: how many frames came.
      since: when opening began, and when it was done.
      newest, changed, bright: when the last frame came, the last one that differs from the one
        before, the last one that is not black; the latter two go on over readers.
      error: what ended it, if it was an exception.
      noticed: its first frame was counted by who watches it.
    """

    def __init__(
        self,
        open_source: Callable,
        turned: Callable,
        frames: Slot[np.ndarray],
        before: "_Reader | None",
    ):
        super().__init__(name="reader", daemon=True)
        self._open, self._turned, self._frames = open_source, turned, frames
        self._stop_reading = threading.Event()
        self._lock = threading.Lock()
        self.source: Source | None = None
        self.count = 0
        self.since = self.newest = self.changed = self.bright = time.monotonic()
        self.error: Exception | None = None
        self.noticed = False
        self._print: int | None = None
        if before and before.count:  # the same picture again is none that changed
            self._print, self.changed, self.bright = before._print, before.changed, before.bright

    def run(self) -> None:
        try:
            with self._open(self._stop_reading) as source:
                self.since = time.monotonic()
                self.source = source
                while not self._stop_reading.is_set():
                    picture = source.read()
                    captured = time.monotonic()
                    if picture is None or not self._hand_over(picture, captured):
                        return
        except Exception as error:
            self.error = error

    def give_up(self, wait_s: float) -> None:
        """Lets it end, waits a little for it; what it still reads is thrown away."""
        self._stop_reading.set()
        if self.is_alive():
            self.join(wait_s)
        with self._lock:
            self._frames = None

    def _hand_over(self, picture: np.ndarray, captured: float) -> bool:
        self._look_at(picture, captured)
        turned = self._turned(picture)
        with self._lock:
            if self._frames is None:
                return False
            self._frames.put(turned, captured)
        return True

    def _look_at(self, picture: np.ndarray, now: float) -> None:
        rows, columns = picture.shape[:2]
        small = picture[:: max(1, rows // 36), :: max(1, columns // 64)]
        print_ = zlib.crc32(small.tobytes())
        if print_ != self._print:
            self._print, self.changed = print_, now
        if small.mean() > BLACK:
            self.bright = now
        self.newest = now
        self.count += 1
