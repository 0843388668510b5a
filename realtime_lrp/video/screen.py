"""Shows a screen of this machine as a live source."""

import threading
import time

import numpy as np

from realtime_lrp.errors import UnavailableError, first_line
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.source import Source, number_in

FPS = 30


class Screen(Source):
    """Gives what is on a screen, at most `FPS` times a second; `more` is its number, from 1."""

    steady = True

    def __init__(self, more: str, stop: threading.Event):
        super().__init__(stop)
        number = number_in("screen", more, usual=1, least=0)
        self.described = f"screen {number}"
        import mss

        try:
            self._grabber = mss.MSS()
        except (mss.ScreenShotError, OSError) as error:
            raise UnavailableError(
                f"No screen can be read ({first_line(error)}). "
                "Start it in a graphical session, or choose another --source."
            ) from None
        try:
            self._area = self._area_of(number)
        except (mss.ScreenShotError, UnavailableError):
            self._grabber.close()
            raise
        self._due = time.monotonic()

    def read(self) -> np.ndarray | None:
        if self.stop.wait(max(0.0, self._due - time.monotonic())):
            return None
        self._due = max(self._due, time.monotonic()) + 1 / FPS
        shot = self._grabber.grab(self._area)
        picture = np.frombuffer(shot.raw, np.uint8).reshape(shot.height, shot.width, 4)
        return cv2.cvtColor(picture, cv2.COLOR_BGRA2RGB)

    def close(self) -> None:
        self._grabber.close()

    def _area_of(self, number: int) -> dict[str, int]:
        """Where a screen lies within the pixels of all screens."""
        together, *screens = self._grabber.monitors
        screens = screens or [together]
        if not 1 <= number <= len(screens):
            raise UnavailableError(
                f"There is no screen {number}. There {'is' if len(screens) == 1 else 'are'} "
                f"{len(screens)}, numbered from 1: --source screen:1."
            )
        return screens[number - 1]
