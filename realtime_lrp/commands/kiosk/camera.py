"""The camera, like a mirror, and the clips: open while needed, and what is wrong with them."""

import logging
import threading
from collections.abc import Callable, Sequence

import numpy as np

from realtime_lrp.commands.kiosk.states import Fault, broken
from realtime_lrp.config import ASSETS
from realtime_lrp.errors import Error, first_line
from realtime_lrp.realtime.capture import DARK, FROZEN, WAITING, Capture, OpenSource
from realtime_lrp.realtime.latest import Item
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of
from realtime_lrp.video.source import Source
from realtime_lrp.video.sources import open_files

CLIP = ASSETS / "demo.mp4"

RETRY_S = 2.0  # seconds that the card of a camera counts down before its first picture has come
OPENING_S = 10.0  # seconds that a camera may take for its first picture before a card says so
GONE_S = 60.0  # seconds without the camera after which the card asks for the staff

log = logging.getLogger(__name__)


class ClipSource(Source):
    """The configured clips in a loop; the included clip if there are none, or they do not play."""

    def __init__(self, clips: Sequence[str], stop: threading.Event):
        super().__init__(stop)
        self._has_fallback = bool(clips)
        try:
            files = inputs_of(clips or [str(CLIP)], PICTURES + VIDEOS, "clip")
            self._playback = open_files(files, stop)
        except Error as error:
            self._fall_back(error)
        self.described = self._playback.described

    def read(self) -> np.ndarray | None:
        try:
            return self._playback.read()
        except Error as error:
            if not self._has_fallback:
                raise
            self._playback.close()
            self._fall_back(error)
        return self._playback.read()

    def close(self) -> None:
        self._playback.close()

    def _fall_back(self, error: Error) -> None:
        self._has_fallback, self._playback = False, open_files([CLIP], self.stop)
        log.warning("the clips cannot be played, using the included one: %s", first_line(error))


class SourcePart:
    """The camera or the clip, as `name` says; `transform` is applied to each picture."""

    def __init__(
        self, name: str, open_source: OpenSource, transform: Callable[[np.ndarray], np.ndarray]
    ):
        self._name = name
        self._open = open_source
        self._transform = transform
        self._capture: Capture | None = None
        self._opened_at = self._healthy_at = 0.0
        self._last_number = 0
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
        return self._captured + (self._capture.frames.count if self._capture else 0)

    def update(self, needed: bool, now: float) -> None:
        """Opens or releases the source; TemporaryError if its supervisor thread has ended."""
        if self._capture and not self._capture.supervised:
            raise broken(self._name, "its thread ended")
        if needed and not self._capture:
            self._capture = Capture(self._open, self._transform, patient=True)
            self._capture.start()
            self._opened_at = self._healthy_at = now
            self._last_number = 0
        elif not needed:
            self.release()

    def release(self) -> None:
        if self._capture:
            self._reconnects = self.reconnects
            self._captured = self.captured
            self._capture.end()
            self._capture = None

    def fault(self, now: float) -> Fault | None:
        capture = self._capture
        if capture is None:
            return None
        trouble = capture.trouble
        if not capture.frames.count and trouble in ("", WAITING):
            late = now - self._opened_at > OPENING_S
            return Fault("camera" if late else "starting", RETRY_S)
        if not trouble:
            self._healthy_at = now
            return None
        card = {FROZEN: "frozen", DARK: "dark"}.get(trouble, "camera")
        if card == "camera" and now - self._healthy_at > GONE_S:
            card = "staff"
        return Fault(card, capture.next_try - now)

    @property
    def described(self) -> str:
        """The source in words, or its fault."""
        capture = self._capture
        if capture is None:
            return "released"
        return capture.trouble or capture.source.described
