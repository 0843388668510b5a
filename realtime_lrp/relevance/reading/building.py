"""Makes the graph of a Keras model.

Nested models are entered; a shared layer gets one node for each call. A layer without a row in
`layers.py` is traced into TensorFlow operations (`tracing.py`).
"""

import copy
import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.relevance.network.checks import refuse_beyond_memory
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.places import choose_output, without_unused
from realtime_lrp.relevance.network.steps import Reshape
from realtime_lrp.relevance.network.traced_steps import BATCH
from realtime_lrp.relevance.reading.comparison import LayerCall, check_calls, check_traced, noise
from realtime_lrp.relevance.reading.layers import UnsupportedLayerError, row_of, steps_of
from realtime_lrp.relevance.reading.operations import OPERATIONS
from realtime_lrp.relevance.reading.reader import Reader
from realtime_lrp.relevance.reading.tracing import Call, Trace

CHECKED: weakref.WeakSet[keras.Model] = weakref.WeakSet()  # their layers were compared before

Shape = Sequence[int | None]

DETECTOR_OUTPUTS = ["boxes", "scores"]
"""The outputs of a detector: boxes [B, places, 4], y0, x0, y1, x1 in pixels of its input, and the
scores of classes there, [B, places, classes], from 0 to 1."""

MAX_PIXELS = 1 << 20  # layers are not compared on larger pictures, which might not fit into memory


def build_graph(
    model: keras.Model, output: str | int | None = None, size: tuple[int, int] | None = None
) -> Graph:
    """Turns a Keras model into a graph.

    The first time that a model is read, each layer is compared with its steps, on noise. A
    subclassed model has to be built: called on a batch once, or by `build`. `output` is a name or
    position, None for the one that looks like the answer, or for the scores of a detector
    (`DETECTOR_OUTPUTS`), whose boxes are read too. Where the model leaves the `size` (rows,
    columns) of its pictures open, layers are not compared without it.

    Raises:
      UsageError: there is no such output.
      DamagedInputError: the model is not built, has several inputs, weights that are not finite, or
        a layer that computes something else than its steps.
      UnsupportedLayerError: a layer has no rule, or an operation of it has none.
    """
    if is_functional(model):
        graph, number = _graph_of_functional(model, output, size)
    else:
        graph, number = _graph_of_subclassed(model, output)
    if number is None:
        raise DamagedInputError(
            f"The output of the model {model.name!r} does not depend on the picture. Expected a "
            "network that reads its input."
        )
    graph.output = number
    without_unused(graph)
    return graph


def _graph_of_functional(
    model: keras.Model, output: str | int | None, size: tuple[int, int] | None
) -> tuple[Graph, int | None]:
    if len(model.inputs) != 1:
        raise DamagedInputError(
            f"The model {model.name!r} has {len(model.inputs)} inputs. Expected one picture in."
        )
    names = output_names(model)
    detects = output is None and finds_boxes(model)
    shapes = {name: one.shape[1:] for name, one in zip(names, model.outputs, strict=True)}
    chosen = choose_output("scores" if detects else output, shapes, model.name)
    picture = tuple(model.inputs[0].shape)[1:]
    scores = tuple(shapes[names[chosen]])
    if detects and (len(scores) != 2 or tuple(shapes["boxes"]) != (scores[0], 4)):
        raise DamagedInputError(
            f"The model {model.name!r} gives boxes {tuple(shapes['boxes'])} and scores {scores} "
            "for each picture. Expected (places, 4) and (places, classes)."
        )
    without_channel = len(picture) == 2  # as `Flatten(input_shape=(28, 28))` reads grey pictures
    shape = (*picture, 1) if without_channel else picture
    graph = Graph(name=model.name, input_shape=shape, output_shape=scores)
    first = graph.append("picture", "Reshape", [Reshape(picture)], (0,)) if without_channel else 0
    builder = _Builder(graph)
    try:
        outputs = builder.walk(model, [first], "")
    except RecursionError as error:
        raise DamagedInputError(
            f"The model {model.name!r} nests models or operations too deeply to be read. Expected "
            "a network of at most a few hundred layers inside each other."
        ) from error
    builder.note_own_call(model, model.name, [first], outputs)
    if model not in CHECKED:
        _compare(model, builder.calls, size, first)
    graph.boxes = outputs[names.index("boxes")] if detects else None
    return graph, outputs[chosen]


