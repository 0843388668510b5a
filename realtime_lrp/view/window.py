"""Windows, made by SDL (package pygame-ce): their display, the names of keys, the mouse.

Import `pygame` from here: what has to be set before it is set. Call all on the main thread only.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.errors import Error, UnavailableError
from realtime_lrp.system.files import remove_temporary
from realtime_lrp.system.geometry import Box, Extent, contains
from realtime_lrp.view.decals import Buffers
from realtime_lrp.view.keys import BY_KEY, UNNAMED

SETTINGS = {
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "SDL_FRAMEBUFFER_ACCELERATION": "0",  # pixels go to the window unchanged, without OpenGL
    "SDL_MOUSE_FOCUS_CLICKTHROUGH": "1",  # a click that brings the window to the front counts too
    "SDL_NO_SIGNAL_HANDLERS": "1",
    "SDL_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR": "0",  # else the whole desktop loses its effects
    "SDL_VIDEO_X11_WMCLASS": "realtime_lrp",
    "XMODIFIERS": "@im=none",  # an input method would take the letters, which are commands here
}
"""Environment variables of SDL and X11, set unless the user has set them."""

for _variable, _value in SETTINGS.items():
    os.environ.setdefault(_variable, _value)
import pygame  # noqa: E402

# SDL's drivers on Linux that show a window -> the variable that names their display
DRIVERS = {"x11": "DISPLAY", "wayland": "WAYLAND_DISPLAY"}

GONE = "The display is gone. Start again when there is one, or with --display none."


def require_display() -> None:
    """Connects to the display, for the rest of the process; UnavailableError without one."""
    problem = UnavailableError(
        "There is no display to open a window on. Set DISPLAY to a running one, "
        "or add --display none."
    )
    if sys.platform == "linux" and "SDL_VIDEODRIVER" not in os.environ:
        found = [driver for driver, name in DRIVERS.items() if os.environ.get(name)]
        if not found:
            raise problem
        os.environ["SDL_VIDEODRIVER"] = ",".join(found)
    try:
        pygame.display.init()
    except pygame.error:
        raise problem from None


def display_reachable() -> bool:
    """Whether a window can be opened."""
    with suppress(UnavailableError):
        require_display()
        return True
    return False


def end_if_lost(finish: Callable[[], object]) -> object:
    """Has the process end with exit code 69 when the X server goes, which Xlib cannot survive.

    `finish` completes files before. What is returned has to be kept while the window is open.
    """
    if pygame.display.get_driver() != "x11":
        return None

    def lost(_: object) -> int:
        try:
            print(GONE, file=sys.stderr, flush=True)
            finish()
        except Error as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            remove_temporary()
            os._exit(UnavailableError.exit_code)

    handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lost)
    ctypes.CDLL("libX11.so.6").XSetIOErrorHandler(handler)
    return handler


NAMED = {
    pygame.K_BACKSPACE: "BackSpace", pygame.K_TAB: "Tab", pygame.K_RETURN: "Return",
    pygame.K_KP_ENTER: "Return", pygame.K_ESCAPE: "Escape", pygame.K_DELETE: "Delete",
    pygame.K_INSERT: "Insert", pygame.K_HOME: "Home", pygame.K_END: "End",
    pygame.K_PAGEUP: "Page_Up", pygame.K_PAGEDOWN: "Page_Down", pygame.K_LEFT: "Left",
    pygame.K_RIGHT: "Right", pygame.K_UP: "Up", pygame.K_DOWN: "Down",
    **{pygame.K_F1 + number: f"F{number + 1}" for number in range(12)},
}  # fmt: skip
"""Keys that write nothing, by the names of `view.keys`."""

KEYPAD = {
    pygame.K_KP0: "Insert", pygame.K_KP1: "End", pygame.K_KP2: "Down", pygame.K_KP3: "Page_Down",
    pygame.K_KP4: "Left", pygame.K_KP6: "Right", pygame.K_KP7: "Home", pygame.K_KP8: "Up",
    pygame.K_KP9: "Page_Up", pygame.K_KP_PERIOD: "Delete",
}  # fmt: skip
"""Keys of the keypad that write something only with Num Lock."""

NOT_CHARACTERS = 1 << 30  # SDL's key codes from here on are not characters
SHORTCUTS = pygame.KMOD_CTRL | pygame.KMOD_LALT | pygame.KMOD_GUI
MODIFIERS = {pygame.KSCAN_CAPSLOCK, pygame.KSCAN_SCROLLLOCK, pygame.KSCAN_NUMLOCKCLEAR}
MODIFIERS |= {*range(pygame.KSCAN_LCTRL, pygame.KSCAN_RGUI + 1), pygame.KSCAN_MODE}

US = dict(enumerate("abcdefghijklmnopqrstuvwxyz1234567890", pygame.KSCAN_A))
US |= dict(enumerate("-=[]\\", pygame.KSCAN_MINUS))
US |= dict(enumerate(";'`,./", pygame.KSCAN_SEMICOLON))
"""Place on the keyboard -> the US keyboard's key there."""


