"""Rules of steps without weights for transformers (Achtibat et al. 2024, "AttnLRP").

Under `attnlrp` relevance also flows through attention weights, half of what a product receives;
under `cp_lrp` these are constants. Both treat the deviation of a normalisation as a constant, and
give constants that are added, such as position embeddings, their share.
"""

from collections.abc import Callable
from typing import cast

import tensorflow as tf

from realtime_lrp.relevance.normalisations import Normalisation
from realtime_lrp.relevance.steps import Softmax, Step, Tensors, stabilise, sum_of_each
from realtime_lrp.relevance.traced.steps import MatrixProduct, Offset

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
    return cast(MatrixProduct, step).shared(inputs, output, relevance)


def with_constant_deviation(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """In proportion to the terms of the normalisation, whose deviation is a constant."""
    norm = cast(Normalisation, step)
    return _in_proportion(
        lambda a: norm.normalise(a, tf.stop_gradient(a)), inputs[0], output, relevance, absorb
    )


def beside_offset(
    step: Step, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor, absorb: bool
) -> Tensors:
    """In proportion to a tensor and the constant that is added to it."""
    return _in_proportion(step.forward, inputs[0], output, relevance, absorb)


def _in_proportion(
    affine: Callable[[tf.Tensor], tf.Tensor],
    a: tf.Tensor,
    output: tf.Tensor,
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
    s = tf.cast(relevance, tf.float32) / stabilise(z)
    received = exact * tape.gradient(z, exact, s)
    if not absorb:
        return [tf.cast(received, a.dtype)]
    return [tf.cast(received, a.dtype), sum_of_each(s * z) - sum_of_each(received)]


CP_LRP: tuple[tuple[type[Step], StepRule], ...] = (
    (Normalisation, with_constant_deviation),
    (Offset, beside_offset),
)
"""Kind of step -> its rule, for the composite `cp_lrp`."""

ATTNLRP: tuple[tuple[type[Step], StepRule], ...] = (
    *CP_LRP,
    (MatrixProduct, halves),
    (Softmax, through_softmax),
)
"""The same for `attnlrp`."""
