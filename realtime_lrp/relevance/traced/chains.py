"""Elementwise operations on one tensor become one activation, through which relevance passes.

So GELU, written as products with an error function, is one node, and so is a product with a
constant.
"""

from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.steps import Activation, Deviation, Elementwise
from realtime_lrp.relevance.traced.steps import Scaling, kept_shape
from realtime_lrp.relevance.traced.tracing import BATCH
from realtime_lrp.relevance.traced.values import (
    MIXES,
    CannotReadError,
    Chain,
    Constant,
    Held,
    Turned,
    Value,
    compute_of,
)

ACTIVATIONS = {
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
    """A tensor of the graph as a chain without operations; a chain as it is.

    Raises:
      CannotReadError: its first axis is not that of the pictures.
    """
    if isinstance(value, Turned):
        raise CannotReadError(MIXES)
    return value if isinstance(value, Chain) else Chain(value, tf.identity)


def of_any_batch(constant: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """A constant that fits a batch of any size, to be read beside a tensor of this traced shape.

    Raises:
      CannotReadError: it is another one for each picture.
    """
    value = tf.cast(constant, tf.float32) if constant.dtype.is_floating else constant
    if value.shape.rank < len(shape) or value.shape.rank == 0 or value.shape[0] == 1:
        return value
    if value.shape[0] != BATCH or not tf.reduce_all(value == value[:1]):
        raise CannotReadError("reads a constant that differs from picture to picture of a batch")
    return value[:1]


def step_of(chain: Chain) -> Elementwise:
    """The step that computes a chain."""
    if chain.types in [(one,) for one in ACTIVATIONS] and not chain.constants:
        name, nonnegative = ACTIVATIONS[chain.types[0]]
        return Activation(name, chain.compute, nonnegative)
    traced, kept = [-1, *chain.shape[1:]], [-1, *kept_shape(chain.shape)]

    def function(a: tf.Tensor) -> tf.Tensor:
        return tf.reshape(chain.compute(tf.reshape(a, traced)), kept)

    if DEVIATIONS.intersection(chain.types):
        return Deviation(function, keeps_sign=True)
    scales = chain.types == ("Mul",) and chain.constants
    return (Scaling if scales else Elementwise)(function, keeps_sign=False)
