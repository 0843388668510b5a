"""The camera, or the clip: open while it is needed, started again when its thread ends."""

from collections.abc import Callable

import numpy as np

from realtime_lrp.commands.kiosk.restarts import Fault, RestartBudget
from realtime_lrp.realtime.capture import DARK, FROZEN, WAITING, Capture, OpenSource
from realtime_lrp.realtime.latest import Item

RETRY_S = 2.0
"""Seconds that the card of a camera counts down before its first picture has come."""

OPENING_S = 10.0
"""Seconds that a camera may take for its first picture before a card says so."""

GONE_S = 60.0
"""Seconds without the camera after which the card asks for the staff."""


class SourcePart:
    """The camera, or the clip.

    Args:
      name: "camera" or "clip".
      open_source: opens the source.
      transform: applied to each picture.
      budget: counts restarts.
    """

    def __init__(
        self,
        name: str,
        open_source: OpenSource,
        transform: Callable[[np.ndarray], np.ndarray],
        budget: RestartBudget,
    ):
        self._name, self._open, self._transform = name, open_source, transform
        self._budget = budget
        self._capture: Capture | None = None
        self._opened_at = self._healthy_at = 0.0
        self._last_number = 0
        self._noted = ""
        self._reconnects = self._captured = 0

    def newest(self, timeout_s: float) -> Item[np.ndarray] | None:
        """The newest picture, once; waits up to `timeout_s` for one."""
        capture = self._capture
        frame = capture.frames.newest(self._last_number, timeout_s) if capture else None
        if frame:
            self._last_number = frame.number
        return frame

    @property
    def reconnects(self) -> int:
        """How often the source was reopened after a loss, and gave pictures again."""
        return self._reconnects + (self._capture.reconnects if self._capture else 0)

    @property
    def captured(self) -> int:
        """How many pictures came in all."""
        return self._captured + (self._capture.frames.count if self._capture else 0)

    def update(self, needed: bool, now: float) -> None:
        """Opens or releases the source; restarts it if its supervisor thread ended.

        Raises:
          TemporaryError: it was restarted too often.
        """
        if self._capture and not self._capture.supervised:
            self.release()
            self._budget.count_restart(self._name, "its thread ended", now)
        if needed and not self._capture:
            self._capture = Capture(self._open, self._transform, patient=True)
            self._capture.start()
            self._opened_at = self._healthy_at = now
            self._last_number = 0
        elif not needed:
            self.release()

    def release(self) -> None:
        """Closes the source."""
        if self._capture:
            self._reconnects, self._captured = self.reconnects, self.captured
            self._capture.end()
            self._capture = None

    def fault(self, now: float) -> Fault | None:
        """What is wrong with the picture, or None."""
        capture = self._capture
        if capture is None:
            return None
        trouble = capture.trouble
        if not capture.frames.count and trouble in ("", WAITING):
            late = now - self._opened_at > OPENING_S
            return Fault("camera" if late else "starting", RETRY_S)
        noted, self._noted = self._noted, trouble
        if not trouble:
            self._healthy_at = now
            return None
        if trouble != noted:
            self._budget.note_error(trouble, now)
        card = {FROZEN: "frozen", DARK: "dark"}.get(trouble, "camera")
        if card == "camera" and now - self._healthy_at > GONE_S:
            card = "staff"
        return Fault(card, capture.next_try - now)

    @property
    def described(self) -> str:
        """What the source is, or what is wrong with it."""
        capture = self._capture
        if capture is None:
            return "released"
        return capture.trouble or capture.described
