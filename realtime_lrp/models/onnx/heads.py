"""What detectors end in, by the forms in which they are exported."""

from collections.abc import Sequence
from dataclasses import dataclass

import keras
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor

EXPECTED = (
    "Expected a vector for each picture; or of a detector [1, 4 + classes, places], which joins "
    "boxes and a sigmoid, as Ultralytics exports it, or [1, places, classes] and [1, places, 4], "
    "as DETR has them"
)


@dataclass(frozen=True)
class Head:
    """What a detector ends in.

    Attributes:
      boxes: [B, places, 4], y0, x0, y1, x1 in pixels.
      logits: [B, places, classes].
      activation: what makes scores of them, "sigmoid" or "softmax"; "" where the file has neither.
      form: which form was recognised.
    """

    boxes: tf.Tensor
    logits: tf.Tensor
    activation: str
    form: str


def head_of(outputs: Sequence[Tensor], size: tuple[int, int]) -> Head:
    """The head of a detector for pictures of (rows, columns).

    `outputs` are one tensor, boxes and scores in pixels, or logits and boxes from 0 to 1; boxes
    have the middle x, y, then width and height.
    """
    if len(outputs) == 1:
        boxes, scores = _parts(outputs[0])
        form, scale = "boxes and scores of Ultralytics", (1, 1)
        boxes, (logits, activation) = boxes.transposed([0, 2, 1]), _before(scores)
        logits = logits.transposed([0, 2, 1])
    else:
        boxes, (logits, activation) = outputs[1], _before(outputs[0])
        form, scale = "logits and boxes as of DETR", size
    if (activation != "sigmoid" and len(outputs) == 1) or boxes.shape[:2] != logits.shape[:2]:
        raise CannotReadError(f"is no known end of a network. {EXPECTED}")
    middle_and_size = boxes.held_as(1, 2).held
    middle, half = middle_and_size[..., :2], middle_and_size[..., 2:] / 2
    corners = tf.concat([(middle - half)[..., ::-1], (middle + half)[..., ::-1]], -1)
    corners *= tf.constant([*scale, *scale], tf.float32)
    return Head(corners, logits.held_as(1, 2).held, activation, form)


def _parts(output: Tensor) -> tuple[Tensor, Tensor]:
    """The two tensors [1, 4, places] and [1, classes, places] that were joined."""
    held, shape = output.held, output.shape
    parts = list(held.op.inputs)[:-1] if held.op.type == "ConcatV2" else []
    joined = [output.holding(one) for one in parts]
    if len(shape) != 3 or [one.shape[:2] for one in joined] != [(1, 4), (1, shape[1] - 4)]:
        raise CannotReadError(f"computes {list(shape)}. {EXPECTED}")
    return joined[0], joined[1]


def _before(scores: Tensor) -> tuple[Tensor, str]:
    """What the sigmoid or softmax reads that scores end in, and which of them it is."""
    operation = scores.held.op
    if operation.type in ("Sigmoid", "Softmax"):
        return scores.holding(operation.inputs[0]), operation.type.lower()
    return scores, ""


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
