"""The painter of window, page, exhibit, film, picture and sheet.

A map is scaled by itself, smoothed over a series of pictures. It fades where there is nothing to
explain, and is not drawn where it is zero or not finite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.system.scale import FULL, SOFTNESS
from realtime_lrp.view.boxes import Outline
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import Overlay, make_overlay

SMOOTHING = 0.9  # how much of the previous scale stays with each new map of a moving picture
MAX_ABOVE = 2.0  # the largest factor between a map's own peak and the peak that it is drawn with


class Scale:
    """The peak that is drawn at full strength, smoothed over the maps of a video.

    A map's peak is the relevance of full strength, divided by the sum of magnitudes. The sums of a
    trained network change by a factor of 4 from picture to picture, the peaks hardly change.
    `smoothing` of the previous peak stays with each map; 0 scales every map by itself.
    """

    def __init__(self, smoothing: float = SMOOTHING):
        self._smoothing = smoothing
        self._peak = 0.0  # the maps' largest value until now

    def __call__(self, peak: float) -> float:
        """How strongly a map of this peak is drawn: 1 is full strength."""
        if not (0 < peak < np.inf):
            return 0.0
        kept = self._smoothing if self._peak else 0.0
        self._peak = kept * self._peak + (1 - kept) * peak
        self._peak = min(max(self._peak, peak / MAX_ABOVE), peak * MAX_ABOVE)
        return peak / self._peak


class Drawn(NamedTuple):
    """A map that is ready to be painted."""

    strength: np.ndarray  # int8 [h, w] or [h, w, 3] from -FULL to FULL; of the region alone
    peak: float  # see `Scale`
    fade: float = 1.0  # 0 to 1: the map's strength
    signed: bool = False  # whether it can be negative
    name: str = ""  # the method or composite that it comes from


class Series:
    """The maps of one video: their scales, smoothed, and their average."""

    def __init__(self, smoothing: float = SMOOTHING) -> None:
        self._smoothing = smoothing
        self._scales: list[Scale] = []
        self._last: tuple[Sequence[Drawn], list[np.ndarray]] = (), []

    def __call__(self, maps: Sequence[Drawn], average: float = 0.0) -> list[np.ndarray]:
        """How strongly each pixel is drawn, float32 [h, w] or [h, w, 3] in [-1, 1], of each map.

        `average` of the previous maps stays. The same sequence of maps is one picture, however
        often it is painted.
        """
        before, previous = self._last
        if maps is before:
            return previous
        self._scales += [Scale(self._smoothing) for _ in maps[len(self._scales) :]]
        new = [
            intensity(one, scale(one.peak)) for one, scale in zip(maps, self._scales, strict=True)
        ]
        if average and [one.shape for one in previous] == [one.shape for one in new]:
            pairs = zip(previous, new, strict=True)
            new = [average * old + (1 - average) * now for old, now in pairs]
        self._last = maps, new
        return new


def intensity(one: Drawn, relative: float = 1.0) -> np.ndarray:
    """How strongly each pixel is drawn: float32 [h, w] or [h, w, 3] in [-1, 1].

    `relative` is the map's relevance of full strength, divided by the drawing's.
    """
    factor = np.float32((one.fade * relative) ** SOFTNESS / FULL)
    return np.clip(one.strength * factor, -1, 1)


@dataclass(frozen=True, eq=False)
class Painted:
    """A picture with its maps, coloured, and the boxes of a detector."""

    picture: np.ndarray  # uint8 [H, W, 3] RGB, the one that was explained
    overlays: tuple[Overlay, ...]  # the maps, the chosen one first
    outlines: tuple[Outline, ...] = ()

    @property
    def box(self) -> Box:
        """The explained region in the picture."""
        return self.overlays[0].box


def paint(
    picture: np.ndarray, maps: Sequence[Drawn], look: Look, box: Box,
    outlines: tuple[Outline, ...] = (), series: Series | None = None,
) -> Painted:  # fmt: skip
    """Colours the maps of a region of a picture, uint8 [H, W, 3] RGB.

    Without a `series` each is scaled by itself.
    """
    series = series or Series()
    size = box[2] - box[0], box[3] - box[1]
    overlays = (
        make_overlay(_at_most(shown, size), one.signed, look, box, one.name)
        for one, shown in zip(maps, series(maps, look.average), strict=True)
    )
    return Painted(picture, tuple(overlays), outlines)


def _at_most(shown: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A map no larger than the region that it covers: pixels are averaged, not left out."""
    rows, columns = shown.shape[:2]
    smaller = min(columns, size[0]), min(rows, size[1])
    if smaller == (columns, rows):
        return shown
    return cv2.resize(shown, smaller, interpolation=cv2.INTER_AREA)
