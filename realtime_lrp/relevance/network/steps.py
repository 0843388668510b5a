"""Steps without weights: what each kind computes, and how relevance goes back through it.

Tensors are float32 or bfloat16, feature maps are [B, H, W, C]. Steps with weights are in
`linear.py`, because their rule comes from the composite. To add a kind, subclass `Step`.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

STABILISER = 1e-6

Tensors = Sequence[tf.Tensor]  # one for each input of a step
Numbered = Mapping[int, tf.Tensor]  # the tensors of a network by their numbers


def stabilise(z: tf.Tensor, stabiliser: float = STABILISER) -> tf.Tensor:
    """Adds a stabiliser with the sign of z; 0 counts as positive."""
    return z + tf.where(z >= 0, tf.constant(stabiliser, z.dtype), -stabiliser)


def as_type(a: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """A tensor in another floating type; whole numbers and truth values stay."""
    return tf.cast(a, dtype) if tf.as_dtype(a.dtype).is_floating else tf.convert_to_tensor(a)


def sum_of_each(a: tf.Tensor) -> tf.Tensor:
    """The sum of each picture's entries, float32 [B]."""
    return tf.reduce_sum(tf.cast(a, tf.float32), list(range(1, a.shape.rank)))


class Step:
    """One operation of the network.

    Attributes:
      keeps_sign: whether the output is never negative if no input is. Rules skip the work for
        negative inputs where there are none, so a wrong True makes wrong maps.
      shares: whether relevance goes to the inputs in proportion to their values, so that a negative
        input can change the sign of relevance.
      multiplies: whether it sums products, with weights or with another tensor.
      convolves: whether it has weights and sums over windows of its input.
    """

    keeps_sign = False
    multiplies = False
    convolves = False
    shares = False

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The output for these inputs, each [B, ...]."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `forward`")

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        """The relevance of each input, shaped like it; None for an input that gets nothing.

        The share of constants, [B], may follow. `inputs` and `output` come from `forward`.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method `relevance`")

    def gradient(self, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        """For each input the derivative with respect to it, times `gradient`; None if it is 0."""
        inputs = [tf.identity(a) for a in inputs]  # one tensor may be several inputs
        with tf.GradientTape() as tape:
            tape.watch([a for a in inputs if a.dtype.is_floating])
            output = self.forward(*inputs)
        return tape.gradient(output, inputs, gradient)

    def support(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The support of the output, 1 for content and 0 for padding, from the inputs' support."""
        return self.forward(*inputs)


