"""What detectors end in, by the forms in which they are exported."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor


class Head(NamedTuple):
    """What a detector ends in."""

    boxes: tf.Tensor  # [B, places, 4], y0, x0, y1, x1 in pixels
    logits: tf.Tensor  # [B, places, classes]
    activation: str  # what makes scores of them, or "" where the file has neither
    form: str  # which was recognised


def head_of(outputs: Sequence[Tensor], size: tuple[int, int]) -> Head | None:
    """The head of a detector for pictures of (rows, columns); None where a single output is none.

    `outputs` are logits and boxes from 0 to 1; or one tensor, boxes and scores in pixels, that were
    joined. Boxes have the middle x, y, then width and height.
    """
    form, scale = "logits and boxes as of DETR", size
    if len(outputs) == 1:
        form, scale, outputs = "boxes and scores of Ultralytics", (1, 1), _parts(outputs[0])
        if not outputs:
            return None
    scores, boxes = outputs
    if boxes.shape[:2] != scores.shape[:2]:
        raise CannotReadError("ends in boxes and logits for different numbers of places")
    last = scores.held.op
    activation = last.type.lower() if last.type in ("Sigmoid", "Softmax") else ""
    logits = scores.holding(last.inputs[0]) if activation else scores
    middle_and_size = boxes.held_as(1, 2).held
    middle, half = middle_and_size[..., :2], middle_and_size[..., 2:] / 2
    corners = tf.concat([(middle - half)[..., ::-1], (middle + half)[..., ::-1]], -1)
    corners *= tf.constant([*scale, *scale], tf.float32)
    return Head(corners, logits.held_as(1, 2).held, activation, form)


def _parts(output: Tensor) -> list[Tensor]:
    """Scores of a sigmoid, and boxes, which were joined to [1, 4 + classes, places]; else none."""
    last, shape = output.held.op, output.shape
    parts = [output.holding(one) for one in last.inputs[:-1]] if last.type == "ConcatV2" else []
    joined = [one.shape[:2] for one in parts] == [(1, 4), (1, shape[1] - 4)]
    if len(shape) != 3 or not joined or parts[1].held.op.type != "Sigmoid":
        return []
    return [one.transposed([0, 2, 1]) for one in parts[::-1]]


def says_nothing(logits: tf.Tensor) -> bool:
    """Whether the last class stands for nothing: of a grey picture, most places are surest of it.

    DETR has such a class, under a softmax. Its successors have none; their scores are sigmoids.
    """
    surest = tf.reduce_mean(tf.cast(tf.argmax(logits, -1) == logits.shape[-1] - 1, tf.float32))
    share = tf.reduce_mean(tf.nn.softmax(logits)[..., -1])
    return bool(surest > 0.5 and share > 0.5)


def detector(pictures: keras.KerasTensor, layer: keras.Layer, head: Head) -> keras.Model:
    """A detector, whose `layer` computes boxes and logits."""
    boxes, logits = layer(pictures)
    activation = head.activation
    if not activation:
        _, of_grey = layer(tf.zeros([1, *pictures.shape[1:]]))
        activation = "softmax" if says_nothing(of_grey) else "sigmoid"
    made = keras.layers.Activation(activation, name="scores")(logits)
    return keras.Model(pictures, {"boxes": boxes, "scores": made}, name=layer.name)
