"""A detector's boxes, each with the map of its score.

The best boxes are chosen first; then relevance starts at the score of each box at its own place (a
cell, an anchor, a query), all boxes of a picture in one batch, after one forward pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.targets import TargetTensors
from realtime_lrp.relevance.network.graph import Ends, Graph
from realtime_lrp.relevance.network.steps import Numbered
from realtime_lrp.system.geometry import SURE

OVERLAP = 0.5  # boxes that share more are one: the one with the lower score goes

DRAWN = 8  # how many boxes of a picture are drawn at most, each with a map of its own

TURNED = [1, 0, 3, 2]  # turns boxes of a network, y0, x0, y1, x1, and ours into each other


class DrawnBoxes(NamedTuple):
    """The boxes of a batch that are drawn, picture after picture, each picture's best first."""

    pictures: tf.Tensor  # int32 [N], the picture of each
    boxes: tf.Tensor  # float32 [N, 4]
    labels: tf.Tensor  # int32 [N]
    scores: tf.Tensor  # float32 [N]
    places: tf.Tensor  # int32 [N]
    sure: tf.Tensor  # bool [N]; a picture without any has its best box: a map needs one


def answers_of(tensors: Numbered, ends: Ends) -> tuple[tf.Tensor, tf.Tensor]:
    """All boxes [B, places, 4], x0, y0, x1, y1, and scores [B, places, classes], float32."""
    boxes = tf.gather(tensors[ends.boxes], TURNED, axis=-1)
    return tf.cast(boxes, tf.float32), tf.cast(tensors[ends.scores], tf.float32)


def best_of(boxes: tf.Tensor, scores: tf.Tensor, top: int) -> tuple[tf.Tensor, ...]:
    """The best boxes that do not overlap, one for each place: boxes, labels, scores, places."""
    places, values = best_boxes(boxes, tf.reduce_max(scores, -1), min(top, scores.shape[1]))
    labels = tf.gather(tf.argmax(scores, -1, tf.int32), places, batch_dims=1)
    return tf.gather(boxes, places, batch_dims=1), labels, values, places


def drawn_of(tensors: Numbered, ends: Ends, target: TargetTensors) -> DrawnBoxes:
    """The boxes of the target's classes that are drawn; one outside the picture is none."""
    boxes, scores = answers_of(tensors, ends)
    size = tf.cast(tf.shape(tensors[0])[2:0:-1], tf.float32)
    inside = tf.maximum(boxes[..., :2], 0.0) < tf.minimum(boxes[..., 2:], size)
    visible = tf.reduce_all(inside, -1, keepdims=True)
    wanted = visible & (target.weights != 0)[:, None]
    best = best_of(boxes, tf.where(wanted, scores, 0.0), DRAWN)
    *_, highest, _ = best
    sure = highest >= SURE
    first = tf.range(tf.shape(sure)[1]) == 0
    rows = tf.where(sure | (first & ~tf.reduce_any(sure, -1, keepdims=True)))
    found = (tf.gather_nd(one, rows) for one in (*best, sure))
    return DrawnBoxes(tf.cast(rows[:, 0], tf.int32), *found)


def at_boxes(
    graph: Graph, tensors: Numbered, pictures: tf.Tensor, places: tf.Tensor
) -> dict[int, tf.Tensor]:
    """The tensors of a batch with a row for each box [N], which end in the scores at its place."""
    ends = ends_of(graph)
    after = {node.output for node in graph.behind(ends.chosen)}
    each = graph.of_rows({n: a for n, a in tensors.items() if n not in after}, pictures)
    each[ends.chosen] = places
    return graph.forward(each[0], known=each)


