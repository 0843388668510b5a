"""The TensorFlow operations that a layer consists of, and what their tensors stand for.

All is traced for a batch of `BATCH` pictures: the axis of the pictures differs from the others.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from realtime_lrp.relevance.network.steps import Activation, Deviation, Elementwise
from realtime_lrp.relevance.network.traced_steps import BATCH, EntryScale, kept_shape, rectifier_of
from realtime_lrp.relevance.reading.layers import NONNEGATIVE
from realtime_lrp.system.program import TRACING


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a layer inside the traced one."""

    layer: keras.Layer
    place: str  # the names of the layers around it and its own, "mlp/dense"
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor]


@dataclass
class Trace:
    """The operations of a layer, and the calls of layers inside it that have a row."""

    # whether calls of an inner layer are recorded as such
    stays: Callable[[keras.Layer], bool]
    graph: tf.Graph = None
    inputs: list[tf.Tensor] = field(default_factory=list)
    outputs: list[tf.Tensor] = field(default_factory=list)
    # the keys of the outputs, where the layer returns a dictionary
    output_names: list[str] = field(default_factory=list)
    # name of a placeholder -> the value or the variable that it stands for
    captured: dict[str, tf.Tensor] = field(default_factory=dict)
    # name of a tensor -> the call of an inner layer that computes it
    calls: dict[str, Call] = field(default_factory=dict)
    # name of an operation -> the names of the inner layers around it, "mlp/dense"
    places: dict[str, str] = field(default_factory=dict)
    flat: bool = False  # whether layers became operations before, as in a SavedModel
    # name of an operation -> what its node is called, where it has a name of its own
    names: dict[str, str] = field(default_factory=dict)
    _inside: list[str] = field(default_factory=list)  # the names of the layers that are running

    def run(
        self, compute: Callable[..., Any], inputs: list[keras.KerasTensor], inner: list[keras.Layer]
    ) -> None:
        """Traces a function of tensors; calls of `inner` layers, at any depth, are recorded."""

        def traced(*tensors: tf.Tensor) -> list[tf.Tensor]:
            self.graph = tf.compat.v1.get_default_graph()
            outputs = compute(*tensors)
            if isinstance(outputs, dict):
                self.output_names = sorted(outputs)
            return tf.nest.flatten(outputs)

        specs = [
            tf.TensorSpec([BATCH, *one.shape[1:]], one.dtype, name=f"input_{index}")
            for index, one in enumerate(inputs)
        ]
        with TRACING, ExitStack() as stack:
            # What TensorFlow would compile by itself, or run picture by picture, is traced whole.
            stack.callback(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())
            tf.config.run_functions_eagerly(True)
            stack.callback(setattr, tf, "map_fn", tf.map_fn)
            tf.map_fn = lambda fn, elems, **kwargs: tf.vectorized_map(fn, elems)
            for layer in inner:
                # The instance's own attribute hides the method of its class.
                object.__setattr__(layer, "call", self._watched(layer, layer.call))
                stack.callback(object.__delattr__, layer, "call")
            function = tf.function(traced, autograph=False).get_concrete_function(*specs)
        self.outputs = list(function.outputs)
        self.inputs = function.inputs[: len(specs)]
        captured = zip(function.inputs[len(specs) :], function.captured_inputs, strict=True)
        self.captured = {placeholder.name: value for placeholder, value in captured}

    def _watched(self, layer: keras.Layer, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if tf.compat.v1.get_default_graph() is not self.graph:
                return call(*args, **kwargs)  # in the body of a loop
            before = len(self.graph.get_operations())
            self._inside.append(layer.name)
            place = "/".join(self._inside)
            try:
                outputs = call(*args, **kwargs)
                self._record(layer, place, args, kwargs, outputs)
            finally:
                for operation in self.graph.get_operations()[before:]:
                    self.places.setdefault(operation.name, place)
                self._inside.pop()
            return outputs

        return watched

    def _record(self, layer: keras.Layer, place: str, args: Any, kwargs: Any, outputs: Any) -> None:
        """Records a call that reads nothing but its first argument."""
        inputs = tf.nest.flatten(args[:1])
        computed = tf.nest.flatten(outputs)
        if any(map(tf.is_tensor, tf.nest.flatten((args[1:], kwargs)))):
            return
        if not all(map(tf.is_symbolic_tensor, (*inputs, *computed))):
            return
        read = {tensor.name for tensor in inputs}
        if self.stays(layer) and read.isdisjoint(tensor.name for tensor in computed):
            call = Call(layer, place, inputs, computed)
            self.calls |= {tensor.name: call for tensor in computed}


MIXES = "mixes the pictures of a batch"


class CannotReadError(Exception):
    """An operation cannot be explained; the message says why, to follow its name."""


@dataclass(frozen=True)
class Held:
    """A tensor of the graph, with its traced shape, which includes the batch."""

    number: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Elementwise operations on one tensor of the graph, not yet a node."""

    root: Held
    compute: Callable[[tf.Tensor], tf.Tensor]  # the traced root, float32 -> the value
    last: tf.Operation | None = None  # it computes the value
    types: tuple[str, ...] = ()  # types of all operations
    constants: bool = False  # whether some read constants too


@dataclass(frozen=True)
class Turned:
    """Moved entries of a tensor, such as queries, whose first axis is not the pictures' axis."""

    held: Held
    move: Callable[[tf.Tensor], tf.Tensor]  # the traced tensor -> its moved entries


Value: TypeAlias = tf.Tensor | Held | Chain | Turned
"""The meaning of a traced tensor; one that does not depend on the picture is an eager tensor."""


def run(operation: tf.Operation, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs an operation of a trace on eager tensors; returns its outputs."""
    result = compute_of(operation)(*values)
    return list(result) if isinstance(result, list | tuple) else [result]


MAX_SIZES = 1000  # the most entries of a constant that is taken for the sizes of another tensor


def bytes_of(tensor: tf.Tensor) -> int:
    """The memory that a tensor takes; 0 where its shape is not known."""
    return (tensor.shape.num_elements() or 0) * max(tensor.dtype.size or 1, 1)


def bytes_of_outputs(operation: tf.Operation, values: Sequence[tf.Tensor]) -> int:
    """The memory that an operation's outputs take, without computing them.

    Shapes that the trace does not know follow from inputs that hold sizes.
    """
    outputs = operation.outputs
    if not all(output.shape.is_fully_defined() for output in outputs):
        with tf.Graph().as_default():
            inputs = [
                tf.constant(value.numpy())
                if value.shape.num_elements() <= MAX_SIZES
                else tf.compat.v1.placeholder(value.dtype, value.shape)
                for value in values
            ]
            outputs = tf.nest.flatten(compute_of(operation)(*inputs))
    return sum(map(bytes_of, outputs))


def compute_of(operation: tf.Operation) -> Callable[..., Any]:
    """The function of its inputs that an operation computes."""
    if operation.type == "Const":
        value = tf.make_ndarray(operation.get_attr("value"))
        return lambda: tf.constant(value)
    if operation.type == "XlaDynamicUpdateSlice":
        return _updated
    function = getattr(tf.raw_ops, operation.type, None)
    if function is None:
        raise CannotReadError("is none of tf.raw_ops")
    inputs = operation.op_def.input_arg
    from_inputs = {
        name
        for input_ in inputs
        for name in (input_.type_attr, input_.number_attr, input_.type_list_attr)
    }
    names = (attribute.name for attribute in operation.op_def.attr)
    attributes = [name for name in names if name not in from_inputs and name[0] != "_"]
    named = _python_names(operation.type, (*(input_.name for input_ in inputs), *attributes))
    fixed = {named[name]: operation.get_attr(name) for name in attributes}
    lengths = {}  # lengths of inputs that are lists
    for one in inputs:
        if one.number_attr:
            lengths[one.name] = operation.get_attr(one.number_attr)
        elif one.type_list_attr:
            lengths[one.name] = len(operation.get_attr(one.type_list_attr))

    def compute(*values: tf.Tensor) -> Any:
        left = iter(values)
        arguments = {
            named[input_.name]: list(itertools.islice(left, lengths[input_.name]))
            if input_.name in lengths
            else next(left)
            for input_ in inputs
        }
        return function(**arguments, **fixed)

    return compute


def _updated(values: tf.Tensor, update: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """`keras.ops.slice_update` of constants, as in Swin's masks."""
    copy = values.numpy().copy()
    places = zip(begin.numpy(), update.shape, strict=True)
    copy[tuple(slice(first, first + size) for first, size in places)] = update.numpy()
    return tf.constant(copy)


@functools.cache
def _python_names(kind: str, names: tuple[str, ...]) -> dict[str, str]:
    """The names in `tf.raw_ops` of inputs and attributes; a few differ from the operation's own."""
    signature = inspect.signature(getattr(tf.raw_ops, kind))
    parameters = [parameter for parameter in signature.parameters if parameter != "name"]
    others = [parameter for parameter in parameters if parameter not in names]
    renamed = [name for name in names if name not in parameters]
    return {**{name: name for name in names}, **dict(zip(renamed, others, strict=True))}


AS_ACTIVATION = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Softplus": "softplus", "Tanh": "tanh",
    "Exp": "exponential", "Elu": "elu", "Selu": "selu", "Softsign": "softsign",
    "LeakyRelu": "leaky_relu",
}  # fmt: skip
"""Type of an operation -> its name as an activation."""

DEVIATIONS = {"Sqrt", "Rsqrt", "Reciprocal", "Inv"}  # a normalisation divides by these
# operations that make a ReLU out of a comparison
COMPARISONS = {"ClipByValue", "Greater", "GreaterEqual", "Less", "LessEqual", "Maximum", "Minimum"}


def chain_of(operation: tf.Operation, inputs: Sequence[Value]) -> Chain | None:
    """An operation as a part of a chain; None if it has several roots or changes the shape."""
    shape = tuple(operation.outputs[0].shape)
    if any(isinstance(value, Turned) for value in inputs):
        raise CannotReadError(MIXES)
    read = [Chain(input_, tf.identity) if isinstance(input_, Held) else input_ for input_ in inputs]
    parts = [one for one in read if isinstance(one, Chain)]
    root = parts[0].root
    if any(part.root != root for part in parts) or root.shape != shape:
        return None
    compute = compute_of(operation)
    operands = [one.compute if isinstance(one, Chain) else of_any_batch(one, shape) for one in read]

    def computed(a: tf.Tensor) -> tf.Tensor:
        return compute(*(operand(a) if callable(operand) else operand for operand in operands))

    types = tuple(kind for part in parts for kind in part.types)
    constants = len(parts) < len(inputs) or any(part.constants for part in parts)
    return Chain(root, computed, operation, (*types, operation.type), constants)


def of_any_batch(constant: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """A constant that fits a batch of any size, to be read beside a tensor of this traced shape."""
    value = tf.cast(constant, tf.float32) if constant.dtype.is_floating else constant
    if value.shape.rank < len(shape) or value.shape.rank == 0 or value.shape[0] == 1:
        return value
    alike = value == value[:1]
    if value.dtype.is_floating:  # products of matrices round
        alike = tf.abs(value - value[:1]) <= 1e-6 * tf.reduce_max(tf.abs(value))
    if value.shape[0] != BATCH or not tf.reduce_all(alike):
        raise CannotReadError("reads a constant that differs from picture to picture of a batch")
    return value[:1]


def step_of(chain: Chain) -> Elementwise:
    """The step that computes a chain."""
    kind, *others = chain.types
    if kind in AS_ACTIVATION and not others and not chain.constants:
        name = AS_ACTIVATION[kind]
        return Activation(name, chain.compute, nonnegative=name in NONNEGATIVE)
    shape = chain.root.shape
    compares = COMPARISONS.intersection(chain.types)
    if compares and (rectifier := rectifier_of(chain.compute, shape)):
        return rectifier
    traced = [-1, *shape[1:]]
    kept = [-1, *kept_shape(shape)]

    def function(a: tf.Tensor) -> tf.Tensor:
        return tf.reshape(chain.compute(tf.reshape(a, traced)), kept)

    if DEVIATIONS.intersection(chain.types):
        return Deviation(function, keeps_sign=True)
    scales = chain.types == ("Mul",) and chain.constants
    return (EntryScale if scales else Elementwise)(function, keeps_sign=False)
