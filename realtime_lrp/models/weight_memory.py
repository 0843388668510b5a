"""Weights in memory of their own, which returns to the system when they are freed.

TensorFlow's allocator on CPUs returns nothing to the system, and `tf.constant` copies an array
twice: VGG16's largest matrix, 0.4 GB, would take 0.8 GB more, for good.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

ALIGNMENT = 64  # Bytes at whose multiples TensorFlow expects its tensors to begin
LARGE = 1 << 18  # Weights with fewer entries are left to Keras


def aligned_zeros(shape: Iterable[int]) -> np.ndarray:
    """As `aligned_empty`, but zeros, which take no memory before they are changed."""
    return aligned_empty(shape, np.zeros)


def aligned_empty(
    shape: Iterable[int], allocate: Callable[..., np.ndarray] = np.empty
) -> np.ndarray:
    """An array, float32, to be filled, whose memory TensorFlow can use without a copy."""
    shape = tuple(shape)
    size = 4 * int(np.prod(shape, dtype=np.int64))
    memory = allocate(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(np.float32).reshape(shape)


def shared_tensor(values: np.ndarray) -> tf.Tensor:
    """A tensor in the memory of an aligned array; do not change the array afterwards.

    It is a copy where TensorFlow cannot share memory.
    """
    try:
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())
    except (AttributeError, TypeError, ValueError, tf.errors.OpError):
        return tf.constant(values)


def initialise_with_zeros(weights: Iterable[keras.Variable]) -> None:
    """Makes weights that are not allocated yet start as zeros, which take no memory before use.

    The real values are loaded right afterwards. An initialiser in an untrusted file can compute for
    hours. The layers keep their initialisers, for copies of the model.
    """
    for weight in weights:
        weight._initializer = _zeros


def _zeros(shape: tuple[int, ...], dtype: str | None = None) -> tf.Tensor:
    if dtype == "float32":
        return shared_tensor(aligned_zeros(shape))
    return tf.zeros(shape, dtype)


@contextmanager
def assigned_without_copies(weights: Iterable[keras.Variable]) -> Iterator[None]:
    """Within this context large float32 weights take over the memory of what is assigned."""
    large = [w for w in weights if w.dtype == "float32" and np.prod(w.shape) >= LARGE]
    for weight in large:
        weight.assign = partial(_assign, weight)
    try:
        yield
    finally:
        for weight in large:
            del weight.assign


def _assign(weight: keras.Variable, value: Any) -> Any:
    """`Variable.assign`, by way of an aligned array."""
    assign = type(weight).assign
    if tuple(np.shape(value)) != tuple(weight.shape):
        return assign(weight, value)  # refuses it
    values = aligned_empty(weight.shape)
    values[...] = value
    return assign(weight, shared_tensor(values))
