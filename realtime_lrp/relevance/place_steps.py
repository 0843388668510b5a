"""Steps from an output with a vector at each place to one vector: `places.py` appends them."""

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.steps import Move, Step, Tensors, stabilise


class Places(Move):
    """The vectors at some places of a tensor [B, ..., classes], one after the other.

    Args:
      indices: of the places, if all are counted in one row.
      count: how many places the tensor has.
    """

    def __init__(self, indices: np.ndarray, count: int) -> None:
        self.indices, self.count = indices, count

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        chosen = tf.gather(tf.reshape(a, [-1, self.count, a.shape[-1]]), self.indices, axis=1)
        return chosen[:, 0] if len(self.indices) == 1 else chosen


class Mean(Step):
    """The mean of the vectors at several places [B, places, classes]; relevance in proportion."""

    keeps_sign = True
    shares = True

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(a, 1)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        (a,) = inputs
        share = relevance / stabilise(output) / tf.cast(tf.shape(a)[1], relevance.dtype)
        return [a * share[:, None]]
