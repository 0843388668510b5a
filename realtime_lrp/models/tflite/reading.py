"""Makes TensorFlow operations of a TensorFlow Lite file, one operation after the other."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.config.preprocessing import NAMED, parse
from realtime_lrp.errors import UsageError
from realtime_lrp.models.network import Network, Size, prepared
from realtime_lrp.models.saved_models import GraphMaker, scaled_pictures, with_size
from realtime_lrp.models.tflite.file import TfliteFile, TfliteOperation
from realtime_lrp.models.tflite.rows import BATCH, FUSED, ROWS, TfliteNode, batch_axis
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.models.untrusted.saved_model import PICTURES
from realtime_lrp.relevance.reading.tracing import CannotReadError

MAX_ENTRIES = 1 << 28  # a tensor's, for a picture; few bytes of a file can ask for any number

CLIPPED = ("ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
"""Operations whose ReLU older converters leave out if quantised outputs begin at 0."""


def load_tflite(path: Path, size: Size, output: str | None) -> tuple[Network, str]:
    """Loads a network, with floating numbers for quantised ones, and what `load_onnx` returns."""
    shown = repr(str(path))
    problem = f"{shown} is no TensorFlow Lite file that can be read"
    with naming_the_file(shown, problem, "Expected one that tf.lite.TFLiteConverter has written."):
        file = TfliteFile(path, output)
        reader = _TfliteReader(file, shown, size)
        model = reader.model(path.stem, [reader.read()])
        labels = file.labels(model.output.shape[-1])
        nodes = reader.graph.as_graph_def().node
        prepares = scaled_pictures(nodes, PICTURES, reader.weights)
        way, who = _prepared(file, reader.shape[2], bool(prepares))
    return Network(model.name, model, way, labels), who


class _TfliteReader(GraphMaker):
    """The state while a file is read."""

    def __init__(self, file: TfliteFile, shown: str, size: Size) -> None:
        tensor = file.tensor(file.picture)
        shape = tensor.signature[1:] + [1] * (len(tensor.shape) == 3)  # grey without a channel
        first = len(shape) == 3 and shape[2] not in (1, 3) and shape[0] in (1, 3)
        shape = [*shape[1:], shape[0]] if first else shape
        if len(shape) != 3 or shape[2] not in (1, 3) or tensor.shape[0] != 1:
            raise ValueError(f"it reads {tensor.signature}, not [1, height, width, 3 or 1]")
        super().__init__(with_size([max(one, 0) for one in shape], size, shown), BATCH)
        self.file = file
        self.shown = shown
        self.values: dict[int, Any] = file.arrays()
        with self.graph.as_default():
            x = tf.transpose(self.pictures, [0, 3, 1, 2]) if first else self.pictures
            self.values[file.picture] = x if len(tensor.shape) == 4 else tf.squeeze(x, 3)

    def read(self) -> tf.Tensor:
        """Makes the operations; returns the end of the graph."""
        with self.graph.as_default():
            for one in self.file.operations:
                name = self.file.tensor(one.outputs[0]).name.strip("/") or one.kind
                said = f"The operation {one.kind[:100]} ({name[:100]!r}) of {self.shown}"
                with self.naming(name, said):
                    self.values |= zip(one.outputs, self._outputs(one), strict=True)
            end = self.values[self.file.output]
            if batch_axis(end) != 0:
                raise ValueError("its output is not one for each picture")
            sizes = [one for one in end.shape[1:] if one != 1]
            if len(sizes) < 2 and len(end.shape) != 2:  # a vector
                end = tf.reshape(end, [-1, *(sizes or [1])])
        return end

    def _outputs(self, operation: TfliteOperation) -> list[Any]:
        if operation.kind not in ROWS:
            raise CannotReadError(
                "has no rule.\nConvert the network without it, or add a row to ROWS in "
                "models/tflite (docs/extending.md)"
            )
        inputs = [None if input_ < 0 else self.values[input_] for input_ in operation.inputs]
        made = self.file.tensor(operation.outputs[0])
        shape = None if -1 in made.signature[1:] else made.shape
        node = TfliteNode(operation.kind, operation.options, shape, self.keep)
        outputs = ROWS[operation.kind](node, *inputs)
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        clipped = operation.kind in CLIPPED and made.ends is not None and made.ends[0] == 0
        if fused := node.get("fusedActivationFunction") or int(clipped):
            outputs[0] = FUSED[fused](outputs[0])
        if max(math.prod(output.shape) for output in outputs) > MAX_ENTRIES * BATCH:
            raise CannotReadError(f"computes more than {MAX_ENTRIES:,} numbers for one picture")
        return outputs


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
