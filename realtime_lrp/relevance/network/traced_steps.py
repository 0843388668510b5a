"""Steps of TensorFlow operations that few Keras layers have, and of normalisations.

A step runs its operation on the tensors in their traced shapes. If an operation joins the axis
of the pictures with another one, [B * k, ...], the graph holds [B, k, ...].
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.network.steps import Activation, Step, Tensors, stabilise, sum_of_each

BATCH = 13  # pictures for which layers are traced: a prime, hardly the size of another axis

Compute = Callable[..., tf.Tensor]

PROBED = 9.0
MAX_PROBES = 4096
"""How far from 0, and at how many values, it is tried whether a function is a ReLU."""


def kept_shape(shape: Sequence[int]) -> list[int]:
    """The shape without the batch in which the graph keeps a tensor of this traced shape."""
    if not len(shape) or shape[0] == 0 or shape[0] % BATCH:
        raise ValueError("mixes the pictures of a batch")
    joined = shape[0] // BATCH
    return [*([joined] if joined > 1 else []), *shape[1:]]


def rectifier_of(compute: Compute, shape: Sequence[int]) -> Activation | None:
    """The ReLU that a function of a tensor of this shape is, by what it computes; or None."""
    entries = max(math.prod(shape[1:]), 1)
    pictures = MAX_PROBES // entries + 1
    values = np.linspace(-PROBED, PROBED, MAX_PROBES + 1, dtype=np.float32)
    probes = np.resize(values, (pictures * shape[0] // BATCH, *shape[1:]))
    found = tf.convert_to_tensor(compute(tf.constant(probes))).numpy()
    limit = float(found.max(initial=0))
    if found.shape != probes.shape or not np.allclose(found, np.clip(probes, 0, limit), atol=1e-6):
        return None
    if limit > PROBED - 0.1:
        return Activation("relu", tf.nn.relu, nonnegative=True)
    if abs(limit - 6) < 1e-2:
        return Activation("relu6", tf.nn.relu6, nonnegative=True)
    return Activation("clipped_relu", lambda a: tf.clip_by_value(a, 0, limit), nonnegative=True)


class Operation(Step):
    """An operation on tensors and constants; `shapes` are its inputs' and output's, as traced."""

    in_float32 = True

    def __init__(self, compute: Compute, shapes: Sequence[Sequence[int]]) -> None:
        self.compute = compute
        self.shapes = [list(shape) for shape in shapes]

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        dtype = next((a.dtype for a in inputs if a.dtype.is_floating), tf.float32)
        traced = [
            steps.as_type(tf.reshape(a, [-1, *shape[1:]]), tf.float32 if self.in_float32 else dtype)
            for a, shape in zip(inputs, self.shapes, strict=False)
        ]
        output = tf.reshape(self.compute(*traced), [-1, *kept_shape(self.shapes[-1])])
        return steps.as_type(output, dtype)

    def support(self, *inputs: tf.Tensor) -> tf.Tensor:
        return tf.ones([1, *kept_shape(self.shapes[-1])])


class Choice(Operation):
    """An operation that chooses, such as the best places: what is chosen is constant for a map."""

    keeps_sign = True
    support = Step.support

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [None] * len(inputs)

    def gradient(self, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        return [None] * len(inputs)


class Movement(Operation, steps.Move):
    """An operation that moves, repeats or picks entries."""

    support = Step.support


class Join(Movement):
    """Joins tensors; constants among them, such as a class token, take what arrives at them."""

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        parts = self.gradient(inputs, output, relevance)
        return [*parts, sum_of_each(relevance) - tf.add_n([sum_of_each(part) for part in parts])]


class WeightedSum(steps.Sum, Operation):
    """An operation that sums its inputs with constant weights."""


class MatrixProduct(Operation):
    """A product of two matrices that both depend on the picture.

    A matrix of attention weights only lets through: relevance goes to the other one, in proportion
    to the terms of each sum. Where none is such a gate each gets half (the uniform rule, Achtibat
    et al. 2024, "AttnLRP", prop. 3.3). `gates` has the position of an input that comes out of a
    softmax or the like.
    """

    shares = multiplies = True
    in_float32 = False
    gates: frozenset[int] = frozenset()

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        s = relevance / stabilise(output) / (2 - len(self.gates))
        pairs = enumerate(zip(inputs, self.gradient(inputs, output, s), strict=True))
        return [None if n in self.gates else a * part for n, (a, part) in pairs]


class Quotient(Operation):
    """Divides its first input by its second, which relevance treats as a constant."""

    keeps_sign = True

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        (whole,) = self.gradient(inputs, output, relevance / stabilise(output))[:1]
        return [inputs[0] * whole, None]


class EntryScale(steps.Elementwise):
    """Multiplies each entry by a constant, as attention does its scores; relevance passes."""


class Stopped(Step):
    """Returns its input; relevance passes, a gradient does not."""

    keeps_sign = True

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.identity(a)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [relevance]

    def gradient(self, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        return [None]


class Offset(Operation):
    """Adds a constant; relevance passes, but not in composites for transformers."""

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return self.gradient(inputs, output, relevance)


class Normalisation(steps.Elementwise):
    """(a - mean) / deviation * gamma + beta, the deviation with `epsilon` added to the variance.

    Relevance passes unchanged (identity rule, Achtibat et al. 2024, "AttnLRP", prop. 3.4).
    Composites for transformers treat the deviation as a constant, see `attention.py`.

    Mean and deviation are taken along `axes`, along which gamma and beta have entries; or
    over the rows, columns and channels of each of some `groups` of channels, and gamma and beta
    have an entry for each channel.
    """

    def __init__(
        self, gamma: tf.Tensor | None, beta: tf.Tensor | None, epsilon: float,
        axes: Sequence[int] = (-1,), groups: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(self.normalise, keeps_sign=False)
        self.gamma = gamma
        self.beta = beta
        self.epsilon = epsilon
        self.axes = axes
        self.groups = groups

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
