"""The start of relevance at the output for a target, inside compiled functions."""

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.maps.targets import TargetTensors


def start_of_relevance(scores: tf.Tensor, target: TargetTensors) -> tf.Tensor:
    """The relevance at the output, shaped like the scores, float32 [B, classes].

    At scores [B, h, w, classes] each place has its share, by the weights of a located target.
    """
    target, region = _spread(scores, target)
    chosen = tf.reduce_sum(scores * target.weights, axis=-1, keepdims=True)
    against_rest = chosen * _against_rest(scores, target.weights)
    return tf.where(target.rest, against_rest, scores * target.weights) * region


def start_of_gradient(scores: tf.Tensor, target: TargetTensors) -> tf.Tensor:
    """The factor t of each logit, shaped like the scores, which are held constant."""
    scores = tf.stop_gradient(scores)
    target, region = _spread(scores, target)
    t = target.weights * tf.where(target.by_probability, scores, tf.ones_like(scores))
    return tf.where(target.rest, _against_rest(scores, target.weights), t) * region


def of_weights(weights: tf.Tensor, top: tf.Tensor) -> TargetTensors:
    """The target of classes with weights; the `top` best classes count, see `TargetTensors`."""
    no = tf.constant([[False]])
    return TargetTensors(weights, top, no, no)


def sides_of(scores: tf.Tensor, target: TargetTensors) -> tuple[TargetTensors, TargetTensors]:
    """The class that a located target of a segmentation explains, and the one against it.

    The first is the best class that the target names, or its positive side; the second the best
    of the others, or its negative side. The others together are "rest".
    """
    mean = mean_scores(scores, target.region)
    named = tf.broadcast_to(target.weights, tf.shape(mean))
    first = _best(mean, named > 0)
    opposed = tf.reduce_any(named < 0, -1, keepdims=True)
    others = tf.where(opposed, named < 0, first == 0)
    rest = tf.cast(first == 0, tf.float32)
    second = tf.where(target.rest, rest, _best(mean, others))
    no = tf.zeros_like(opposed)
    one = target._replace(top=tf.fill(tf.shape(no), scores.shape[-1]), rest=no, by_probability=no)
    return one._replace(weights=first), one._replace(weights=second)


def _best(scores: tf.Tensor, among: tf.Tensor) -> tf.Tensor:
    """1 for the class with the highest score of some, bool [B, classes], else 0."""
    ranked = tf.where(among, scores, tf.constant(-np.inf, scores.dtype))
    return tf.one_hot(tf.argmax(ranked, -1), scores.shape[-1])


def _spread(scores: tf.Tensor, target: TargetTensors) -> tuple[TargetTensors, tf.Tensor | float]:
    """The target with weights of the highest classes alone, and the weight of each place.

    Which classes are highest is decided by the mean of the scores over the region.
    """
    if scores.shape.rank == 2:
        highest = _highest(scores, target.top)
        return target._replace(weights=target.weights * highest), 1.0
    mean = mean_scores(scores, target.region)
    weights = target.weights * _highest(mean, target.top)
    weights, rest, by_probability = (
        tf.convert_to_tensor(one)[:, None, None]
        for one in (weights, target.rest, target.by_probability)
    )
    target = target._replace(weights=weights, rest=rest, by_probability=by_probability)
    return target, tf.cast(target.region, scores.dtype)[..., None]


def mean_scores(scores: tf.Tensor, region: tf.Tensor) -> tf.Tensor:
    """The mean of scores [B, h, w, classes] over a region, [B, classes]."""
    return tf.einsum("bhwc,bhw->bc", scores, tf.cast(region, scores.dtype))


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
