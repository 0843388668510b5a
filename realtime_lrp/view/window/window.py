"""The window. Every call here belongs on the main thread: elsewhere OpenCV fails silently."""

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.view.keys import name_of

TITLE = "realtime_lrp"
SIZE = (720, 1280)
"""Rows and columns of a window when it opens."""

SMALLEST, LARGEST = 240, 4096
"""Pixels: the canvas of a window is within this, whatever the window's size."""


@dataclass(frozen=True)
class Mouse:
    """The mouse on the canvas while a button is down.

    Attributes:
      x, y: pixels of the canvas.
      button: "left" or "right"; "" when it was let go.
    """

    x: int
    y: int
    button: str

    def over(self, places: Mapping[str, tuple[int, int, int, int]]) -> str:
        """The name of the box x0, y0, x1, y1 that it is in, "" for none."""
        for name, (x0, y0, x1, y1) in places.items():
            if x0 <= self.x < x1 and y0 <= self.y < y1:
                return name
        return ""


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
    """A window that shows pictures and hears keys and the mouse.

    Raises:
      UnavailableError: there is no display.
    """

    def __init__(self) -> None:
        require_display()
        self._events: list[str | Mouse] = []
        self._full_screen = False
        self._open()

    def _open(self) -> None:
        os.environ.setdefault("QT_LOGGING_RULES", "default.warning=false")  # on fonts of its own
        cv2.namedWindow(TITLE, cv2.WINDOW_NORMAL | cv2.WINDOW_FREERATIO | cv2.WINDOW_GUI_NORMAL)
        cv2.resizeWindow(TITLE, SIZE[1], SIZE[0])
        cv2.setMouseCallback(TITLE, self._on_mouse)
        self._seen = False

    def show(self, picture: np.ndarray) -> None:
        """Shows uint8 [H, W, 3] RGB, stretched where it has not the size of the canvas."""
        cv2.imshow(TITLE, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the canvas: those of the window."""
        try:
            _, _, columns, rows = cv2.getWindowImageRect(TITLE)
        except cv2.error:
            return SIZE
        if rows <= 0 or columns <= 0:
            return SIZE
        scale = min(1.0, LARGEST / max(rows, columns))
        return max(round(rows * scale), SMALLEST), max(round(columns * scale), SMALLEST)

    def events(self) -> list[str | Mouse]:
        """Handles what happened: key names (see `keys`) and the mouse, oldest first."""
        key = name_of(cv2.waitKeyEx(1))
        happened, self._events = self._events, []
        return [*happened, key] if key else happened

    @property
    def closed(self) -> bool:
        """Whether the user has closed it."""
        visible = self._visible()
        self._seen = self._seen or visible
        return self._seen and not visible

    def toggle_full_screen(self) -> None:
        """Goes over to the full screen, or back."""
        self._full_screen = not self._full_screen
        how = cv2.WINDOW_FULLSCREEN if self._full_screen else cv2.WINDOW_NORMAL
        cv2.setWindowProperty(TITLE, cv2.WND_PROP_FULLSCREEN, how)

    def _on_mouse(self, event: int, x: int, y: int, flags: int, _: object) -> None:
        buttons = {cv2.EVENT_LBUTTONDOWN: "left", cv2.EVENT_RBUTTONDOWN: "right"}
        if event in (cv2.EVENT_LBUTTONUP, cv2.EVENT_RBUTTONUP):
            self._events.append(Mouse(x, y, ""))
        elif event in buttons:
            self._events.append(Mouse(x, y, buttons[event]))
        elif event == cv2.EVENT_MOUSEMOVE and flags & cv2.EVENT_FLAG_LBUTTON:
            self._events.append(Mouse(x, y, "left"))
        elif event == cv2.EVENT_MOUSEMOVE and flags & cv2.EVENT_FLAG_RBUTTON:
            self._events.append(Mouse(x, y, "right"))

    def close(self) -> None:
        """Takes the window away."""
        cv2.destroyAllWindows()
        cv2.waitKey(1)

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _visible(self) -> bool:
        try:
            return cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1
        except cv2.error:
            return False
