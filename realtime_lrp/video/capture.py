"""The capture thread: the only one that touches the source; it puts frames into a slot.

A source that cannot be opened at the start is an error; once a frame has come, every loss is
survived: the source is opened again with growing pauses until it is back.
"""

import logging
import threading
import time
from collections.abc import Callable

import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video.slot import Slot
from realtime_lrp.video.sources import Source

PAUSES_S = (0.5, 1.0, 2.0, 3.0)
FIRST_FRAME_S = 12.0
JOIN_S = 2.0

log = logging.getLogger(__name__)


class Capture:
    """Runs a source in a thread of its own.

    Args:
      open_source: opens the source; gets the event that ends its waits.
      turned: what each frame goes through, for example a mirror.

    Attributes:
      frames: the slot that holds the newest frame, uint8 [H, W, 3] RGB.
      lost: whether the source is gone at the moment.
      reconnects: how often the source was opened again with success.
    """

    def __init__(
        self,
        open_source: Callable[[threading.Event], Source],
        turned: Callable[[np.ndarray], np.ndarray] = lambda picture: picture,
    ):
        self.frames: Slot[np.ndarray] = Slot()
        self.lost = False
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
        """Raises what ended the thread.

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
        failures = 0
        while not self._stop.is_set():
            before = self.frames.count
            try:
                self._read_until_lost()
            except Exception as error:
                if not self.frames.count:
                    self._error = error
                    return
                log.info("%s", error)
            if not self.frames.count:
                self._error = UnavailableError("The source opened but gave no picture.")
                return
            failures = 0 if self.frames.count > before else failures + 1
            self._pause(PAUSES_S[min(failures, len(PAUSES_S) - 1)])

    def _read_until_lost(self) -> None:
        with self._open(self._stop) as source:
            while not self._stop.is_set():
                picture = source.read()
                captured = time.monotonic()
                if picture is None:
                    return
                self._found()
                self.frames.put(self._turned(picture), captured)

    def _found(self) -> None:
        if self.lost:
            self.lost = False
            self.reconnects += 1
            log.warning("the source is back")

    def _pause(self, seconds: float) -> None:
        if not self.lost and not self._stop.is_set():
            self.lost = True
            log.warning("the source is lost, trying to open it again")
        self._stop.wait(seconds)
