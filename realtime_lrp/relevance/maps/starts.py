"""The start of relevance at the output for a target, inside compiled functions.

Of a segmentation, whose answer is [B, h, w, classes], it starts in a region. A region is data of
the compiled function, as a target is: another one does not retrace.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.targets import TargetTensors, tidied
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.steps import Numbered

BACKGROUND = ("background", "bg", "void", "nothing")  # tidied names of a class for no thing

BESIDE = -2  # the class of places beside the picture, in the borders of a letterbox


def start_of_relevance(scores: tf.Tensor, target: TargetTensors) -> tf.Tensor:
    """The relevance at the output, shaped like the scores; the places of a region share it."""
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
    """The target with the weights of the highest classes alone, and the weight of each place."""
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
    """+1 for the class with weight 1; -1 distributed among the others by their scores."""
    others = scores * (1.0 - weights)
    shares = tf.math.divide_no_nan(others, tf.reduce_sum(others, axis=-1, keepdims=True))
    return weights - shares


class Regions(NamedTuple):
    """The regions from which relevance started in a batch, and the class of each place."""

    region: tf.Tensor  # float32 [B, h, w], the weight of each place; of a picture they add up to 1
    classes: tf.Tensor  # int32 [B, h, w], the class with the highest score at each place
    inside: tf.Tensor  # float32 [B], the share of positive relevance of the first map in the region
    # int32 [B, 2]: the class that is explained, and the one against it; -1 for all others together
    sides: tf.Tensor


def background_of(labels: Sequence[str] | None, classes: int) -> int:
    """The class that stands for no thing, or -1; of two without names, as a mask has, the first."""
    if labels is None:
        return 0 if classes == 2 else -1
    return 0 if tidied(str(labels[0])).lower() in BACKGROUND else -1


def region_weights(graph: Graph, at: Any, region: Any, batch: Sequence[int]) -> np.ndarray:
    """The weights of a pixel `at` (row, column), or of a mask `region`, float32 [B or 1, h, w].

    `batch` is [B, H, W, C]. Each pixel belongs to one place of the answer.

    Raises:
      UsageError: the network is no segmentation, both are given, there is no such pixel, or the
        mask has another form.
    """
    if graph.places is None:
        raise UsageError(
            f"The network {graph.name!r} gives one answer for the whole picture. Leave at and "
            "region out: they are for segmentations."
        )
    pictures, rows, columns, _ = batch
    shape = rows, columns
    if at is not None and region is not None:
        raise UsageError("Expected a place or a region. Received both: leave at or region out.")
    mask = _mask_of_pixel(at, shape) if region is None else np.asarray(region)
    if mask.dtype != bool or mask.shape not in (shape, (pictures, *shape)):
        raise UsageError(
            f"Expected region as a mask of truth values [{shape[0]}, {shape[1]}], as mask > 0. "
            f"Received {mask.dtype} {list(mask.shape)}."
        )
    masks = mask.reshape(-1, *shape)
    if not masks.any((1, 2)).all():
        raise UsageError("The region has no pixel. Expected a mask with True in every picture.")
    # float32 [pixels, places] along each axis: 1 where a pixel belongs to a place, else 0
    of_rows, of_columns = (
        np.eye(count, dtype=np.float32)[place_of_pixels(n, count)]
        for n, count in zip(shape, graph.places, strict=True)
    )
    exact = masks.astype(np.float32)
    weights = np.einsum("bij,ih,jw->bhw", exact, of_rows, of_columns, optimize=True)
    whole: np.ndarray = weights / weights.sum((1, 2), keepdims=True)
    return whole.astype(np.float32)


def place_of_pixels(pixels: int, places: int) -> np.ndarray:
    """The place of each pixel along an axis of a picture, int [pixels]."""
    numbers: np.ndarray = np.arange(pixels) * places // pixels
    return numbers


def pixels_of(places: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The value at each pixel of pictures of this shape: [B, h, w] to [B, H, W]."""
    rows, columns = map(place_of_pixels, shape, places.shape[1:])
    pixels: np.ndarray = places[:, rows[:, None], columns]
    return pixels


def _mask_of_pixel(at: Any, shape: tuple[int, int]) -> np.ndarray:
    numbers = np.asarray(at)
    if numbers.shape != (2,) or not np.issubdtype(numbers.dtype, np.integer):
        raise UsageError(f"Expected at as (row, column), whole numbers. Received {at!r:.80}.")
    row, column = numbers.tolist()
    if not (0 <= row < shape[0] and 0 <= column < shape[1]):
        raise UsageError(
            f"There is no pixel {(row, column)}: pictures have {shape[0]} rows and {shape[1]} "
            "columns, counted from 0."
        )
    mask = np.zeros(shape, bool)
    mask[row, column] = True
    return mask


