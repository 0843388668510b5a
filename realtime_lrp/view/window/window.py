"""The window. Call it on the main thread only: on others OpenCV fails silently."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.geometry import Box
from realtime_lrp.view.buffers import Buffers
from realtime_lrp.view.keys import name_of
from realtime_lrp.view.window.display import display_connection
from realtime_lrp.view.window.watch import GONE, DisplayWatch, end_program
from realtime_lrp.view.window.x11 import X11Window

TITLE = "realtime_lrp"
SIZE = (720, 1280)
"""Rows and columns of a new window, where the screen has room for them."""

MIN_CANVAS, MAX_CANVAS = 240, 4096
"""Limits of the canvas's sides in pixels, whatever the size of the window."""

APPEARING_S = 1.5
"""Maximum wait for a new window's first picture."""

REMINDED_S = 0.75
"""How often Qt is told again what it may have missed: that its window is on the screen."""

AGAIN_S = 0.3
"""How long a window manager has to show a new window before it is asked again."""

PROBE = np.full((*SIZE, 3), 16, np.uint8)
"""The first picture. Its colour on the screen proves that the window shows pictures."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mouse:
    """The mouse on the canvas.

    Attributes:
      x, y: pixels of the canvas.
      button: which button is down: "left", "right" or "".
    """

    x: int
    y: int
    button: str

    def over(self, boxes: Mapping[str, Box]) -> str:
        """The name of the box that the mouse is in, "" for none."""
        for name, (x0, y0, x1, y1) in boxes.items():
            if x0 <= self.x < x1 and y0 <= self.y < y1:
                return name
        return ""


def new_size(room: tuple[int, int] | None) -> tuple[int, int]:
    """Rows and columns of a new window: `SIZE`, smaller in the same shape where that is too large.

    Args:
      room: rows and columns that are free on the screen; None where they are not known.
    """
    rows, columns = room or SIZE
    scale = min(1.0, rows / SIZE[0], columns / SIZE[1])
    return round(scale * SIZE[0]), round(scale * SIZE[1])


class Window:
    """A window that shows pictures and collects keys and mouse events.

    Args:
      x11: finds the window on the X server; None: one of its own.

    Attributes:
      on_lost: completes files; called where the display is lost inside OpenCV, before the process
        ends with exit code 69. Elsewhere `UnavailableError` is raised.

    Raises:
      UnavailableError: there is no display.
    """

    def __init__(self, x11: X11Window | None = None) -> None:
        self._events: list[str | Mouse] = []
        self._reminded = 0.0
        self._bgr = Buffers()
        self.on_lost: Callable[[], object] = lambda: None
        with display_connection():  # until Qt has one of its own
            self._watch = DisplayWatch(lambda message: end_program(message, self.on_lost))
            self._x11 = x11 or X11Window(TITLE, once=("Escape",))
            self._open()

    def _open(self) -> None:
        os.environ.setdefault("QT_LOGGING_RULES", "default.warning=false")  # about its own fonts
        flags = cv2.WINDOW_NORMAL | cv2.WINDOW_FREERATIO | cv2.WINDOW_GUI_NORMAL
        with self._watch:
            cv2.namedWindow(TITLE, flags)
        self._resize()
        cv2.setMouseCallback(TITLE, self._on_mouse)
        self._seen = False
        self._appear()

    def _appear(self) -> None:
        """Waits until the window shows its first picture."""
        asked = time.monotonic()
        end = asked + APPEARING_S
        self._draw_probe()
        while not (self._find() and self._shows_probe()) and time.monotonic() < end:
            self._x11.remind(self._known_size())
            if time.monotonic() > asked + AGAIN_S:
                asked = time.monotonic()
                self._x11.ask_manager()
            self._draw_probe()

    def _draw_probe(self) -> None:
        with self._watch:
            cv2.imshow(TITLE, PROBE)
            cv2.waitKey(10)

    def _find(self) -> bool:
        """Whether the window exists."""
        return self._x11.find()

    def _shows_probe(self) -> bool:
        """Whether the first picture is on the screen; a window manager sees to that by itself."""
        return self._x11.managed or self._x11.shows(int(PROBE[0, 0, 0]))

    def show(self, picture: np.ndarray) -> None:
        """Shows uint8 [H, W, 3] RGB; a picture of another size than the canvas is stretched.

        Raises:
          UnavailableError: the display is gone.
        """
        self._require_answer()
        bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR, self._bgr.get(picture.shape))
        with self._watch:
            cv2.imshow(TITLE, bgr)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the canvas: those of the window, within the limits."""
        rows, columns = self._known_size()
        scale = min(1.0, MAX_CANVAS / max(rows, columns))
        return max(round(rows * scale), MIN_CANVAS), max(round(columns * scale), MIN_CANVAS)

    def _known_size(self) -> tuple[int, int]:
        """Rows and columns of the window, as OpenCV knows them."""
        try:
            _, _, columns, rows = cv2.getWindowImageRect(TITLE)
        except cv2.error:
            return SIZE
        return (rows, columns) if rows > 0 and columns > 0 else SIZE

    def events(self) -> list[str | Mouse]:
        """What happened since the last call: the mouse, then key names (see `view.keys`).

        No key is lost, however long ago the last call was.

        Raises:
          UnavailableError: the display is gone.
        """
        self._require_answer()
        if time.monotonic() > self._reminded + REMINDED_S:
            self._reminded = time.monotonic()
            self._x11.remind(self._known_size())
        with self._watch:
            code = cv2.waitKeyEx(1)  # this is also when the window draws and reports the mouse
            keys = self._x11.keys()
        if keys is None:
            keys = []
            while code != -1:  # Windows and macOS keep the further ones
                keys += filter(None, [name_of(code)])
                code = cv2.waitKeyEx(1)
        happened, self._events = self._events, []
        return [*happened, *keys]

    @property
    def closed(self) -> bool:
        """Whether the user closed it."""
        visible = self._visible()
        self._seen = self._seen or visible
        return self._seen and not visible

    def fill_screen(self, on: bool) -> None:
        """Fills the screen, or goes back to a window."""
        self._set_full_screen(on)
        if on:
            self._x11.cover_screen()
        elif not self._x11.managed:
            self._resize()

    def _set_full_screen(self, on: bool) -> None:
        how = cv2.WINDOW_FULLSCREEN if on else cv2.WINDOW_NORMAL
        with self._watch:
            cv2.setWindowProperty(TITLE, cv2.WND_PROP_FULLSCREEN, how)

    def _resize(self) -> None:
        """Gives the window the size of a new one."""
        rows, columns = new_size(self._x11.free_area())
        with self._watch:
            cv2.resizeWindow(TITLE, columns, rows)

    def _on_mouse(self, event: int, x: int, y: int, flags: int, _: object) -> None:
        buttons = {cv2.EVENT_LBUTTONDOWN: "left", cv2.EVENT_RBUTTONDOWN: "right"}
        if event in buttons:
            self._events.append(Mouse(x, y, buttons[event]))
        elif event in (cv2.EVENT_LBUTTONUP, cv2.EVENT_RBUTTONUP):
            self._events.append(Mouse(x, y, ""))
        elif event == cv2.EVENT_MOUSEMOVE:
            left, right = flags & cv2.EVENT_FLAG_LBUTTON, flags & cv2.EVENT_FLAG_RBUTTON
            self._append_move(Mouse(x, y, "left" if left else "right" if right else ""))

    def _append_move(self, move: Mouse) -> None:
        """Notes a move; without a button only the last of several counts."""
        last = self._events[-1] if self._events else None
        if isinstance(last, Mouse) and not (last.button or move.button):
            self._events.pop()
        self._events.append(move)

    def close(self) -> None:
        """Closes the window."""
        self._watch.stop()
        self._x11.close()
        if not self._x11.lost:  # Qt would end the process
            with self._watch:
                cv2.destroyAllWindows()
                cv2.waitKey(1)

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _require_answer(self) -> None:
        """Raises an error if the display is gone, before Qt notices and ends the process."""
        self._x11.check()
        if self._x11.lost:
            raise UnavailableError(GONE)

    def _visible(self) -> bool:
        try:
            return cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1
        except cv2.error:
            return False
