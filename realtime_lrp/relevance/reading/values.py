"""What the tensors of a trace stand for, and running single operations on them."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from realtime_lrp.relevance.network.steps import Activation, Deviation, Elementwise
from realtime_lrp.relevance.network.traced_steps import BATCH, Scaling, kept_shape

MIXES = "mixes the pictures of a batch"


class CannotReadError(Exception):
    """An operation cannot be explained; the message says why, to follow its name."""


@dataclass(frozen=True)
class Constant:
    """What does not depend on the picture: an eager tensor."""

    value: tf.Tensor


@dataclass(frozen=True)
class Held:
    """A tensor of the graph; its shape is as it was traced, with the batch."""

    number: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Elementwise operations on one tensor of the graph, not yet a node.

    `compute` maps the root, as it was traced, float32, to the value, which the operation `last`
    computes. `types` are those of all its operations; some may read `constants` too.
    """

    root: Held
    compute: Callable[[tf.Tensor], tf.Tensor]
    last: tf.Operation | None = None
    types: tuple[str, ...] = ()
    constants: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the root."""
        return self.root.shape


@dataclass(frozen=True)
class Turned:
    """Moved entries of a tensor whose first axis is then not that of the pictures; not yet a node.

    Queries, keys and values are often computed together and then moved to the front. `move` maps
    the tensor, as it was traced, to its entries moved.
    """

    held: Held
    move: Callable[[tf.Tensor], tf.Tensor]


Value = Constant | Held | Chain | Turned


def run(operation: tf.Operation, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Runs an operation of a trace on eager tensors; returns its outputs."""
    result = compute_of(operation)(*values)
    return list(result) if isinstance(result, list | tuple) else [result]


MAX_SIZES = 1000
"""The most entries of a constant that is taken for the sizes of another tensor."""


def bytes_of(tensor: tf.Tensor) -> int:
    """The memory that a tensor takes; 0 where its shape is not known."""
    return (tensor.shape.num_elements() or 0) * max(tensor.dtype.size or 1, 1)


