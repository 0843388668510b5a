"""The memory of models: what is too large is refused, and weights return theirs to the system.

Nothing may allocate variables of a file before the check. TensorFlow's allocator on CPUs returns
nothing, and `tf.constant` copies an array twice: VGG16's largest matrix, 0.4 GB, would take 0.8 GB
more, for good. So large weights have memory of their own.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network.checks import refuse_beyond_memory

ALIGNMENT = 64  # Bytes at whose multiples TensorFlow expects its tensors to begin
LARGE = 1 << 18  # Weights with fewer entries are left to Keras
_READING = threading.RLock()  # one file at a time: how h5py gives arrays is exchanged meanwhile


def build_within_memory(
    build: Callable[[], keras.Model], name: str, check: Callable[[keras.Model], None]
) -> keras.Model:
    """Builds a model and allocates its variables only after checking that they fit.

    Keras keeps a list per thread of variables that are not allocated yet. The model is built in a
    thread of its own, so that the list of a refused model disappears with the thread. `check` may
    refuse the model before its variables are allocated.
    """
    future: Future[keras.Model] = Future()

    def run() -> None:
        try:
            with keras.StatelessScope(initialize_variables=False):
                model = build()
                refuse_beyond_memory(needed_bytes(model), name)
                check(model)
            with keras.StatelessScope():
                pass  # leaving this scope allocates every variable
            future.set_result(model)
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="build", daemon=True).start()
    return future.result()


def needed_bytes(model: keras.Model) -> int:
    """The least memory an explanation needs: all weights and the activations of one picture."""
    weights = sum(math.prod(w.shape) * tf.as_dtype(w.dtype).size for w in model.weights)
    return weights + _activation_bytes(model)


def _activation_bytes(model: keras.Model) -> int:
    """Outputs without a fixed size, and of layers that are called more than once, do not count."""
    total = 0
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            total += _activation_bytes(layer)
            continue
        with suppress(AttributeError):  # called more than once, or not at all
            shape = layer.output.shape[1:]
            total += 0 if None in shape else 4 * math.prod(shape)
    return total


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
    """A tensor in an aligned array's memory, or a copy of it; do not change the array."""
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
        return shared_tensor(aligned_empty(shape, np.zeros))
    return tf.zeros(shape, dtype)


@contextmanager
def assigned_without_copies(
    weights: Iterable[keras.Variable], most: float = math.inf
) -> Iterator[None]:
    """Within this context large float32 weights take over the memory of what is assigned.

    At most `most` values are read from HDF5 files: Keras reads them before it compares shapes.
    """
    large = [w for w in weights if w.dtype == "float32" and np.prod(w.shape) >= LARGE]
    for weight in large:
        weight.assign = partial(_assign, weight)
    left = most
    thread = threading.get_ident()

    def read(dataset: h5py.Dataset, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        nonlocal left
        if threading.get_ident() == thread:  # others read files of their own meanwhile
            left -= dataset.size or 0
            if left < 0:
                raise ValueError("it holds far more values than the network has")
        if (dtype or dataset.dtype) != np.float32 or not dataset.size:
            return np.asarray(dataset[()], dtype)  # a single number is no array
        values = aligned_empty(dataset.shape)
        dataset.read_direct(values)
        return values

    with _READING:
        usual = h5py.Dataset.__array__
        h5py.Dataset.__array__ = read
        try:
            yield
        finally:
            h5py.Dataset.__array__ = usual
            for weight in large:
                del weight.assign


def _assign(weight: keras.Variable, value: Any) -> Any:
    """`Variable.assign`, by way of an aligned array."""
    assign = type(weight).assign
    if tuple(np.shape(value)) != tuple(weight.shape):
        return assign(weight, value)  # refuses it
    if not _is_aligned(value):
        value, values = aligned_empty(weight.shape), value
        value[...] = values
    return assign(weight, shared_tensor(value))


def _is_aligned(value: Any) -> bool:
    """Whether it is an array that was just read from a file, which nobody else has."""
    own = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.flags.c_contiguous
    return own and value.ctypes.data % ALIGNMENT == 0
