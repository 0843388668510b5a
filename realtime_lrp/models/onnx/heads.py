"""What outputs mean: boxes and scores of a detector, by checks that can fail, or classes.

A form is recognised by how tensors are made and by their values for test pictures. What looks like
a detector and has no known form is refused.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor
from realtime_lrp.models.onnx.columns import before_activation, columns, spans
from realtime_lrp.relevance.network.places import OF_CLASSES

OF_BOXES = re.compile("box|loc|coord|dets", re.IGNORECASE)
OF_PLACES = re.compile("obj|iou|center", re.IGNORECASE)
"""How exporters call outputs with boxes, and with one score for each place."""

COARSE = 16
"""A map of at least this many pixels to a cell may be a detector's grid as well as classes; so may
rows for at least this many places."""

Compute = Callable[[Sequence[tf.Tensor]], list[np.ndarray]]
"""Computes tensors for test pictures; the first is black or grey."""

Outputs = Mapping[str, Tensor]


class DetectorHead(NamedTuple):
    """The end of a detector."""

    boxes: tf.Tensor  # [B, places, 4], y0, x0, y1, x1 in pixels
    values: tf.Tensor  # [B, places, classes]
    activation: str  # makes scores of the values: softmax, sigmoid or linear
    form: str  # in words
    nothing: str = ""  # the class of the file that is no thing: first or last


def head_of(
    outputs: Outputs, size: tuple[int, int], classes: int | None, compute: Compute
) -> DetectorHead | None:
    """The head of a detector for pictures of (rows, columns); None where outputs are of none.

    `classes` is the number of class names that the file holds, None where it holds none.
    """
    joined = [one for x in outputs.values() if (one := _joined(x, classes, compute))]
    if len(joined) == 1:
        return joined[0]
    named = [name for name in outputs if OF_BOXES.search(name)]
    pairs = {
        boxes.ref(): (name, boxes, scores)
        for name in named or outputs
        if (boxes := _rows(outputs[name], None, 4)) is not None
        and not OF_CLASSES.search(name)
        and (scores := _scores(outputs, boxes.shape[1], name)) is not None
    }
    if len(pairs) == 1:
        return _apart(*pairs.popitem()[1], size, compute)
    _refuse_grids(outputs, size)
    return None


def _rows(x: Tensor, places: int | None, size: int | None) -> tf.Tensor | None:
    """A tensor as [B, places, columns], with as many of each as asked for; None if it is none."""
    wide = [n for n, length in enumerate(x.shape) if length > 1]
    if len(x.axes) < 2 or len(wide) > 2:
        return None
    for axis in reversed(range(len(x.axes))):
        others = [n for n in wide if n != axis]
        if len(others) != 1 or (size or x.shape[axis]) != x.shape[axis]:
            continue
        if (places or x.shape[others[0]]) == x.shape[others[0]]:
            return x.held_as(others[0], axis).held
    return None


def _scores(outputs: Outputs, places: int, boxes: str) -> tf.Tensor | None:
    """The classes' values at each place of boxes: by name, by activation, by how many there are."""
    found = [
        (bool(OF_CLASSES.search(name)), _activation(rows) is not None, rows.shape[2], rows)
        for name, x in outputs.items()
        if name != boxes and (rows := _rows(_unflattened(x, places), places, None)) is not None
    ]
    if any(OF_PLACES.search(name) for name in outputs):
        return None
    return max(found, key=lambda one: one[:3])[3] if found else None


