"""Makes Keras models of TensorFlow operations: a SavedModel's, or those made of other files."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from realtime_lrp.errors import DamagedInputError, Error, UsageError, first_line
from realtime_lrp.models.network import NO_PREPROCESSING, Network, Size
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.models.untrusted.saved_model import PICTURES, SavedGraph, read_saved_model
from realtime_lrp.relevance.reading.tracing import CannotReadError

Shape = tuple[int, int, int]  # (H, W, C) of pictures
SMALL = 1000  # entries of an array that stays in the graph


def load_saved_model(folder: Path, size: Size, output: str | None) -> Network:
    """Loads a SavedModel whose operations are all on the list of those that compute.

    The size, (H, W), is for a signature that leaves it open; `output` names one of several.
    """
    shown = repr(str(folder))
    saved = read_saved_model(folder, output)
    kind = saved.input_type
    expected = "Expected a network of pictures, as its signature describes it."
    with naming_the_file(shown, f"The SavedModel {shown} cannot compute pictures", expected):
        first, *shape = saved.input_shape or (None,)
        if len(shape) != 3 or shape[2] not in (1, 3) or not (kind.is_floating or kind == tf.uint8):
            listed = " x ".join("any" if one is None else str(one) for one in (first, *shape))
            raise ValueError(
                f"it reads {kind.name} [{listed}], not float32 or uint8 "
                "[batch, height, width, 3 or 1]"
            )
        if first is not None:
            raise ValueError(f"it takes {first} at a time; save it for batches of any size, None")
        name = folder.resolve().name
        model = model_of(saved, with_size(shape, size, f"The SavedModel {shown}"), name, {})
    prepares = scaled_pictures(saved.graph.node, PICTURES, saved.variables)
    return Network(
        model.name, model, warning="" if kind.is_integer or prepares else NO_PREPROCESSING
    )


def with_size(shape: Sequence[int | None], size: Size, file: str) -> Shape:
    """The shape of pictures (H, W, C), where a file leaves it open as a user says; UsageError."""
    rows, columns, channels = shape
    rows = rows or (size and size[0])
    columns = columns or (size and size[1])
    if not rows or not columns or not channels:
        raise UsageError(f"{file} has no fixed input size. Say which, such as --size 224.", "size")
    return rows, columns, channels


def model_of(saved: SavedGraph, shape: Shape, name: str, names: Mapping[str, str]) -> keras.Model:
    """A model of pictures (H, W, C) that computes a graph; `names` are those of its operations."""
    name = re.sub(r"[^\w.-]", "_", name) or "network"
    pictures = keras.Input(shape, dtype=saved.input_type.name, name="pictures")
    return keras.Model(pictures, SavedOperations(saved, name, names)(pictures), name=name)


class GraphMaker:
    """A graph in the making, while a file is read operation by operation."""

    def __init__(self, shape: Shape, batch: int | None = None) -> None:
        self.shape = shape  # (H, W, C) of pictures
        self.graph = tf.Graph()
        self.weights: dict[str, np.ndarray] = {}  # variables by the operations that stand for them
        self.names: dict[str, str] = {}  # name of an operation -> what the file calls it
        with self.graph.as_default():
            self.pictures = tf.compat.v1.placeholder(tf.float32, (batch, *shape), PICTURES)

    def keep(self, array: np.ndarray) -> tf.Tensor:
        """A constant; one of floating numbers, float32, is read as a variable where it is large."""
        if array.dtype.kind in "biu":
            return tf.constant(array)
        array = array.astype(np.float32, copy=False)
        if array.size <= SMALL:
            return tf.constant(array)
        placeholder = tf.compat.v1.placeholder(tf.float32, array.shape, "weights")
        self.weights[placeholder.op.name] = np.ascontiguousarray(array)
        return placeholder

    @contextmanager
    def naming(self, name: str, file: str, moving: Collection[str] = ()) -> Iterator[None]:
        """Names the operations that are made inside, and what goes wrong, after one of the file.

        `moving` are types of operations that only bring entries to where they are read.
        """
        scope = re.sub(r"[^\w./-]", "_", name, flags=re.ASCII).lstrip("_./-") or "operation"
        before = len(self.graph.get_operations())
        try:
            with tf.name_scope(scope + "/"):
                yield
        except Error:
            raise
        except Exception as error:  # what the shapes and types of a damaged file lead to
            known = isinstance(error, CannotReadError)
            why = error if known else f"cannot be computed ({first_line(error)[:200].rstrip('.')})"
            raise DamagedInputError(f"{file} {why}.") from error
        for operation in self.graph.get_operations()[before:]:
            self.names[operation.name] = (
                f"{name}/{operation.type}" if operation.type in moving else name
            )

    def model(self, name: str, ends: Sequence[tf.Tensor]) -> keras.Model:
        """The model of the graph between pictures and some tensors."""
        outputs = tuple(end.name for end in ends)
        shape = (None, *self.shape)
        saved = SavedGraph(self.graph.as_graph_def(), shape, tf.float32, outputs, self.weights)
        return model_of(saved, self.shape, name, self.names)


SCALES = ("Add", "AddV2", "BiasAdd", "FusedBatchNormV3", "Mul", "RealDiv", "Sub")
MOVES = (
    "Cast", "ClipByValue", "ConcatV2", "ExpandDims", "GatherV2", "Identity", "Pack", "Pad",
    "Reshape", "ResizeBilinear", "ResizeNearestNeighbor", "ReverseV2", "Split", "Squeeze",
    "StridedSlice", "Transpose", "Unpack",
)  # fmt: skip
"""TensorFlow's operations that scale or shift pictures, and that move pixels."""