def bytes_of_outputs(operation: tf.Operation, values: Sequence[tf.Tensor]) -> int:
    """The memory that an operation's outputs take for these inputs, without computing them.

    Where the trace does not know the shapes of the outputs, they follow from inputs that hold
    sizes.
    """
    outputs = operation.outputs
    if not all(one.shape.is_fully_defined() for one in outputs):
        with tf.Graph().as_default():
            inputs = [
                tf.constant(one.numpy())
                if one.shape.num_elements() <= MAX_SIZES
                else tf.compat.v1.placeholder(one.dtype, one.shape)
                for one in values
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
    described = operation.op_def
    from_inputs = {
        name
        for one in described.input_arg
        for name in (one.type_attr, one.number_attr, one.type_list_attr)
    }
    attributes = [
        one.name
        for one in described.attr
        if one.name not in from_inputs and not one.name.startswith("_")
    ]
    inputs = [one.name for one in described.input_arg]
    named = _python_names(operation.type, (*inputs, *attributes))
    fixed = {named[name]: operation.get_attr(name) for name in attributes}
    lengths = [(named[one.name], _length(operation, one)) for one in described.input_arg]

    def compute(*values: tf.Tensor) -> Any:
        arguments, at = {}, 0
        for name, length in lengths:
            arguments[name] = values[at] if length is None else list(values[at : at + length])
            at += 1 if length is None else length
        return function(**arguments, **fixed)

    return compute


def _updated(values: tf.Tensor, update: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """What `keras.ops.slice_update` computes of constants, as in Swin's masks."""
    copy = values.numpy().copy()
    places = zip(begin.numpy(), update.shape, strict=True)
    copy[tuple(slice(first, first + size) for first, size in places)] = update.numpy()
    return tf.constant(copy)


@functools.cache
def _python_names(kind: str, names: tuple[str, ...]) -> dict[str, str]:
    """What a function of `tf.raw_ops` calls the inputs and attributes of its operation.

    A few have another name there: the sums' "reduction_indices" are its "axis".
    """
    signature = inspect.signature(getattr(tf.raw_ops, kind))
    parameters = [one for one in signature.parameters if one != "name"]
    others = [one for one in parameters if one not in names]
    renamed = [one for one in names if one not in parameters]
    return {**{one: one for one in names}, **dict(zip(renamed, others, strict=True))}


def _length(operation: tf.Operation, argument: Any) -> int | None:
    """How many inputs an argument of an operation takes; None where it is no list."""
    if argument.number_attr:
        return operation.get_attr(argument.number_attr)
    if argument.type_list_attr:
        return len(operation.get_attr(argument.type_list_attr))
    return None


AS_ACTIVATION = {
    "Relu": ("relu", True), "Relu6": ("relu6", True), "Sigmoid": ("sigmoid", True),
    "Softplus": ("softplus", True), "Exp": ("exponential", True), "Tanh": ("tanh", False),
    "Elu": ("elu", False), "Selu": ("selu", False), "Softsign": ("softsign", False),
    "LeakyRelu": ("leaky_relu", False),
}  # fmt: skip
"""Type of an operation -> its name as an activation, whether no output is negative."""

DEVIATIONS = {"Sqrt", "Rsqrt", "Reciprocal", "Inv"}
"""What normalisations divide by, or multiply with."""


def chain_of(operation: tf.Operation, inputs: Sequence[Value]) -> Chain | None:
    """An operation as a part of a chain; None if it has several roots or changes the shape."""
    shape = tuple(operation.outputs[0].shape)
    parts = [as_chain(value) for value in inputs if not isinstance(value, Constant)]
    root = parts[0].root
    if any(part.root != root for part in parts) or root.shape != shape:
        return None
    compute = compute_of(operation)
    operands = [
        of_any_batch(value.value, shape) if isinstance(value, Constant) else as_chain(value).compute
        for value in inputs
    ]

    def computed(a: tf.Tensor) -> tf.Tensor:
        return compute(*(one(a) if callable(one) else one for one in operands))

    types = tuple(kind for part in parts for kind in part.types)
    constants = len(parts) < len(inputs) or any(part.constants for part in parts)
    return Chain(root, computed, operation, (*types, operation.type), constants)


def as_chain(value: Held | Chain | Turned) -> Chain:
    """A tensor of the graph as a chain without operations; a chain as it is."""
    if isinstance(value, Turned):
        raise CannotReadError(MIXES)
    return value if isinstance(value, Chain) else Chain(value, tf.identity)


def of_any_batch(constant: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """A constant that fits a batch of any size, to be read beside a tensor of this traced shape."""
    value = tf.cast(constant, tf.float32) if constant.dtype.is_floating else constant
    if value.shape.rank < len(shape) or value.shape.rank == 0 or value.shape[0] == 1:
        return value
    if value.shape[0] != BATCH or not tf.reduce_all(value == value[:1]):
        raise CannotReadError("reads a constant that differs from picture to picture of a batch")
    return value[:1]


def step_of(chain: Chain) -> Elementwise:
    """The step that computes a chain."""
    if chain.types in [(one,) for one in AS_ACTIVATION] and not chain.constants:
        name, nonnegative = AS_ACTIVATION[chain.types[0]]
        return Activation(name, chain.compute, nonnegative)
    traced, kept = [-1, *chain.shape[1:]], [-1, *kept_shape(chain.shape)]

    def function(a: tf.Tensor) -> tf.Tensor:
        return tf.reshape(chain.compute(tf.reshape(a, traced)), kept)

    if DEVIATIONS.intersection(chain.types):
        return Deviation(function, keeps_sign=True)
    scales = chain.types == ("Mul",) and chain.constants
    return (Scaling if scales else Elementwise)(function, keeps_sign=False)
