"""Makes TensorFlow operations of an ONNX file, one node after the other.

What depends on the picture becomes operations, by the rows of `rows.py` and `layers.py`; all else
is computed here, by ONNX's own reference in NumPy: sizes, masks, tables of positions.
"""

import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import tensorflow as tf
from onnx.reference import ReferenceEvaluator

from realtime_lrp.errors import DamagedInputError, Error, UsageError, first_line
from realtime_lrp.models.labels import written_labels
from realtime_lrp.models.network import Network, tell_preparation
from realtime_lrp.models.onnx.axes import CannotReadError, Tensor
from realtime_lrp.models.onnx.file import EXPECTED, NEWEST, OnnxFile, label, read_onnx
from realtime_lrp.models.onnx.heads import DetectorHead, detector, head_of
from realtime_lrp.models.onnx.nodes import OnnxNode, Value, finite_mask
from realtime_lrp.models.onnx.preparing import preparation
from realtime_lrp.models.onnx.rows import MICROSOFT, row_of
from realtime_lrp.models.saved_models import SavedOperations
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.models.untrusted.saved_model import SavedGraph
from realtime_lrp.relevance.network.places import answer_of

log = logging.getLogger(__name__)

MOVING = ("Pad", "PadV2", "Reshape", "Transpose")
"""What may be done to a tensor before it is read; the node's name is not for these."""

MAX_CONSTANT_ENTRIES = 1 << 28
"""The most entries of constants that are computed. A file can ask for any number in few bytes."""

OF_PICTURES = ("Attention", "AveragePool", "Conv", "ConvTranspose", "MaxPool")
"""Operations that would take hours and that no file computes of constants, but see `_of_pixels`."""

SLOW = ("Conv", "GatherND", "Resize", "ScatterND")
"""Operations that take many steps for each entry of inputs and outputs, which counts 256 times."""

MAX_LETTERS = 500  # letters of a layer's name
MAX_SIZES = 1000  # the most entries of a constant that may be the sizes of another one


def load_onnx(
    path: Path, weights: str | None, size: tuple[int, int] | None, output: str | None, said: bool
) -> Network:
    """Loads a network from an ONNX file; the size, (H, W), is for one that leaves it open.

    `output` names one of several. Pictures are [B, H, W, C] whatever the file's are. A line tells
    how they are prepared, unless somebody has `said` it.

    Raises:
      DamagedInputError: what is wrong with the file, or which node has no rule.
      UsageError: weights were given, which the file has itself; or no size.
    """
    shown = repr(str(path))
    if weights is not None:
        raise UsageError(
            f"The ONNX file {shown} has its own weights. Leave --weights out.", "weights"
        )
    with naming_the_file(shown, f"{shown} is not an ONNX file that can be read", EXPECTED):
        file = read_onnx(path, output)
        reader = _OnnxReader(file, shown, size, asked=output is not None)
        saved = reader.read()
        name = re.sub(r"[^\w.-]", "_", path.stem) or "onnx"
        pictures = keras.Input(saved.input_shape[1:], dtype="float32", name="pictures")
        operations = SavedOperations(saved, name=name, names=reader.names)
        if reader.head:
            model = detector(pictures, operations, reader.head)
            classes = model.output["scores"].shape[-1]
        else:
            model = keras.Model(pictures, operations(pictures), name=name)
            classes = max(model.output.shape[-1], 2)  # one sigmoid is two classes
    if reader.said:
        log.warning("%s: %s", path.name, reader.said)
    way, who = reader.prepared
    if not said:
        tell_preparation(path.name, way, who)
    network = Network(name, model, way, nothing=reader.head.nothing if reader.head else "")
    labels = network.labels_of(reader.labels or [])
    return replace(network, labels=labels if len(labels) == classes else None)


