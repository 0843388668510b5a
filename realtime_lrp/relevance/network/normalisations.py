"""Normalisations of each picture: what they compute, and relevance with a constant deviation.

By default relevance passes unchanged (identity rule, Achtibat et al. 2024, "AttnLRP", prop. 3.4).
Composites for transformers treat the deviation as a constant, see `attention.py`.
"""

from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.network.steps import Elementwise


class Normalisation(Elementwise):
    """(a - mean) / deviation * gamma + beta, the deviation with `epsilon` added to the variance.

    Mean and deviation are taken along `axes`, along which gamma and beta have entries; or
    over the rows, columns and channels of each of some `groups` of channels, and gamma and beta
    have an entry for each channel.
    """

    def __init__(
        self,
        gamma: tf.Tensor | None,
        beta: tf.Tensor | None,
        epsilon: float,
        axes: Sequence[int] = (-1,),
        groups: int = 0,
    ) -> None:
        super().__init__(self.normalise, keeps_sign=False)
        self.gamma, self.beta, self.epsilon = gamma, beta, epsilon
        self.axes, self.groups = axes, groups

    def normalise(self, a: tf.Tensor) -> tf.Tensor:
        """The output for `a`, float32."""
        grouped, axes = self._grouped(a)
        mean = tf.reduce_mean(grouped, axes, keepdims=True)
        scaled = self._times_gamma(self._shaped((grouped - mean) * self._factor(grouped, axes), a))
        offset = self.offset(a)
        return scaled if offset is None else scaled + offset

    def gradient_of_sums(self, a: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        """The gradient at `a` for a gradient at the output, with a constant deviation; float32."""
        (grouped, axes), (gradient, _) = map(self._grouped, (a, self._times_gamma(gradient)))
        mean = tf.reduce_mean(gradient, axes, keepdims=True)
        return self._shaped((gradient - mean) * self._factor(grouped, axes), a)

    def offset(self, a: tf.Tensor) -> tf.Tensor | None:
        """Beta, shaped to be added to an output shaped like `a`; None where there is none."""
        return None if self.beta is None else self._along_axes(self.beta, a)

    def _times_gamma(self, a: tf.Tensor) -> tf.Tensor:
        return a if self.gamma is None else a * self._along_axes(self.gamma, a)

    def _along_axes(self, values: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        own = {axis % a.shape.rank for axis in self.axes}
        return tf.reshape(values, [size if axis in own else 1 for axis, size in enumerate(a.shape)])

    def _factor(self, a: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
        return tf.math.rsqrt(tf.math.reduce_variance(a, axes, keepdims=True) + self.epsilon)

    def _grouped(self, a: tf.Tensor) -> tuple[tf.Tensor, Sequence[int]]:
        """A tensor with the channels of each group by themselves, and the axes of its groups."""
        if not self.groups:
            return a, self.axes
        shape = [-1, *a.shape[1:-1], self.groups, a.shape[-1] // self.groups]
        return tf.reshape(a, shape), [*range(1, len(shape) - 2), len(shape) - 1]

    def _shaped(self, grouped: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        return tf.reshape(grouped, tf.shape(a)) if self.groups else grouped