def _compare(
    model: keras.Model, calls: Sequence[LayerCall], size: tuple[int, int] | None, first: int
) -> None:
    """Compares the layers of a model, which reads the tensor number `first`, with their nodes."""
    shape = tuple(model.inputs[0].shape)[1:]
    fixed = None not in shape
    if not fixed and size is not None and len(shape) == 3:
        shape = (shape[0] or size[0], shape[1] or size[1], shape[2])
    if None in shape or np.prod(shape[:-1]) > MAX_PIXELS:
        return
    try:
        check_calls(calls, noise(tf.TensorSpec([1, *shape], model.inputs[0].dtype), 1), first)
    except (tf.errors.InvalidArgumentError, TypeError, ValueError):
        if fixed:
            raise
        return  # the explainer says what is wrong with this size
    CHECKED.add(model)


def finds_boxes(model: keras.Model) -> bool:
    """Whether a model is a detector: it has the outputs `DETECTOR_OUTPUTS`."""
    return is_functional(model) and sorted(output_names(model)) == DETECTOR_OUTPUTS


def output_names(model: keras.Model) -> list[str]:
    """The names of a functional model's outputs: their keys, or the names of the layers."""
    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name]
    paths = [path for path, _ in keras.tree.flatten_with_path(model.output)]
    if all(path and all(isinstance(part, str) for part in path) for path in paths):
        return ["/".join(path) for path in paths]
    names = list(model.output_names)
    return names if len(set(names)) == len(names) else [str(n) for n in range(len(names))]


def is_functional(model: keras.Model) -> bool:
    """Whether a model shows the graph of its layers: it is functional, or Sequential and built."""
    try:
        return bool(model.inputs and model.outputs)
    except (AttributeError, ValueError):
        return False


def _graph_of_subclassed(model: keras.Model, output: str | int | None) -> tuple[Graph, int | None]:
    shape = model.built and (model.get_build_config() or {}).get("input_shape")
    if not shape or not all(isinstance(size, int | None) for size in shape):
        raise DamagedInputError(
            f"The model {model.name!r} is not built: the shape of its pictures is not known. Call "
            "it on a batch of pictures first, or model.build((None, height, width, channels))."
        )
    graph = Graph(name=model.name, input_shape=tuple(shape[1:]))
    _require_finite(model)
    called = _Called(model, (keras.KerasTensor((None, *shape[1:])),))
    traced = called.trace()
    names = traced.output_names or [str(position) for position in range(len(traced.outputs))]
    shapes = {name: one.shape[1:] for name, one in zip(names, traced.outputs, strict=True)}
    chosen = choose_output(output, shapes, model.name)
    graph.output_shape = tuple(traced.outputs[chosen].shape[1:])
    return graph, _Builder(graph).append_trace(called, traced, [0], "")[chosen]


