"""The window of an exhibit: it fills the screen and comes back whatever is done to it."""

import logging
import time
from contextlib import suppress

import cv2
import numpy as np

from realtime_lrp.view.window.desktop import Desktop
from realtime_lrp.view.window.window import TITLE, Window
from realtime_lrp.view.window.x11 import X11Window

TEND_S = 0.75
"""How often the window is checked. A lost window is back within 1 s."""

WHEEL = (cv2.EVENT_MOUSEWHEEL, cv2.EVENT_MOUSEHWHEEL)

log = logging.getLogger(__name__)


class FullScreen(Window):
    """A window that fills the screen, shows no pointer, and cannot be closed, moved or zoomed.

    `size` is that of the window until it covers the screen.

    Attributes:
      reopened: how often the window was opened again.

    Raises:
      UnavailableError: there is no display.
    """

    def __init__(self) -> None:
        self.reopened = 0
        x11 = X11Window(TITLE)
        self._desktop = Desktop(x11)
        super().__init__(x11)

    def _open(self) -> None:
        super()._open()
        self._zoomed = False
        self._due = time.monotonic() + TEND_S

    def _appear(self) -> None:
        self._set_full_screen(True)
        super()._appear()

    def _find(self) -> bool:
        with self._watch:
            self._held = self._desktop.hold()
        return self._held

    def show(self, picture: np.ndarray) -> None:
        if self.closed:  # cv2.imshow would open it without its properties
            self._reopen("closed")
        super().show(picture)

    def tend(self) -> None:
        """Restores the window and the desktop around it.

        Call it after each picture. What takes time is done about once a second.
        """
        if self.closed:
            self._reopen("closed")
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + TEND_S
        with suppress(cv2.error):
            self._set_full_screen(True)
        held = self._held
        if held and not self._find():
            self._reopen("taken away")
        elif self._zoomed:
            self._reopen("zoomed")

    @property
    def screen_fault(self) -> str:
        """Why the screen could not be switched off, or ""."""
        return self._desktop.power.fault

    def switch_screen(self, off: bool) -> None:
        """Switches the screen off, or on again, within a second if `tend` is called."""
        self._desktop.power.off = off

    def close(self) -> None:
        self._desktop.close()
        super().close()

    def _reopen(self, why: str) -> None:
        log.info("the window was %s and is opened again", why)
        with suppress(cv2.error), self._watch:
            cv2.destroyAllWindows()
        self._open()
        self.reopened += 1

    def _on_mouse(self, event: int, x: int, y: int, flags: int, _: object) -> None:
        self._zoomed = self._zoomed or event in WHEEL  # only a new window undoes it
        super()._on_mouse(event, x, y, flags, _)
