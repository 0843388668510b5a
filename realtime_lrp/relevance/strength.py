"""From raw relevance to what a picture of it needs: one small number for each pixel.

Runs inside the compiled function, so that a GPU hands back a byte for each pixel and no more.
"""

import math

import tensorflow as tf

PERCENTILE = 99.5
"""The share of entries below full strength, so that single pixels do not darken the rest."""

SOFTNESS = 0.6
"""Strength = (|relevance| / scale) ** SOFTNESS: below 1, weak relevance stays visible."""

FULL = 127
"""Full strength."""


def strength(relevance: tf.Tensor, by_channel: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """How strongly each pixel is drawn.

    Args:
      relevance: float32 [B, H, W, C], raw.
      by_channel: each colour channel by itself, else their sum.

    Returns:
      int8 [B, H, W], or [B, H, W, C] by channel, from -FULL to FULL with the sign of relevance; and
      the scale, float32 [B]: the relevance that has full strength, 0 for a map of zeros.
    """
    values = relevance if by_channel else tf.reduce_sum(relevance, axis=-1)
    size = math.prod(values.shape[1:])
    magnitude = tf.reshape(tf.abs(values), [-1, size])
    largest = tf.math.top_k(magnitude, size - math.floor(PERCENTILE / 100 * (size - 1))).values
    scale = tf.where(largest[:, -1] > 0, largest[:, -1], largest[:, 0])
    share = tf.minimum(tf.math.divide_no_nan(magnitude, scale[:, None]), 1.0)
    drawn = tf.reshape(tf.round(FULL * share**SOFTNESS), tf.shape(values)) * tf.sign(values)
    return tf.cast(drawn, tf.int8), scale
