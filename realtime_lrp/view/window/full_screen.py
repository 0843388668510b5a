"""The window of an exhibit: it fills the screen, and what happens to it is put right."""

import logging
import time
from contextlib import suppress

import cv2
import numpy as np

from realtime_lrp.view.window.desktop import Desktop
from realtime_lrp.view.window.window import SIZE, TITLE, Window, require_display

TEND_S = 0.75
"""How often it is looked whether the window is where it belongs; a lost one is back in 1 s."""

APPEARING_S = 1.5
AGAIN_S = 0.3
"""How long is waited at most until an opened window shows a picture, and until it is shown anew."""

PROBE = np.full((*SIZE, 3), 16, np.uint8)
"""The first picture; its colour is looked for on the screen."""

WHEEL = (cv2.EVENT_MOUSEWHEEL, cv2.EVENT_MOUSEHWHEEL)

log = logging.getLogger(__name__)


class FullScreen(Window):
    """A window that fills the screen, shows no pointer, and cannot be closed, moved or zoomed.

    Until it covers the screen, `size` is that of the window.

    Attributes:
      reopened: how often it had to be opened again.

    Raises:
      UnavailableError: there is no display.
    """

    def __init__(self) -> None:
        require_display()
        self.reopened = 0
        self._desktop = Desktop(TITLE)
        super().__init__()

    def _open(self) -> None:
        super()._open()
        self._zoomed = False
        cv2.setWindowProperty(TITLE, cv2.WND_PROP_FULLSCREEN, cv2.WINDOW_FULLSCREEN)
        self._held = self._appear()
        self._due = time.monotonic() + TEND_S

    def _appear(self) -> bool:
        """Waits until the window shows its first picture; whether it is there.

        Without a window manager Qt sometimes misses that its window is on the screen, and then
        never draws: showing the window anew is what helps.
        """
        begin = shown = time.monotonic()
        while not (there := self._desktop.hold()) or not self._desktop.shows(int(PROBE[0, 0, 0])):
            now = time.monotonic()
            if now > begin + APPEARING_S:
                break
            if there and now > shown + AGAIN_S:
                log.info("the window stayed empty and is shown anew")
                self._desktop.show_anew()
                shown = now
            cv2.imshow(TITLE, PROBE)
            cv2.waitKey(10)
        return there

    def show(self, picture: np.ndarray) -> None:
        if self.closed:  # showing would open it without its properties
            self._reopen("closed")
        super().show(picture)

    def tend(self) -> None:
        """Puts right what happened to the window and to the desktop around it.

        To be called after each picture; what costs time is done once a second.
        """
        if self.closed:
            self._reopen("closed")
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + TEND_S
        with suppress(cv2.error):
            cv2.setWindowProperty(TITLE, cv2.WND_PROP_FULLSCREEN, cv2.WINDOW_FULLSCREEN)
        held, self._held = self._held, self._desktop.hold()
        if held and not self._held:
            self._reopen("taken away")
        elif self._zoomed:
            self._reopen("zoomed")

    def close(self) -> None:
        self._desktop.close()
        super().close()

    def _reopen(self, why: str) -> None:
        log.info("the window was %s and is opened again", why)
        with suppress(cv2.error):
            cv2.destroyAllWindows()
        self._open()
        self.reopened += 1

    def _on_mouse(self, event: int, x: int, y: int, flags: int, _: object) -> None:
        self._zoomed = self._zoomed or event in WHEEL  # Qt zooms by itself, and nothing undoes it
        super()._on_mouse(event, x, y, flags, _)
