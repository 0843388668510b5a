"""What a detector finds, box by box, each with the map of its score.

A detector gives boxes and scores at many places: cells of a grid, anchors, queries. The best boxes
are chosen first; then relevance starts at the score of each box at its own place, all boxes of a
picture in one batch, after one forward pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.boxes import Best, at_boxes, best_of, share_inside, target_of_boxes
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.network.graph import Ends, Graph

Found = tuple[Best, tf.Tensor, tf.Tensor, tf.Tensor]
"""The best boxes of a batch, with maps, taken and inside of `Detections`; some have the score 0."""


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
        best, *of_each = found
        kept = (best.scores > 0) & (best.scores >= threshold)

        def cleared(one: np.ndarray) -> np.ndarray:
            return one * kept.reshape(kept.shape + (1,) * (one.ndim - 2)).astype(one.dtype)

        return cls(kept.sum(axis=1), *map(cleared, (*best, *of_each)))


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


def detect_function(plan: Plan, top: int) -> Callable[[tf.Tensor], Found]:
    """Makes the function x -> the `top` best boxes of each picture, with their maps."""
    graph, ends = plan.graph, ends_of(plan.graph)

    def detect(x: tf.Tensor) -> Found:
        tensors = graph.forward(x)
        best = best_of(tensors, ends, top)
        places = best.places

        pictures = tf.repeat(tf.range(tf.shape(x)[0]), top)
        each = at_boxes(graph, ends, tensors, pictures, tf.reshape(places, [-1]))
        target = target_of_boxes(tf.reshape(best.labels, [-1]), graph.output_shape[0])
        result = plan(each[0], each, target)

        maps = tf.cast(result.relevance, tf.float32)
        inside = share_inside(maps, tf.reshape(best.boxes, [-1, 4]))
        finite = True if plan.rules else tf.reshape(graph.finite(each), tf.shape(places))
        return (
            best._replace(scores=tf.where(finite, best.scores, np.nan)),
            tf.reshape(maps, tf.concat([tf.shape(places), tf.shape(x)[1:]], 0)),
            tf.reshape(result.account[:, 2], tf.shape(places)),
            tf.reshape(inside, tf.shape(places)),
        )  # fmt: skip

    return detect
