"""A window for a moment, and the screens."""

import os
from collections.abc import Iterator
from contextlib import suppress

import cv2
import mss
import numpy as np

from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.config import Settings
from realtime_lrp.view.window.window import SIZE, TITLE, Window, display_reachable

SHOWINGS = 20
GREY = 60

WITHOUT = "without one: --display none, and demo writes a file"


def display(settings: Settings) -> Iterator[Row]:
    """Whether a window opens; first whether it can be tried without harm."""
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
            "warning", "display", f"the display {name} (variable DISPLAY) does not answer",
            "start its server, or log in there as the same user: others may not use it (XAUTHORITY)"
            f"; {WITHOUT}",
        )  # fmt: skip
    if os.environ.get("WAYLAND_DISPLAY"):
        return Row(
            "warning", "display", "Wayland without X11, which windows need here (no DISPLAY)",
            f"install Xwayland (package xwayland) and log in again; {WITHOUT}",
        )  # fmt: skip
    return Row(
        "warning", "display", "none (the variable DISPLAY is not set)",
        f"start it in a graphical session, or set DISPLAY to one, such as :0; {WITHOUT}",
    )  # fmt: skip


def _window_opens() -> bool:
    with Window() as window:
        for _ in range(SHOWINGS):
            window.show(np.full((*SIZE, 3), GREY, np.uint8))
            window.events()
            if cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) >= 1:
                return True
    return False


def _screens() -> list[str]:
    """The size of each screen, where the system tells."""
    with suppress(mss.ScreenShotError, OSError), mss.MSS() as system:
        together, *screens = system.monitors
        return [f"screen {one['width']} x {one['height']}" for one in screens or [together]]
    return []


CHECKS: dict[str, Check] = {"display": display}
