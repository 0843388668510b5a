"""Normalisations of each picture: what they compute, and relevance with a constant deviation.

By default relevance passes unchanged (identity rule, Achtibat et al. 2024, "AttnLRP", prop. 3.4).
Composites for transformers treat the deviation as a constant, see `attention.py`.
"""

from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.network.steps import Elementwise


class Normalisation(Elementwise):
    """(a - mean) / deviation * gamma + beta, with mean and deviation of groups of entries.

    `epsilon` is added to the variance.
    """

    def __init__(self, gamma: tf.Tensor | None, beta: tf.Tensor | None, epsilon: float) -> None:
        super().__init__(self.normalise, keeps_sign=False)
        self.gamma, self.beta = gamma, beta
        self.epsilon = epsilon

    def normalise(self, a: tf.Tensor) -> tf.Tensor:
        """The output for `a`, float32."""
        raise NotImplementedError

    def gradient_of_sums(self, a: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        """The gradient at `a` for a gradient at the output, with a constant deviation; float32."""
        raise NotImplementedError

    def offset(self, a: tf.Tensor) -> tf.Tensor | None:
        """Beta, shaped to be added to an output shaped like `a`; None where there is none."""
        return self.beta

    def _scaled(self, a: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        return (a - tf.reduce_mean(a, axes, keepdims=True)) * self._factor(a, axes)

    def _back(self, a: tf.Tensor, gradient: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        mean = tf.reduce_mean(gradient, axes, keepdims=True)
        return (gradient - mean) * self._factor(a, axes)

    def _factor(self, a: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        return tf.math.rsqrt(tf.math.reduce_variance(a, axes, keepdims=True) + self.epsilon)


class LayerNorm(Normalisation):
    """Normalises along axes, along which gamma and beta have entries."""

    def __init__(
        self,
        axes: Sequence[int],
        gamma: tf.Tensor | None,
        beta: tf.Tensor | None,
        epsilon: float,
    ) -> None:
        super().__init__(gamma, beta, epsilon)
        self.axes = axes

    def normalise(self, a: tf.Tensor) -> tf.Tensor:
        output, offset = self._times_gamma(self._scaled(a, self.axes)), self.offset(a)
        return output if offset is None else output + offset

    def gradient_of_sums(self, a: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        return self._back(a, self._times_gamma(gradient), self.axes)

    def offset(self, a: tf.Tensor) -> tf.Tensor | None:
        return None if self.beta is None else self._shaped(self.beta, a)

    def _times_gamma(self, a: tf.Tensor) -> tf.Tensor:
        return a if self.gamma is None else a * self._shaped(self.gamma, a)

    def _shaped(self, values: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        own = {axis % a.shape.rank for axis in self.axes}
        return tf.reshape(values, [size if axis in own else 1 for axis, size in enumerate(a.shape)])


class GroupNorm(Normalisation):
    """Normalises groups of channels, each over all its rows and columns."""

    def __init__(
        self, groups: int, gamma: tf.Tensor | None, beta: tf.Tensor | None, epsilon: float
    ) -> None:
        super().__init__(gamma, beta, epsilon)
        self.groups = groups

    def normalise(self, a: tf.Tensor) -> tf.Tensor:
        output = tf.reshape(self._scaled(*self._grouped(a)), tf.shape(a))
        if self.gamma is not None:
            output *= self.gamma
        return output if self.beta is None else output + self.beta

    def gradient_of_sums(self, a: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        if self.gamma is not None:
            gradient *= self.gamma
        (grouped, axes), (gradient, _) = self._grouped(a), self._grouped(gradient)
        return tf.reshape(self._back(grouped, gradient, axes), tf.shape(a))

    def _grouped(self, a: tf.Tensor) -> tuple[tf.Tensor, list[int]]:
        """A tensor with the channels of each group by themselves, and the axes of its groups."""
        shape = [-1, *a.shape[1:-1], self.groups, a.shape[-1] // self.groups]
        return tf.reshape(a, shape), [*range(1, len(shape) - 2), len(shape) - 1]
