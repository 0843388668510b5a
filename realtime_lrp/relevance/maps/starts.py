"""What starts at the output for a target, inside compiled functions."""

import tensorflow as tf

from realtime_lrp.relevance.maps.targets import Target


def start_of_relevance(scores: tf.Tensor, target: Target) -> tf.Tensor:
    """The relevance at the output, float32 [B, classes]."""
    chosen = tf.reduce_sum(scores * target.weights, axis=-1, keepdims=True)
    against_rest = chosen * _against_rest(scores, target.weights)
    plain = scores * target.weights * _highest(scores, target.top)
    return tf.where(target.rest, against_rest, plain)


def start_of_gradient(scores: tf.Tensor, target: Target) -> tf.Tensor:
    """The factor t of each logit, float32 [B, classes]; scores are held constant."""
    scores = tf.stop_gradient(scores)
    t = target.weights * _highest(scores, target.top)
    t *= tf.where(target.by_probability, scores, tf.ones_like(scores))
    return tf.where(target.rest, _against_rest(scores, target.weights), t)


def _highest(scores: tf.Tensor, top: tf.Tensor) -> tf.Tensor:
    """1 for the `top` highest scores of each picture (of equal ones the first), else 0."""
    order = tf.math.top_k(scores, scores.shape[-1]).indices
    rank = tf.math.top_k(-order, scores.shape[-1]).indices
    return tf.cast(rank < top, scores.dtype)


def _against_rest(scores: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """+1 for the class with weight 1; -1 distributed among the others by their scores.

    Where all other scores are 0 the others stay 0.
    """
    others = scores * (1.0 - weights)
    shares = tf.math.divide_no_nan(others, tf.reduce_sum(others, axis=-1, keepdims=True))
    return weights - shares
