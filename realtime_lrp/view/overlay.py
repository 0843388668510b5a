"""Relevance as colour, laid over the region of the picture that the network saw.

Where relevance is 0 the picture stays as it is, and so does everything outside the region.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.view.colormaps import colormap_named

PERCENTILE = 99.5
"""The share of entries below full strength, so that single pixels do not darken the rest."""

SMOOTHING = 0.9
"""How much of the old scale stays with each new map of a moving picture."""

SOFTNESS = 0.6
"""Strength = (|relevance| / scale) ** SOFTNESS: below 1, weak relevance stays visible."""

OUTLINE = 0.25
"""How much white the outline of the region has."""


class Scale:
    """The relevance that is drawn at full strength: a percentile, smoothed over a video's maps."""

    def __init__(self, smoothing: float = SMOOTHING):
        self._smoothing = smoothing
        self._value: float | None = None

    def __call__(self, magnitude: np.ndarray) -> float:
        """The scale for a map of magnitudes, above 0; follows the maps that it was called with."""
        new = float(np.percentile(magnitude, PERCENTILE)) or float(magnitude.max())
        kept = self._smoothing if self._value is not None else 0.0
        self._value = kept * (self._value or 0.0) + (1 - kept) * new
        return self._value or 1.0


@dataclass(frozen=True)
class Layer:
    """A coloured map, ready to be laid over pictures of one geometry.

    Attributes:
      colour: uint8 [h, w, 3] RGB at the size of the region's box in the picture.
      alpha: float32 [h, w] in [0, 1], 0 where relevance is 0.
      box: x0, y0, x1, y1 in the picture.
    """

    colour: np.ndarray
    alpha: np.ndarray
    box: tuple[int, int, int, int]


class Painter:
    """Turns raw relevance into layers.

    Args:
      style: "grey" (summed over the colour channels) or "rgb" (each channel by itself).
      colormap: name of a colour map, for "grey".
      opacity: 0 to 1, of the strongest relevance.
      smoothing: 0 scales every map by itself; towards 1 the scale follows slowly.

    Raises:
      UsageError: there is no such colour map.
    """

    def __init__(self, style: str, colormap: str, opacity: float, smoothing: float = SMOOTHING):
        self._rgb = style == "rgb"
        self._colormap = colormap_named(colormap)
        self._opacity = opacity
        self._scale = Scale(smoothing)

    def __call__(self, relevance: np.ndarray, box, inner) -> Layer:
        """Colours a map.

        Args:
          relevance: float32 [h, w, C] at the network's input.
          box: the explained region in the picture.
          inner: where that region lies in the map.
        """
        x0, y0, x1, y1 = inner
        colour, alpha = self._coloured(relevance[y0:y1, x0:x1])
        size = (box[2] - box[0], box[3] - box[1])
        return Layer(cv2.resize(colour, size), cv2.resize(alpha * self._opacity, size), box)

    def _coloured(self, relevance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._rgb and relevance.shape[-1] == 3:
            strength = self._strength(np.abs(relevance))
            alpha = strength.max(axis=-1)
            brightest = np.maximum(alpha, 1e-12)[..., None]
            return np.rint(255 * strength / brightest).astype(np.uint8), alpha
        summed = relevance @ np.ones(relevance.shape[-1], np.float32)
        drawn = np.abs(summed) if self._colormap.signed else np.maximum(summed, 0)
        alpha = self._strength(drawn)
        return self._colormap(np.copysign(alpha, summed)), alpha

    def _strength(self, magnitude: np.ndarray) -> np.ndarray:
        share = magnitude / self._scale(magnitude)
        return np.clip(share, 0, 1).astype(np.float32) ** np.float32(SOFTNESS)


def lay_over(picture: np.ndarray, layer: Layer) -> np.ndarray:
    """A copy of the picture with the layer over its region, which is outlined faintly.

    Args:
      picture: uint8 [H, W, 3] RGB.
      layer: made for pictures of this size.
    """
    x0, y0, x1, y1 = layer.box
    result = picture.copy()
    region = np.ascontiguousarray(picture[y0:y1, x0:x1])
    result[y0:y1, x0:x1] = cv2.blendLinear(region, layer.colour, 1 - layer.alpha, layer.alpha)
    if (x0, y0, x1, y1) != (0, 0, picture.shape[1], picture.shape[0]):
        _outline(result[y0:y1, x0:x1])
    return result


def _outline(region: np.ndarray) -> None:
    for edge in (region[0], region[-1], region[:, 0], region[:, -1]):
        edge[:] = edge + np.rint((255 - edge.astype(float)) * OUTLINE).astype(np.uint8)