def _unflattened(x: Tensor, places: int) -> Tensor:
    """Scores of all places in one row, as detectors choose the best of them, place by place."""
    size = math.prod(x.shape)
    flat = places < size in x.shape and size % places == 0 and x.held.op.type == "Reshape"
    return x.reshaped([1, places, size // places]) if flat else x


def _activation(values: tf.Tensor) -> tuple[str, tf.Tensor] | None:
    """The activation that the last axis ends in, and what it reads."""
    values = columns(values, 2, 0, values.shape[2])
    for kind in ("Sigmoid", "Softmax"):
        if (read := before_activation(values, kind)) is not None:
            return kind.lower(), read
    return None


def _joined(x: Tensor, classes: int | None, compute: Compute) -> DetectorHead | None:
    """Boxes as middle and size in pixels, joined with the scores of a sigmoid.

    Ultralytics: [1, 4 + classes + more, places]. YOLOv5 and v7: [1, places, 5 + classes], whose
    first score is for anything.
    """
    if len(x.axes) != 3:
        return None
    for channel in (1, 2):
        rows = x.held_as(3 - channel, channel).held
        parts = spans(rows, 2) if x.shape[0] == 1 else []
        kinds = [kind for size, kind in parts for _ in range(size)]
        first = kinds.index("Sigmoid") if "Sigmoid" in kinds else 0
        if first != 4:
            continue
        count = next(size for size, kind in parts if kind == "Sigmoid")
        boxes = columns(rows, 2, 0, 4)
        values = columns(rows, 2, 4, 4 + count)
        if count > 1 and (channel == 2 if classes is None else count == classes + 1):
            return _with_objects(boxes, values, compute)
        read = before_activation(values, "Sigmoid")
        if read is None:
            return None
        return DetectorHead(
            _corners(boxes, (1, 1)), read, "sigmoid", "boxes and scores of Ultralytics"
        )
    return None


def _with_objects(boxes: tf.Tensor, values: tf.Tensor, compute: Compute) -> DetectorHead:
    (found,) = compute([boxes])
    if not (found[..., 2:] >= 0).all():
        raise CannotReadError(_OFFSETS.format(found.min(), found.max()))
    scores = values[..., :1] * values[..., 1:]
    form = "boxes and scores of YOLOv5 (any thing, times each class)"
    return DetectorHead(_corners(boxes, (1, 1)), scores, "linear", form)


_OFFSETS = (
    "ends in boxes from {:.3g} to {:.3g} that are neither corners, x1 above x0 and y1 above y0, "
    "nor middles and sizes: they are offsets to places that the file does not hold. Export the "
    "network with the step that decodes its boxes; or explain another output with --output"
)


def _apart(
    name: str, boxes: tf.Tensor, values: tf.Tensor, size: tuple[int, int], compute: Compute
) -> DetectorHead:
    """Boxes and the values of classes as tensors of their own."""
    found, computed = compute([boxes, values])
    first, last = found[..., :2], found[..., 2:]
    if not np.isfinite(found).all():
        raise CannotReadError("ends in boxes that are not finite for test pictures")
    relative = np.abs(found).max() <= 2
    extent = np.array([1, 1] if relative else size[::-1], np.float32)
    named = "pred_boxes" in name  # as DETR's followers have them
    corners = not named and (last >= first).all() and (last > first).mean() > 0.5
    middle = (last >= 0).all() and (np.abs(first / extent - 0.5) < 1.5).all()
    if not corners and not middle:
        raise CannotReadError(_OFFSETS.format(found.min(), found.max()))
    scale = size if relative else (1, 1)
    where = "from 0 to 1" if relative else "in pixels"
    if corners:
        rows_first = "detection_boxes" in name  # as TensorFlow's detectors have them
        made = tf.gather(boxes, [0, 1, 2, 3] if rows_first else [1, 0, 3, 2], axis=2)
        made *= tf.constant([*scale, *scale], tf.float32)
        about = f"boxes as corners {'y, x' if rows_first else 'x, y'} {where}"
    else:
        made = _corners(boxes, scale)
        about = "logits and boxes as of DETR" if relative else f"boxes as middle and size {where}"
    activation, read = _activation(values) or ("", values)
    inside = computed.min() >= 0 and computed.max() <= 1
    if not activation and inside:
        activation = "linear"
    surest = computed[0].argmax(-1)
    shares = _shares(computed[0], activation)
    background = [
        (surest == one).mean() > 0.5 and shares[one] > 0.5 for one in (0, computed.shape[2] - 1)
    ]
    if not activation:  # DETR has a class for nothing, its successors have none
        activation = "softmax" if background[1] else "sigmoid"
        background[0] = False
    if activation != "softmax":
        return DetectorHead(made, read, activation, f"{about}, scores of {_of(activation)}")
    if not any(background) or computed.shape[2] < 2:
        raise CannotReadError(
            "ends in boxes and a softmax, but neither its first nor its last class wins at most "
            "places of a grey picture: the class that means no thing is not known. Explain another "
            "output with --output"
        )
    if computed.shape[2] == 2:  # one thing: the sigmoid of a difference
        thing, nothing = (read[..., n : n + 1] for n in ((1, 0) if background[0] else (0, 1)))
        # the minimum: relevance adds up to the score, also where the difference is negative
        score = tf.minimum(tf.sigmoid(thing - nothing), 1.0)
        which = "first" if background[0] else "last"
        return DetectorHead(made, score, "linear", f"{about}; the {which} class is nothing", which)
    if background[1]:
        return DetectorHead(made, read, activation, f"{about}; the last class is nothing", "last")
    turned = tf.concat([read[..., 1:], read[..., :1]], -1)
    return DetectorHead(made, turned, activation, f"{about}; the first class is nothing", "first")


def _of(activation: str) -> str:
    return "a sigmoid" if activation == "sigmoid" else "the file"


def _shares(values: np.ndarray, activation: str) -> np.ndarray:
    """The mean of each class over places, [classes], after a softmax unless there was one."""
    powers = np.exp(values - values.max(-1, keepdims=True))
    return (values if activation else powers / powers.sum(-1, keepdims=True)).mean(0)


def _corners(boxes: tf.Tensor, scale: tuple[int, int]) -> tf.Tensor:
    """Corners y0, x0, y1, x1 in pixels of middles x, y, widths and heights."""
    middle = boxes[..., :2]
    half = boxes[..., 2:] / 2
    corners = tf.concat([(middle - half)[..., ::-1], (middle + half)[..., ::-1]], -1)
    return corners * tf.constant([*scale, *scale], tf.float32)


def _refuse_grids(outputs: Outputs, size: tuple[int, int]) -> None:
    """Refuses what has values for places, and no form of a detector that is known."""
    why = ""
    places = [_places(x) for x in outputs.values()]
    listed = ", ".join(f"{name!r} {list(x.shape)}" for name, x in [*outputs.items()][:6])
    shared = [one for one in places if one and places.count(one) > 1]
    if shared:
        why = f"several outputs have values for the same {shared[0]} places"
    maps = [x for x in outputs.values() if len(x.axes) == 4 and min(x.shape[2:]) > 1]
    if len({x.shape[2:] for x in maps}) > 1:
        why = "its outputs are grids of several sizes"
    for x in maps:
        kinds = {kind for _, kind in spans(x.held_as(2, 3, 1).held, 3)}
        if len(kinds) > 1 and kinds & {"Sigmoid", "Softmax"}:
            why = f"its channels are made in several ways ({', '.join(sorted(kinds))})"
        elif len(maps) == len(outputs) and x.shape[2] * COARSE <= size[0]:
            why = f"its {math.prod(x.shape[2:])} places stand for {COARSE} pixels or more each"
    if why:
        raise CannotReadError(
            f"ends in {listed}. These may be cells of a detector whose form is not known: {why}. "
            "Grid cells are not classes. Export the network with the step that decodes its boxes, "
            "or explain another output with --output"
        )


def _places(x: Tensor) -> int:
    """How many places a tensor [1, places, n] may have values for; 0 if it is none."""
    wide = [one for one in x.shape if one > 1]
    return wide[0] if len(x.axes) == 3 and 1 <= len(wide) <= 2 and wide[0] >= COARSE else 0


def detector(pictures: keras.KerasTensor, layer: keras.Layer, head: DetectorHead) -> keras.Model:
    """A detector, whose `layer` computes boxes and the values of classes."""
    boxes, scores = layer(pictures)
    if head.activation != "linear":
        scores = keras.layers.Activation(head.activation, name="scores")(scores)
    return keras.Model(pictures, {"boxes": boxes, "scores": scores}, name=layer.name)
