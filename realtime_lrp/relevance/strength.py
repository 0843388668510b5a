"""Compresses raw relevance into strengths: one byte for each pixel, enough for drawing.

Runs inside the compiled function, so that only these bytes are copied from a GPU.
"""

import math

import tensorflow as tf

PERCENTILE = 99.5
"""The percentile that gets full strength, so that single pixels do not darken the rest."""

SOFTNESS = 0.6
"""Exponent: strength is (|relevance| / scale) ** SOFTNESS. Below 1 weak relevance stays visible."""

FULL = 127
"""Full strength."""


def strength(relevance: tf.Tensor, by_channel: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes how strongly each pixel is drawn.

    Args:
      relevance: float32 [B, H, W, C], raw.
      by_channel: whether each colour channel gets its own strength, else their sum.

    Returns:
      Strengths, int8 [B, H, W], or [B, H, W, C] by channel, from -FULL to FULL with the sign of
      relevance. And the scale, float32 [B]: the relevance that is drawn at full strength, 0 for a
      map of zeros.
    """
    values = relevance if by_channel else tf.reduce_sum(relevance, axis=-1)
    size = math.prod(values.shape[1:])
    magnitude = tf.reshape(tf.abs(values), [-1, size])
    largest = tf.math.top_k(magnitude, size - math.floor(PERCENTILE / 100 * (size - 1))).values
    scale = tf.where(largest[:, -1] > 0, largest[:, -1], largest[:, 0])
    share = tf.minimum(tf.math.divide_no_nan(magnitude, scale[:, None]), 1.0)
    drawn = tf.reshape(tf.round(FULL * share**SOFTNESS), tf.shape(values)) * tf.sign(values)
    return tf.cast(drawn, tf.int8), scale
