"""Opens a window for a moment, and lists the screens."""

import os
from collections.abc import Iterator
from contextlib import suppress

import cv2
import mss
import numpy as np

from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.config import Settings
from realtime_lrp.view.window.display import display_reachable
from realtime_lrp.view.window.window import SIZE, TITLE, Window

ATTEMPTS = 20
GREY = 60

WITHOUT = "without one: --display none, and demo writes a file"


def display(settings: Settings) -> Iterator[Row]:
    """Tries to open a window, unless that would end the process."""
    if settings.config.live.display == "none":
        yield Row("ok", "display", "not needed: --display none")
    elif not display_reachable():
        yield _unreachable()
    elif not _window_opens():
        yield Row("warning", "display", "no window appears", WITHOUT)
    else:
        yield Row("ok", "display", ", ".join(["a window opens", *_screens()]))


def _unreachable() -> Row:
    name = os.environ.get("DISPLAY")
    if name:
        return Row(
            "warning", "display", f"the display {name} (variable DISPLAY) does not respond",
            "start its X server, or run as the user who is logged in there (XAUTHORITY)"
            f"; {WITHOUT}",
        )  # fmt: skip
    if os.environ.get("WAYLAND_DISPLAY"):
        return Row(
            "warning", "display", "Wayland without X11, which windows need (no DISPLAY)",
            f"install Xwayland (package xwayland) and log in again; {WITHOUT}",
        )  # fmt: skip
    return Row(
        "warning", "display", "none (the variable DISPLAY is not set)",
        f"run it in a graphical session, or set DISPLAY to one, such as :0; {WITHOUT}",
    )  # fmt: skip


def _window_opens() -> bool:
    with Window() as window:
        for _ in range(ATTEMPTS):
            window.show(np.full((*SIZE, 3), GREY, np.uint8))
            window.events()
            if cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1:
                return True
    return False


def _screens() -> list[str]:
    """The size of each screen, if the system knows it."""
    with suppress(mss.ScreenShotError, OSError), mss.MSS() as system:
        everything, *screens = system.monitors
        return [f"screen {s['width']} x {s['height']}" for s in screens or [everything]]
    return []


CHECKS: dict[str, Check] = {"display": display}
