"""Rules of transformers: "AttnLRP" (Achtibat et al. 2024) and "CP-LRP" (Ali et al. 2022).

Under `attnlrp` relevance also flows through attention weights, half of what a product receives;
under `cp_lrp` these are constants. Both treat the deviation of a normalisation as a constant, and
give constants that are added, such as position embeddings, their share.

Every step distributes in proportion, R_in = a * s with s = R / z, and its z is the tensor that the
next step reads as its a. So s itself is handed down, as the factor of a `Multiple`: it is divided
by z only where a softmax or another rule has handed down something else.
"""

from collections.abc import Callable
from typing import cast

import tensorflow as tf

from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.normalisations import Normalisation
from realtime_lrp.relevance.network.steps import (
    Add,
    Elementwise,
    Handed,
    Identity,
    Move,
    Multiple,
    Softmax,
    Step,
    Tensors,
    stabilise,
    sum_of_each,
)
from realtime_lrp.relevance.network.traced_steps import (
    Join,
    MatrixProduct,
    Offset,
    Scaling,
    WeightedSum,
)
from realtime_lrp.relevance.rules.sharing import taken_by

STABILISER = 1e-9
"""Smaller than elsewhere: 1e-6 moves single pixels of a small transformer's map by up to half a
percent of the largest."""

StepRule = Callable[[Step, Tensors, tf.Tensor, tf.Tensor, bool], Tensors]
"""(step, its inputs, its output, s, whether constants absorb relevance) -> the s of each input,
None where it receives nothing; what constants took, [B], may follow."""

BoundStepRule = Callable[[Step, Tensors, tf.Tensor, tf.Tensor | Multiple], Handed | None]
"""(step, its inputs, its output, what arrives at it) -> what is handed down, see `Back`; None where
the rule needs a `Multiple`."""


def along(step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool) -> Tensors:
    """Each term of a sum gets its share: s moves as a gradient does."""
    return step.gradient(inputs, output, s)


def with_remainder(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """As `along`; constants among what is joined, such as a class token, take the rest."""
    parts = step.gradient(inputs, output, s)
    received = [sum_of_each(a * part) for a, part in zip(inputs, parts, strict=True)]
    return [*parts, sum_of_each(output * s) - tf.add_n(received)]


def through_softmax(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """R_in = a * (R - softmax(a) * sum of R) (prop. 3.1); constants take the rest."""
    total = tf.reduce_sum(output * s, cast(Softmax, step).axis, keepdims=True)
    part = output * (s - total)
    return [part, sum_of_each(total) - sum_of_each(inputs[0] * part)]


def through_function(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """Relevance passes unchanged."""
    return [s * (output / stabilise(inputs[0], STABILISER))]


def _keeps_zero(step: Step, a: tf.Tensor) -> bool:
    """Whether a function is 0 at 0. Else relevance of such entries is no multiple of them."""
    with tf.init_scope():
        return not tf.reduce_any(step.forward(tf.zeros([1, *a.shape[1:]])) != 0)


def through_weights(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """The rule epsilon; the bias takes its share."""
    bias = cast(Linear, step).bias
    parts = step.gradient(inputs, output, s)
    return parts if bias is None else [*parts, taken_by(bias, s)]


def halves(step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool) -> Tensors:
    """Each of two matrices gets half of the relevance of their product (prop. 3.3)."""
    return cast(MatrixProduct, step).factors(inputs, output, s, frozenset())


def past_gates(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """Attention weights are constants: the other matrix gets all relevance of the product."""
    product = cast(MatrixProduct, step)
    return product.factors(inputs, output, s, product.gate)


def with_constant_deviation(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """In proportion to the terms of the normalisation, whose deviation is a constant."""
    norm, exact = cast(Normalisation, step), tf.cast(inputs[0], tf.float32)
    s, taken = _beside(norm.offset(exact), output, s, absorb)
    return [tf.cast(norm.gradient_of_sums(exact, s), inputs[0].dtype), *taken]


def beside_offset(
    step: Step, inputs: Tensors, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> Tensors:
    """In proportion to a tensor and the constant that is added to it."""
    constant = step.forward(tf.zeros_like(inputs[0][:1], tf.float32))
    s, taken = _beside(constant, output, s, absorb)
    return [*step.gradient(inputs, output, tf.cast(s, output.dtype)), *taken]


def _beside(
    constant: tf.Tensor | None, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> tuple[tf.Tensor, Tensors]:
    """What remains of s where a constant is part of the output, and what the constant takes.

    Unless it absorbs its share, the other terms get all.
    """
    s = tf.cast(s, tf.float32)
    if constant is None:
        return s, []
    if absorb:
        return s, [sum_of_each(s * constant)]
    z = tf.cast(output, tf.float32)
    return s * (z / stabilise(z - constant, STABILISER)), []


Rows = tuple[tuple[type[Step], StepRule], ...]
"""Pairs of a kind of step and its rule; the first that fits decides."""

_DIVIDING: Rows = (
    (Normalisation, with_constant_deviation),
    (Offset, beside_offset),
    (Add, along),
    (WeightedSum, along),
)

CP_LRP: Rows = (*_DIVIDING, (MatrixProduct, past_gates))
"""Kind of step -> its rule, for the composite `cp_lrp`. Where relevance arrives that is no
`Multiple`, it is divided by z."""

ATTNLRP: Rows = (*_DIVIDING, (MatrixProduct, halves), (Softmax, through_softmax))
"""The same for `attnlrp`."""

FOLLOWING: Rows = (
    (Linear, through_weights),
    (Join, with_remainder),
    (Move, along),
    (Identity, along),
    (Scaling, along),
    (Elementwise, through_function),
)
"""Kind of step -> its rule, where a `Multiple` arrives."""


def bound(rule: StepRule, absorb: bool, divides: bool) -> BoundStepRule:
    """A rule of relevance made of one of s; `divides`: also of relevance that is no `Multiple`."""

    def back(
        step: Step, inputs: Tensors, output: tf.Tensor, arriving: tf.Tensor | Multiple
    ) -> Handed | None:
        if isinstance(arriving, Multiple):
            s = arriving.factor
        elif divides:
            s = arriving / stabilise(output, STABILISER)
        else:
            return None
        if rule is through_function and not _keeps_zero(step, inputs[0]):
            return None
        handed = rule(step, inputs, output, s, absorb)
        parts = [
            None if part is None else Multiple(a * part, part)
            for a, part in zip(inputs, handed, strict=False)
        ]
        return [*parts, *handed[len(inputs) :]]

    return back


def differ_from_epsilon(graph: Graph) -> bool:
    """Whether a network has steps for which these rules differ from those of `epsilon`."""
    kinds = (Normalisation, Offset, MatrixProduct)
    return any(isinstance(node.step, kinds) for node in graph.nodes)
