"""The best boxes of a detector's forward pass."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from realtime_lrp.relevance.network.graph import Ends

OVERLAP = 0.5
"""Of two boxes with a larger intersection over union only the one with the better score stays."""


class Best(NamedTuple):
    """The best boxes of a batch, best first. Where fewer are left the score is 0."""

    boxes: tf.Tensor  # float32 [B, top, 4], y0, x0, y1, x1 in pixels of the input
    labels: tf.Tensor  # int32 [B, top]
    scores: tf.Tensor  # float32 [B, top]
    places: tf.Tensor  # int32 [B, top]


def best_of(tensors: Mapping[int, tf.Tensor], ends: Ends, top: int) -> Best:
    """The `top` best boxes that do not overlap, at most one for each place."""
    boxes, scores = (tf.cast(tensors[n], tf.float32) for n in (ends.boxes, ends.scores))
    places, values = best_boxes(boxes, tf.reduce_max(scores, -1), top)
    labels = tf.gather(tf.argmax(scores, -1, tf.int32), places, batch_dims=1)
    return Best(tf.gather(boxes, places, batch_dims=1), labels, values, places)


def best_boxes(boxes: tf.Tensor, scores: tf.Tensor, top: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The places of the best boxes that do not overlap, int32 [B, top], and their scores.

    `boxes` are [B, places, 4], `scores` [B, places]. Where fewer are left the score is 0.
    """
    places, values = [], []
    for _ in range(top):
        best = tf.argmax(scores, -1, tf.int32)
        places.append(best)
        values.append(tf.gather(scores, best, batch_dims=1))
        overlap = intersection_over_union(boxes, tf.gather(boxes, best, batch_dims=1)[:, None])
        itself = tf.one_hot(best, tf.shape(scores)[1], True, False)
        scores = tf.where((overlap > OVERLAP) | itself, 0.0, scores)
    return tf.stack(places, 1), tf.stack(values, 1)


def intersection_over_union(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """How much boxes [..., 4] share, from 0 to 1; 0 for boxes without an area."""
    low, high = tf.maximum(one[..., :2], other[..., :2]), tf.minimum(one[..., 2:], other[..., 2:])
    shared = tf.reduce_prod(tf.maximum(high - low, 0), -1)
    areas = [tf.reduce_prod(tf.maximum(a[..., 2:] - a[..., :2], 0), -1) for a in (one, other)]
    return tf.math.divide_no_nan(shared, areas[0] + areas[1] - shared)