class Keyboard:
    """Gives the keys that are pressed the names of `view.keys`.

    A key that writes something is named by what it writes in the user's layout, so that "?" and "["
    are found on every keyboard; what is not Latin-1, by the US keyboard's key at the same place.
    """

    def __init__(self) -> None:
        self.repeated = False  # whether the last name came because its key is held
        self.held: dict[int, str] = {}  # place on the keyboard -> name

    def name(self, event: pygame.Event) -> str | None:
        """The name of a pressed key, `UNNAMED` without one; None for Shift, shortcuts and such."""
        if event.type == pygame.KEYUP:
            self.held.pop(event.scancode, None)
        name = _name(event) if event.type == pygame.KEYDOWN else None
        if name:
            self.repeated = event.scancode in self.held
            self.held[event.scancode] = name
        return name


def _name(event: pygame.Event) -> str | None:
    text = event.unicode
    shortcut = event.mod & SHORTCUTS and not event.mod & pygame.KMOD_RALT
    if shortcut or event.scancode in MODIFIERS:
        return None
    if event.key in KEYPAD and not event.mod & pygame.KMOD_NUM:
        return KEYPAD[event.key]
    if event.key in NAMED:
        return NAMED[event.key]
    if not text:  # such as an accent that waits for its letter
        return None if event.key < NOT_CHARACTERS else UNNAMED
    if text == " ":
        return "space"
    if len(text) == 1 and (" " < text < "\x7f" or "\xa0" <= text <= "\xff"):
        return text.lower()
    return US.get(event.scancode, UNNAMED)


TITLE = "realtime_lrp"
SIZE = (720, 1280)  # rows and columns of a new window, where the screen has room for them
TITLE_BAR = 48  # rows that a window's title bar may take, in pixels
MIN_CANVAS, MAX_CANVAS = 240, 4096  # limits of the canvas's sides, in pixels
REPEAT_MS = 500, 40  # a held key repeats: after how long, and how often
BUTTONS = {1: "left", 3: "right"}
HELD = "BackSpace", "Up", "Down"  # keys that repeat while held


@dataclass(frozen=True)
class Mouse:
    """The mouse on the canvas."""

    x: int  # pixels of the canvas
    y: int
    button: str  # that is down: "left", "right" or ""; "frame" at a press of left with Shift

    def over(self, boxes: Mapping[str, Box]) -> str:
        """The name of the box that the mouse is in, "" for none."""
        return next((name for name, box in boxes.items() if contains(box, self.x, self.y)), "")


