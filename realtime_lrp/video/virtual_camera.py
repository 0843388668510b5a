"""Gives what is shown to other programs as the picture of a camera, through pyvirtualcam.

pyvirtualcam is an extra, and the device has to be there: v4l2loopback on Linux, OBS's on others.
"""

import logging
import threading
from typing import Any

import numpy as np

from realtime_lrp.errors import UnavailableError, first_line
from realtime_lrp.video.pictures import fitted

SIZE = 720, 1280
"""Rows and columns: what programs for video calls take."""

FPS = 30
"""Pictures a second; the last one is sent again where there is no new one."""

STOP_S = 2.0
"""Maximum wait for the thread at the end."""

NOT_INSTALLED = (
    "The virtual camera needs the library 'pyvirtualcam', which is not installed. "
    'Run: pip install "realtime-lrp[virtual-camera]"'
)
NO_DEVICE = (
    "There is no virtual camera ({reason}). On Linux install v4l2loopback-dkms and run: "
    "sudo modprobe v4l2loopback exclusive_caps=1. On other systems install OBS, and start its "
    "virtual camera once."
)

log = logging.getLogger(__name__)


class VirtualCamera:
    """A virtual camera that shows the newest picture while it is entered.

    A thread sends the pictures: a device that blocks holds up nobody.

    Attributes:
      device: its name, for the camera lists of other programs.

    Raises:
      UnavailableError: the library is not installed, or there is no device.
    """

    def __init__(self) -> None:
        try:
            import pyvirtualcam
        except ModuleNotFoundError:
            raise UnavailableError(NOT_INSTALLED) from None
        try:
            self._camera: Any = pyvirtualcam.Camera(SIZE[1], SIZE[0], FPS)
        except (RuntimeError, OSError) as error:
            raise UnavailableError(NO_DEVICE.format(reason=_reason(error))) from None
        self.device: str = self._camera.device
        self._newest: np.ndarray | None = None
        self._trouble = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="virtual camera", daemon=True)
        log.info("other programs see the view in the camera %s", self.device)

    def __enter__(self) -> "VirtualCamera":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join(STOP_S)

    def show(self, picture: np.ndarray) -> None:
        """Shows a picture from now on, uint8 [H, W, 3] RGB; it is copied."""
        self._newest = picture.copy()

    def news(self) -> str:
        """Why it has ended, once; else ""."""
        trouble, self._trouble = self._trouble, ""
        return trouble

    def _run(self) -> None:
        try:
            shown, sent = None, np.zeros((*SIZE, 3), np.uint8)
            while not self._ended.wait(1 / FPS):
                newest = self._newest
                if newest is not None and newest is not shown:
                    shown, sent = newest, fitted(newest, SIZE)
                self._camera.send(sent)
        except Exception as error:
            self._trouble = f"the virtual camera has ended: {first_line(error)}"
            log.error(self._trouble)
        finally:
            self._camera.close()


def _reason(error: Exception) -> str:
    """The first sentence of what the library says, without the name of its part."""
    text = first_line(error)
    return (text.partition("backend: ")[2] or text).partition(". ")[0].rstrip(".")
