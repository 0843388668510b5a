"""Normalisations of each picture: what they compute, and relevance with a constant deviation.

By default relevance passes unchanged (identity rule, Achtibat et al. 2024, "AttnLRP", prop. 3.4).
Composites for transformers treat the deviation as a constant, see `attention.py`.
"""

from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.steps import Elementwise


class Normalisation(Elementwise):
    """(a - mean) / deviation * gamma + beta, with mean and deviation of groups of entries.

    Args:
      gamma, beta: float32, or None.
      epsilon: added to the variance.
    """

    def __init__(self, gamma: tf.Tensor | None, beta: tf.Tensor | None, epsilon: float) -> None:
        super().__init__(lambda a: self.normalise(a, a), keeps_sign=False)
        self.gamma, self.beta = gamma, beta
        self.epsilon = epsilon

    def normalise(self, a: tf.Tensor, of: tf.Tensor) -> tf.Tensor:
        """The output for `a`, divided by the deviation of `of`; float32, both shaped like a."""
        raise NotImplementedError

    def _scaled(self, a: tf.Tensor, of: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        mean = tf.reduce_mean(a, axes, keepdims=True)
        variance = tf.math.reduce_variance(of, axes, keepdims=True)
        return (a - mean) * tf.math.rsqrt(variance + self.epsilon)


class LayerNorm(Normalisation):
    """Normalises along axes.

    Args:
      axes: along which mean and deviation are taken, and gamma and beta have entries.
      gamma, beta, epsilon: see `Normalisation`.
    """

    def __init__(
        self,
        axes: Sequence[int],
        gamma: tf.Tensor | None,
        beta: tf.Tensor | None,
        epsilon: float,
    ) -> None:
        super().__init__(gamma, beta, epsilon)
        self.axes = axes

    def normalise(self, a: tf.Tensor, of: tf.Tensor) -> tf.Tensor:
        own = {axis % a.shape.rank for axis in self.axes}
        shape = [size if axis in own else 1 for axis, size in enumerate(a.shape)]
        output = self._scaled(a, of, self.axes)
        if self.gamma is not None:
            output *= tf.reshape(self.gamma, shape)
        return output if self.beta is None else output + tf.reshape(self.beta, shape)


class GroupNorm(Normalisation):
    """Normalises groups of channels, each over all its rows and columns.

    Args:
      groups: how many.
      gamma, beta, epsilon: see `Normalisation`.
    """

    def __init__(
        self, groups: int, gamma: tf.Tensor | None, beta: tf.Tensor | None, epsilon: float
    ) -> None:
        super().__init__(gamma, beta, epsilon)
        self.groups = groups

    def normalise(self, a: tf.Tensor, of: tf.Tensor) -> tf.Tensor:
        shape = [-1, *a.shape[1:-1], self.groups, a.shape[-1] // self.groups]
        axes = [*range(1, len(shape) - 2), len(shape) - 1]
        output = self._scaled(tf.reshape(a, shape), tf.reshape(of, shape), axes)
        output = tf.reshape(output, [-1, *a.shape[1:]])
        if self.gamma is not None:
            output *= self.gamma
        return output if self.beta is None else output + self.beta
