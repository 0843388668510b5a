"""Relevance as colour, laid over the region of the picture that the network saw.

Where relevance is 0 the picture stays as it is, and so does everything outside the region.
"""

import functools
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.view.colormaps import colormap_named

FULL = 127
"""Full strength."""

SMOOTHING = 0.9
"""How much of the old scale stays with each new map of a moving picture."""

SOFTNESS = 0.6
"""Strength goes with relevance to this power. It and FULL are those that strengths come with."""

OUTLINE = 0.25
"""How much white the outline of the region has."""


class Scale:
    """The relevance that is drawn at full strength, smoothed over a video's maps."""

    def __init__(self, smoothing: float = SMOOTHING):
        self._smoothing = smoothing
        self._value: float | None = None

    def __call__(self, new: float) -> float:
        """The scale for a map whose own is `new`; follows the maps that it was called with."""
        kept = self._smoothing if self._value is not None else 0.0
        self._value = kept * (self._value or 0.0) + (1 - kept) * new
        return self._value or 1.0


@dataclass(frozen=True)
class Layer:
    """A coloured map, ready to be laid over pictures of one geometry.

    Attributes:
      colour: uint8 [h, w, 3] RGB, at the map's resolution.
      alpha: float32 [h, w] in [0, 1], 0 where relevance is 0.
      box: x0, y0, x1, y1, the region of the picture over which it is stretched.
    """

    colour: np.ndarray
    alpha: np.ndarray
    box: tuple[int, int, int, int]

    @functools.cached_property
    def stretched(self) -> tuple[np.ndarray, np.ndarray]:
        """Colour and alpha at the size of the box."""
        size = (self.box[2] - self.box[0], self.box[3] - self.box[1])
        return cv2.resize(self.colour, size), cv2.resize(self.alpha, size)


class Painter:
    """Turns maps into layers.

    Args:
      colormap: name of a colour map, for maps that are summed over the colour channels.
      opacity: 0 to 1, of the strongest relevance.
      smoothing: 0 scales every map by itself; towards 1 the scale follows slowly.

    Raises:
      UsageError: there is no such colour map.
    """

    def __init__(self, colormap: str, opacity: float, smoothing: float = SMOOTHING):
        self._colormap = colormap_named(colormap)
        self._opacity = opacity
        self._scale = Scale(smoothing)

    def __call__(self, strength: np.ndarray, scale: float, box, inner) -> Layer:
        """Colours a map.

        Args:
          strength: int8 [h, w] or, for "rgb", [h, w, 3] at the network's input: how strongly each
            pixel is drawn, from -FULL to FULL.
          scale: the relevance that has full strength in this map.
          box: the explained region in the picture.
          inner: where that region lies in the map.
        """
        x0, y0, x1, y1 = inner
        factor = (scale / self._scale(scale)) ** SOFTNESS / FULL
        drawn = np.clip(strength[y0:y1, x0:x1] * np.float32(factor), -1, 1)
        colour, alpha = self._coloured(drawn)
        return Layer(colour, np.float32(alpha * self._opacity), box)

    def _coloured(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if drawn.ndim == 3:
            strength = np.abs(drawn)
            alpha = strength.max(axis=-1)
            brightest = np.maximum(alpha, 1e-12)[..., None]
            return np.rint(255 * strength / brightest).astype(np.uint8), alpha
        alpha = np.abs(drawn) if self._colormap.signed else np.maximum(drawn, 0)
        return self._colormap(drawn), alpha


def lay_over(picture: np.ndarray, layer: Layer) -> np.ndarray:
    """A copy of the picture with the layer over its region, which is outlined faintly.

    Args:
      picture: uint8 [H, W, 3] RGB.
      layer: made for pictures of this size.
    """
    x0, y0, x1, y1 = layer.box
    result = picture.copy()
    region = np.ascontiguousarray(picture[y0:y1, x0:x1])
    colour, alpha = layer.stretched
    result[y0:y1, x0:x1] = cv2.blendLinear(region, colour, 1 - alpha, alpha)
    if (x0, y0, x1, y1) != (0, 0, picture.shape[1], picture.shape[0]):
        _outline(result[y0:y1, x0:x1])
    return result


def _outline(region: np.ndarray) -> None:
    for edge in (region[0], region[-1], region[:, 0], region[:, -1]):
        edge[:] = edge + np.rint((255 - edge.astype(float)) * OUTLINE).astype(np.uint8)