class Window:
    """A window that shows pictures and collects keys and mouse events."""

    def __init__(self) -> None:
        require_display()
        self.closed = False  # by the user; `events` notices it
        self.on_lost: Callable[[], object] = lambda: None  # completes files when the X server goes
        self._kept = end_if_lost(lambda: self.on_lost())
        self._keyboard = Keyboard()
        self._stretched = Buffers()
        pygame.key.set_repeat(*REPEAT_MS)
        self._canvas = SIZE
        try:
            self._window = self._opened()
        except pygame.error as error:
            raise UnavailableError(f"The display opens no window: {error}.") from None
        icon = pygame.Surface((64, 64), pygame.SRCALPHA)
        for radius, colour in ((31, (90, 0, 0)), (22, (200, 40, 0)), (12, (255, 210, 80))):
            pygame.draw.circle(icon, colour, (32, 32), radius)
        self._window.set_icon(icon)

    def _opened(self) -> pygame.Window:
        columns, rows = pygame.display.get_desktop_sizes()[0]
        scale = min(1.0, (rows - TITLE_BAR) / SIZE[0], columns / SIZE[1])
        return pygame.Window(TITLE, [round(scale * side) for side in SIZE[::-1]], resizable=True)

    def show(self, picture: np.ndarray) -> None:
        """Shows uint8 [H, W, 3] RGB; a picture of another size than the window is stretched."""
        surface = self._window.get_surface()
        size = surface.get_size()
        self._canvas = picture.shape[:2]
        if size != self._canvas[::-1]:
            picture = cv2.resize(picture, size, dst=self._stretched.get((*size[::-1], 3)))
        pixels = np.ascontiguousarray(picture).data
        surface.blit(pygame.image.frombuffer(pixels, size, "RGB"), (0, 0))
        self._window.flip()

    @property
    def size(self) -> Extent:
        """Rows and columns of the canvas: the window's, within the limits."""
        columns, rows = self._window.size
        scale = min(1.0, MAX_CANVAS / max(rows, columns))
        return max(round(rows * scale), MIN_CANVAS), max(round(columns * scale), MIN_CANVAS)

    @property
    def held(self) -> set[str]:
        return set(self._keyboard.held.values())

    def events(self) -> list[str | Mouse]:
        """Key names (see `view.keys`) and the mouse since the last call, in order, without loss."""
        happened: list[str | Mouse] = []
        for event in pygame.event.get():
            if name := self._keyboard.name(event):
                if not self._keyboard.repeated or self._repeats(name):
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

    def _repeats(self, name: str) -> bool:
        """Whether a held key counts again and again: what does something does it once."""
        return name in HELD or name not in BY_KEY

    def _mouse(self, event: pygame.Event) -> Mouse | None:
        if event.type == pygame.MOUSEMOTION:
            left, _, right = event.buttons
            button = "left" if left else "right" if right else ""
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button in BUTTONS:
            framing = event.button == 1 and pygame.key.get_mods() & pygame.KMOD_SHIFT
            button = "frame" if framing else BUTTONS[event.button]
        elif event.type == pygame.MOUSEBUTTONUP and event.button in BUTTONS:
            button = ""
        else:
            return None
        sides = zip(event.pos, self._canvas[::-1], self._window.size, strict=True)
        x, y = (int(at * side / max(1, whole)) for at, side, whole in sides)
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


TEND_S = 0.75  # how often the window is checked. A lost window is back within 1 s.

INHIBIT = (
    "systemd-inhibit", "--what=idle:sleep", "--who=realtime-lrp", "--why=exhibit", "--mode=block",
    "cat",
)  # fmt: skip
"""Keeps the session awake until its standard input closes, which is when this program ends."""


class FullScreen(Window):
    """An exhibit's window: it fills the screen, without a pointer, whatever is done to it."""

    def __init__(self) -> None:
        super().__init__()
        pygame.mouse.set_visible(False)
        self._inhibitor: subprocess.Popen[bytes] | None = None
        if shutil.which(INHIBIT[0]):
            own = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
            quiet = subprocess.DEVNULL
            self._inhibitor = subprocess.Popen(
                INHIBIT, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=own
            )
        self._due = time.monotonic() + TEND_S

    def _opened(self) -> pygame.Window:
        screen = pygame.display.get_desktop_sizes()[0]  # without a window manager this covers it
        return pygame.Window(
            TITLE, screen, position=(0, 0), fullscreen_desktop=True, borderless=True,
            always_on_top=True,
        )  # fmt: skip

    def tend(self) -> None:
        """Restores the window about once a second; call it after each picture."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + TEND_S
        screen = pygame.display.get_desktop_sizes()[0]
        covers = self._window.size == screen and self._window.position == (0, 0)
        if not (self._window.focused and covers):
            self._window.set_windowed()  # SDL asks for what it has already only after this
            self._window.restore()
            self._window.set_fullscreen(desktop=True)
            self._window.focus()

    def close(self) -> None:
        super().close()
        if self._inhibitor:
            self._inhibitor.communicate()

    def _repeats(self, name: str) -> bool:
        return False


class NullWindow:
    """Stands in for `FullScreen` when nothing is shown (`--display none`)."""

    size = (720, 1280)
    held: frozenset[str] = frozenset()

    def events(self) -> list[str | Mouse]:
        return []

    def show(self, *_: object) -> None:
        """Does nothing, like all of these."""

    tend = close = show
