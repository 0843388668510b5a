"""Layers with weights in float16, for GPUs whose tensor cores have no bfloat16 (Volta, Turing).

float16 ends at 65504 and loses digits below 6e-5: z of large activations would overflow, relevance
at VGG16's input would vanish. So the inputs of every product are scaled by a power of two for each
picture, and the result is scaled back. Everything between the products is float32. Nothing outside
this file knows of the scaling.
"""

import math
from collections.abc import Callable
from typing import cast

import tensorflow as tf

from realtime_lrp.relevance.linear import Linear, Weights

HIGHEST = 2.0**15


class HalfWeights(Weights):
    """A kernel in float16, scaled so that its largest entry is about 1.

    Attributes:
      scale: what the kernel was divided by.
      gain: no sum over the kernel is larger than this times its largest input.
    """

    def __init__(self, kernel: tf.Tensor, layer: Linear) -> None:
        largest = tf.reduce_max(tf.abs(kernel))
        self.scale = 1 / _power_of_two(largest, 1.0)
        scaled = kernel / self.scale
        axes = set(range(kernel.shape.rank))
        self.gain = tf.maximum(
            *(
                tf.reduce_max(tf.reduce_sum(tf.abs(scaled), list(axes - {axis})))
                for axis in (kernel.shape.rank - 1, kernel.shape.rank - 2)
            )
        )
        half = layer.ready(tf.cast(scaled, tf.float16))
        super().__init__(half.kernel, lambda _: half.adjoint)

    def product(self, v: tf.Tensor, multiply: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        """Multiplies in float16, without overflow and without losing the largest entries.

        Args:
          v: float32 [B, ...].
          multiply: multiplies a float16 tensor by these weights.

        Returns:
          The product, float32.
        """
        largest = tf.reduce_max(tf.abs(v), list(range(1, v.shape.rank)), keepdims=True)
        factor = _power_of_two(largest * tf.maximum(self.gain, 1.0), HIGHEST)
        result = multiply(tf.cast(v * factor, tf.float16))
        factor = tf.reshape(factor, [-1] + [1] * (result.shape.rank - 1))
        return tf.cast(result, tf.float32) / factor * self.scale


class InHalf(Linear):
    """A layer that multiplies in float16; its inputs and outputs are float32.

    Args:
      layer: the layer in float32.
    """

    def __init__(self, layer: Linear) -> None:
        super().__init__(layer.kernel, layer.bias)
        self._layer = layer
        self.convolves = layer.convolves

    @property
    def outputs(self) -> int:
        return self._layer.outputs

    @property
    def input_axis(self) -> int | None:
        return self._layer.input_axis

    def ready(self, kernel: tf.Tensor) -> Weights:
        return HalfWeights(kernel, self._layer)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        product = cast(HalfWeights, weights).product
        return product(s, lambda s: self._layer.transpose(s, weights, shape))

    def transform(
        self, a: tf.Tensor, weights: Weights, bias: tf.Tensor | None = None, activation: str = ""
    ) -> tf.Tensor:
        product = cast(HalfWeights, weights).product
        z = product(a, lambda a: self._layer.transform(a, weights))
        return self.finished(z, bias, activation)


def _power_of_two(largest: tf.Tensor, limit: float) -> tf.Tensor:
    """The largest power of two, up to 2^100, whose product with `largest` is within the limit."""
    room = math.log2(limit) - tf.math.log(largest) / math.log(2)
    return tf.pow(2.0, tf.floor(tf.minimum(room, 100.0)))
