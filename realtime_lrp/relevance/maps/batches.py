"""Runs compiled functions on batches of any size, in parts that fit into memory."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.memory import available_bytes, gib

COPIES, COPIES_PER_MAP = 1.5, 0.5
"""Memory of a picture as a multiple of its activations, without and for each map: 1 to 1.5 were
measured for one map, 2.7 for five (VGG16, ResNet50, SqueezeNet; 16 pictures)."""


def activation_bytes(tensors: Mapping[int, tf.Tensor]) -> int:
    """The memory of all tensors of a picture in float32.

    Args:
      tensors: number -> tensor [1, ...].
    """
    return 4 * sum(math.prod(one.shape) for one in tensors.values())


def pictures_at_once(activations: int, maps: int) -> int:
    """How many pictures fit into half of the free memory, at least 1.

    With a GPU its memory counts, which is known when it does not suffice: then there is no limit.

    Args:
      activations: bytes of one picture's activations.
      maps: how many maps are computed.
    """
    if tf.config.list_physical_devices("GPU"):
        return 1 << 30
    each = activations * (COPIES + COPIES_PER_MAP * maps)
    return max(1, int(available_bytes() / 2 / each))


def run_in_parts(
    run: Callable[..., Any], inputs: Sequence[np.ndarray | tf.Tensor], most: int
) -> list[np.ndarray]:
    """Runs a function on parts of a batch.

    Args:
      run: takes the inputs; returns tensors, [B, ...] each, in any structure.
      inputs: [B, ...] each; those with one entry are the same for every part.
      most: how many entries are given to the function at once. Halved where a device's memory does
        not suffice.

    Returns:
      The function's tensors as a flat list of arrays.

    Raises:
      UnavailableError: the memory does not suffice for the results, or for one entry.
    """
    count, begin = max(map(len, inputs)), 0
    joined: list[np.ndarray] = []
    while begin < count:
        part = slice(begin, begin + most)
        try:
            outputs = run(*(one[part] if len(one) > 1 else one for one in inputs))
            arrays = [one.numpy() for one in tf.nest.flatten(outputs)]
        except tf.errors.ResourceExhaustedError:
            if most == 1:
                raise UnavailableError(
                    "The memory does not suffice to explain one picture. Choose fewer maps, "
                    "smaller pictures or a smaller network."
                ) from None
            most = max(1, min(most, count - begin) // 2)
            continue
        if most >= count:
            return arrays
        joined = joined or _room_for(arrays, count)
        for whole, array in zip(joined, arrays, strict=True):
            whole[part] = array
        begin += most
    return joined


def _room_for(arrays: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """Empty arrays for the results of a whole batch, after checking that they fit."""
    needed = sum(array[0].nbytes for array in arrays) * count
    free = available_bytes()
    if needed > free:
        raise UnavailableError(
            f"The maps of {count} pictures need {gib(needed)} of memory, {gib(free)} are free. "
            "Explain fewer pictures at once."
        )
    return [np.empty((count, *array.shape[1:]), array.dtype) for array in arrays]
