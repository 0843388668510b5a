"""Pools: steps that reduce windows, or whole feature maps, to one value.

Tensors are float32 or bfloat16, feature maps are [B, H, W, C].
"""

from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.network.steps import Step, Sum, Tensors


class Pool(Step):
    """Pooling over windows; `overlaps` says whether an entry can lie in several."""

    keeps_sign = True

    def __init__(self, window: Sequence[int], strides: Sequence[int], padding: str) -> None:
        self.geometry = {
            "ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding.upper()
        }  # fmt: skip
        self.overlaps = any(side > step for side, step in zip(window, strides, strict=True))


class AveragePool(Sum, Pool):
    """Average pooling, without padding; relevance is distributed in proportion to the inputs."""

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.AvgPool(value=a, **self.geometry)


class MaxPool(Pool):
    """Max pooling.

    Winner takes all: the first maximum of a window gets the window's relevance; what overlapping
    windows give adds up. Where it `shares`, relevance goes back as through an average pool.
    """

    def __init__(self, window: Sequence[int], strides: Sequence[int], padding: str) -> None:
        super().__init__(window, strides, padding)
        self._average = AveragePool(window, strides, padding)

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.MaxPool(input=a, **self.geometry)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        if self.shares:
            return self._average.relevance(inputs, self._average.forward(*inputs), relevance)
        return self.gradient(inputs, output, relevance)

    def gradient(self, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        return [
            tf.raw_ops.MaxPoolGrad(
                orig_input=inputs[0], orig_output=output, grad=gradient, **self.geometry
            )
        ]


class GlobalPool(Step):
    """Pooling over all rows and columns, output [B, 1, 1, C]."""

    keeps_sign = True


class GlobalAveragePool(Sum, GlobalPool):
    """Global average pooling; relevance is distributed in proportion to the inputs."""

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(a, [1, 2], keepdims=True)


class GlobalMaxPool(GlobalPool):
    """Global max pooling; the first maximum gets all, unless it `shares` as `MaxPool` does."""

    _average = GlobalAveragePool()

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(a, [1, 2], keepdims=True)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        (a,) = inputs
        if self.shares:
            return self._average.relevance(inputs, self._average.forward(a), relevance)
        shape = tf.shape(a)
        flat = tf.reshape(a, [shape[0], shape[1] * shape[2], shape[3]])
        winner = tf.one_hot(tf.argmax(flat, axis=1), shape[1] * shape[2], axis=1, dtype=a.dtype)
        return [tf.reshape(winner, shape) * relevance]
