"""The window of an exhibit: it fills the screen and comes back whatever is done to it."""

import os
import shutil
import subprocess
import time

from realtime_lrp.view.window import TITLE, Mouse, Window, pygame, screen_size

TEND_S = 0.75  # how often the window is checked. A lost window is back within 1 s.

INHIBIT = (
    "systemd-inhibit", "--what=idle:sleep", "--who=realtime-lrp", "--why=exhibit", "--mode=block",
    "cat",
)  # fmt: skip
"""Keeps the session awake until its standard input closes, which is when this program ends."""


class FullScreen(Window):
    """A window that fills the screen, shows no pointer, and cannot be closed, moved or zoomed.

    SDL keeps the screen saver off while it is open.
    """

    def __init__(self) -> None:
        super().__init__()
        pygame.mouse.set_visible(False)
        self._inhibitor = _inhibitor()
        self._due = time.monotonic() + TEND_S

    def _opened(self) -> pygame.Window:
        rows, columns = screen_size()  # without a window manager this alone covers the screen
        return pygame.Window(
            TITLE, (columns, rows), position=(0, 0), fullscreen_desktop=True, borderless=True,
            always_on_top=True,
        )  # fmt: skip

    def tend(self) -> None:
        """Restores the window about once a second; call it after each picture."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + TEND_S
        rows, columns = screen_size()
        covers = self._window.size == (columns, rows) and self._window.position == (0, 0)
        if not (self._window.focused and covers):
            self._window.set_windowed()  # SDL asks for what it has already only after this
            self._window.restore()
            self._window.set_fullscreen(desktop=True)
            self._window.focus()

    def close(self) -> None:
        super().close()
        if self._inhibitor:
            self._inhibitor.communicate()

    def _is_wanted(self, name: str) -> bool:
        return not self._keyboard.repeated


class NullWindow:
    """Stands in for `FullScreen` when nothing is shown (`--display none`)."""

    size = (720, 1280)
    held: frozenset[str] = frozenset()

    def events(self) -> list[str | Mouse]:
        return []

    def show(self, *_: object) -> None:
        """Does nothing, like all of these."""

    tend = close = show


def _inhibitor() -> subprocess.Popen[bytes] | None:
    if not shutil.which(INHIBIT[0]):
        return None
    quiet = subprocess.DEVNULL
    own = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    return subprocess.Popen(INHIBIT, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=own)
