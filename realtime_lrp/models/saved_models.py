"""Makes a Keras model of a SavedModel: one layer that computes the graph of its signature."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from realtime_lrp.errors import UsageError
from realtime_lrp.models.network import NO_PREPROCESSING, Network
from realtime_lrp.models.preparing import scaled_pictures
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.models.untrusted.saved_model import SavedGraph, read_saved_model
from realtime_lrp.relevance.network.checks import refuse_beyond_memory


def load_saved_model(
    folder: Path, weights: str | None, size: tuple[int, int] | None, output: str | None = None
) -> Network:
    """Loads a SavedModel whose operations are all on the list of those that compute.

    The size, (H, W), is for a signature that leaves it open; weights are refused, it has its own.
    `output` names one of several.
    """
    shown = repr(str(folder))
    if weights is not None:
        raise UsageError(
            f"The SavedModel {shown} has its own weights. Leave --weights out.", "weights"
        )
    saved = read_saved_model(folder, output)
    name = re.sub(r"[^\w.-]", "_", folder.resolve().name) or "saved_model"
    expected = "Expected a network of pictures, as its signature describes it."
    with naming_the_file(shown, f"The SavedModel {shown} cannot compute pictures", expected):
        shape = _picture_shape(saved, size, shown)
        refuse_beyond_memory(sum(value.nbytes for value in saved.variables.values()), shown)
        pictures = keras.Input(shape, dtype=saved.input_type.name, name="pictures")
        scores = SavedOperations(saved, name=name)(pictures)
    model = keras.Model(pictures, scores, name=name)
    prepares = scaled_pictures(saved.graph.node, saved.input, saved.variables)
    told = saved.input_type.is_integer or prepares
    return Network(name, model, warning="" if told else NO_PREPROCESSING)


def _picture_shape(
    saved: SavedGraph, size: tuple[int, int] | None, shown: str
) -> tuple[int, int, int]:
    """(H, W, C) of its pictures."""
    shape = saved.input_shape
    number = saved.input_type.is_floating or saved.input_type == tf.uint8
    if len(shape) != 4 or shape[3] not in (1, 3) or not number:
        listed = " x ".join("any" if one is None else str(one) for one in shape) or "any"
        raise ValueError(
            f"it reads {saved.input_type.name} [{listed}], not float32 or uint8 "
            "[batch, height, width, 3 or 1]"
        )
    if shape[0] is not None:
        raise ValueError(f"it takes {shape[0]} at a time; save it for batches of any size, None")
    rows, columns = shape[1] or (size and size[0]), shape[2] or (size and size[1])
    if not rows or not columns:
        raise UsageError(
            f"The SavedModel {shown} has no fixed input size. Say which, for example --size 224.",
            "size",
        )
    return rows, columns, shape[3]


def _shape_of(name: str, made: Mapping[str, Any], saved: SavedGraph) -> Sequence[int]:
    """The shape of a variable or constant, which operations may hand on unchanged."""
    while name not in saved.variables and made[name].op == "Identity":
        name = made[name].input[0]
    if name in saved.variables:
        return saved.variables[name].shape
    return [size.size for size in made[name].attr["value"].tensor.tensor_shape.dim]


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

    for node in graph.node:
        before = made.get(node.input[0].partition(":")[0]) if node.input else None
        if node.op == "DepthwiseConv2dNative" and node.attr["padding"].s == b"EXPLICIT":
            border = np.reshape(node.attr["explicit_paddings"].list.i, (4, 2))
            padded = append("Pad", f"{node.name}/padded", node.input[:1], node, border=border)
            convolution = plain.node.add()
            convolution.CopyFrom(node)
            convolution.input[0] = padded.name
            convolution.attr["padding"].s = b"VALID"
            del convolution.attr["explicit_paddings"]
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
        elif before is not None and before.op == "SpaceToBatchND" and "Conv2" in node.op:
            rows, columns = tf.make_ndarray(held[before.input[1]])
            dilated = graph_pb2.GraphDef(node=[node]).node[0]
            if node.op == "DepthwiseConv2dNative":  # as groups: it has no dilations itself
                shape = [*_shape_of(node.input[1], made, saved)[:2], 1, -1]
                name = f"{node.name}/in_groups"
                kernel = append("Reshape", name, node.input[1:], node, shape=shape)
                kernel.attr["Tshape"].type = tf.int32.as_datatype_enum
                dilated.op = "Conv2D"
                dilated.input[1] = kernel.name
            dilated.attr["dilations"].list.i[:] = [1, rows, columns, 1]
            plain.node.append(dilated)
        else:
            plain.node.append(node)
    return plain


class SavedOperations(keras.layers.Layer):
    """The operations between the pictures and the outputs of a SavedModel or an ONNX file.

    `names` has those that operations have in the explained network, where they are not their own.
    """

    def __init__(
        self, saved: SavedGraph, name: str, names: Mapping[str, str] | None = None
    ) -> None:
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
        values[f"{saved.input}:0"] = pictures
        outputs = [name if ":" in name else f"{name}:0" for name in saved.outputs]
        found = tf.graph_util.import_graph_def(
            self._graph, input_map=values, return_elements=outputs, name=""
        )
        return found[0] if len(found) == 1 else tuple(found)

    def operation_place(self, name: str) -> str:
        """The place of an operation in the network, such as "block1/conv", by its name."""
        parts = name.removeprefix(f"{self.name}/").split("/")[:-1]
        return "/".join(parts)

    def operation_name(self, name: str) -> str:
        """The name of an operation in the network; "" where its place and type say it."""
        return (self._names or {}).get(name.removeprefix(f"{self.name}/"), "")
