"""Scales and averages the maps of a moving picture, so that neither brightness nor map flickers.

NumPy only. The caller makes a new smoother where the maps begin to explain something else.
"""

from collections.abc import Sequence

import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.overlay import SMOOTHING, Scale, intensity


class MapSmoother:
    """Turns the strengths of one map after the other into drawn intensities.

    Args:
      average: how much of the previous intensities stays with each new map, 0 to 1.
      smoothing: how much of the previous scale stays; 0 scales each map by itself.
    """

    def __init__(self, average: float = 0.0, smoothing: float = SMOOTHING):
        self._average, self._smoothing = average, smoothing
        self._scales: list[Scale] = []
        self._previous: list[np.ndarray] = []

    def __call__(
        self, maps: Sequence[tuple[np.ndarray, float, float]], inner: Box
    ) -> list[np.ndarray]:
        """The intensities of the next maps, float32 [h, w] or [h, w, 3] in [-1, 1].

        Args:
          maps: strength (int8, see `overlay.intensity`) and scale of each, and the least scale that
            it may be drawn with; always as many.
          inner: where the explained region lies in the maps.
        """
        self._scales = self._scales or [Scale(self._smoothing) for _ in maps]
        new = [
            intensity(strength, inner, scale / smoothed(max(scale, least)))
            for (strength, scale, least), smoothed in zip(maps, self._scales, strict=True)
        ]
        if self._average and self._previous and self._previous[0].shape == new[0].shape:
            kept = self._average
            new = [
                kept * old + (1 - kept) * now for old, now in zip(self._previous, new, strict=True)
            ]
        self._previous = new
        return new
