"""The window. Call it on the main thread only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.geometry import Box, contains
from realtime_lrp.view.buffers import Buffers
from realtime_lrp.view.window.display import end_if_lost, pygame, require_display
from realtime_lrp.view.window.keyboard import Keyboard

TITLE = "realtime_lrp"
SIZE = (720, 1280)  # rows and columns of a new window, where the screen has room for them
TITLE_BAR = 48  # rows that a window's title bar may take, in pixels

MIN_CANVAS, MAX_CANVAS = 240, 4096
"""Limits of the canvas's sides in pixels, whatever the size of the window."""

REPEAT_MS = 500, 40  # a held key repeats: after how long, and how often

BUTTONS = {1: "left", 3: "right"}
ENDS = "Escape", "q"  # what ends the program at its second press


@dataclass(frozen=True)
class Mouse:
    """The mouse on the canvas."""

    x: int  # pixels of the canvas
    y: int
    button: str  # which button is down: "left", "right" or ""

    def over(self, boxes: Mapping[str, Box]) -> str:
        """The name of the box that the mouse is in, "" for none."""
        return next((name for name, box in boxes.items() if contains(box, self.x, self.y)), "")


def new_size(screen: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a new window: `SIZE`, smaller where the screen is too small for it."""
    rows, columns = screen
    scale = min(1.0, (rows - TITLE_BAR) / SIZE[0], columns / SIZE[1])
    return round(scale * SIZE[0]), round(scale * SIZE[1])


def screen_size() -> tuple[int, int]:
    """Rows and columns of the first screen."""
    columns, rows = pygame.display.get_desktop_sizes()[0]
    return rows, columns


class Window:
    """A window that shows pictures and collects keys and mouse events."""

    def __init__(self) -> None:
        require_display()
        self.closed = False  # by the user; `events` notices it
        self.on_lost: Callable[[], object] = lambda: None  # completes files when the X server goes
        self._kept = end_if_lost(lambda: self.on_lost())
        self._keyboard, self._stretched = Keyboard(), Buffers()
        pygame.key.set_repeat(*REPEAT_MS)
        self._canvas = SIZE
        try:
            self._window = self._opened()
        except pygame.error as error:
            raise UnavailableError(f"The display opens no window: {error}.") from None
        self._window.set_icon(_icon())

    def _opened(self) -> pygame.Window:
        rows, columns = new_size(screen_size())
        return pygame.Window(TITLE, (columns, rows), resizable=True)

    def show(self, picture: np.ndarray) -> None:
        """Shows uint8 [H, W, 3] RGB; a picture of another size than the window is stretched."""
        surface = self._window.get_surface()
        size = surface.get_size()
        self._canvas = picture.shape[:2]
        if size != self._canvas[::-1]:
            room = self._stretched.get((size[1], size[0], 3))
            picture = cv2.resize(picture, size, dst=room)
        pixels = np.ascontiguousarray(picture).data
        surface.blit(pygame.image.frombuffer(pixels, size, "RGB"), (0, 0))
        self._window.flip()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the canvas: those of the window, within the limits."""
        columns, rows = self._window.size
        scale = min(1.0, MAX_CANVAS / max(rows, columns))
        return max(round(rows * scale), MIN_CANVAS), max(round(columns * scale), MIN_CANVAS)

    @property
    def held(self) -> set[str]:
        return self._keyboard.held

    def events(self) -> list[str | Mouse]:
        """What happened since the last call: key names (see `view.keys`) and the mouse, in order.

        No key is lost, however long ago the last call was.
        """
        happened: list[str | Mouse] = []
        for event in pygame.event.get():
            if name := self._keyboard.name(event):
                if self._is_wanted(name):
                    happened.append(name)
            elif mouse := self._mouse(event):
                last = happened[-1] if happened else None
                if isinstance(last, Mouse) and not (last.button or mouse.button):
                    happened.pop()  # without a button only the last of several moves counts
                happened.append(mouse)
            elif event.type == pygame.WINDOWCLOSE:
                self.closed = True
            elif event.type == pygame.WINDOWEXPOSED:
                self._window.get_surface()  # there is none to flip before the first picture
                self._window.flip()
        return happened

    def _is_wanted(self, name: str) -> bool:
        """Whether a key counts: a held one repeats, but not where the second press ends."""
        return not (self._keyboard.repeated and name in ENDS)

    def _mouse(self, event: pygame.Event) -> Mouse | None:
        if event.type == pygame.MOUSEMOTION:
            left, _, right = event.buttons
            return self._at(event.pos, "left" if left else "right" if right else "")
        if event.type == pygame.MOUSEBUTTONDOWN and event.button in BUTTONS:
            return self._at(event.pos, BUTTONS[event.button])
        if event.type == pygame.MOUSEBUTTONUP and event.button in BUTTONS:
            return self._at(event.pos, "")
        return None

    def _at(self, place: tuple[int, int], button: str) -> Mouse:
        rows, columns = self._canvas
        x, y = (int(at * side / max(1, whole)) for at, side, whole in zip(
            place, (columns, rows), self._window.size, strict=True
        ))  # fmt: skip
        return Mouse(x, y, button)

    def fill_screen(self, on: bool) -> None:
        if on:
            self._window.set_fullscreen(desktop=True)
        else:
            self._window.set_windowed()

    def close(self) -> None:
        self._window.destroy()
        pygame.event.pump()

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _icon() -> pygame.Surface:
    icon = pygame.Surface((64, 64), pygame.SRCALPHA)
    for radius, colour in ((31, (90, 0, 0)), (22, (200, 40, 0)), (12, (255, 210, 80))):
        pygame.draw.circle(icon, colour, (32, 32), radius)
    return icon
