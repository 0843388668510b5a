"""Checks what users give an explainer: options, models, input boxes and batches."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError, first_line, unknown
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.system.machine import available_bytes, gib

ColourTransform = tuple[np.ndarray, np.ndarray]
"""offset float32 [C] and matrix float32 [C, 3]: (x - offset) @ matrix is RGB from 0 to 255."""

MARGIN = 0.1  # the share of the range by which values may lie outside before they look raw

log = logging.getLogger(__name__)

Bound = float | Sequence[float] | np.ndarray  # one value, one for each channel, or [H, W, C]


class Prepared(Protocol):
    """A model, and how pictures are prepared for it: what an explainer needs of a `Network`."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> keras.Model | None: ...
    @property
    def labels(self) -> Sequence[str] | None: ...
    def box(self) -> Any: ...
    def colours(self) -> ColourTransform: ...


def check_options(
    precision: str, pool: str, start: str, samples: int | None, also: Sequence[str]
) -> None:
    """Refuses illegal values; the arguments are `Explainer`'s."""
    for what, value, legal in (
        ("precision", precision, ("float32", "bfloat16", "auto")),
        ("pool", pool, ("max", "average")),
        ("start", start, ("probability", "logit")),
    ):
        if value not in legal:
            raise unknown(what, value, legal)
    if samples is not None and not (isinstance(samples, int) and samples >= 1):
        raise UsageError(f"Expected samples as a whole number above 0. Received {samples!r}.")
    if isinstance(also, str):
        raise UsageError(f"Expected also as a list of names. Received {also!r}.", "map")


def model_parts(
    model: keras.Model | Prepared | Graph,
    labels: Sequence[str] | None,
    low: Bound | None,
    high: Bound | None,
) -> tuple[keras.Model | Graph, ColourTransform | None, Sequence[str] | None, Any, Any]:
    """The model, how its input becomes RGB, labels, low and high: the user's before its own."""
    if isinstance(model, keras.Model | Graph):
        return model, None, labels, low, high
    if not hasattr(model, "colours"):
        refuse_foreign_model(model)
        raise UsageError(f"Expected a Keras model or a Network. Received {model!r:.80}.")
    if model.model is None:
        raise UsageError(f"The model of {model.name!r} is gone. Load the network once more.")
    if low is None and high is None:
        low, high = model.box().values()
    labels = model.labels if labels is None else labels
    return model.model, model.colours(), labels, low, high


def input_shape(graph: Graph, size: tuple[int, int] | None) -> tuple[int, int, int]:
    """The shape (H, W, C) of pictures; `size` is needed where the model leaves H and W open."""
    shape = graph.input_shape
    if size is not None and [type(n) for n in np.atleast_1d(size).tolist()] != [int, int]:
        raise UsageError(f"Expected the size as (rows, columns). Received {size!r}.", "size")
    if len(shape) != 3 or shape[2] is None:
        raise DamagedInputError(
            f"The model {graph.name!r} reads {shape}. Expected a picture (height, width, channels)."
        )
    rows, columns = size or shape[:2]
    if rows is None or columns is None:
        raise UsageError(
            f"The model {graph.name!r} has no fixed input size. Say which, for example "
            "--size 224 or size=(224, 224).",
            "size",
        )
    if shape[0] not in (None, rows) or shape[1] not in (None, columns):
        raise UsageError(
            f"The model {graph.name!r} reads {shape[0]} x {shape[1]} pictures, "
            f"not {rows} x {columns}. Leave the size out.",
            "size",
        )
    return rows, columns, shape[2]


def count_classes(graph: Graph) -> int:
    """The number of scores that a model gives for each picture, or at each place of it."""
    shape = graph.output_shape
    if len(shape) not in (1, 3) or shape[-1] is None:
        raise DamagedInputError(
            f"The model {graph.name!r} gives {shape} for each picture. Expected one vector of "
            "classes, or classes for every place of the picture, (rows, columns, classes), or of "
            "a detector two outputs 'boxes' and 'scores'."
        )
    return shape[-1]


def check_labels(labels: Sequence[str] | None, classes: int, graph: Graph) -> None:
    """Refuses labels that are not one for each class."""
    if labels is not None and len(labels) != classes:
        raise DamagedInputError(
            f"There are {len(labels)} labels for the {classes} classes of "
            f"{graph.name!r}. Expected one label for each class, in order"
            f"{'; a single sigmoid is two classes, no and yes.' if classes == 2 else '.'}"
        )


