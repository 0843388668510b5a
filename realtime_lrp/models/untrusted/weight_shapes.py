"""Whether weights in a file are those of a model: the first layer that differs is named."""

import math
import re
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import keras

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted.allowlist import MOST_SHOWN
from realtime_lrp.models.untrusted.hdf5_check import Held, Shapes, held_by


def check_weights(path: Path, model: keras.Model, file: str) -> None:
    """Refuses a file of weights that is dangerous to read, of another network, or incomplete.

    Args:
      path: the HDF5 file.
      model: what the weights are for; its variables need no memory yet.
      file: how messages call the file.

    Raises:
      DamagedInputError: as `held_by`, or a layer differs.
    """
    held = held_by(path, file)
    if problem := _difference(model, held):
        raise DamagedInputError(
            f"The weights {file} do not fit {model.name}{problem}. Take those of the same network."
        )


def _difference(model: keras.Model, held: Held) -> str:
    """The first difference in words, or nothing."""
    places: dict[Any, tuple[str, Shapes]] = (
        dict(zip(chain(held.layers, count()), _layers_by_name(model), strict=False))
        if held.by_name
        else dict(_places(model, set()))
    )
    for place, (name, shapes) in places.items():
        others = held.layers.get(place, [])
        if shapes and not others:
            return f": the file lacks those of layer {_cut(name)}, {_listed(shapes)}"
        if shapes != others:
            return (
                f": layer {_cut(name)} has weights of {_listed(shapes)}, the file {_listed(others)}"
            )
    if surplus := next((key for key in held.layers if key not in places), None):
        return f", which has no layer for {_cut(surplus)}"
    needed = sum(math.prod(weight.shape) for weight in model.weights)
    if needed > held.numbers:  # in layers within layers, which have no place of their own
        return f": it has {needed:,} numbers, the file {held.numbers:,}"
    return ""


def _layers_by_name(model: keras.Model) -> list[tuple[str, Shapes]]:
    weights = [
        (one.name, one.trainable_weights + one.non_trainable_weights) for one in model.layers
    ]
    return [(name, _shapes(of)) for name, of in weights if of]


def _places(
    model: keras.Model, seen: set[int], before: str = ""
) -> Iterator[tuple[str, tuple[str, Shapes]]]:
    """The place at which Keras writes each layer: its type in small letters and a number.

    A layer that several models have in common has its weights at the first of its places.
    """
    counts: dict[str, int] = {}
    for layer in model.layers:
        kind = _small(type(layer).__name__)
        counts[kind] = counts.get(kind, -1) + 1
        place = f"{before}layers/{kind}_{counts[kind]}".removesuffix("_0")
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if isinstance(layer, keras.Model):
            yield from _places(layer, seen, f"{place}/")
        else:
            own = layer._trainable_variables + layer._non_trainable_variables
            yield place, (layer.name, _shapes(own))


def _shapes(weights: list[keras.Variable]) -> Shapes:
    return [list(weight.shape) for weight in weights]


def _small(kind: str) -> str:
    words = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub("([a-z])([A-Z])", r"\1_\2", words).lower()


def _cut(name: str) -> str:
    return repr(name[:MOST_SHOWN])


def _listed(shapes: Shapes) -> str:
    return ", ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes) or "nothing"
