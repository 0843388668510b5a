"""How strongly a map is drawn, as in `strength.py`, of arrays. Must not import TensorFlow."""

import math

import numpy as np

from realtime_lrp.system.scale import FULL, PERCENTILE, SOFTNESS


def strength_of(
    relevance: np.ndarray, stride: tuple[int, int] = (1, 1)
) -> tuple[np.ndarray, float]:
    """The strength, int8 [H, W], of one map, float32 [H, W], and its scale; see `strength`."""
    values = relevance
    for axis, period in enumerate(stride):
        if period > 1:
            window = centred_window(period)
            reach = len(window) // 2  # the edges are mirrored
            edges = [(reach, reach) if axis == other else (0, 0) for other in (0, 1)]
            padded = np.pad(values, edges, "symmetric")
            size = values.shape[axis]
            parts = (
                weight * np.take(padded, range(first, first + size), axis)
                for first, weight in enumerate(window)
            )
            values = sum(parts, np.zeros_like(values))
    magnitude = np.abs(values)
    last = math.floor(PERCENTILE / 100 * (magnitude.size - 1))
    scale = float(np.partition(magnitude, last, None)[last]) or float(magnitude.max())
    share = np.minimum(magnitude / (scale or 1.0), 1.0)
    return (np.rint(FULL * share**SOFTNESS) * np.sign(values)).astype(np.int8), scale


def centred_window(period: int) -> np.ndarray:
    """Weights of an average over one period: 1 2 1 (divided by 4) for 2, 1 1 1 (by 3) for 3."""
    if period % 2:
        return np.full(period, 1 / period, np.float32)
    ends_halved = np.ones(period + 1, np.float32)
    ends_halved[[0, -1]] = 0.5
    return ends_halved / np.float32(period)