def input_box(
    low: Bound | None, high: Bound | None, shape: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The lowest and highest input as arrays [H, W, C]; None where neither is given."""
    if low is None and high is None:
        return None
    if low is None or high is None:
        raise UsageError("Expected low and high together. Received one of them.", "box")
    try:
        bounds = [np.broadcast_to(np.asarray(b, np.float32), shape) for b in (low, high)]
    except (TypeError, ValueError):
        raise UsageError(
            f"Expected low and high as one number, one for each channel, or {shape}. Received "
            f"{low!r} and {high!r}.",
            "box",
        ) from None
    if not (bounds[0] < bounds[1]).all():
        raise UsageError("Expected low below high, at every entry of the input.", "box")
    return bounds[0], bounds[1]


def refuse_beyond_memory(needed: int, name: str) -> None:
    """Refuses what needs more bytes than are free; checks nothing if there is a GPU."""
    free = available_bytes()
    if needed > free and not tf.config.list_physical_devices("GPU"):
        raise too_large(name, f"it needs {gib(needed)} of memory, {gib(free)} are free")


def too_large(name: str, reason: str) -> UnavailableError:
    """The error for a model that does not fit into this machine's memory."""
    return UnavailableError(
        f"{name} is too large for this machine: {reason}.\n"
        "Use a smaller network or smaller pictures, or close other programs."
    )


class BatchCheck:
    """Checks batches of pictures (H, W, C); warns once of values that were hardly preprocessed."""

    def __init__(
        self, shape: tuple[int, int, int], box: tuple[np.ndarray, np.ndarray] | None
    ) -> None:
        self._shape = shape
        self._ends = None if box is None else (float(box[0].min()), float(box[1].max()))

    def __call__(self, x: np.ndarray | tf.Tensor) -> np.ndarray | tf.Tensor:
        """Returns a batch [B, H, W, C] as an array or tensor, after looking at its values."""
        try:
            x = x if tf.is_tensor(x) else np.asarray(x)
            to_float32(x[:1])
        except (TypeError, ValueError, IndexError, tf.errors.OpError) as error:
            raise UsageError(
                f"Expected a batch of pictures as an array of numbers ({first_line(error)})."
            ) from None
        if len(x.shape) != 4 or tuple(x.shape[1:]) != self._shape or not x.shape[0]:
            expected = ", ".join(map(str, self._shape))
            raise UsageError(
                f"Expected a batch of pictures [B, {expected}], at least one. Received the shape "
                f"{tuple(x.shape)}; a single picture needs x[None]."
            )
        ends = (tf.reduce_min(x), tf.reduce_max(x)) if tf.is_tensor(x) else (x.min(), x.max())
        lowest, highest = (float(np.float32(end)) for end in ends)
        if not (np.isfinite(lowest) and np.isfinite(highest)):
            raise UsageError("The batch of pictures holds NaN or Inf. Expected finite numbers.")
        low, high = self._ends or (lowest, highest)
        slack = MARGIN * (high - low)
        if lowest < low - slack or highest > high + slack:
            self._ends = None  # once
            log.warning(
                "the pictures hold values from %.4g to %.4g, but preprocessed ones lie between "
                "%.4g and %.4g: were they prepared, as by network.prepare(pictures)?",
                lowest, highest, low, high,
            )  # fmt: skip
        return x


def to_float32(x: np.ndarray | tf.Tensor) -> tf.Tensor:
    """Pictures as the tensor that compiled functions read."""
    return tf.cast(tf.convert_to_tensor(x), tf.float32)


def refuse_foreign_model(model: Any) -> None:
    """Refuses a model in memory that another library has built, with the way to have it read."""
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    ways = {
        "tf_keras": "a model of Keras 2. Write it with model.save('name.h5'), or, with layers of "
        "its own, with model.export('folder')",
        "torch": "a module of PyTorch. Write it with torch.onnx.export(model.eval(), x, 'n.onnx')",
    }
    for package in packages & ways.keys():
        raise UsageError(
            f"This is {ways[package]}, and explain what load_network reads from there.", "model"
        )