class Elementwise(Step):
    """A function of each entry, computed in float32; relevance passes through it unchanged."""

    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor], keeps_sign: bool) -> None:
        self.function = function
        self.keeps_sign = keeps_sign

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.function(tf.cast(a, tf.float32)), a.dtype)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [relevance]

    def support(self, a: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        return a


class Identity(Elementwise):
    """Returns its input."""

    def __init__(self) -> None:
        super().__init__(tf.identity, keeps_sign=True)

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return a


class Activation(Elementwise):
    """A non-linearity, called as in Keras. Without negative inputs it has no negative outputs."""

    def __init__(self, name: str, function: Callable[..., tf.Tensor], nonnegative: bool) -> None:
        super().__init__(function, keeps_sign=True)
        self.name = name
        self.rectifies = name in ("relu", "relu6", "clipped_relu")
        # whether its outputs lie between 0 and 1, so that it can gate another tensor
        self.gates = name in ("sigmoid", "hard_sigmoid", "softmax")
        self.nonnegative = nonnegative  # whether no output is negative, for any input

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return self.function(a) if self.rectifies else super().forward(a)


class Softmax(Activation):
    """The softmax along an axis, or several."""

    def __init__(self, axis: int | Sequence[int] = -1) -> None:
        super().__init__("softmax", self._along_axis, nonnegative=True)
        self.axis = axis

    def _along_axis(self, a: tf.Tensor) -> tf.Tensor:
        if isinstance(self.axis, int):
            return tf.nn.softmax(a, self.axis)
        return tf.exp(a - tf.reduce_logsumexp(a, self.axis, keepdims=True))


class SoftmaxOfSome(Softmax):
    """The softmax of some classes: reads their logits, and all logits."""

    def forward(self, a: tf.Tensor, every: tf.Tensor | None = None) -> tf.Tensor:
        chosen, all_of_them = (tf.cast(one, tf.float32) for one in (a, every))
        total = tf.reduce_logsumexp(all_of_them, -1, keepdims=True)
        return tf.cast(tf.exp(chosen - total), a.dtype)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [relevance, None]


class Affine(Elementwise):
    """A batch norm, `scale * a + offset`, both [channels]; relevance passes unchanged."""

    def __init__(self, scale: tf.Tensor, offset: tf.Tensor) -> None:
        super().__init__(lambda a: a * scale + offset, keeps_sign=False)
        self.scale = scale
        self.offset = offset


class Deviation(Elementwise):
    """A root of sums, or its reciprocal, as in norms. What it divides gets all, see `Product`."""


class Move(Step):
    """Moves, repeats, picks or cuts off entries, or adds zeros: relevance goes where they were."""

    keeps_sign = True

    def __init__(self, function: Callable[..., tf.Tensor]) -> None:
        self.function = function

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        return self.function(*inputs)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return self.gradient(inputs, output, relevance)


class TwoClasses(Elementwise):
    """[1 - p, p] of one probability p; what speaks for the first class speaks against p."""

    def __init__(self) -> None:
        super().__init__(lambda p: tf.concat([1 - p, p], -1), keeps_sign=False)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        return [relevance[..., 1:] - relevance[..., :1]]

    def support(self, a: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        return self.forward(a)


class Sum(Step):
    """Sums with constant weights; relevance goes in proportion: R_in = a * d/da (R / z)."""

    shares = True

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        parts = self.gradient(inputs, output, relevance / stabilise(output))
        return [a * part for a, part in zip(inputs, parts, strict=True)]


class Reshape(Move):
    """Entries in another shape [B, *shape]; one size may be -1, which is what is left over."""

    def __init__(self, shape: Sequence[int | None]) -> None:
        known = math.prod(size for size in shape if size not in (-1, None))

        def reshaped(a: tf.Tensor) -> tf.Tensor:
            left_over = math.prod(a.shape[1:]) // known
            return tf.reshape(a, [-1, *(left_over if n in (-1, None) else n for n in shape)])

        super().__init__(reshaped)


class Permute(Move):
    """Axes in the order of the input's, batch included."""

    def __init__(self, order: Sequence[int]) -> None:
        super().__init__(lambda a: tf.transpose(a, list(order)))


class Interpolation(Sum):
    """More rows and columns, each a mean of its neighbours, as `function` computes them."""

    keeps_sign = True

    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
        self.function = function

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        return self.function(a)


class ZeroPadding(Move):
    """Adds rows and columns of zeros."""

    def __init__(self, padding: Sequence[Sequence[int]]) -> None:
        super().__init__(lambda a: tf.pad(a, [[0, 0], *padding, [0, 0]]))


class Concatenate(Move):
    """Joins its inputs along an axis."""

    def __init__(self, axis: int) -> None:
        super().__init__(lambda *inputs: tf.concat(inputs, axis))


class Add(Step):
    """Adds its inputs, each times its factor; relevance is shared in proportion to the terms."""

    shares = True

    def __init__(self, factors: Sequence[float] | None = None) -> None:
        self.factors = factors
        self.keeps_sign = min(factors or [1]) >= 0

    def _terms(self, inputs: Tensors) -> list[tf.Tensor]:
        inputs = _aligned(inputs)
        if self.factors is None:
            return inputs
        return [a * factor for a, factor in zip(inputs, self.factors, strict=True)]

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        return functools.reduce(tf.add, self._terms(inputs))

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        s = relevance / stabilise(output)
        terms = zip(inputs, self._terms(inputs), strict=True)
        return [_shaped_like(a, term * s) for a, term in terms]

    def support(self, *inputs: tf.Tensor) -> tf.Tensor:
        return functools.reduce(tf.maximum, _aligned(inputs))


class Product(Step):
    """Multiplies its inputs. A gate only lets through: what is gated gets all (Arras et al. 2017).

    Where no input is a gate, each gets an equal share (the uniform rule, Achtibat et al. 2024,
    "AttnLRP", prop. 3.3). `gates` has the positions of inputs that come out of a sigmoid or the
    like. An input that is broadcast over rows, columns or channels is a gate as well.
    """

    keeps_sign = True
    gates: frozenset[int] = frozenset()

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        return functools.reduce(tf.multiply, _aligned(inputs))

    def gated(self, inputs: Tensors, output: tf.Tensor) -> list[bool]:
        """Which inputs receive relevance: those that are gated, or all where none is a gate."""
        gated = [
            position not in self.gates and a.shape[1:] == output.shape[1:]
            for position, a in enumerate(inputs)
        ]
        return gated if any(gated) else [True] * len(inputs)

    def relevance(self, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        gated = self.gated(inputs, output)
        part = relevance / sum(gated)
        return [
            _shaped_like(a, part) if takes else tf.zeros_like(a)
            for a, takes in zip(inputs, gated, strict=True)
        ]


def _aligned(inputs: Tensors) -> list[tf.Tensor]:
    """Inputs of equal rank: axes of size 1 are inserted after the batch, as Keras's layers do."""
    rank = max(a.shape.rank for a in inputs)
    return [
        tf.reshape(a, [-1, *[1] * (rank - a.shape.rank), *a.shape[1:]])
        if a.shape.rank < rank
        else a
        for a in inputs
    ]


def _shaped_like(a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
    """Relevance in the shape of `a`: summed over the axes along which `a` was broadcast."""
    missing = relevance.shape.rank - a.shape.rank
    shape = [1] * missing + a.shape[1:].as_list()
    repeated = [
        axis
        for axis, (size, full) in enumerate(zip(shape, relevance.shape[1:], strict=True), 1)
        if size == 1 and full != 1
    ]
    if repeated:
        relevance = tf.reduce_sum(relevance, repeated, keepdims=True)
    return tf.reshape(relevance, [-1, *a.shape[1:]]) if missing else relevance


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
    """Max pooling; a window's first maximum gets its relevance, or all in proportion (`shares`)."""

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


class Multiple(NamedTuple):
    """Relevance a * s of a tensor a, and s: the next rule need not divide by a again."""

    relevance: tf.Tensor
    factor: tf.Tensor


def relevance_of(arriving: tf.Tensor | Multiple) -> tf.Tensor:
    """Relevance as a tensor."""
    return arriving.relevance if isinstance(arriving, Multiple) else arriving


Handed = Sequence[tf.Tensor | Multiple | None]
