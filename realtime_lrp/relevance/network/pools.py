"""Pools: steps that reduce windows, or whole feature maps, to one value.

Tensors are float32 or bfloat16, feature maps are [B, H, W, C].
"""

from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.network.steps import Step, Tensors, stabilise


class Pool(Step):
    """Pooling over windows; `overlaps` says whether an entry can lie in several."""

    keeps_sign = True

    def __init__(self, window: Sequence[int], strides: Sequence[int], padding: str) -> None:
        self.geometry = {
            "ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding.upper()
        }  # fmt: skip
        self.overlaps = any(side > step for side, step in zip(window, strides, strict=True))

    def average(self, a: tf.Tensor) -> tf.Tensor:
        """The average of each window, without padding."""
        return tf.raw_ops.AvgPool(value=a, **self.geometry)

    def in_proportion(self, a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
        """R_in = a * backward(R / z), where z is the average of the window."""
        s = relevance / stabilise(self.average(a))
        return a * tf.raw_ops.AvgPoolGrad(orig_input_shape=tf.shape(a), grad=s, **self.geometry)


class MaxPool(Pool):
    """Max pooling.

    Winner takes all: the first maximum of a window gets the window's relevance; what overlapping
    windows give adds up. With `share` the window distributes it in proportion to a instead.
    """

    def __init__(
        self, window: Sequence[int], strides: Sequence[int], padding: str, share: bool
    ) -> None:
        super().__init__(window, strides, padding)
        self.shares = share

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.MaxPool(input=a, **self.geometry)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        (a,) = inputs
        if self.shares:
            return [self.in_proportion(a, relevance)]
        return self.gradient(inputs, output, relevance)

    def gradient(self, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        return [
            tf.raw_ops.MaxPoolGrad(
                orig_input=inputs[0], orig_output=output, grad=gradient, **self.geometry
            )
        ]


class AveragePool(Pool):
    """Average pooling; relevance is distributed in proportion to the inputs."""

    shares = True

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return self.average(a)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [self.in_proportion(inputs[0], relevance)]


class GlobalPool(Step):
    """Pooling over all rows and columns, output [B, 1, 1, C]."""

    keeps_sign = True

    def in_proportion(self, a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
        """R_in = a / (rows * columns) * R / z, where z is the average."""
        count = tf.cast(tf.shape(a)[1] * tf.shape(a)[2], a.dtype)
        z = tf.reduce_mean(a, [1, 2], keepdims=True)
        return a / count * (relevance / stabilise(z))


class GlobalAveragePool(GlobalPool):
    """Global average pooling; relevance is distributed in proportion to the inputs."""

    shares = True

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(a, [1, 2], keepdims=True)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [self.in_proportion(inputs[0], relevance)]


class GlobalMaxPool(GlobalPool):
    """Global max pooling; the first maximum gets all, or with `share` each in proportion to a."""

    def __init__(self, share: bool) -> None:
        self.shares = share

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(a, [1, 2], keepdims=True)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        (a,) = inputs
        if self.shares:
            return [self.in_proportion(a, relevance)]
        shape = tf.shape(a)
        flat = tf.reshape(a, [shape[0], shape[1] * shape[2], shape[3]])
        winner = tf.one_hot(tf.argmax(flat, axis=1), shape[1] * shape[2], axis=1, dtype=a.dtype)
        return [tf.reshape(winner, shape) * relevance]
