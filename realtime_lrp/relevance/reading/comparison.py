"""Compares the nodes of a graph with the layers of the model itself, on noise.

A row that misreads a layer or an operation, or a layer that mixes the pictures of a batch, shows
here and not in wrong maps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.network.graph import Node
from realtime_lrp.relevance.reading.layer_weights import UnsupportedLayerError
from realtime_lrp.relevance.reading.tracing import Trace

TOLERANCE = 1e-3
"""Largest difference, relative to the largest output."""

HALF_TOLERANCE = 0.05
"""The same where the layer computes in half precision; its nodes compute in float32."""


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer or a nested model, and the nodes of a graph that stand for it.

    A model has no `nodes`: its layers have calls of their own. `outputs` has None for what does not
    depend on the picture.
    """

    layer: keras.Operation
    name: str
    compute: Callable[..., Any]
    nodes: Sequence[Node]
    inputs: Sequence[int]
    outputs: Sequence[int | None]


def check_calls(calls: Sequence[LayerCall], picture: tf.TensorSpec) -> None:
    """Refuses a model of which a layer computes something else than its nodes.

    Each layer reads what Keras has computed before it, so that no rounding adds up.
    """
    values = {0: _noise(picture, 1)}
    last_reader = {number: call for call in calls for number in call.inputs}
    for call in calls:
        inputs = [values[number] for number in call.inputs]
        computed = tf.nest.flatten(call.compute(*inputs))
        pairs = [
            (number, one)
            for number, one in zip(call.outputs, computed, strict=True)
            if number is not None
        ]
        if call.nodes:
            ours = _run(call.nodes, call.inputs, [number for number, _ in pairs], inputs)
        else:
            ours = [tf.cast(values[number], tf.float32).numpy() for number, _ in pairs]
        for own, (number, one) in zip(ours, pairs, strict=True):
            expected = tf.cast(one, tf.float32).numpy()
            if not _alike(own, expected, HALF_TOLERANCE if _is_half(one) else TOLERANCE):
                raise _difference(call, own, expected)
            values[number] = one
        for number in set(call.inputs):
            if last_reader[number] is call:
                del values[number]  # a large network's tensors would not fit together


def _difference(call: LayerCall, ours: np.ndarray, expected: np.ndarray) -> DamagedInputError:
    by = f"of the shape {ours.shape[1:]} and not {expected.shape[1:]}"
    if ours.shape == expected.shape:
        largest = float(np.abs(expected).max(initial=0))
        by = f"off by up to {np.abs(ours - expected).max():.3g}, where the largest is {largest:.3g}"
    return DamagedInputError(
        f"The layer {call.name!r} ({type(call.layer).__name__}) computes something else than the "
        f"table of layers says ({by} on noise), so its maps would be wrong. If its `call` was "
        "replaced, make it a layer class of its own, which is then read operation by operation; "
        "else report this as a bug, with the version of Keras."
    )


def _is_half(tensor: tf.Tensor) -> bool:
    return tensor.dtype in (tf.bfloat16, tf.float16)


def check_nodes(
    nodes: Sequence[Node],
    layer: keras.Operation,
    compute: Callable[..., Any],
    traced: Trace,
    inputs: Sequence[int],
    outputs: Sequence[int | None],
) -> None:
    """Refuses a traced layer whose nodes compute something else than it does.

    Neither may one picture of a batch change the outputs of another.
    """
    pictures = [_noise(tensor, 2) for tensor in traced.inputs]
    same_first = [tf.concat([one[:1], _other(one[1:])], 0) for one in pictures]
    same_last = [tf.concat([_other(one[:1]), one[1:]], 0) for one in pictures]

    def of_the_layer(pictures: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        found = zip(tf.nest.flatten(compute(*pictures)), outputs, strict=True)
        return [value for value, number in found if number is not None]

    expected = of_the_layer(pictures)
    numbers = [number for number in outputs if number is not None]
    ours, firsts, lasts = (
        _run(nodes, inputs, numbers, one) for one in (pictures, same_first, same_last)
    )
    tolerance = HALF_TOLERANCE if any(map(_is_half, expected)) else TOLERANCE
    for place, (one, first, last) in enumerate(zip(ours, firsts, lasts, strict=True)):
        right = _kept(tf.cast(expected[place], tf.float32).numpy(), one.shape)
        if not _alike(one, right, tolerance):
            alone = tf.cast(of_the_layer([of[:1] for of in pictures])[place], tf.float32).numpy()
            if not _alike(_kept(alone, one[:1].shape), right[:1], tolerance):
                why = "what it computes for a picture depends on how many are in the batch"
            else:
                why = "the steps that it is read into compute something else than it does"
            raise UnsupportedLayerError(layer, why)
        alike = _alike(one[:1], first[:1], tolerance) and _alike(one[1:], last[1:], tolerance)
        if not alike:
            raise UnsupportedLayerError(layer, "it mixes the pictures of a batch")


def _noise(tensor: tf.Tensor, pictures: int) -> tf.Tensor:
    shape = (pictures, *tensor.shape[1:])
    noise = np.random.default_rng(0).normal(size=shape)
    if not tensor.dtype.is_floating:
        noise = np.abs(100 * noise)
    return tf.cast(noise, tensor.dtype)


def _other(pictures: tf.Tensor) -> tf.Tensor:
    """Pictures that have little in common with these."""
    return tf.zeros_like(pictures) if pictures.dtype.is_unsigned else -pictures


def _run(
    nodes: Sequence[Node], inputs: Sequence[int], outputs: Sequence[int], values: list[tf.Tensor]
) -> list[np.ndarray]:
    tensors = {n: tf.cast(one, tf.float32) for n, one in zip(inputs, values, strict=True)}
    for node in nodes:
        tensors[node.output] = node.step.forward(*(tensors[number] for number in node.inputs))
    return [tensors[number].numpy() for number in outputs]


def _kept(expected: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return expected.reshape(shape) if expected.size == np.prod(shape) else expected


def _alike(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    if one.shape != other.shape:
        return False
    largest = np.nanmax(np.abs(other), initial=1e-6, where=np.isfinite(other))
    return np.allclose(one, other, rtol=0, atol=tolerance * largest, equal_nan=True)