@dataclass(frozen=True)
class _Called:
    """A call of a layer or model, with `keras.KerasTensor`s for what depends on the picture."""

    layer: keras.Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None = None

    @property
    def tensors(self) -> list[keras.KerasTensor]:
        """The tensors that depend on the picture, each once."""
        leaves = keras.tree.flatten((self.args, self.kwargs or {}))
        return list(
            {id(leave): leave for leave in leaves if keras.utils.is_keras_tensor(leave)}.values()
        )

    def compute(self, *values: tf.Tensor) -> Any:
        """Calls the layer as in inference, with values for its `tensors`."""
        by_id = {id(one): value for one, value in zip(self.tensors, values, strict=True)}
        batch = values[0].shape[0]

        def given(one: Any) -> Any:
            if tf.is_tensor(one) and isinstance(self.layer, keras.Model) and one.shape[:1] == [1]:
                return tf.repeat(one, batch, 0)  # of a model with several inputs, for each picture
            return by_id.get(id(one), one)

        args, kwargs = keras.tree.map_structure(given, (self.args, self.kwargs or {}))
        if isinstance(self.layer, keras.Layer):
            kwargs["training"] = False  # also for the layers inside it
        return self.layer(*args, **kwargs)

    def trace(self) -> Trace:
        """Traces the call."""
        layer = self.layer
        if any(None in tensor.shape[1:] for tensor in self.tensors):
            raise UnsupportedLayerError(
                layer, "it has no rule of its own, and its operations are known for pictures "
                "of one size only. Build the model with keras.Input((height, width, channels))",
            )  # fmt: skip
        whole = isinstance(layer, keras.Layer)
        inner = list(layer._flatten_layers(include_self=False)) if whole else []
        traced = Trace(_stays)
        try:
            traced.run(self.compute, self.tensors, inner)
        except Exception as error:  # whatever a layer of the user's raises
            why = first_line(error).rstrip(".")
            raise UnsupportedLayerError(
                layer, f"it has no rule of its own, and cannot be traced ({why})"
            ) from error
        if hasattr(layer, "operation_place"):
            names = [operation.name for operation in traced.graph.get_operations()]
            traced.places = {name: layer.operation_place(name) for name in names}
            traced.names = {name: layer.operation_name(name) for name in names}
            traced.flat = True
        return traced


def _stays(layer: keras.Layer) -> bool:
    """Whether a layer inside a traced one has a row, or is a model of such layers."""
    if isinstance(layer, keras.Model):
        return is_functional(layer)
    try:
        return row_of(layer) is not None and bool(steps_of(layer))
    except UnsupportedLayerError:
        return False


_CALLS_OF_GRAPHS = (type(keras.Model((one := keras.Input((1,))), one)).call, keras.Sequential.call)
"""How models compute their graph of layers, unless a subclass does something else."""


class _ReadsConstantError(UnsupportedLayerError):
    """A layer of a model reads what does not depend on the picture."""


