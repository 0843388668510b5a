"""Makes TensorFlow operations of a TensorFlow Lite file, one operation after the other."""

import math
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.config.preprocessing import NAMED, parse
from realtime_lrp.errors import DamagedInputError, UsageError, first_line
from realtime_lrp.models.network import Network, prepared, tell_preparation
from realtime_lrp.models.preparing import scaled_pictures
from realtime_lrp.models.saved_models import SavedOperations
from realtime_lrp.models.tflite.file import TfliteFile, TfliteOperation
from realtime_lrp.models.tflite.rows import BATCH, FUSED, ROWS, TfliteNode, batch_axis, numbers
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.models.untrusted.saved_model import SavedGraph
from realtime_lrp.relevance.reading.tracing import CannotReadError

SMALL = 1000  # entries of an array that stays in the graph
MAX_ENTRIES = 1 << 28
"""The most entries of a tensor, for one picture. A file can ask for any number in few bytes."""

CLIPPED = ("ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
"""Operations whose ReLU older converters leave out, where quantised outputs begin at 0."""


def load_tflite(
    path: Path, weights: str | None, size: tuple[int, int] | None, output: str | None, said: bool
) -> Network:
    """Loads a network from a TensorFlow Lite file, with floating numbers in place of quantised.

    The size, (H, W), is for a file that leaves it open; `output` names one of several. A line tells
    how pictures are prepared, unless somebody has `said` it.

    Raises:
      DamagedInputError: what is wrong with the file, or which operation has no row.
      UsageError: weights were given, which the file has itself; or no size.
    """
    shown = repr(str(path))
    if weights is not None:
        raise UsageError(f"{shown} has its own weights. Leave --weights out.", "weights")
    problem = f"{shown} is no TensorFlow Lite file that can be read"
    with naming_the_file(shown, problem, "Expected one that tf.lite.TFLiteConverter has written."):
        file = TfliteFile(path, output)
        reader = _TfliteReader(file, shown, size)
        saved = reader.read()
        name = re.sub(r"[^\w.-]", "_", path.stem) or "tflite"
        pictures = keras.Input(saved.input_shape[1:], dtype="float32", name="pictures")
        scores = SavedOperations(saved, name=name, names=reader.names)(pictures)
        model = keras.Model(pictures, scores, name=name)
        labels = file.labels(max(scores.shape[-1], 2))  # one sigmoid is two classes
        prepares = scaled_pictures(saved.graph.node, saved.input, saved.variables)
        way, who = _prepared(file, pictures.shape[-1], bool(prepares))
    if not said:
        tell_preparation(path.name, way, who)
    return Network(name, model, way, labels)


class _TfliteReader:
    """The state while a file is read."""

    def __init__(self, file: TfliteFile, shown: str, size: tuple[int, int] | None) -> None:
        self.file = file
        self.shown = shown
        self.graph = tf.Graph()
        self.weights: dict[str, np.ndarray] = {}
        self.names: dict[str, str] = {}
        self.values: dict[int, Any] = file.arrays()
        self.blocks: dict[int, tuple[int, ...]] = {}  # block sizes of divided tensors
        tensor = file.tensor(file.picture)
        shape = tensor.signature[1:] + [1] * (len(tensor.shape) == 3)  # grey without a channel
        first = len(shape) == 3 and shape[2] not in (1, 3) and shape[0] in (1, 3)
        shape = [*shape[1:], shape[0]] if first else shape
        if len(shape) != 3 or shape[2] not in (1, 3) or tensor.shape[0] != 1:
            raise ValueError(f"it reads {tensor.signature}, not [1, height, width, 3 or 1]")
        if -1 in shape and size is None:
            raise UsageError(f"{shown} has no fixed size. Say which, such as --size 224.", "size")
        rows, columns = (size[n] if size and shape[n] < 0 else shape[n] for n in (0, 1))
        self.shape = (None, rows, columns, shape[2])
        with self.graph.as_default():
            pictures = (BATCH, *self.shape[1:])
            self.input = x = tf.compat.v1.placeholder(tf.float32, pictures, "pictures")
            x = tf.transpose(x, [0, 3, 1, 2]) if first else x
            self.values[file.picture] = x if len(tensor.shape) == 4 else tf.squeeze(x, 3)

    def read(self) -> SavedGraph:
        """The operations; notes which names of the file those of them have."""
        with self.graph.as_default():
            for operation in self.file.operations:
                self._read(operation)
            (number,) = self.file.outputs.values()
            end = self.values[number]
            if batch_axis(end) != 0:
                raise ValueError("its output is not one for each picture")
            sizes = [one for one in end.shape[1:] if one != 1]
            if len(sizes) < 2 and len(end.shape) != 2:  # a vector
                end = tf.reshape(end, [-1, *(sizes or [1])])
        return SavedGraph(
            self.graph.as_graph_def(), self.input.op.name, self.shape, tf.float32, (end.name,),
            self.weights,
        )  # fmt: skip

    def _read(self, operation: TfliteOperation) -> None:
        """Makes the operations of one, under its name; turns every error into one with the name."""
        name = self.file.tensor(operation.outputs[0]).name.strip("/") or operation.kind
        scope = re.sub(r"[^\w./-]", "_", name, flags=re.ASCII).lstrip("_./-") or operation.kind
        before = len(self.graph.get_operations())
        try:
            with tf.name_scope(scope + "/"):
                outputs = self._outputs(operation)
            self.values.update(zip(operation.outputs, outputs, strict=True))
        except Exception as error:  # what the shapes and types of a damaged file lead to
            known = isinstance(error, CannotReadError)
            why = error if known else f"cannot be computed ({first_line(error)[:200].rstrip('.')})"
            raise DamagedInputError(
                f"The operation {operation.kind[:100]} ({name[:100]!r}) of {self.shown} {why}."
            ) from error
        self.names |= {one.name: name for one in self.graph.get_operations()[before:]}

    def _outputs(self, operation: TfliteOperation) -> list[Any]:
        if operation.kind not in ROWS:
            raise CannotReadError(
                "has no rule.\nConvert the network without it, or add a row to ROWS in "
                "models/tflite (docs/extending.md)"
            )
        inputs = [None if one < 0 else self.values[one] for one in operation.inputs]
        made = self.file.tensor(operation.outputs[0])
        shape = None if -1 in made.signature[1:] else made.shape
        block = next((self.blocks[n] for n in operation.inputs if n in self.blocks), (1, 1))
        if operation.kind == "SPACE_TO_BATCH_ND":
            block = tuple(numbers(np.asarray(inputs[1])))
        if operation.kind != "BATCH_TO_SPACE_ND" and block != (1, 1):
            self.blocks.update(dict.fromkeys(operation.outputs, block))
        node = TfliteNode(operation.kind, operation.options, shape, self._keep, block)
        outputs = ROWS[operation.kind](node, *inputs)
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        clipped = operation.kind in CLIPPED and made.ends is not None and made.ends[0] == 0
        if fused := node.get("fusedActivationFunction") or int(clipped):
            outputs[0] = FUSED[fused](outputs[0])
        if max(math.prod(one.shape) for one in outputs) > MAX_ENTRIES * BATCH:
            raise CannotReadError(f"computes more than {MAX_ENTRIES:,} numbers for one picture")
        return outputs

    def _keep(self, array: np.ndarray) -> tf.Tensor:
        """A constant; one that is read as a variable where it is large."""
        if array.size <= SMALL or array.dtype.kind != "f":
            return tf.constant(array)
        placeholder = tf.compat.v1.placeholder(tf.float32, array.shape, "weights")
        self.weights[placeholder.op.name] = np.ascontiguousarray(array)
        return placeholder


def _prepared(file: TfliteFile, channels: int, prepares: bool) -> tuple[str, str]:
    """How pictures are prepared, and who says so."""
    tensor = file.tensor(file.picture)
    if tensor.ends is not None:
        way = f"{tensor.ends[0]:.6g}..{tensor.ends[1]:.6g}"
        who = "the quantisation of its input"
    elif not tensor.type.startswith("FLOAT"):
        return "none", "its input, which has whole numbers,"
    elif normalised := file.normalised():
        mean, std = (",".join(f"{n:.6g}" for n in one[:channels]) for one in normalised)
        way = f"0..255 mean={mean} std={std}"
        who = "its metadata"
    elif prepares:
        return "none", "its first operation"
    else:
        return "tf", ""
    try:
        ends = _ends(way, channels, tensor.ends is not None)
    except UsageError as error:
        raise ValueError(f"{who} says that pictures are prepared as {way!r}") from error
    names = [name for name, known in NAMED.items() if channels == 3 or not known.for_colours]
    for name in names:
        known = _ends(name, channels, tensor.ends is not None)
        if np.abs(known - ends).max() < 0.03 * np.ptp(known):
            return name, who
    return way, who


def _ends(way: str, channels: int, joined: bool) -> np.ndarray:
    """What black and white become, [2, channels]; the lowest and highest of all if `joined`."""
    black_and_white = np.array([[[[0] * 3]], [[[255] * 3]]], np.uint8)
    found = prepared(black_and_white, parse(way), channels).numpy()[:, 0, 0]
    return np.array([[found.min()], [found.max()]]) if joined else found
