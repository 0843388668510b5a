"""Compares the nodes of a graph with the layers of the model itself, on noise.

A row that misreads a layer or an operation, or a layer that mixes the pictures of a batch, shows
here and not in wrong maps.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.network.graph import Node
from realtime_lrp.relevance.network.traced_steps import Choice
from realtime_lrp.relevance.reading.layers import UnsupportedLayerError

TOLERANCE = 1e-3  # largest difference, relative to the largest output
HALF_TOLERANCE = 0.05  # where the layer computes in half precision, its nodes in float32

_NUMBERS = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.uint8)
"""Types of feature maps and pictures, which nodes compute in float32; others choose."""


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer or a nested model, and the nodes of a graph that stand for it."""

    layer: keras.Operation
    name: str
    compute: Callable[..., Any]
    nodes: Sequence[Node]  # a model has none: its layers have calls of their own
    inputs: Sequence[int]
    outputs: Sequence[int | None]  # None for what does not depend on the picture

    @property
    def numbers(self) -> list[int]:
        """The numbers of those outputs that depend on the picture."""
        return [number for number in self.outputs if number is not None]

    def by_layer(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The layer's outputs that depend on the picture."""
        found = zip(tf.nest.flatten(self.compute(*inputs)), self.outputs, strict=True)
        return [value for value, number in found if number is not None]

    def by_nodes(self, inputs: Sequence[tf.Tensor]) -> list[np.ndarray]:
        """The same outputs, computed by the nodes."""
        tensors = {
            number: tf.cast(one, tf.float32) if one.dtype in _NUMBERS else one
            for number, one in zip(self.inputs, inputs, strict=True)
        }
        for node in self.nodes:
            tensors[node.output] = node.step.forward(*(tensors[number] for number in node.inputs))
        return [tensors[number].numpy() for number in self.numbers]

    def alike(self, one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
        """Whether two of its outputs agree.

        Where it chooses, such as the best queries, rounding may change their order: then each
        picture's entries may have changed places.
        """
        if one.shape != other.shape:
            return False
        largest = np.nanmax(np.abs(other), initial=1e-6, where=np.isfinite(other))
        close = functools.partial(np.allclose, rtol=0, atol=tolerance * largest, equal_nan=True)
        if not close(one, other) and any(isinstance(node.step, Choice) for node in self.nodes):
            one, other = (np.sort(a.reshape(len(a), -1), 1) for a in (one, other))
        return close(one, other)


def check_calls(calls: Sequence[LayerCall], x: tf.Tensor, first: int = 0) -> None:
    """Refuses a layer that computes something else than its nodes for x, the tensor `first`."""
    values = {first: x}
    last_reader = {number: call for call in calls for number in call.inputs}
    for call in calls:
        inputs = [values[number] for number in call.inputs]  # Keras's: no rounding adds up
        computed = call.by_layer(inputs)
        if call.nodes:
            ours = call.by_nodes(inputs)
        else:
            ours = [_array(values[number]) for number in call.numbers]
        for own, number, value in zip(ours, call.numbers, computed, strict=True):
            expected = _array(value)
            if not call.alike(own, expected, _tolerance(value)):
                raise _misread(call, own, expected)
            values[number] = value
        for number in set(call.inputs):
            if last_reader[number] is call:
                del values[number]  # a large network's tensors would not fit together


def _misread(call: LayerCall, own: np.ndarray, expected: np.ndarray) -> DamagedInputError:
    by = f"of the shape {own.shape[1:]} and not {expected.shape[1:]}"
    if own.shape == expected.shape:
        largest = float(np.abs(expected).max(initial=0))
        by = f"off by up to {np.abs(own - expected).max():.3g}, where the largest is {largest:.3g}"
    return DamagedInputError(
        f"The layer {call.name!r} ({type(call.layer).__name__}) computes something else than the "
        f"table of layers says ({by} on noise), so its maps would be wrong. If its `call` was "
        "replaced, make it a layer class of its own, which is then read operation by operation; "
        "else report this as a bug, with the version of Keras."
    )


def check_traced(call: LayerCall, inputs: Sequence[tf.Tensor]) -> None:
    """Refuses a traced layer whose nodes compute something else, or that mixes pictures."""
    pictures = [noise(tensor, 2) for tensor in inputs]
    same_first = [tf.concat([picture[:1], _other(picture[1:])], 0) for picture in pictures]
    same_last = [tf.concat([_other(picture[:1]), picture[1:]], 0) for picture in pictures]
    computed = call.by_layer(pictures)
    tolerance = max(map(_tolerance, computed), default=TOLERANCE)
    ours, firsts, lasts = map(call.by_nodes, (pictures, same_first, same_last))
    alike = functools.partial(call.alike, tolerance=tolerance)
    for place, (one, first, last) in enumerate(zip(ours, firsts, lasts, strict=True)):
        expected = _in_shape(_array(computed[place]), one.shape)
        if not alike(one, expected):
            alone = _array(call.by_layer([of[:1] for of in pictures])[place])
            why = "the steps that it is read into compute something else than it does"
            if not (np.isfinite(expected).all() and np.isfinite(one).all()):
                why = "it computes NaN or infinity of noise: its weights may be damaged"
            elif not alike(_in_shape(alone, one[:1].shape), expected[:1]):
                why = "what it computes for a picture depends on how many are in the batch"
            raise UnsupportedLayerError(call.layer, why)
        if not (alike(one[:1], first[:1]) and alike(one[1:], last[1:])):
            raise UnsupportedLayerError(call.layer, "it mixes the pictures of a batch")


def noise(tensor: tf.Tensor, pictures: int) -> tf.Tensor:
    """Noise shaped like a tensor, for a number of pictures."""
    values = np.random.default_rng(0).normal(size=(pictures, *tensor.shape[1:]))
    if tensor.dtype.is_bool:
        return tf.constant(values > 0)
    return tf.cast(values if tensor.dtype.is_floating else np.abs(100 * values), tensor.dtype)


def _other(pictures: tf.Tensor) -> tf.Tensor:
    """Pictures that have little in common with these."""
    if pictures.dtype.is_bool:
        return tf.logical_not(pictures)
    return tf.zeros_like(pictures) if pictures.dtype.is_unsigned else -pictures


def _array(tensor: tf.Tensor) -> np.ndarray:
    return tf.cast(tensor, tf.float32).numpy()


def _in_shape(expected: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return expected.reshape(shape) if expected.size == np.prod(shape) else expected


def _tolerance(tensor: tf.Tensor) -> float:
    return HALF_TOLERANCE if tensor.dtype in (tf.bfloat16, tf.float16) else TOLERANCE
