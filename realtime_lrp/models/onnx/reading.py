"""Makes TensorFlow operations of an ONNX file, one node after the other.

What depends on the picture becomes operations, by the rows of `rows.py`; all else is computed here,
by ONNX's own reference in NumPy: sizes, masks, tables of positions.
"""

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import tensorflow as tf
from onnx.reference import ReferenceEvaluator

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.labels import written_labels
from realtime_lrp.models.network import Network, Size
from realtime_lrp.models.onnx.file import EXPECTED, NEWEST, OnnxFile, label, read_onnx
from realtime_lrp.models.onnx.heads import DetectorHead, head_of
from realtime_lrp.models.onnx.rows import MICROSOFT, row_of
from realtime_lrp.models.onnx.tensors import OnnxNode, Tensor, Value, finite_mask
from realtime_lrp.models.saved_models import GraphMaker, scaled_pictures, with_size
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.models.untrusted.saved_model import PICTURES
from realtime_lrp.relevance.network.places import answer_of
from realtime_lrp.relevance.reading.tracing import CannotReadError

log = logging.getLogger(__name__)

MOVING = frozenset(("Pad", "PadV2", "Reshape", "Transpose"))
"""What may be done to a tensor before it is read; the node's name is not for these."""

OF_PICTURES = ("Attention", "AveragePool", "Conv", "ConvTranspose", "MaxPool")
"""Operations that would take hours and that no file computes of constants, but of single pixels."""

SLOW = ("Conv", "GatherND", "Resize", "ScatterND")
"""Operations that take many steps for each entry of inputs and outputs, which counts 256 times."""

MAX_CONSTANT_ENTRIES = 1 << 28  # entries of what is computed; a short file can ask for any number
MAX_LETTERS = 500  # letters of a layer's name
MAX_SIZES = 1000  # the most entries of a constant that may be the sizes of another one

RANGES = {
    "NominalRange_0_255": "0..255", "NominalRange_16_235": "16..235",
    "Normalized_0_1": "0..1", "Normalized_1_1": "-1..1",
}  # fmt: skip
"""What ONNX's metadata of pictures, `Image.NominalPixelRange`, calls a range."""

HIGHEST = 6  # the most that a network reads once it has normalised its pictures


def load_onnx(path: Path, size: Size, output: str | None) -> tuple[Network, str]:
    """Loads a network of pictures [B, H, W, C]; also what says how to prepare them, "" for a guess.

    The size, (H, W), is for a file that leaves it open; `output` names one of several.
    """
    shown = repr(str(path))
    with naming_the_file(shown, f"{shown} is not an ONNX file that can be read", EXPECTED):
        file = read_onnx(path, output)
        reader = _OnnxReader(file, shown, size, asked=output is not None)
        model = reader.model(path.stem, reader.read())
        if reader.head:
            boxes, scores = model.outputs
            if reader.head.activation != "linear":
                scores = keras.layers.Activation(reader.head.activation, name="scores")(scores)
            ends = {"boxes": boxes, "scores": scores}
            model = keras.Model(model.input, ends, name=model.name)
            classes = scores.shape[-1]
        else:
            classes = max(model.output.shape[-1], 2)  # one sigmoid is two classes
    if reader.said:
        log.warning("%s: %s", path.name, reader.said)
    way, who = reader.prepared
    nothing = reader.head.nothing if reader.head else ""
    network = Network(model.name, model, way, nothing=nothing)
    labels = network.labels_of(reader.labels or [])
    return replace(network, labels=labels if len(labels) == classes else None), who


