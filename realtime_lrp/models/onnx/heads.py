"""What outputs mean: boxes and scores of a detector, or classes.

A form is recognised by how tensors are made and by their values for test pictures, in checks that
can fail. What looks like a detector and has no known form is refused.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.tensors import Tensor
from realtime_lrp.relevance.network.places import OF_CLASSES
from realtime_lrp.relevance.reading.tracing import CannotReadError, compute_of

OF_BOXES = re.compile("box|loc|coord|dets", re.IGNORECASE)  # names of outputs
OF_PLACES = re.compile("obj|iou|center", re.IGNORECASE)  # names of outputs with a score a place
COARSE = 16  # a map with as many pixels to a cell, or rows for as many places, may be a detector's

MOVES = (
    "ConcatV2", "ExpandDims", "GatherV2", "Identity", "Reshape", "Split", "SplitV", "Squeeze",
    "StridedSlice", "Transpose",
)  # fmt: skip
"""Operations that only move entries: through them columns are followed back."""

# computes tensors for test pictures; the first is black or grey
Compute = Callable[[Sequence[tf.Tensor]], list[np.ndarray]]
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
    """The head of a detector for pictures of this size; `classes` is how many the file names."""
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
    if places and x.held.op.type == "Reshape" and places < math.prod(x.shape) in x.shape:
        each, rest = divmod(math.prod(x.shape), places)
        # all in a row, as detectors choose the best of all scores
        x = x if rest else x.reshaped([1, places, each])
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
        if name != boxes and (rows := _rows(x, places, None)) is not None
    ]
    if any(OF_PLACES.search(name) for name in outputs):
        return None
    return max(found, key=lambda one: one[:3])[3] if found else None


def _activation(values: tf.Tensor) -> tuple[str, tf.Tensor] | None:
    """The activation that the last axis ends in, and what it reads."""
    values = _columns(values, 2, 0, values.shape[2])
    for kind in ("Sigmoid", "Softmax"):
        if (read := _before_activation(values, kind)) is not None:
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
        kinds = _kinds(rows, 2) if x.shape[0] == 1 else []
        if "Sigmoid" not in kinds or kinds.index("Sigmoid") != 4:
            continue
        count = len([*itertools.takewhile("Sigmoid".__eq__, kinds[4:])])
        boxes = _columns(rows, 2, 0, 4)
        values = _columns(rows, 2, 4, 4 + count)
        if count > 1 and (channel == 2 if classes is None else count == classes + 1):
            (found,) = compute([boxes])
            if not (found[..., 2:] >= 0).all():
                raise CannotReadError(_OFFSETS.format(found.min(), found.max()))
            scores = values[..., :1] * values[..., 1:]
            form = "boxes and scores of YOLOv5 (any thing, times each class)"
            return DetectorHead(_corners(boxes, (1, 1)), scores, "linear", form)
        read = _before_activation(values, "Sigmoid")
        if read is None:
            return None
        return DetectorHead(
            _corners(boxes, (1, 1)), read, "sigmoid", "boxes and scores of Ultralytics"
        )
    return None


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
    if not activation and computed.min() >= 0 and computed.max() <= 1:
        activation = "linear"
    powers = np.exp(computed[0] - computed[0].max(-1, keepdims=True))
    scores = computed[0] if activation else powers / powers.sum(-1, keepdims=True)
    surest = computed[0].argmax(-1)
    background = [
        (surest == one).mean() > 0.5 and scores[:, one].mean() > 0.5
        for one in (0, scores.shape[1] - 1)
    ]
    if not activation:  # DETR has a class for nothing, its successors have none
        activation = "softmax" if background[1] else "sigmoid"
        background[0] = False
    if activation != "softmax":
        of = "a sigmoid" if activation == "sigmoid" else "the file"
        return DetectorHead(made, read, activation, f"{about}, scores of {of}")
    if not any(background) or computed.shape[2] < 2:
        raise CannotReadError(
            "ends in boxes and a softmax, but neither its first nor its last class wins at most "
            "places of a grey picture: the class that means no thing is not known. Explain another "
            "output with --output"
        )
    which = "first" if background[0] else "last"
    about += f"; the {which} class is nothing"
    if computed.shape[2] == 2:  # one thing: the sigmoid of a difference
        thing, nothing = (read[..., n : n + 1] for n in ((1, 0) if background[0] else (0, 1)))
        # the minimum: relevance adds up to the score, also where the difference is negative
        score = tf.minimum(tf.sigmoid(thing - nothing), 1.0)
        return DetectorHead(made, score, "linear", about, which)
    if background[0]:
        read = tf.concat([read[..., 1:], read[..., :1]], -1)
    return DetectorHead(made, read, activation, about, which)


def _corners(boxes: tf.Tensor, scale: tuple[int, int]) -> tf.Tensor:
    """Corners y0, x0, y1, x1 in pixels of middles x, y, widths and heights."""
    middle = boxes[..., :2]
    half = boxes[..., 2:] / 2
    corners = tf.concat([(middle - half)[..., ::-1], (middle + half)[..., ::-1]], -1)
    return corners * tf.constant([*scale, *scale], tf.float32)


def _refuse_grids(outputs: Outputs, size: tuple[int, int]) -> None:
    """Refuses what has values for places, and no form of a detector that is known."""
    why = ""
    places = [
        wide[0]  # how many places an output [1, places, n] may have values for
        for x in outputs.values()
        if len(x.axes) == 3 and 1 <= len(wide := [one for one in x.shape if one > 1]) <= 2
    ]
    listed = ", ".join(f"{name!r} {list(x.shape)}" for name, x in [*outputs.items()][:6])
    shared = [place for place in places if place >= COARSE and places.count(place) > 1]
    if shared:
        why = f"several outputs have values for the same {shared[0]} places"
    maps = [x for x in outputs.values() if len(x.axes) == 4 and min(x.shape[2:]) > 1]
    if len({x.shape[2:] for x in maps}) > 1:
        why = "its outputs are grids of several sizes"
    for x in maps:
        kinds = {*_kinds(x.held_as(2, 3, 1).held, 3)}
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


def _kinds(tensor: tf.Tensor, axis: int) -> list[str]:
    """The operation behind each column along an axis."""
    operation = tensor.op
    size = tensor.shape[axis]
    if operation.type == "ConcatV2":
        parts = [_kinds(input_, axis) for input_ in operation.inputs[:-1]]
        if int(_known(operation.inputs[-1])) == axis:
            return [*itertools.chain(*parts)]
        return parts[0] if all(part == parts[0] for part in parts) else ["ConcatV2"] * size
    if (place := _place(tensor, axis)) is not None:
        before, own, first = place
        return _kinds(before, own)[first : first + size]
    return [_kind(tensor) if size == 1 else operation.type] * size


def _kind(tensor: tf.Tensor) -> str:
    """The operation that computed entries before they were moved."""
    operation = tensor.op
    if operation.type not in MOVES:
        return operation.type
    joined = operation.inputs[:-1] if operation.type == "ConcatV2" else operation.inputs[:1]
    kinds = {_kind(one) for one in joined}
    return kinds.pop() if len(kinds) == 1 else operation.type


def _columns(tensor: tf.Tensor, axis: int, first: int, stop: int) -> tf.Tensor:
    """Some columns along an axis, taken where they are computed, before they were joined."""
    operation = tensor.op
    if operation.type == "Sigmoid":
        return tf.sigmoid(_columns(operation.inputs[0], axis, first, stop))
    if operation.type == "ConcatV2":
        along = int(_known(operation.inputs[-1]))
        parts = []
        at = 0
        for input_ in operation.inputs[:-1]:
            if along != axis:
                parts.append(_columns(input_, axis, first, stop))
                continue
            size = input_.shape[axis]
            if first < at + size and at < stop:
                parts.append(_columns(input_, axis, max(first - at, 0), min(stop - at, size)))
            at += size
        return parts[0] if len(parts) == 1 else tf.concat(parts, along)
    if (place := _place(tensor, axis)) is not None:
        before, own, begin = place
        found = _columns(before, own, begin + first, begin + stop)
        if operation.type == "Transpose":
            return tf.transpose(found, _known(operation.inputs[1]))
        if operation.type == "Reshape":
            shape = [-1, *tensor.shape[1:]]
            shape[axis] = stop - first
            return tf.reshape(found, shape)
        return found
    if (first, stop) == (0, tensor.shape[axis]):
        return tensor
    return tensor[(slice(None),) * axis + (slice(first, stop),)]


def _place(tensor: tf.Tensor, axis: int) -> tuple[tf.Tensor, int, int] | None:
    """Where columns come from: a tensor, its axis, and the first column there; or None."""
    operation = tensor.op
    if operation.type == "Transpose":
        return operation.inputs[0], int(_known(operation.inputs[1])[axis]), 0
    if operation.type == "Reshape":
        before = operation.inputs[0]
        sizes = [1, *before.shape[1:]], [1, *tensor.shape[1:]]
        for own, size in enumerate(sizes[0]):
            alike = size == sizes[1][axis] and own > 0
            if alike and np.prod(sizes[0][:own]) == np.prod(sizes[1][:axis]):
                return before, own, 0
    if operation.type == "SplitV" and int(_known(operation.inputs[2])) == axis:
        sizes_of_parts = _known(operation.inputs[1])
        return operation.inputs[0], axis, int(sizes_of_parts[: tensor.value_index].sum())
    if operation.type == "StridedSlice":
        before = operation.inputs[0]
        masks = operation.get_attr("begin_mask")
        others = range(1, len(before.shape))
        kept = all(before.shape[n] == tensor.shape[n] for n in others if n != axis)
        if len(before.shape) == len(tensor.shape) and kept:
            begin, steps = (_known(operation.inputs[n]) for n in (1, 3))
            if axis < len(begin) and int(steps[axis]) == 1:
                return before, axis, 0 if masks >> axis & 1 else int(begin[axis])
    return None


def _before_activation(tensor: tf.Tensor, kind: str) -> tf.Tensor | None:
    """The tensor as it is before an activation of a type, which all its parts have; else None."""
    operation = tensor.op
    if operation.type == kind:
        return operation.inputs[0]
    if operation.type not in MOVES:
        return None
    read: list[tf.Tensor] = []
    for input_ in operation.inputs:
        constant = tf.get_static_value(input_) is not None
        found = input_ if constant else _before_activation(input_, kind)
        if found is None:
            return None
        read.append(found)
    made = compute_of(operation)(*read)
    return made[tensor.value_index] if isinstance(made, Sequence) else made


def _known(tensor: tf.Tensor) -> np.ndarray:
    return np.asarray(tf.get_static_value(tensor))
