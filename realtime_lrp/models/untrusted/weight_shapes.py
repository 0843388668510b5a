"""Compares the weights in a file with a model, and names the first layer that differs.

This runs before the model's variables are allocated: a description may claim a layer of any size,
but memory is taken only for weights that the file really holds.
"""

import math
import re
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import keras

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted.allowlist import MAX_NAME_SHOWN
from realtime_lrp.models.untrusted.hdf5_check import Shapes, StoredWeights, stored_weights


def check_weights(path: Path, model: keras.Model, name: str) -> None:
    """Refuses weights that are unsafe to read, incomplete, or of another network.

    The model's variables need not be allocated yet.
    """
    stored = stored_weights(path, name)
    if difference := _first_difference(model, stored):
        raise DamagedInputError(
            f"The weights {name} do not fit {model.name}{difference}. "
            "Expected those of the same network."
        )


def _first_difference(model: keras.Model, stored: StoredWeights) -> str:
    """The end of a sentence about the first layer that differs, or "" if all fit."""
    expected: dict[Any, tuple[str, Shapes]] = (
        dict(zip(chain(stored.layers, count()), _layers_in_order(model), strict=False))
        if stored.by_name
        else dict(_layers_by_path(model, set()))
    )
    for key, (name, shapes) in expected.items():
        found = stored.layers.get(key, [])
        if shapes and not found:
            return f": the file lacks those of layer {_short(name)}, {_listed(shapes)}"
        if shapes != found:
            return (
                f": layer {_short(name)} has weights of {_listed(shapes)}, "
                f"the file {_listed(found)}"
            )
    if surplus := next((key for key in stored.layers if key not in expected), None):
        return f", which has no layer for {_short(surplus)}"
    needed = sum(math.prod(weight.shape) for weight in model.weights)
    if needed > stored.values:  # in layers inside layers, which have no path of their own
        return f": it has {needed:,} values, the file {stored.values:,}"
    return ""


def _layers_in_order(model: keras.Model) -> list[tuple[str, Shapes]]:
    """Name and shapes of the layers with weights, in the order in which Keras writes .h5 files."""
    layers = [
        (layer.name, layer.trainable_weights + layer.non_trainable_weights)
        for layer in model.layers
    ]
    return [(name, _shapes(weights)) for name, weights in layers if weights]


def _layers_by_path(
    model: keras.Model, seen: set[int], prefix: str = ""
) -> Iterator[tuple[str, tuple[str, Shapes]]]:
    """The path in a .weights.h5 file of each layer: its type in snake case and a number.

    Keras writes a layer that several models share at the first of its paths only.
    """
    counts: dict[str, int] = {}
    for layer in model.layers:
        kind = _snake_case(type(layer).__name__)
        counts[kind] = counts.get(kind, -1) + 1
        path = f"{prefix}layers/{kind}_{counts[kind]}".removesuffix("_0")
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if isinstance(layer, keras.Model):
            yield from _layers_by_path(layer, seen, f"{path}/")
        else:
            weights = layer._trainable_variables + layer._non_trainable_variables
            yield path, (layer.name, _shapes(weights))


def _shapes(weights: list[keras.Variable]) -> Shapes:
    return [list(weight.shape) for weight in weights]


def _snake_case(name: str) -> str:
    words = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", words).lower()


def _short(name: str) -> str:
    return repr(name[:MAX_NAME_SHOWN])


def _listed(shapes: Shapes) -> str:
    return ", ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes) or "nothing"
