"""Rules of steps without weights for transformers (Achtibat et al. 2024, "AttnLRP").

Under `attnlrp` relevance also flows through attention weights, half of what a product receives;
under `cp_lrp` these are constants. Both treat the deviation of a normalisation as a constant, and
give constants that are added, such as position embeddings, their share.
"""

from collections.abc import Callable
from typing import cast

import tensorflow as tf

from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.normalisations import Normalisation
from realtime_lrp.relevance.steps import Add, Softmax, Step, Tensors, stabilise, sum_of_each
from realtime_lrp.relevance.traced.steps import MatrixProduct, Offset, WeightedSum

STABILISER = 1e-9
"""Smaller than elsewhere: 1e-6 moves single pixels of a small transformer's map by up to half a
percent of the largest."""

StepRule = Callable[[Step, Tensors, tf.Tensor, tf.Tensor, bool], Tensors]
"""(step, its inputs, its output, the output's relevance, whether constants absorb relevance) -> the
relevance of each input, see `Step.relevance`."""


def through_softmax(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """R_in = a * (R - softmax(a) * sum of R) (prop. 3.1); the rest counts as taken by a bias."""
    total = tf.reduce_sum(relevance, cast(Softmax, step).axis, keepdims=True)
    received = inputs[0] * (relevance - output * total)
    return [received, sum_of_each(relevance) - sum_of_each(received)]


def halves(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """Each of two matrices gets half of the relevance of their product (prop. 3.3)."""
    product = cast(MatrixProduct, step)
    return product.shared(inputs, output, relevance, stabiliser=STABILISER)


def past_gates(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """Attention weights are constants: the other matrix gets all relevance of the product."""
    product = cast(MatrixProduct, step)
    return product.shared(inputs, output, relevance, product.gate, STABILISER)


def in_proportion(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """Each term of a sum gets its share."""
    return cast(Add, step).shared(inputs, output, relevance, STABILISER)


def with_constant_deviation(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """In proportion to the terms of the normalisation, whose deviation is a constant."""
    norm = cast(Normalisation, step)
    return _of_affine(
        lambda a: norm.normalise(a, tf.stop_gradient(a)), inputs[0], relevance, absorb
    )


def beside_offset(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """In proportion to a tensor and the constant that is added to it."""
    return _of_affine(step.forward, inputs[0], relevance, absorb)


def _of_affine(
    affine: Callable[[tf.Tensor], tf.Tensor],
    a: tf.Tensor,
    relevance: tf.Tensor,
    absorb: bool,
) -> Tensors:
    """What the input of affine sums receives, and if constants absorb relevance what they take."""
    exact = tf.cast(a, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(exact)
        z = affine(exact)
        if not absorb:
            z -= affine(tf.zeros_like(exact))
    s = tf.cast(relevance, tf.float32) / stabilise(z, STABILISER)
    received = exact * tape.gradient(z, exact, s)
    if not absorb:
        return [tf.cast(received, a.dtype)]
    return [tf.cast(received, a.dtype), sum_of_each(s * z) - sum_of_each(received)]


CP_LRP: tuple[tuple[type[Step], StepRule], ...] = (
    (Normalisation, with_constant_deviation),
    (Offset, beside_offset),
    (Add, in_proportion),
    (WeightedSum, in_proportion),
    (MatrixProduct, past_gates),
)
"""Kind of step -> its rule, for the composite `cp_lrp`."""

ATTNLRP: tuple[tuple[type[Step], StepRule], ...] = (
    (MatrixProduct, halves),
    (Softmax, through_softmax),
    *CP_LRP,
)
"""The same for `attnlrp`."""


def differ_from_epsilon(graph: Graph) -> bool:
    """Whether a network has steps for which these rules differ from those of `epsilon`."""
    kinds = (Normalisation, Offset, MatrixProduct)
    return any(isinstance(node.step, kinds) for node in graph.nodes)
