"""The camera, or the clip: opened while it is needed, started again when its thread ends."""

from collections.abc import Callable

import numpy as np

from realtime_lrp.commands.kiosk.restarts import Fault, RestartBudget
from realtime_lrp.realtime.capture import DARK, FROZEN, WAITING, Capture, OpenSource
from realtime_lrp.realtime.latest import Item

RETRY_S = 2.0
"""Seconds to count down on the card of a camera that has given no picture yet."""

OPENING_S = 10.0
"""Seconds that a camera may take for its first picture before a card says so."""

GONE_S = 60.0
"""Seconds without the camera after which the card asks for the staff."""


class SourcePart:
    """The camera, or a clip: open while it is wanted.

    Args:
      part: its name.
      open_source: opens it.
      turned: what each picture goes through.
      budget: counts restarts.
    """

    def __init__(
        self,
        part: str,
        open_source: OpenSource,
        turned: Callable[[np.ndarray], np.ndarray],
        budget: RestartBudget,
    ):
        self._part, self._open, self._turned, self._budget = part, open_source, turned, budget
        self._capture: Capture | None = None
        self._since, self._number = 0.0, 0
        self._well_at = 0.0
        self._noted = ""
        self._reconnects = self._captured = 0

    def newest(self, timeout_s: float) -> Item[np.ndarray] | None:
        """The newest picture if it was not asked for before; waits up to `timeout_s` for one."""
        capture = self._capture
        frame = capture.frames.newest(self._number, timeout_s) if capture else None
        if frame:
            self._number = frame.number
        return frame

    @property
    def reconnects(self) -> int:
        """How often it gave pictures again after a loss."""
        return self._reconnects + (self._capture.reconnects if self._capture else 0)

    @property
    def captured(self) -> int:
        """How many pictures came."""
        return self._captured + (self._capture.frames.count if self._capture else 0)

    def tend(self, wanted: bool, now: float) -> None:
        """Opens or releases it, and starts it again where its supervisor ended.

        Raises:
          TemporaryError: that was needed too often.
        """
        if self._capture and not self._capture.supervised:
            self.release()
            self._budget.spend(self._part, "its thread ended", now)
        if wanted and not self._capture:
            self._capture = Capture(self._open, self._turned, patient=True)
            self._capture.start()
            self._since = self._well_at = now
            self._number = 0
        elif not wanted:
            self.release()

    def release(self) -> None:
        """Gives it back."""
        if self._capture:
            self._reconnects, self._captured = self.reconnects, self.captured
            self._capture.end()
            self._capture = None

    def trouble(self, now: float) -> Fault | None:
        """What is wrong with its picture."""
        capture = self._capture
        if capture is None:
            return None
        if not capture.frames.count and capture.trouble in ("", WAITING):
            late = now - self._since > OPENING_S
            return Fault("camera" if late else "starting", RETRY_S)
        told, self._noted = self._noted, capture.trouble
        if not capture.trouble:
            self._well_at = now
            return None
        card = {FROZEN: "frozen", DARK: "dark"}.get(capture.trouble, "camera")
        if capture.trouble != told:
            self._budget.note(capture.trouble, now)
        gone = card == "camera" and now - self._well_at > GONE_S
        return Fault("staff" if gone else card, capture.next_try - now)

    @property
    def described(self) -> str:
        """What it is, or what is wrong with it."""
        capture = self._capture
        if capture is None:
            return "released"
        return capture.trouble or capture.described
