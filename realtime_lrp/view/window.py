"""The window. Every call here belongs on the main thread: elsewhere OpenCV fails silently."""

import ctypes
import ctypes.util
import os
import sys

import cv2
import numpy as np

from realtime_lrp.errors import UnavailableError

TITLE = "realtime_lrp"
QUIT_KEYS = (ord("q"), 27)


def display_reachable() -> bool:
    """Whether a window can be opened here.

    OpenCV aborts the whole process where the X server cannot be reached, so this is asked first.
    """
    if sys.platform != "linux":
        return True
    if not os.environ.get("DISPLAY"):
        return False
    name = ctypes.util.find_library("xcb") or "libxcb.so.1"
    try:
        xcb = ctypes.CDLL(name)
    except OSError:
        return False
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    refused = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return not refused


def require_display() -> None:
    """Refuses to go on without a display.

    Raises:
      UnavailableError: there is none.
    """
    if not display_reachable():
        raise UnavailableError(
            "There is no display to open a window on. Set DISPLAY to a running one, "
            "or add --display none."
        )


class Window:
    """A window that shows pictures and hears keys.

    Raises:
      UnavailableError: there is no display.
    """

    def __init__(self):
        require_display()
        cv2.namedWindow(TITLE, cv2.WINDOW_NORMAL | cv2.WINDOW_KEEPRATIO | cv2.WINDOW_GUI_NORMAL)
        self._seen = False
        self._sized = False

    def show(self, picture: np.ndarray) -> None:
        """Shows uint8 [H, W, 3] RGB."""
        if not self._sized:
            cv2.resizeWindow(TITLE, picture.shape[1], picture.shape[0])
            self._sized = True
        cv2.imshow(TITLE, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))

    def closed(self) -> bool:
        """Handles the window's events; whether the user closed it or pressed q or ESC."""
        key = cv2.waitKey(1)
        if key != -1 and key & 0xFF in QUIT_KEYS:
            return True
        visible = self._visible()
        self._seen = self._seen or visible
        return self._seen and not visible

    def close(self) -> None:
        """Takes the window away."""
        cv2.destroyAllWindows()
        cv2.waitKey(1)

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _visible(self) -> bool:
        try:
            return cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1
        except cv2.error:
            return False
