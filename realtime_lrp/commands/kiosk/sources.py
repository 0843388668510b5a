"""Where the exhibit's pictures come from: the camera, like a mirror, and the clips."""

import functools
import logging
import threading
from collections.abc import Callable, Sequence

import numpy as np

from realtime_lrp.config import ASSETS, Config
from realtime_lrp.errors import Error, first_line
from realtime_lrp.realtime.capture import OpenSource
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.source import Source
from realtime_lrp.video.sources import open_files, open_source

CLIP = ASSETS / "demo.mp4"

log = logging.getLogger(__name__)


def camera_opener(config: Config) -> OpenSource:
    """A function that opens the configuration's camera, read in a child process."""
    live = config.live
    return functools.partial(open_source, live.source, camera=CameraSettings.of(live))


def checked_and_mirrored(picture: np.ndarray, mirror: bool) -> np.ndarray:
    """A camera's picture, with left and right swapped if `mirror` is set.

    Raises:
      ValueError: it is not uint8 [H, W, 3]; the camera is then opened again.
    """
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
        raise ValueError(
            f"Expected a picture uint8 [H, W, 3]; the camera gave {picture.dtype} {picture.shape}."
        )
    return mirrored(picture, mirror)


class ClipSource(Source):
    """The configured clips in a loop; the included clip if they cannot be played.

    Args:
      clips: files, folders or globs; empty: the included clip.
      note_error: called with the reason why the clips cannot be played.
      stop: ends every wait.
    """

    def __init__(
        self, clips: Sequence[str], note_error: Callable[[str], None], stop: threading.Event
    ):
        super().__init__(stop)
        self._has_fallback, self._note_error = bool(clips), note_error
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
        self._note_error(f"clips: {first_line(error)}")
        log.warning("the clips cannot be played, using the included one: %s", first_line(error))
