"""Runs compiled functions on batches of any size, in parts that fit into memory."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.memory import available_bytes, gib

COPIES, COPIES_PER_MAP = 1.5, 0.5
"""Memory of a picture as a multiple of its activations, without and for each map: 1 to 1.5 were
measured for one map, 2.7 for five (VGG16, ResNet50, SqueezeNet; 16 pictures)."""


def activation_bytes(tensors: Mapping[int, tf.Tensor]) -> int:
    """The memory of all tensors of a picture, [1, ...] each, in float32."""
    return 4 * sum(math.prod(one.shape) for one in tensors.values())


def pictures_at_once(activations: int, maps: int) -> int:
    """How many pictures fit into half of the free memory, at least 1.

    `activations` are the bytes of one picture. With a GPU its memory counts, which is known when it
    does not suffice: then there is no limit.
    """
    if tf.config.list_physical_devices("GPU"):
        return 1 << 30
    each = activations * (COPIES + COPIES_PER_MAP * maps)
    return max(1, int(available_bytes() / 2 / each))


def run_in_parts(run: Callable[..., Any], inputs: Sequence[Any], most: int) -> Any:
    """Runs a function on parts of a batch, `most` entries at once or what a device's memory allows.

    The inputs and what the function returns are arrays or tensors [B, ...] in any structure; inputs
    with one entry are the same for every part. Returns arrays in the same structure.

    Raises:
      UnavailableError: the memory does not suffice for the results, or for one entry.
    """
    count, begin = max(map(len, tf.nest.flatten(list(inputs)))), 0
    joined: list[np.ndarray] = []
    outputs = None
    while begin < count:
        part = slice(begin, begin + most)
        try:
            outputs = run(*tf.nest.map_structure(partial(_part_of, part), list(inputs)))
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
            return tf.nest.pack_sequence_as(outputs, arrays)
        joined = joined or _room_for(arrays, count)
        for whole, array in zip(joined, arrays, strict=True):
            whole[part] = array
        begin += most
    return tf.nest.pack_sequence_as(outputs, joined)


def _part_of(part: slice, one: Any) -> Any:
    return one[part] if len(one) > 1 else one


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
