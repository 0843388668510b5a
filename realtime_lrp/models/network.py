"""A network: a Keras model with its labels, and how pictures are prepared for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.config.preprocessing import EXAMPLE, Preprocessing, parse
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.network.checks import refuse_foreign_model
from realtime_lrp.relevance.reading.building import finds_boxes

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)  # red, green, blue (ITU-R BT.601)
NO_PREPROCESSING = "no --preprocess given, so the answers may be nonsense"  # a network's warning
Size = tuple[int, int] | None  # (H, W) of pictures, for a file that leaves it open


@dataclass(frozen=True)
class Scaling:
    """How a preset of KerasHub prepares pictures: x * scale + offset, each one per channel."""

    scale: tuple[float, ...]
    offset: tuple[float, ...]

    def __call__(self, pictures: np.ndarray | tf.Tensor) -> tf.Tensor:
        """Prepares pictures, uint8 [B, H, W, 3] RGB: float32 [B, H, W, channels]."""
        values = tf.cast(pictures, tf.float32)
        if len(self.scale) == 1:
            values = tf.tensordot(values, LUMINANCE[:, None], 1)
        return values * tf.constant(self.scale) + tf.constant(self.offset)


def prepared(pictures: np.ndarray | tf.Tensor, way: Preprocessing, channels: int = 3) -> tf.Tensor:
    """Pictures, uint8 [B, H, W, 3] RGB, as a network reads them, float32 [B, H, W, channels].

    Works inside a `tf.function` too. One channel is luminance.
    """
    values = tf.cast(pictures, tf.float32)
    if channels == 1:
        values = tf.tensordot(values, LUMINANCE[:, None], 1)
    if way.invert:
        values = 255 - values
    if way.bgr:
        values = values[..., ::-1]
    if way.high - way.low != 255:
        values = values / (255 / (way.high - way.low))
    if way.low:
        values = values + way.low
    if any(way.mean):
        values = values - tf.constant(way.mean)
    return values / tf.constant(way.std) if {*way.std} != {1.0} else values


class PixelRange(TypedDict):
    """The range of preprocessed pixels, as keyword arguments of `Explainer`; float32 [channels]."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Network:
    """A Keras model with what is needed to feed it pictures and to name its outputs.

    Notebooks show it as a table.

    Attributes:
      name: the name shown on the screen.
      model: the Keras model, or None after an explainer has taken its weights.
      preprocess: how pictures are prepared: "caffe" (BGR minus ImageNet's mean), "tf" (-1 to 1),
        "torch" (0 to 1, minus the mean, divided by the deviation), "rescale" (0 to 1), "none" (0
        to 255), a range with what else is done, such as "0..1 mean=0.1307 std=0.3081", "0..255 bgr"
        or "-1..1 invert", or, for networks with a `scaling`, "preset".
      labels: class names in the order of the outputs, or None if they are not known.
      warning: why the answers may be wrong, or "".
      channels: channels of its input; 0 means to ask the model.
      scaling: how the preset of KerasHub that it comes from prepares pictures, or None.
      detects: whether it finds boxes, rather than naming the whole picture; asked of the model.
      nothing: which class of a detector's file stands for no thing: "first", "last" or "".

    Raises:
      UsageError: there is no such preprocessing.
    """

    name: str
    model: keras.Model | None
    preprocess: str = "none"
    labels: list[str] | None = None
    warning: str = ""
    channels: int = 0
    scaling: Scaling | None = None
    detects: bool = False
    nothing: str = ""

    def __post_init__(self) -> None:
        if self.scaling is None:
            parse(self.preprocess)
        refuse_foreign_model(self.model)
        shape = _input_shape(self.model)
        # 1 where it has no axis for channels, 3 where it is no picture, which explainers refuse
        channels = shape[3] if len(shape) == 4 else 1 if len(shape) == 3 else 3
        object.__setattr__(self, "channels", self.channels or channels)
        found = self.model is not None and finds_boxes(self.model)
        object.__setattr__(self, "detects", self.detects or found)

    @property
    def fit(self) -> str:
        """The default part of a picture that it sees: detectors see all of it."""
        return "letterbox" if self.detects else "crop"

    def labels_of(self, names: Sequence[str]) -> list[str]:
        """The names of the scores from a file's `names`, which may have one for no thing.

        It is the last score, unless there is a single thing; a file may leave it unnamed.
        """
        if not self.model or not self.nothing:
            return [*names]
        count = self.model.output["scores"].shape[-1]
        things = max(count - 1, 1)
        named = [*names[1:], names[0]] if self.nothing == "first" and len(names) > things else names
        return [*named, "nothing"][:count] if len(named) in (things, things + 1) else [*named]

    def prepare(self, pictures: np.ndarray | tf.Tensor) -> tf.Tensor:
        """Turns pictures, uint8 [B, H, W, 3] RGB, into the input, float32 [B, H, W, channels].

        Raises:
          UsageError: the model reads neither colours nor luminance, or the preprocessing is for
            colours alone.
        """
        if self.channels not in (1, 3):
            shape = _input_shape(self.model)
            if len(shape) == 4 and shape[1] in (1, 3):
                raise UsageError(
                    f"The model {self.name!r} reads pictures with their channels first, {shape[1]} "
                    "x height x width, not last. Export it as ONNX, which is read either way."
                )
            raise UsageError(
                f"The model {self.name!r} reads {self.channels} channels, which no picture has. "
                "Prepare its input yourself, and give the model alone: Explainer(network.model)."
            )
        if self.scaling is not None:
            return self.scaling(pictures)
        way = parse(self.preprocess)
        if self.channels == 1 and way.for_colours:
            raise UsageError(
                f"The preprocessing {self.preprocess!r} is for colours. The model {self.name!r} "
                "reads luminance: use tf (-1 to 1), rescale (0 to 1), none (0 to 255) or one mean "
                f"and deviation, such as {EXAMPLE!r}.",
                "preprocess",
            )
        return prepared(pictures, way, self.channels)

    def box(self) -> PixelRange:
        """The lowest and highest values that `prepare` can return."""
        black_and_white = np.array([[[[0, 0, 0]]], [[[255, 255, 255]]]], np.uint8)
        ends = self.prepare(black_and_white)[:, 0, 0].numpy()
        return PixelRange(low=ends.min(0), high=ends.max(0))

    def colours(self) -> tuple[np.ndarray, np.ndarray]:
        """The way back from the input x to colours from 0 to 255: RGB is (x - offset) @ matrix.

        Returns:
          offset, float32 [channels], and matrix, float32 [channels, 3]; luminance becomes grey.
        """
        black_and_colours = np.concatenate([np.zeros((1, 3)), 255 * np.eye(3)]).astype(np.uint8)
        black, *colours = self.prepare(black_and_colours[:, None, None])[:, 0, 0].numpy()
        of_colours = (np.stack(colours) - black) / 255  # [3, channels]
        if self.channels == 1:
            back = np.full((1, 3), 1 / of_colours.sum())
        else:
            back = np.linalg.inv(of_colours)
        return black, back.astype(np.float32)

    def __repr__(self) -> str:
        labels = f"{len(self.labels)} labels" if self.labels else "no labels"
        return f"<Network {self.name!r}: preprocess {self.preprocess!r}, {labels}>"


def _input_shape(model: keras.Model | None) -> tuple[int, ...]:
    """The shape of a batch of its first input; empty where there is none."""
    inputs = getattr(model, "inputs", None)
    return inputs[0].shape if inputs else ()
