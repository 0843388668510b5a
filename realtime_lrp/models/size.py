"""Models too large for this machine: refused before they take any memory."""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path

import keras
import psutil
import tensorflow as tf

from realtime_lrp.errors import UnavailableError

_CGROUPS = Path("/sys/fs/cgroup")
_GIB = 1 << 30


def built(
    build: Callable[[], keras.Model], what: str, ready: Callable[[keras.Model], None]
) -> keras.Model:
    """Builds a model; its variables get their memory once it is known that they fit.

    Keras keeps a list of variables without memory for each thread. The thread made here takes the
    list of a model that is refused with it, so that nothing gives them memory later.

    Args:
      build: makes the model.
      what: how messages call it.
      ready: gets the model, whose variables have no memory yet; what it raises ends all.

    Raises:
      UnavailableError: it is too large.
    """
    future: Future[keras.Model] = Future()

    def run() -> None:
        try:
            future.set_result(_build(build, what, ready))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="build", daemon=True).start()
    return future.result()


def _build(
    build: Callable[[], keras.Model], what: str, ready: Callable[[keras.Model], None]
) -> keras.Model:
    with keras.StatelessScope(initialize_variables=False):
        model = build()
        refuse_too_large(model, what)
        ready(model)
    with keras.StatelessScope():
        pass  # leaving it gives every variable its memory
    return model


def start_at_zero(weights: Iterable[keras.Variable]) -> None:
    """Weights without memory get zeros with it; their layers keep the initialisers for copies.

    Other values would be replaced at once. They need three times the memory, and TensorFlow keeps
    the most that it ever had; a stranger's initialiser can compute for hours.
    """
    for weight in weights:
        weight._initializer = keras.initializers.Zeros()


def refuse_too_large(model: keras.Model, what: str) -> None:
    """Refuses a model whose weights and activations cannot be in memory together.

    Args:
      model: may be one whose variables have no memory yet.
      what: how messages call it.

    Raises:
      UnavailableError: it needs more than there is.
    """
    refuse_beyond_memory(needed_bytes(model), what)


def refuse_beyond_memory(needed: int, what: str) -> None:
    """Refuses what needs more bytes than there are; not on a machine with a GPU.

    Raises:
      UnavailableError: it needs more than there is.
    """
    there = available_bytes()
    if needed > there and not tf.config.list_physical_devices("GPU"):
        raise too_large(what, f"it needs {_size(needed)} of memory, {_size(there)} are free")


def too_large(what: str, why: str) -> UnavailableError:
    """The refusal of a model that this machine has no memory for."""
    return UnavailableError(
        f"{what} is too large for this machine: {why}.\n"
        "Take a smaller network, or one for smaller pictures, or close other programs."
    )


def needed_bytes(model: keras.Model) -> int:
    """The least memory of an explanation: every weight once, every activation of one picture.

    Outputs without a fixed size, and of layers that are called more than once, count nothing.
    """
    weights = sum(math.prod(w.shape) * tf.as_dtype(w.dtype).size for w in model.weights)
    return weights + sum(_output_bytes(layer) for layer in _layers(model))


def _layers(model: keras.Model) -> Iterator[keras.Layer]:
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


def available_bytes() -> int:
    """The memory that this process may still take: the machine's, or what its cgroups leave."""
    own = psutil.Process().memory_info().rss
    return min([psutil.virtual_memory().available, *(limit - own for limit in _cgroup_limits())])


def _cgroup_limits() -> Iterator[int]:
    """The limits of this process's control groups (version 2), in bytes."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            group = _CGROUPS / line.removeprefix("0::/")
            for folder in (group, *group.parents):
                limit = _limit(folder / "memory.max")
                if limit is not None:
                    yield limit


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _size(count: int) -> str:
    return f"{count / _GIB:,.2f} GiB"
