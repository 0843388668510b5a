"""The display, which SDL opens. Import `pygame` from here, after what has to be set before it."""

import ctypes
import os
import sys
from collections.abc import Callable

from realtime_lrp.errors import Error, UnavailableError
from realtime_lrp.system.files import remove_temporary_folders

SETTINGS = {
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "SDL_FRAMEBUFFER_ACCELERATION": "0",  # pixels go to the window as they are, without OpenGL
    "SDL_MOUSE_FOCUS_CLICKTHROUGH": "1",  # a click that brings the window to the front counts too
    "SDL_NO_SIGNAL_HANDLERS": "1",
    "SDL_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR": "0",  # else the whole desktop loses its effects
    "SDL_VIDEO_X11_WMCLASS": "realtime_lrp",
    "XMODIFIERS": "@im=none",  # an input method would take the letters, which are commands here
}
"""Environment variables of SDL and X11, set unless the user has set them."""

for _name, _value in SETTINGS.items():
    os.environ.setdefault(_name, _value)
import pygame  # noqa: E402

__all__ = ["GONE", "display_reachable", "end_if_lost", "pygame", "require_display"]

DRIVERS = {"x11": "DISPLAY", "wayland": "WAYLAND_DISPLAY"}
"""SDL's drivers on Linux -> the variable that names their display. Others would draw nowhere, or
on the console."""

GONE = "The display is gone. Start again when there is one, or with --display none."


def require_display() -> None:
    """Connects to the display, for the rest of the process; an error where there is none."""
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
    try:
        require_display()
    except UnavailableError:
        return False
    return True


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
            remove_temporary_folders()
            os._exit(UnavailableError.exit_code)

    handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lost)
    ctypes.CDLL("libX11.so.6").XSetIOErrorHandler(handler)
    return handler