def scaled_pictures(nodes: Sequence[Any], pictures: str, weights: Collection[str]) -> str | None:
    """The last operation that scales pictures by constants before any with weights; or None.

    `nodes` are a graph's, each after those that it reads; `pictures` and `weights` name inputs.
    """
    raw = {pictures}
    constant = set[str]()
    found = None
    for node in nodes:
        read = {one.partition(":")[0] for one in node.input}
        if node.name in raw or node.name in weights:
            continue
        if read <= constant:
            constant.add(node.name)
        elif read <= raw | constant and node.op in (*SCALES, *MOVES):
            raw.add(node.name)
            found = node.name if node.op in SCALES else found
    return found


def _plain(saved: SavedGraph) -> graph_pb2.GraphDef:
    """The graph with plain convolutions: pads beside them, and dilations in place of blocks.

    TensorFlow 2.21 joins a depthwise convolution with its bias on processors with AVX-512, misses
    the border, and ends the process. Dilated ones it divides in blocks, which mixes pictures.
    """
    graph = saved.graph
    plain = graph_pb2.GraphDef(versions=graph.versions)
    held = {one.name: one.attr["value"].tensor for one in graph.node if one.op == "Const"}
    made = {one.name: one for one in graph.node}

    def append(kind: str, name: str, read: Any, like: Any, **numbers: Any) -> Any:
        """Appends an operation of the type of another one, that also reads some numbers."""
        names = [f"{name}/{key}" for key in numbers]
        for own, value in zip(names, numbers.values(), strict=True):
            constant = plain.node.add(op="Const", name=own)
            constant.attr["dtype"].type = tf.int32.as_datatype_enum
            constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.int32(value)))
        node = plain.node.add(op=kind, name=name, input=[*read, *names])
        node.attr["T"].CopyFrom(like.attr["T"])
        return node

    blocks: dict[str, np.ndarray] = {}  # operation -> the blocks that its pictures are divided in
    for node in graph.node:
        read = [name.partition(":")[0] for name in node.input]
        block = next((blocks[name] for name in read if name in blocks), None)
        if node.op == "SpaceToBatchND" and {*node.input[1:]} <= {*held}:
            block = tf.make_ndarray(held[node.input[1]])
        if block is not None and node.op != "BatchToSpaceND":
            blocks[node.name] = block
        if node.op == "DepthwiseConv2dNative" and node.attr["padding"].s == b"EXPLICIT":
            border = np.reshape(node.attr["explicit_paddings"].list.i, (4, 2))
            padded = append("Pad", f"{node.name}/padded", node.input[:1], node, border=border)
            plain.node.append(node)
            plain.node[-1].input[0] = padded.name
            plain.node[-1].attr["padding"].s = b"VALID"
            del plain.node[-1].attr["explicit_paddings"]
        elif node.op == "SpaceToBatchND" and {*node.input[1:]} <= {*held}:
            border = tf.make_ndarray(held[node.input[2]])
            append("Pad", node.name, node.input[:1], node, border=np.pad(border, [[1, 1], [0, 0]]))
        elif node.op == "BatchToSpaceND" and {*node.input[1:]} <= {*held}:
            (top, bottom), (left, right) = tf.make_ndarray(held[node.input[2]])
            slices = append("StridedSlice", node.name, node.input[:1], node, begin=[0, top, left],
                            end=[0, -bottom, -right], strides=[1, 1, 1])  # fmt: skip
            slices.attr["Index"].type = tf.int32.as_datatype_enum
            slices.attr["begin_mask"].i = 1
            slices.attr["end_mask"].i = 1 | 2 * (not bottom) | 4 * (not right)
        elif block is not None and "Conv2" in node.op:
            weights = node.input[1]
            if node.op == "DepthwiseConv2dNative":  # as groups: it has no dilations itself
                name = weights
                while made[name].op == "Identity":
                    name = made[name].input[0]
                sizes = (
                    [one.size for one in held[name].tensor_shape.dim]
                    if name in held
                    else saved.variables[name].shape
                )
                grouped = f"{node.name}/in_groups"
                kernel = append("Reshape", grouped, [weights], node, shape=[*sizes[:2], 1, -1])
                kernel.attr["Tshape"].type = tf.int32.as_datatype_enum
                weights = grouped
            plain.node.append(node)
            plain.node[-1].op = "Conv2D"
            plain.node[-1].input[1] = weights
            own = [*node.attr["dilations"].list.i][1:3] or [1, 1]
            plain.node[-1].attr["dilations"].list.i[:] = [1, *(block * own), 1]
        else:
            plain.node.append(node)
    return plain