class _OnnxReader(GraphMaker):
    """The state while a file is read."""

    def __init__(self, file: OnnxFile, shown: str, size: Size, asked: bool) -> None:
        first = file.shape[1] in (1, 3)
        order = (2, 3, 1) if first else (1, 2, 3)
        shape = [file.shape[n] for n in order]
        super().__init__(with_size(shape, size, f"The ONNX file {shown}"))
        self.file = file
        self.shown = shown
        self.asked = asked
        self.entries = 0  # entries of all constants that were computed
        self.head: DetectorHead | None = None
        self.said = ""  # what outputs were taken for
        self.prepared = "", ""  # how pictures are prepared, and what says so
        self.labels = written_labels(file.about.get("names", ""))
        axes = (None, *(order.index(n) + 1 for n in range(1, 4)))
        self.values: dict[str, Value] = file.arrays | {file.pictures: Tensor(self.pictures, axes)}

    def read(self) -> list[tf.Tensor]:
        """Makes the operations; returns the ends of the graph."""
        last = {name: n for n, node in enumerate(self.file.nodes) for name in node.input}
        with self.graph.as_default():
            for number, node in enumerate(self.file.nodes):
                name = (node.name or next(iter(node.output), node.op_type)).strip("/")
                name = "".join(one if one.isprintable() else "_" for one in name[:MAX_LETTERS])
                moving = () if node.op_type == "Flatten" else MOVING - {node.op_type}
                said = f"The node {label(node)} of the ONNX file {self.shown}"
                with self.naming(name, said, moving):
                    self.values |= zip(node.output, self._outputs(node), strict=False)
                gone = {one for one in node.input if one and last[one] == number}
                for name in gone.difference(self.file.outputs):
                    del self.values[name]
            try:
                ends = self._ends()
                self.prepared = self._preparation()
            except CannotReadError as error:
                raise DamagedInputError(f"The ONNX file {self.shown} {error}.") from error
        return ends

    def _ends(self) -> list[tf.Tensor]:
        """The output, one vector for each picture; or boxes and the values of classes."""
        outputs = {
            name: one
            for name in self.file.outputs
            if isinstance(one := self.values[name], Tensor) and one.held.dtype.is_floating
        }
        if not outputs:
            raise CannotReadError("is no number that depends on the picture")
        if not self.asked or len(outputs) > 1:
            names = len(self.labels) if self.labels else None
            self.head = head_of(outputs, self.shape[:2], names, self._compute)
        if self.head:
            self.said = f"a detector, {self.head.form}; see --output"
            return [self.head.boxes, self.head.values]
        if self.file.chosen in ("NonMaxSuppression", "NonZero"):
            raise CannotReadError(
                f"chooses boxes at its end ({self.file.chosen}), from scores and boxes whose form "
                "is not known. Export the network without this step, or explain another output "
                "with --output"
            )
        name = answer_of({name: one.shape for name, one in outputs.items()})
        value = outputs[name]
        if len(outputs) > 1 or self.file.chosen:
            others = ", ".join(repr(one) for one in [*outputs][:6] if one != name)
            chosen = f" from which {self.file.chosen} chooses" if self.file.chosen else ""
            also = f"; --output chooses another: {others}" if others else ""
            self.said = f"the output {name!r}{chosen} is explained{also}"
        if len([size for size in value.shape if size != 1]) < 2:
            return [value.reshaped([math.prod(value.shape)]).last(0).held]
        axes = (2, 3, 1) if len(value.axes) == 4 else range(1, len(value.axes))
        return [value.held_as(*axes).held]

    def _preparation(self) -> tuple[str, str]:
        """A way to prepare pictures, and what says so; "" is a guess."""
        about = self.file.about
        bgr = " bgr" * ("bgr" in about.get("Image.BitmapPixelFormat", "").lower())
        if self.file.whole:
            return f"0..255{bgr}" if bgr else "none", "its input, which has whole numbers,"
        if way := RANGES.get(about.get("Image.NominalPixelRange", "")):
            return way + bgr, "its metadata"
        if about.get("author") == "Ultralytics":
            return "rescale", "its metadata"
        nodes = self.graph.as_graph_def().node
        if normalised := scaled_pictures(nodes, PICTURES, ()):
            scaled = self.graph.get_operation_by_name(normalised).outputs[0]
            black, half = (one.mean() for one in self._compute([scaled])[0][:2])
            factor = 2 * (half - black)
            if 0 < factor * 255 <= HIGHEST:
                return "none", "its first operation"
            if 0.9 < factor <= 2 * HIGHEST and 0.2 < -black / factor < 0.8:
                return "rescale", "its first operation"
        last = self.file.shape[1] not in (1, 3)  # as Keras has its channels
        return "rescale" if self.shape[2] == 1 or last or self.head else "torch", ""

    def _compute(self, tensors: Sequence[tf.Tensor]) -> list[np.ndarray]:
        """Tensors for three test pictures: black or grey, grey, and noise."""
        noise = np.random.default_rng(0).normal(size=self.shape)
        x = np.stack([0 * noise, 0 * noise + 0.5, noise])
        x = np.clip(x * 50 + 127, 0, 255) if self.file.whole else x
        weights = {self.graph.get_tensor_by_name(f"{k}:0"): v for k, v in self.weights.items()}
        plain = tf.compat.v1.ConfigProto()
        # what it rewrites ends the process, see `_plain` of saved_models.py
        plain.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.compat.v1.Session(graph=self.graph, config=plain) as session:
            return session.run(list(tensors), {self.pictures: x, **weights})

    def _outputs(self, node: Any) -> Sequence[Value]:
        inputs = [self.values[name] if name else None for name in node.input]
        if not any(isinstance(input_, Tensor) for input_ in inputs):
            return self._computed(node, inputs)
        row = row_of(node.op_type, node.domain)
        if row is None:
            raise CannotReadError("has no rule for what depends on the picture")
        with suppress(onnx.defs.SchemaError):  # of onnxruntime's own
            since = onnx.defs.get_schema(node.op_type, self.file.version).since_version
            if since > NEWEST and node.domain != MICROSOFT:
                raise CannotReadError(f"is of opset {since}. Expected at most {NEWEST}")
        inputs = [*map(_as_float32, inputs)]
        if node.op_type in ("Add", "Where"):
            inputs = [*map(finite_mask, inputs)]
        inputs = _of_one_picture(node.op_type, inputs, self.file.shape[0] or 1)
        attributes = {one.name: _attribute(one) for one in node.attribute}
        version = self.file.version
        outputs = row(
            OnnxNode(node.op_type, inputs, attributes, version, len(node.output), self.keep)
        )
        return outputs if isinstance(outputs, list) else [outputs]

    def _computed(self, node: Any, inputs: list[Any]) -> list[np.ndarray]:
        """The outputs of a node that reads constants alone."""
        kind = node.op_type
        version = self.file.version
        if kind == "Range":  # exporters write arrays of one number too
            inputs = [np.reshape(np.asarray(input_), ()) for input_ in inputs]
        # a convolution of single pixels is one of a table of positions, as in EdgeNeXt
        pixels = kind == "Conv" and inputs[1].shape[2:] == (1, 1)
        border = any(any(one.ints) for one in node.attribute if one.name == "pads")
        if kind in OF_PICTURES and (border or not pixels):
            raise CannotReadError("reads constants where a tensor of the picture is expected")
        if node.domain == MICROSOFT or kind in ("DequantizeLinear", "QuantizeLinear"):
            # as ONNX's reference has it, whose opset 21 has all that onnxruntime's have
            node = onnx.NodeProto.FromString(node.SerializeToString())
            node.domain = ""
            version = max(version, 21)
        values = {name: one for name, one in zip(node.input, inputs, strict=True) if name}
        if kind != "Constant":
            self.entries += _entries(node, values, version)
        if self.entries > MAX_CONSTANT_ENTRIES:
            raise CannotReadError(f"computes constants that are too large, {self.entries:,}")
        read, made = (
            [onnx.helper.make_empty_tensor_value_info(one) for one in names if one]
            for names in (node.input, node.output)
        )
        graph = onnx.helper.make_graph([node], "one", read, made)
        imports = [onnx.helper.make_opsetid("", min(version, onnx.defs.onnx_opset_version()))]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        with np.errstate(all="ignore"):
            return [np.asarray(one) for one in ReferenceEvaluator(model).run(None, values)]


