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

from realtime_lrp.relevance.network import steps, traced_steps
from realtime_lrp.relevance.network.graph import Arrival, Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Handed, Multiple, Tensors, stabilise, sum_of_each
from realtime_lrp.relevance.network.traced_steps import MatrixProduct, Normalisation, Offset
from realtime_lrp.relevance.rules.sharing import taken_by

STABILISER = 1e-9
"""Smaller than elsewhere: 1e-6 moves single pixels of a small transformer's map by up to half a
percent of the largest."""

StepRule = Callable[[Arrival, tf.Tensor, bool], Tensors]
"""(what arrives, s, whether constants absorb relevance) -> the s of each input, None where it
receives nothing; what constants took, [B], may follow."""

BoundStepRule = Callable[[Arrival], Handed | None]  # `Back`, or None if it needs a `Multiple`


def along(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Each term of a sum gets its share: s moves as a gradient does."""
    return at.gradient(s)


def with_remainder(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Like `along`, but joined constants, such as a class token, take the rest."""
    parts = at.gradient(s)
    received = [sum_of_each(a * part) for a, part in zip(at.inputs, parts, strict=True)]
    return [*parts, sum_of_each(at.output * s) - tf.add_n(received)]


def through_softmax(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """R_in = a * (R - softmax(a) * sum of R) (prop. 3.1); constants take the rest."""
    total = tf.reduce_sum(at.output * s, cast(steps.Softmax, at.node.step).axis, keepdims=True)
    part = at.output * (s - total)
    return [part, sum_of_each(total) - sum_of_each(at.inputs[0] * part)]


def through_function(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Relevance passes unchanged."""
    return [s * (at.output / stabilise(at.inputs[0], STABILISER))]


def through_weights(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """The rule epsilon; the bias takes its share."""
    bias = cast(Linear, at.node.step).bias
    parts = at.gradient(s)
    return parts if bias is None else [*parts, taken_by(bias, s)]


def halves(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Each of two matrices gets half of the relevance of their product (prop. 3.3)."""
    return at.gradient(s / 2)


def past_gates(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Attention weights are constants: the other matrix gets all relevance of the product."""
    gates = cast(MatrixProduct, at.node.step).gates
    parts = at.gradient(s / (2 - len(gates)))
    return [None if n in gates else part for n, part in enumerate(parts)]


def with_constant_deviation(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Shares s in proportion to the terms of a normalisation with a constant deviation."""
    norm = cast(Normalisation, at.node.step)
    exact = tf.cast(at.inputs[0], tf.float32)
    s, taken = _beside(norm.offset(exact), at.output, s, absorb)
    return [tf.cast(norm.gradient_of_sums(exact, s), at.inputs[0].dtype), *taken]


def beside_offset(at: Arrival, s: tf.Tensor, absorb: bool) -> Tensors:
    """Shares s in proportion to a tensor and the constant that is added to it."""
    constant = at.node.step.forward(tf.zeros_like(at.inputs[0][:1], tf.float32))
    s, taken = _beside(constant, at.output, s, absorb)
    return [*at.gradient(tf.cast(s, at.output.dtype)), *taken]


def _beside(
    constant: tf.Tensor | None, output: tf.Tensor, s: tf.Tensor, absorb: bool
) -> tuple[tf.Tensor, Tensors]:
    """The rest of s beside a constant of the output, and the constant's share if it absorbs it."""
    s = tf.cast(s, tf.float32)
    if constant is None:
        return s, []
    if absorb:
        return s, [sum_of_each(s * constant)]
    z = tf.cast(output, tf.float32)
    return s * (z / stabilise(z - constant, STABILISER)), []


Rows = tuple[tuple[type[steps.Step], StepRule], ...]
"""Pairs of a kind of step and its rule; the first that fits decides."""

_DIVIDING: Rows = (
    (Normalisation, with_constant_deviation),
    (Offset, beside_offset),
    (steps.Add, along),
    (traced_steps.WeightedSum, along),
)

CP_LRP: Rows = (*_DIVIDING, (MatrixProduct, past_gates))
"""Kind of step -> its rule, for the composite `cp_lrp`. Where relevance arrives that is no
`Multiple`, it is divided by z."""

ATTNLRP: Rows = (*_DIVIDING, (MatrixProduct, halves), (steps.Softmax, through_softmax))
"""The same for `attnlrp`."""

FOLLOWING: Rows = (
    (Linear, through_weights), (traced_steps.Join, with_remainder), (steps.Move, along),
    (steps.Identity, along), (traced_steps.EntryScale, along),
    (steps.Elementwise, through_function),
)  # fmt: skip
"""Kind of step -> its rule, where a `Multiple` arrives."""


def bound(rule: StepRule, absorb: bool, divides: bool) -> BoundStepRule:
    """A rule of relevance made of one of s; `divides`: also of relevance that is no `Multiple`."""

    def back(at: Arrival) -> Handed | None:
        if isinstance(at.arriving, Multiple):
            s = at.arriving.factor
        elif divides:
            s = at.arriving / stabilise(at.output, STABILISER)
        else:
            return None
        if rule is through_function:  # relevance of entries 0 is a multiple of them if it keeps 0
            with tf.init_scope():
                of_zeros = at.node.step.forward(tf.zeros([1, *at.inputs[0].shape[1:]]))
                if tf.reduce_any(of_zeros != 0):
                    return None
        handed = rule(at, s, absorb)
        parts = [
            None if part is None else Multiple(a * part, part)
            for a, part in zip(at.inputs, handed, strict=False)
        ]
        return [*parts, *handed[len(at.inputs) :]]

    return back


def has_attention(graph: Graph) -> bool:
    """Whether a softmax's rows weigh the rows of another matrix somewhere; gates are marked."""
    for product in graph.nodes:
        for position in product.step.gates if isinstance(product.step, MatrixProduct) else ():
            node = graph.producer(product.inputs[position])
            while node and not isinstance(node.step, steps.Softmax):
                node = graph.producer(node.inputs[0])
            if node:
                return True
    return False