class _OnnxReader:
    """The state while a file is read."""

    def __init__(
        self, file: OnnxFile, shown: str, size: tuple[int, int] | None, asked: bool
    ) -> None:
        self.file = file
        self.shown = shown
        self.asked = asked
        self.graph = tf.Graph()
        self.weights: dict[str, np.ndarray] = {}
        self.names: dict[str, str] = {}
        self.entries = 0  # entries of all constants that were computed
        self.head: DetectorHead | None = None
        self.said = ""  # what outputs were taken for
        self.prepared = "", ""  # how pictures are prepared, and what says so
        self.labels = written_labels(file.about.get("names", ""))
        self.values: dict[str, Value] = dict(file.arrays)
        first = file.shape[1] in (1, 3)
        order = (0, 2, 3, 1) if first else (0, 1, 2, 3)
        _, rows, columns, channels = (file.shape[n] for n in order)
        rows, columns = rows or (size and size[0]), columns or (size and size[1])
        if not rows or not columns:
            raise UsageError(
                f"The ONNX file {shown} has no fixed input size. Say which, such as --size 224.",
                "size",
            )
        self.shape = (None, rows, columns, channels)
        with self.graph.as_default():
            self.input = tf.compat.v1.placeholder(tf.float32, self.shape, "pictures")
        axes = (None, *(order.index(n) for n in range(1, 4)))
        self.values[file.pictures] = Tensor(self.input, axes)

    def read(self) -> SavedGraph:
        """The operations; notes the names of the nodes that they are of, and a detector's head."""
        last = {name: n for n, node in enumerate(self.file.nodes) for name in node.input}
        with self.graph.as_default():
            for number, node in enumerate(self.file.nodes):
                with self._naming(node):
                    outputs = self._outputs(node)
                    for name, value in zip(node.output, outputs, strict=False):
                        self.values[name] = value
                gone = {one for one in node.input if one and last[one] == number}
                for name in gone.difference(self.file.outputs):
                    del self.values[name]
            try:
                ends = tuple(one.name for one in self._ends())
                detects = self.head is not None
                self.prepared = preparation(self.file, self.input, detects, self._compute)
            except CannotReadError as error:
                raise DamagedInputError(f"The ONNX file {self.shown} {error}.") from error
        return SavedGraph(
            self.graph.as_graph_def(), self.input.op.name, self.shape, tf.float32, ends,
            self.weights,
        )  # fmt: skip

    def _ends(self) -> list[tf.Tensor]:
        """The output, one vector for each picture; or boxes and the values of classes."""
        values = {name: self.values[name] for name in self.file.outputs}
        outputs = {
            name: one
            for name, one in values.items()
            if isinstance(one, Tensor) and one.held.dtype.is_floating
        }
        if not outputs:
            raise CannotReadError("is no number that depends on the picture")
        if not self.asked or len(outputs) > 1:
            names = len(self.labels) if self.labels else None
            self.head = head_of(outputs, self.shape[1:3], names, self._compute)
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

    def _compute(self, tensors: Sequence[tf.Tensor]) -> list[np.ndarray]:
        """Tensors for three test pictures: black or grey, grey, and noise."""
        noise = np.random.default_rng(0).normal(size=[size or 1 for size in self.shape[1:]])
        x = np.stack([0 * noise, 0 * noise + 0.5, noise])
        x = np.clip(x * 50 + 127, 0, 255) if self.file.whole else x
        weights = {self.graph.get_tensor_by_name(f"{k}:0"): v for k, v in self.weights.items()}
        plain = tf.compat.v1.ConfigProto()
        # what it rewrites ends the process, see `_with_borders_apart` of saved_models.py
        plain.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.compat.v1.Session(graph=self.graph, config=plain) as session:
            return session.run(list(tensors), {self.input: x, **weights})

    @contextmanager
    def _naming(self, node: Any) -> Iterator[None]:
        """Names the operations that are made inside; turns every error into one with the node."""
        name = (node.name or next(iter(node.output), node.op_type)).strip("/")[:MAX_LETTERS]
        name = "".join(one if one.isprintable() else "_" for one in name)
        scope = re.sub(r"[^\w./-]", "_", name, flags=re.ASCII).lstrip("_./-") or node.op_type
        before = len(self.graph.get_operations())
        try:
            with tf.name_scope(scope + "/"):
                yield
        except Error:
            raise
        except Exception as error:  # what the shapes and types of a damaged file lead to
            known = isinstance(error, CannotReadError)
            why = error if known else f"cannot be computed ({first_line(error)[:200].rstrip('.')})"
            raise DamagedInputError(
                f"The node {label(node)} of the ONNX file {self.shown} {why}."
            ) from error
        for operation in self.graph.get_operations()[before:]:
            moves = operation.type in MOVING and node.op_type not in (operation.type, "Flatten")
            self.names[operation.name] = f"{name}/{operation.type}" if moves else name

    def _outputs(self, node: Any) -> Sequence[Value]:
        inputs = [self.values[name] if name else None for name in node.input]
        if not any(isinstance(one, Tensor) for one in inputs):
            if node.op_type == "Range":  # exporters write arrays of one number too
                inputs = [np.reshape(np.asarray(one), ()) for one in inputs]
            if node.op_type in OF_PICTURES and not _of_pixels(node, inputs):
                raise CannotReadError("reads constants where a tensor of the picture is expected")
            if node.op_type != "Constant":
                self.entries += _entries(node, inputs, self.file.version)
            if self.entries > MAX_CONSTANT_ENTRIES:
                raise CannotReadError(f"computes constants that are too large, {self.entries:,}")
            return _computed(node, inputs, self.file.version)
        row = row_of(node.op_type, node.domain)
        if row is None:
            raise CannotReadError("has no rule for what depends on the picture")
        with suppress(onnx.defs.SchemaError):  # of onnxruntime's own
            since = onnx.defs.get_schema(node.op_type, self.file.version).since_version
            if since > NEWEST and node.domain != MICROSOFT:
                raise CannotReadError(f"is of opset {since}. Expected at most {NEWEST}")
        inputs = [_as_float32(one) if isinstance(one, np.ndarray) else one for one in inputs]
        if node.op_type in ("Add", "Where"):
            inputs = [finite_mask(one) if isinstance(one, np.ndarray) else one for one in inputs]
        inputs = _of_one_picture(node.op_type, inputs, self.file.shape[0] or 1)
        attributes = {one.name: _attribute(one) for one in node.attribute}
        one = OnnxNode(node.op_type, attributes, self.file.version, len(node.output), self._keep)
        outputs = row(one, inputs)
        return outputs if isinstance(outputs, list) else [outputs]

    def _keep(self, array: np.ndarray) -> tf.Tensor:
        """A constant; one that is read as a variable where it is large."""
        array = _as_float32(array)
        if array.size <= MAX_SIZES or array.dtype.kind != "f":
            return tf.constant(array)
        placeholder = tf.compat.v1.placeholder(tf.float32, array.shape, "weights")
        self.weights[placeholder.op.name] = np.ascontiguousarray(array)
        return placeholder