def located(graph: Graph, tensors: Numbered, target: TargetTensors) -> TargetTensors:
    """The target with the region of each picture, whose weights add up to 1.

    Where a picture's weights are all 0, it is the largest connected region that is not background,
    or of background if there is nothing else. With `around` it is the connected region at the place
    with the largest weight. Unchanged if the network is no segmentation.
    """
    if graph.places is None:
        return target
    scores = tf.cast(tensors[graph.output], tf.float32)
    like = tf.zeros(tf.shape(scores)[:-1])
    beside = target.region + like < 0
    given = tf.maximum(target.region + like, 0)
    missing = tf.reduce_sum(given, [1, 2]) <= 0
    searched = missing | tf.broadcast_to(target.around[:, 0], tf.shape(missing))

    def found() -> tf.Tensor:
        largest = tf.argmax(tf.reshape(given, [tf.shape(given)[0], -1]), -1, tf.int32)
        at = tf.where(missing, -1, largest)
        classes = tf.where(beside, BESIDE, tf.argmax(scores, -1, tf.int32))
        whole = _whole(classes, graph.background, at)
        return tf.where(searched[:, None, None], whole, given)

    region = tf.cond(tf.reduce_any(searched), found, lambda: given)
    return target._replace(region=region, around=tf.zeros_like(target.around))


def _whole(classes: tf.Tensor, background: int, at: tf.Tensor) -> tf.Tensor:
    """The weights of the region at a place of each picture: int32 to float32 [B, h, w].

    The place, int32 [B], counts row by row; -1 is the largest region that is no background.
    """
    places = classes.shape[1] * classes.shape[2]
    by_place = tf.reshape(classes, [-1, places])
    numbers = tf.reshape(connected(classes), [-1, places])
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, tf.size(numbers))
    own = tf.gather(sizes, numbers)
    ranked = tf.where(by_place != background, own + places, own)
    ranked = tf.where(by_place == BESIDE, 0, ranked)
    at = tf.where(at < 0, tf.argmax(ranked, -1, tf.int32), at)
    best = tf.gather(numbers, at, batch_dims=1)
    region = tf.cast(numbers == best[:, None], tf.float32)
    weights = region / tf.reduce_sum(region, -1, keepdims=True)
    return tf.reshape(weights, tf.shape(classes))


def connected(classes: tf.Tensor) -> tf.Tensor:
    """The regions of a batch: the number of each place's region, int32 [B, h, w].

    Places are connected if they touch by a side and have the same class. Runs of one class in a row
    are numbered; runs that touch take the larger number, until all that are connected have one.
    """
    begins = classes[:, :, 1:] != classes[:, :, :-1]
    begins = tf.pad(begins, [[0, 0], [0, 0], [1, 0]], constant_values=True)
    runs = tf.cumsum(tf.cast(tf.reshape(begins, [-1]), tf.int32)) - 1
    places = tf.reshape(runs, tf.shape(classes))
    # where two runs touch, one of them begins at the first of their common columns
    touch = (classes[:, 1:] == classes[:, :-1]) & (begins[:, 1:] | begins[:, :-1])
    above, below = (tf.boolean_mask(one, touch) for one in (places[:, :-1], places[:, 1:]))

    def join(numbers: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        one = tf.gather(numbers, above)
        other = tf.gather(numbers, below)
        lower = tf.minimum(one, other)[:, None]
        joined = tf.tensor_scatter_nd_max(numbers, lower, tf.maximum(one, other))
        joined = tf.gather(joined, joined)
        return joined, tf.reduce_any(joined != numbers)

    start = tf.range(tf.size(classes))
    numbers, _ = tf.while_loop(lambda _, changed: changed, join, (start, True))
    return tf.gather(numbers, places)


def scores_at(graph: Graph, tensors: Numbered, target: TargetTensors) -> tf.Tensor:
    """The scores [B, classes] of a located target."""
    if graph.places is None:
        return graph.scores(tensors)
    return mean_scores(tf.cast(tensors[graph.output], tf.float32), target.region)


def scores_anywhere(graph: Graph, target: TargetTensors, x: tf.Tensor) -> tf.Tensor:
    """The scores for x, [B, classes]; of a segmentation over the largest region."""
    tensors = graph.forward(x)
    return scores_at(graph, tensors, located(graph, tensors, target))


def regions_of(
    graph: Graph, tensors: Numbered, target: TargetTensors, relevance: tf.Tensor
) -> Regions:
    """The regions of a located target, and how much of its map [B, H, W, C] lies inside."""
    positive = tf.maximum(tf.reduce_sum(relevance, -1), 0)
    inside = tf.cast(target.region > 0, tf.float32)
    for axis in (1, 2):
        numbers = place_of_pixels(relevance.shape[axis], inside.shape[axis])
        inside = tf.gather(inside, numbers, axis=axis)
    share = tf.math.divide_no_nan(
        tf.reduce_sum(positive * inside, [1, 2]), tf.reduce_sum(positive, [1, 2])
    )
    scores = tf.cast(tensors[graph.output], tf.float32)
    one, other = (side.weights for side in sides_of(scores, target))
    several = tf.reduce_sum(other, -1) > 1
    against = tf.where(several, -1, tf.argmax(other, -1, tf.int32))
    sides = tf.stack([tf.argmax(one, -1, tf.int32), against], -1)
    return Regions(target.region, tf.argmax(scores, -1, tf.int32), share, sides)