@dataclass(frozen=True)
class _Builder:
    """Appends the layers of a model to a graph; notes their calls for `check_calls`."""

    graph: Graph
    calls: list[LayerCall] = field(default_factory=list)
    # id of a tensor of a nested model that leaves sizes open -> the tensor with its sizes
    sized: dict[int, keras.KerasTensor] = field(default_factory=dict)

    def walk(
        self, model: keras.Model, numbers: list[int], prefix: str, shapes: Sequence[Shape] = ()
    ) -> list[int | None]:
        """Appends the layers of a functional model; returns the numbers of its outputs.

        None is an output that does not depend on the picture. `shapes` are its inputs' shapes,
        where the model around it knows more of them.
        """
        known: dict[int, int | None] = dict(zip(map(id, model.inputs), numbers, strict=True))
        for tensor, shape in zip(model.inputs, shapes, strict=False):
            self.sized[id(tensor)] = keras.KerasTensor(shape, tensor.dtype)
        by_depth = (getattr(model, "_functional", None) or model)._nodes_by_depth
        for node in (node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]):
            if node.is_input:
                continue
            inputs = [known[id(tensor)] for tensor in node.input_tensors]
            read = [number for number in inputs if number is not None]
            if len(read) < len(inputs):
                why = "an input does not depend on the picture"
                raise _ReadsConstantError(node.operation, why)
            outputs = self._append(node, read, prefix)
            known.update(zip(map(id, node.outputs), outputs, strict=True))
        return [known[id(tensor)] for tensor in model.outputs]

    def note_own_call(
        self, model: keras.Model, name: str, inputs: list[int], outputs: list[int | None]
    ) -> None:
        """Notes the call of a model whose class computes more than its graph of layers."""
        if type(model).call not in _CALLS_OF_GRAPHS:
            compute = functools.partial(model, training=False)
            self.calls.append(LayerCall(model, name, compute, [], inputs, outputs))

    def _append(self, node: Any, inputs: list[int], prefix: str) -> list[int | None]:
        """Appends one call of a layer; returns the numbers of its outputs, as `walk`."""
        layer = node.operation
        name = prefix + layer.name
        noted = len(self.calls)
        whole = len(inputs) == len(getattr(layer, "inputs", ()))  # else it reads constants too
        if isinstance(layer, keras.Model) and is_functional(layer) and whole:
            before = {name: copy.copy(value) for name, value in vars(self.graph).items()}
            try:
                shapes = [self._sized(tensor).shape for tensor in node.input_tensors]
                outputs = self._whole(name, self.walk(layer, inputs, f"{name}/", shapes))
                self.note_own_call(layer, name, inputs, outputs)
                return outputs
            except _ReadsConstantError:  # traced then
                vars(self.graph).update(before)
                del self.calls[noted:]
        _require_finite(layer)
        arguments = node.arguments.args, node.arguments.kwargs
        called = _Called(layer, *keras.tree.map_structure(self._sized, arguments))
        left_open = any(None in output.shape[1:] for output in node.outputs)  # by the nested model
        if left_open and not any(None in one.shape[1:] for one in called.tensors):
            found = layer.compute_output_spec(*called.args, **called.kwargs or {})
            for tensor, sized in zip(node.outputs, keras.tree.flatten(found), strict=True):
                self.sized[id(tensor)] = sized
        read = map(self._sized, node.input_tensors)
        by_id = dict(zip(map(id, read), inputs, strict=True))
        numbers = [by_id[id(tensor)] for tensor in called.tensors]
        first = len(self.graph.nodes)
        try:
            steps = steps_of(layer, called.args)
            outputs = [self.graph.append(name, type(layer).__name__, steps, tuple(inputs))]
        except UnsupportedLayerError as refusal:
            try:
                outputs = self.append_trace(called, called.trace(), numbers, name)
            except UnsupportedLayerError as error:
                raise (refusal if row_of(layer) else error) from None
        nodes = self.graph.nodes[first:]
        del self.calls[noted:]  # of layers inside a traced one
        self.calls.append(LayerCall(layer, name, called.compute, nodes, numbers, outputs))
        return outputs

    def _sized(self, one: Any) -> Any:
        """A tensor with its sizes, if they are known; anything else unchanged."""
        return self.sized.get(id(one), one)

    def append_trace(
        self, called: _Called, traced: Trace, numbers: list[int], name: str
    ) -> list[int | None]:
        """Appends the operations of a call, if they fit into memory; returns numbers as `walk`."""
        layer = called.layer
        entries = sum(
            tensor.shape.num_elements() or 0
            for operation in traced.graph.get_operations()
            for tensor in operation.outputs
        )
        needed = 2 * 4 * entries // BATCH  # two pictures are compared
        refuse_beyond_memory(needed, f"The layer {layer.name!r} ({type(layer).__name__})")
        first = len(self.graph.nodes)

        def append_inner(call: Call, read: list[int], place: str) -> list[int | None]:
            """Appends a call of a layer inside the traced one, which `_stays`."""
            if isinstance(call.layer, keras.Model):
                shapes = [[None, *tensor.shape[1:]] for tensor in call.inputs]
                return self._whole(place, self.walk(call.layer, read, f"{place}/", shapes))
            kind = type(call.layer).__name__
            return [self.graph.append(place, kind, steps_of(call.layer), tuple(read))]

        reader = Reader(self.graph, layer, name, traced, append_inner, OPERATIONS)
        outputs = reader.read(numbers)
        nodes = self.graph.nodes[first:]
        whole = LayerCall(layer, name, called.compute, nodes, numbers, outputs)
        check_traced(whole, traced.inputs)
        return self._whole(name, outputs)

    def _whole(self, name: str, outputs: list[int | None]) -> list[int | None]:
        """Notes the output of a nested model or a traced layer; returns all outputs."""
        if outputs[0] is not None:
            self.graph.wholes.setdefault(name, outputs[0])
        return outputs


def _require_finite(layer: keras.Operation) -> None:
    for weight in getattr(layer, "weights", ()):  # plain operations have none
        if not np.isfinite(tf.reduce_sum(tf.cast(weight.value, tf.float32)).numpy()):
            raise DamagedInputError(
                f"The weights {weight.name!r} of the layer {layer.name!r} "
                f"({type(layer).__name__}) hold NaN, Inf or numbers too large to be added up. "
                "Expected finite weights: train or export the model again."
            )