def _as_float32(value: Any) -> Any:
    """A constant of floating numbers as float32; all else as it is."""
    floating = isinstance(value, np.ndarray) and value.dtype.kind not in "biu"
    return value.astype(np.float32, copy=False) if floating else value


def _attribute(one: Any) -> Any:
    value = onnx.helper.get_attribute_value(one)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _of_one_picture(kind: str, inputs: list[Value | None], pictures: int) -> list[Value | None]:
    """The constants of a node of a file for several pictures at a time, as for one.

    These are sizes that begin with a multiple of the pictures, and arrays that are the same for
    each of them, such as a class token.
    """
    if pictures == 1:
        return inputs
    changed = list(inputs)
    first, *others = inputs
    if kind in ("Reshape", "Expand") and isinstance(first, Tensor):
        sizes = np.reshape(np.asarray(others[0]), -1)
        of_all = sizes.size and sizes[0] > 0 and sizes[0] % pictures == 0
        same = math.prod(sizes.tolist()) == math.prod(first.shape)
        if of_all and sizes[0] != first.shape[0] and not same:
            changed[1] = np.concatenate([sizes[:1] // pictures, sizes[1:]])
        return changed
    if kind not in ("Conv", "ConvTranspose"):
        for n, one in enumerate(inputs):
            if isinstance(one, np.ndarray) and one.ndim > 2 and len(one) == pictures:
                changed[n] = one[:1] if (one == one[:1]).all() else one
    return changed


def _entries(node: Any, values: dict[str, np.ndarray], version: int) -> int:
    """How many entries the outputs of a node have that reads constants, without computing them."""
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(one.dtype) for name, one in values.items()}
    found = onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(node.op_type, version), node,
        {name: onnx.helper.make_tensor_type_proto(kinds[name], one.shape)
         for name, one in values.items()},
        {name: onnx.numpy_helper.from_array(one)
         for name, one in values.items() if one.size <= MAX_SIZES},
        opset_imports=[onnx.helper.make_opsetid("", version)],
    )  # fmt: skip
    slow = node.op_type in SLOW
    total = sum(value.size for value in values.values()) if slow else 0
    for one in found.values():
        shape = one.tensor_type.shape.dim
        if not (one.tensor_type.HasField("shape") and all(n.HasField("dim_value") for n in shape)):
            raise CannotReadError("computes a constant whose size is not known")
        total += math.prod(n.dim_value for n in shape)
    return 256 * total if slow else total
