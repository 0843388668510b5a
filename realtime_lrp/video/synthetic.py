"""A source that draws its pictures: for a first look, tests and measurements."""

import functools
import threading
import time

import numpy as np

from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.source import Source, number_in


class Synthetic(Source):
    """A disc that circles over a moving gradient, 640 x 480; `more` says how often a second."""

    size = (480, 640)
    described = "synthetic"

    def __init__(self, more: str, stop: threading.Event):
        super().__init__(stop)
        self.fps = number_in("synthetic", more, usual=30, least=1)
        self._start = time.monotonic()
        self._count = 0

    def read(self) -> np.ndarray | None:
        due = self._start + self._count / self.fps
        if self.stop.wait(max(0.0, due - time.monotonic())):
            return None
        self._count += 1
        return moving_picture(self._count, self.size, self.fps)


@functools.cache
def _slope(size: tuple[int, int]) -> np.ndarray:
    rows, columns = np.indices(size)
    return ((rows + columns) // 5 % 256).astype(np.uint8)


def moving_picture(number: int, size: tuple[int, int], fps: int) -> np.ndarray:
    """A frame by its number, uint8 [*size, 3] RGB; the disc moves by one radian a second."""
    grey, turn = _slope(size) + np.uint8(number % 256), number / fps
    picture = cv2.merge([grey, 255 - grey, np.full_like(grey, 128)])
    rows, columns = size
    y, x = rows * (0.5 + 0.23 * np.sin(turn)), columns * (0.5 + 0.23 * np.cos(turn))
    radius = round(0.15 * min(size))
    return cv2.circle(picture, (int(x), int(y)), radius, (235, 80, 40), -1, cv2.LINE_AA)
