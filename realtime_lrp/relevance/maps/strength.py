"""Compresses raw relevance into strengths, one byte for each pixel, inside the compiled function.

A first layer with a stride, or an overlapping pool behind it, looks at some pixels more often than
at their neighbours, which leaves a grid all over the map. Only what is drawn is smoothed.
"""

import math

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.maps.scale import centred_window
from realtime_lrp.system.scale import FULL, PERCENTILE, SOFTNESS


def strength(
    relevance: tf.Tensor | np.ndarray, by_channel: bool = False, stride: tuple[int, int] = (1, 1)
) -> tuple[tf.Tensor, tf.Tensor]:
    """How strongly each pixel of raw relevance, float32 [B, H, W, C], is drawn.

    `by_channel` each colour channel gets its own strength, else their sum does. A grid of the
    period `stride` (see `pixel_stride`) is smoothed away. Returns strengths, int8 [B, H, W], or
    [B, H, W, C] by channel, from -FULL to FULL with the sign of relevance; and the scale, float32
    [B]: the relevance that is drawn at full strength, 0 for a map of zeros.
    """
    values = relevance if by_channel else tf.reduce_sum(relevance, axis=-1, keepdims=True)
    values = smoothed(values, stride)
    values = values if by_channel else values[..., 0]
    size = math.prod(values.shape[1:])
    magnitude = tf.reshape(tf.abs(values), [-1, size])
    largest = tf.math.top_k(magnitude, size - math.floor(PERCENTILE / 100 * (size - 1))).values
    scale = tf.where(largest[:, -1] > 0, largest[:, -1], largest[:, 0])
    share = tf.minimum(tf.math.divide_no_nan(magnitude, scale[:, None]), 1.0)
    drawn = tf.reshape(tf.round(FULL * share**SOFTNESS), tf.shape(values)) * tf.sign(values)
    return tf.cast(drawn, tf.int8), scale


def smoothed(relevance: tf.Tensor, stride: tuple[int, int]) -> tf.Tensor:
    """Averages float32 [B, H, W, C] over windows of one period, without its grid; keeps sums."""
    for axis, period in enumerate(stride, start=1):
        if period > 1:
            window = centred_window(period)
            reach = len(window) // 2
            edges = [[reach, reach] if axis == other else [0, 0] for other in range(4)]
            kernel = np.tile(window[:, None, None], (1, relevance.shape[-1], 1))
            kernel = np.expand_dims(kernel, axis=2 - axis)
            padded = tf.pad(relevance, edges, "SYMMETRIC")
            relevance = tf.nn.depthwise_conv2d(padded, kernel, [1, 1, 1, 1], "VALID")
    return relevance
