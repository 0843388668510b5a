"""The generic step of all rules (formula: `rules.py`): relevance shared among the terms of a sum.

R may have an axis more than the layer's output, [K, B, ...]: several relevances of each picture,
which have the sums z in common. What biases took is then not counted.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.network.linear import Linear, Weights
from realtime_lrp.relevance.network.steps import STABILISER, stabilise

Shares = list[tf.Tensor]
"""R_in, shaped like the layer's input; then what its biases took, float32 [B], if they take any."""

Term = tuple[tf.Tensor, Weights, tf.Tensor | None]  # (a', w', b')


def positive(v: tf.Tensor) -> tf.Tensor:
    """max(v, 0)."""
    return tf.maximum(v, 0.0)


def negative(v: tf.Tensor) -> tf.Tensor:
    """min(v, 0)."""
    return tf.minimum(v, 0.0)


def transformed(layer: Linear, terms: Sequence[Term]) -> tf.Tensor:
    """The sum over terms of transform(a', w') + b'.

    Biases are added at the end. TensorFlow 2.21 fuses depthwise + bias + depthwise into an
    operation without a name, complains of it, and optimises nothing in the whole graph.
    """
    if len(terms) == 1:
        return layer.transform(*terms[0])
    z = functools.reduce(tf.add, [layer.transform(a, w) for a, w, _ in terms])
    biases = [b for *_, b in terms if b is not None]
    return layer.finished(z, functools.reduce(tf.add, biases) if biases else None, "")


def handed_back(layer: Linear, terms: Sequence[Term], s: tf.Tensor) -> tf.Tensor:
    """The sum over terms of a' * transpose(s, w'), the halves of stacked ones added up."""
    parts: list[tf.Tensor] = []
    for a, w, _ in terms:
        part = a * adjoint(layer, s, w, tf.shape(a))
        parts += tf.split(part, 2, -1) if w.stacked else [part]
    return functools.reduce(tf.add, parts)


def adjoint(layer: Linear, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
    """`layer.transpose`, where s may have an axis more than the input, whose shape is given."""
    if s.shape.rank != shape.shape[0] + 1:
        return layer.transpose(s, weights, shape)
    flat = tf.reshape(s, [-1, *s.shape[2:]])
    each = layer.transpose(flat, weights, tf.concat([tf.shape(flat)[:1], shape[1:]], 0))
    return tf.reshape(each, tf.concat([tf.shape(s)[:2], shape[1:]], 0))


def divided(layer: Linear, terms: Sequence[Term], s: tf.Tensor) -> Shares:
    """R_in of s = R / z, with what biases take where a term has one."""
    inputs = handed_back(layer, terms, s)
    biases = [b for *_, b in terms if b is not None]
    if not biases or s.shape.rank > terms[0][0].shape.rank:
        return [inputs]
    return [inputs, taken_by(functools.reduce(tf.add, biases), s)]


def taken_by(bias: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
    """The relevance that a bias [out] takes in each picture: the sum of b' * s, float32 [B]."""
    if s.dtype == tf.float32 and s.shape.rank == 4:
        # One product reads s faster than a sum over two axes does: half of the time.
        by_position = tf.linalg.matvec(tf.reshape(s, [-1, s.shape[-1]]), bias)
        return tf.reduce_sum(tf.reshape(by_position, [-1, s.shape[1] * s.shape[2]]), 1)
    by_output = tf.cast(tf.reduce_sum(s, list(range(1, s.shape.rank - 1))), tf.float32)
    return tf.linalg.matvec(by_output, tf.cast(bias, tf.float32))


def weighted(parts: Sequence[tuple[float, Shares]]) -> Shares:
    """The sum of what several steps divided, each times a factor."""
    scaled = ([factor * share for share in shares] for factor, shares in parts)
    return [functools.reduce(tf.add, column) for column in zip(*scaled, strict=True)]


def share(
    layer: Linear, terms: Sequence[Term], relevance: tf.Tensor, stabiliser: float = STABILISER
) -> Shares:
    """Divides relevance R of the output by the generic step, over terms (a', w', b').

    The stabiliser is added to z in the direction of its sign. With 0 an output of exactly 0 passes
    nothing on.
    """
    z = transformed(layer, terms)
    if not stabiliser:
        return divided(layer, terms, tf.math.divide_no_nan(relevance, z))
    return divided(layer, terms, relevance / stabilise(z, stabiliser))


def share_of_one_sign(
    layer: Linear, terms: Sequence[Term], relevance: tf.Tensor, sign: int
) -> Shares:
    """Like `share`, for z that is never negative (sign 1) or never positive (sign -1).

    The stabiliser is added with the bias, at no cost: 101 ms instead of 110 (VGG16, bfloat16).
    """
    (a, w, b), *others = terms
    stabiliser = tf.fill([layer.outputs], tf.constant(sign * STABILISER, relevance.dtype))
    z = transformed(layer, [(a, w, stabiliser if b is None else b + stabiliser), *others])
    return divided(layer, terms, relevance / z)
