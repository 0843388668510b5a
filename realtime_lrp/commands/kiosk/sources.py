"""Where the exhibit's pictures come from: the camera, as a mirror, and the clips."""

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
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.source import Source
from realtime_lrp.video.sources import open_source

CLIP = ASSETS / "demo.mp4"

log = logging.getLogger(__name__)


def camera_opener(config: Config) -> OpenSource:
    """Opens the camera, read by a process of its own: one that hangs can be killed."""
    live = config.live
    asked = CameraSettings(live.camera_size, live.camera_fps, live.camera_format)
    return functools.partial(open_source, live.source, asked=asked, isolated=True)


def checked_and_mirrored(picture: np.ndarray, mirror: bool) -> np.ndarray:
    """A camera's picture with left and right changed, where `mirror` says so.

    Raises:
      ValueError: it is none: not uint8 [H, W, 3].
    """
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
        raise ValueError(f"The camera gave no picture but {picture.dtype} {picture.shape}.")
    return mirrored(picture, mirror)


class ClipSource(Source):
    """The venue's clips in turn, again and again; the included one where they cannot be played.

    Args:
      own: files, folders or globs; none: the included clip.
      note: is told why they cannot be played.
      stop: ends every wait.
    """

    def __init__(self, own: Sequence[str], note: Callable[[str], None], stop: threading.Event):
        super().__init__(stop)
        self._own, self._note = bool(own), note
        try:
            self._playing = Playback(inputs_of(own or [str(CLIP)], PICTURES + VIDEOS, "clip"), stop)
        except Error as error:
            self._fall_back(error)
        self.described = self._playing.described

    def read(self) -> np.ndarray | None:
        try:
            return self._playing.read()
        except Error as error:
            if not self._own:
                raise
            self._playing.close()
            self._fall_back(error)
        return self._playing.read()

    def close(self) -> None:
        self._playing.close()

    def _fall_back(self, error: Error) -> None:
        self._own, self._playing = False, Playback([CLIP], self.stop)
        self._note(f"clips: {first_line(error)}")
        log.warning("the clips cannot be played, the included one is: %s", first_line(error))