def row_near(found: DrawnBoxes, near: tf.Tensor, pictures: tf.Tensor) -> tf.Tensor:
    """The row of each picture's box that overlaps `near` most, else of its surest, int32 [B]."""
    at = tf.gather(tf.repeat(near, pictures // tf.shape(near)[0], 0), found.pictures)
    shared = intersection_over_union(found.boxes, at)
    own = tf.range(pictures)[:, None] == found.pictures
    return tf.argmax(tf.where(own, shared, -1.0), -1, tf.int32)


def target_of_boxes(labels: tf.Tensor, classes: int | None) -> TargetTensors:
    """Each box, int32 [N], is explained by the score of its own class."""
    return TargetTensors(tf.one_hot(labels, classes), tf.constant([[classes]]))


def target_of_drawn(found: DrawnBoxes, target: TargetTensors) -> TargetTensors:
    """`target_of_boxes`, or the classes that the target of its picture names."""
    own = target_of_boxes(found.labels, target.weights.shape[1])
    batch = tf.reduce_max(found.pictures) + 1
    asked = TargetTensors(*(tf.gather(tf.repeat(a, batch // tf.shape(a)[0], 0), found.pictures)
                     for a in target))  # fmt: skip
    named = tf.reduce_any(asked.weights != 1, -1, keepdims=True)
    return TargetTensors(
        tf.where(named, asked.weights, own.weights), own.top,
        named & asked.rest, named & asked.by_probability,
    )  # fmt: skip


def best_boxes(boxes: tf.Tensor, scores: tf.Tensor, top: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The places of the best boxes that do not overlap, int32 [B, top], and their scores.

    `boxes` are [B, places, 4], `scores` [B, places]. Where fewer are left the score is 0.
    """
    places = []
    values = []
    for _ in range(top):
        best = tf.argmax(scores, -1, tf.int32)
        places.append(best)
        values.append(tf.gather(scores, best, batch_dims=1))
        overlap = intersection_over_union(boxes, tf.gather(boxes, best, batch_dims=1)[:, None])
        itself = tf.one_hot(best, tf.shape(scores)[1], True, False)
        scores = tf.where((overlap > OVERLAP) | itself, 0.0, scores)
    return tf.stack(places, 1), tf.stack(values, 1)


def intersection_over_union(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """How much boxes [..., 4] share, from 0 to 1; 0 for boxes without an area."""
    low = tf.maximum(one[..., :2], other[..., :2])
    high = tf.minimum(one[..., 2:], other[..., 2:])
    shared = tf.reduce_prod(tf.maximum(high - low, 0), -1)
    areas = [tf.reduce_prod(tf.maximum(a[..., 2:] - a[..., :2], 0), -1) for a in (one, other)]
    return tf.math.divide_no_nan(shared, areas[0] + areas[1] - shared)


def share_inside(maps: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    """The share of positive relevance in boxes, float32 [N]; 0 where a map has none.

    `maps` are [N, H, W, C], summed over the channels first; `boxes` [N, 4]. A pixel is inside where
    its middle is.
    """
    positive = tf.maximum(tf.reduce_sum(maps, -1), 0)
    rows, columns = (tf.range(count, dtype=tf.float32) + 0.5 for count in positive.shape[1:])
    x0, y0, x1, y1 = tf.unstack(boxes[:, None], axis=-1)
    of_rows, of_columns = (
        tf.cast((middle >= low) & (middle < high), tf.float32)
        for middle, low, high in ((rows, y0, y1), (columns, x0, x1))
    )
    inside = tf.einsum("nhw,nh,nw->n", positive, of_rows, of_columns)
    return tf.math.divide_no_nan(inside, tf.reduce_sum(positive, [1, 2]))


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes of a batch. In all arrays rows from `count` on are 0.

    Attributes:
      count: int [B], how many boxes were found.
      boxes: float32 [B, top, 4], y0, x0, y1, x1 in pixels of x, best first.
      labels: int32 [B, top], the classes.
      scores: float32 [B, top], from 0 to 1.
      places: int32 [B, top], the place that made each box: a cell, an anchor, a query.
      maps: float32 [B, top, H, W, C], raw. Maps, the biases' shares and losses add up to
        the scores.
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
    def of(cls, found: Sequence[np.ndarray], threshold: float) -> "Detections":
        """Those whose score is above 0 and at least the threshold; see `detect_function`."""
        scores = found[2]
        kept = (scores > 0) & (scores >= threshold)

        def cleared(one: np.ndarray) -> np.ndarray:
            return one * kept.reshape(kept.shape + (1,) * (one.ndim - 2)).astype(one.dtype)

        return cls(kept.sum(axis=1), *map(cleared, found))


def ends_of(graph: Graph) -> Ends:
    """The further ends of a detector's graph; UsageError for another network."""
    if graph.ends is None:
        raise UsageError(
            f"The network {graph.name!r} is no detector. Expected a model with two outputs, "
            "boxes [B, places, 4] and scores [B, places, classes]."
        )
    return graph.ends


def detect_function(
    plan: Plan, top: int, threshold: float
) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
    """Makes x -> the arrays of `Detections` but `count`, also of boxes that are no detections."""
    graph = plan.graph
    ends = ends_of(graph)
    most = graph.shapes[ends.scores][1]
    if not 1 <= top <= most:
        raise UsageError(f"Expected top from 1 to {most} boxes. Received {top!r}.")
    if not 0 <= threshold <= 1:
        raise UsageError(f"Expected a threshold from 0 to 1. Received {threshold!r}.")

    def detect(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tensors = graph.forward(x)
        boxes, labels, scores, places = best_of(*answers_of(tensors, ends), top)
        pictures = tf.repeat(tf.range(tf.shape(x)[0]), top)
        each = at_boxes(graph, tensors, pictures, tf.reshape(places, [-1]))
        target = target_of_boxes(tf.reshape(labels, [-1]), graph.output_shape[0])
        result = plan(each[0], each, target)
        maps = tf.cast(result.relevance, tf.float32)
        inside = share_inside(maps, tf.reshape(boxes, [-1, 4]))
        finite = True if plan.rules else tf.reshape(graph.finite(each), tf.shape(places))
        return (
            tf.gather(boxes, TURNED, axis=-1),
            labels,
            tf.where(finite, scores, np.nan),
            places,
            tf.reshape(maps, tf.concat([tf.shape(places), tf.shape(x)[1:]], 0)),
            tf.reshape(result.account[:, 2], tf.shape(places)),
            tf.reshape(inside, tf.shape(places)),
        )

    return detect
