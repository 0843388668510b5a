"""What a detector finds, box by box, each with the map of its score.

A detector gives boxes and scores at many places: cells of a grid, anchors, queries. The best boxes
are chosen first; then relevance starts at the score of each box at its own place, all boxes of a
picture in one batch, after one forward pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.boxes import best_of
from realtime_lrp.relevance.maps.compiled import scores_or_nan
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.relevance.network.graph import Ends, Graph


class Found(NamedTuple):
    """The best boxes of a batch, [B, top, ...]; see `Detections`. Missing ones have the score 0."""

    boxes: tf.Tensor
    labels: tf.Tensor
    scores: tf.Tensor
    places: tf.Tensor
    maps: tf.Tensor
    taken: tf.Tensor


@dataclass(frozen=True, eq=False)
class Detections:
    """What was found in a batch. In all arrays rows from `count` on are 0.

    Attributes:
      count: int [B], how many boxes were found.
      boxes: float32 [B, top, 4], y0, x0, y1, x1 in pixels of x, best first.
      labels: int32 [B, top], the classes.
      scores: float32 [B, top], from 0 to 1.
      places: int32 [B, top], the place that made each box: a cell, an anchor, a query.
      maps: float32 [B, top, H, W, C], raw. Maps and what biases took add up to the scores, but for
        what was lost.
      taken: float32 [B, top], what biases took.
      inside: float32 [B, top], the share of positive relevance, of pixels, that lies in the box.
    """

    count: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    scores: np.ndarray
    places: np.ndarray
    maps: np.ndarray
    taken: np.ndarray
    inside: np.ndarray

    @classmethod
    def of(cls, found: Found, threshold: float) -> "Detections":
        """Those whose score is above 0 and at least the threshold."""
        kept = (found.scores > 0) & (found.scores >= threshold)
        cleared = Found(
            *(
                one * kept.reshape(kept.shape + (1,) * (one.ndim - 2)).astype(one.dtype)
                for one in found
            )
        )
        inside = share_inside(cleared.maps, cleared.boxes)
        return cls(kept.sum(axis=1), **cleared._asdict(), inside=inside)


def share_inside(maps: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The share of positive relevance in boxes, float32 [...]; 0 where a map has none.

    `maps` are [..., H, W, C], summed over the channels first; `boxes` [..., 4]. A pixel is inside
    where its middle is.
    """
    positive = np.maximum(maps.sum(axis=-1), 0)
    rows, columns = (np.arange(count) + 0.5 for count in positive.shape[-2:])
    y0, x0, y1, x1 = np.moveaxis(boxes[..., None], -2, 0)
    of_rows, of_columns = (rows >= y0) & (rows < y1), (columns >= x0) & (columns < x1)
    inside = np.einsum("...hw,...h,...w->...", positive, of_rows, of_columns)
    whole = positive.sum(axis=(-2, -1))
    return np.divide(inside, whole, out=np.zeros_like(whole), where=whole > 0).astype(np.float32)


def ends_of(graph: Graph) -> Ends:
    """What a detector's graph has beside its output; UsageError for another network."""
    if graph.ends is None:
        raise UsageError(
            f"The network {graph.name!r} is no detector. Expected a model with two outputs, "
            "boxes [B, places, 4] and scores [B, places, classes]."
        )
    return graph.ends


def check_detections(plan: Plan, top: int, threshold: float) -> None:
    """Refuses what `Explainer.detections` cannot do."""
    places = plan.graph.shapes[ends_of(plan.graph).scores][1]
    if not 1 <= top <= places:
        raise UsageError(f"Expected top from 1 to {places} boxes. Received {top!r}.")
    if not 0 <= threshold <= 1:
        raise UsageError(f"Expected a threshold from 0 to 1. Received {threshold!r}.")
    if plan.method.perturb:
        raise UsageError(
            "Methods that average over changed pictures do not explain boxes: there the boxes "
            "change too. Expected LRP, gradient, guided_backprop or the like.",
            "method",
        )


def detect_function(plan: Plan, top: int) -> Callable[[tf.Tensor], Found]:
    """Makes the function x -> the `top` best boxes of each picture, with their maps."""
    graph, ends = plan.graph, ends_of(plan.graph)
    after = {node.output for node in graph.behind(ends.chosen)}

    def detect(x: tf.Tensor) -> Found:
        tensors = graph.forward(x)
        best = best_of(tensors, ends, top)
        places = best.places

        each = {n: tf.repeat(a, top, 0) for n, a in tensors.items() if n not in after}
        each[ends.chosen] = tf.reshape(places, [-1])
        each = graph.forward(each[0], known=each)
        classes = graph.output_shape[0]
        target = Target(
            tf.one_hot(tf.reshape(best.labels, [-1]), classes), tf.constant([[classes]]),
            tf.constant([[False]]), tf.constant([[False]]),
        )  # fmt: skip
        result = plan(each[0], each, target)

        finite = tf.reduce_all(tf.math.is_finite(scores_or_nan([plan], each)), -1)
        values = tf.where(tf.reshape(finite, tf.shape(places)), best.scores, np.nan)
        shape = tf.concat([tf.shape(places), tf.shape(x)[1:]], 0)
        return Found(
            best.boxes, best.labels, values, places,
            tf.reshape(tf.cast(result.relevance, tf.float32), shape),
            tf.reshape(result.account[:, 2], tf.shape(places)),
        )  # fmt: skip

    return detect
