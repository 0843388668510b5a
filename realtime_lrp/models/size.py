"""Refuses models that are too large for this machine before they allocate memory.

A model file from somebody else may describe a layer of any size; nothing here may allocate its
variables before the check.
"""

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import keras
import tensorflow as tf

from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.memory import available_bytes, gib


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
            future.set_result(_build(build, name, check))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="build", daemon=True).start()
    return future.result()


def _build(
    build: Callable[[], keras.Model], name: str, check: Callable[[keras.Model], None]
) -> keras.Model:
    with keras.StatelessScope(initialize_variables=False):
        model = build()
        refuse_beyond_memory(needed_bytes(model), name)
        check(model)
    with keras.StatelessScope():
        pass  # leaving this scope allocates every variable
    return model


def refuse_beyond_memory(needed: int, name: str) -> None:
    """Refuses what needs more bytes than are free; checks nothing if there is a GPU."""
    free = available_bytes()
    if needed > free and not tf.config.list_physical_devices("GPU"):
        raise too_large(name, f"it needs {gib(needed)} of memory, {gib(free)} are free")


def too_large(name: str, reason: str) -> UnavailableError:
    """The error for a model that does not fit into this machine's memory."""
    return UnavailableError(
        f"{name} is too large for this machine: {reason}.\n"
        "Use a smaller network or smaller pictures, or close other programs."
    )


def needed_bytes(model: keras.Model) -> int:
    """The least memory an explanation needs: all weights and the activations of one picture.

    Outputs without a fixed size, and those of layers that are called more than once, are not
    counted.
    """
    weights = sum(math.prod(w.shape) * tf.as_dtype(w.dtype).size for w in model.weights)
    return weights + sum(_output_bytes(layer) for layer in _layers(model))


def _layers(model: keras.Model) -> Iterator[keras.Layer]:
    """The layers of a model and of the models inside it."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _layers(layer)
        else:
            yield layer


def _output_bytes(layer: keras.Layer) -> int:
    try:
        shape = layer.output.shape[1:]
    except AttributeError:  # called more than once, or not at all
        return 0
    return 0 if None in shape else 4 * math.prod(shape)