class SavedOperations(keras.layers.Layer):
    """The operations of a graph; `names` are what a file calls them, where it is another name."""

    def __init__(self, saved: SavedGraph, name: str, names: Mapping[str, str]) -> None:
        super().__init__(name=name, dtype="float32", autocast=False)
        self._saved = saved
        self._names = names
        self._graph = _plain(saved)
        self._held = {
            key: self.add_weight(
                shape=value.shape, dtype=value.dtype.name, trainable=False,
                name=key.replace("/", "_"), initializer=lambda *_, value=value, **__: value,
            )
            for key, value in saved.variables.items()
        }  # fmt: skip
        self._compiled: Callable[[tf.Tensor], Any] | None = None

    def call(self, pictures: tf.Tensor) -> tf.Tensor | tuple[tf.Tensor, ...]:
        """The output for a batch, or all of several."""
        if not tf.executing_eagerly():
            return self._import(pictures)
        if self._compiled is None:  # once: TensorFlow warns of functions that are traced again
            spec = tf.TensorSpec([None, *pictures.shape[1:]], pictures.dtype)
            self._compiled = tf.function(self._import, autograph=False).get_concrete_function(spec)
        return self._compiled(pictures)

    def _import(self, pictures: tf.Tensor) -> tf.Tensor | tuple[tf.Tensor, ...]:
        saved = self._saved
        values: dict[str, Any] = {
            f"{key}:0": tf.convert_to_tensor(weight) for key, weight in self._held.items()
        }
        values[f"{PICTURES}:0"] = pictures
        outputs = [name if ":" in name else f"{name}:0" for name in saved.outputs]
        found = tf.graph_util.import_graph_def(
            self._graph, input_map=values, return_elements=outputs, name=""
        )
        return found[0] if len(found) == 1 else tuple(found)

    def operation_place(self, name: str) -> str:
        """The place of an operation in the network, such as "block1/conv", by its name."""
        return name.removeprefix(f"{self.name}/").rpartition("/")[0]

    def operation_name(self, name: str) -> str:
        """The name of an operation in the network; "" where its place and type say it."""
        return self._names.get(name.removeprefix(f"{self.name}/"), "")