def _as_float32(array: np.ndarray) -> np.ndarray:
    """Floating numbers as float32; others as they are."""
    return array if array.dtype.kind in "biu" else array.astype(np.float32, copy=False)


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
        fits = math.prod(sizes.tolist()) == math.prod(first.shape) or [*sizes[:1]] == [
            first.shape[0]
        ]
        if sizes.size and sizes[0] > 0 and sizes[0] % pictures == 0 and not fits:
            changed[1] = np.concatenate([sizes[:1] // pictures, sizes[1:]])
        return changed
    if kind not in ("Conv", "ConvTranspose"):
        for n, one in enumerate(inputs):
            if isinstance(one, np.ndarray) and one.ndim > 2 and len(one) == pictures:
                changed[n] = one[:1] if (one == one[:1]).all() else one
    return changed


def _attribute(one: Any) -> Any:
    value = onnx.helper.get_attribute_value(one)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _of_pixels(node: Any, inputs: list[Any]) -> bool:
    """Whether it is a convolution of single pixels: of a table of positions, as in EdgeNeXt."""
    border = any(any(one.ints) for one in node.attribute if one.name == "pads")
    return node.op_type == "Conv" and inputs[1].shape[2:] == (1, 1) and not border


def _computed(node: Any, inputs: list[Any], version: int) -> list[np.ndarray]:
    """The outputs of a node that reads constants alone."""
    read, made = (
        [onnx.helper.make_empty_tensor_value_info(one) for one in names if one]
        for names in (node.input, node.output)
    )
    node, version = _as_onnx_has_it(node, version)
    graph = onnx.helper.make_graph([node], "one", read, made)
    imports = [onnx.helper.make_opsetid("", min(version, onnx.defs.onnx_opset_version()))]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model).run(
            None, {name: one for name, one in zip(node.input, inputs, strict=True) if name}
        )
    return [np.asarray(one) for one in found]


def _as_onnx_has_it(node: Any, version: int) -> tuple[Any, int]:
    """A node with an opset for which ONNX's reference has it; onnxruntime's have their name's."""
    if node.domain != MICROSOFT and node.op_type not in ("DequantizeLinear", "QuantizeLinear"):
        return node, version
    own = onnx.NodeProto()
    own.CopyFrom(node)
    own.domain = ""
    return own, max(version, 21)


def _entries(node: Any, inputs: list[Any], version: int) -> int:
    """How many entries the outputs of a node have that reads constants, without computing them."""
    node, version = _as_onnx_has_it(node, version)
    values = {name: one for name, one in zip(node.input, inputs, strict=True) if name}
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
    total = sum(one.size for one in values.values()) if slow else 0
    for one in found.values():
        shape = one.tensor_type.shape.dim
        if not (one.tensor_type.HasField("shape") and all(n.HasField("dim_value") for n in shape)):
            raise CannotReadError("computes a constant whose size is not known")
        total += math.prod(n.dim_value for n in shape)
    return 256 * total if slow else total
