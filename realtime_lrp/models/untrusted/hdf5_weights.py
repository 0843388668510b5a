"""Weights in the HDF5 files of Keras 2, and of Keras 3's `model.save("name.h5")`.

Only files that `hdf5_check` has let through are opened here.
"""

from collections.abc import Sequence
from pathlib import Path

import h5py
import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format

OF_BATCH_NORMS = {"gamma", "beta", "moving_mean", "moving_variance"}


def rename_weights(path: Path) -> None:
    """Gives weights of Keras 2's .weights.h5 Keras 3's paths, in place; on Windows they differ."""
    paths: list[str] = []
    with h5py.File(path, "r+") as file:
        file.visititems(
            lambda name, item: paths.append(name) if isinstance(item, h5py.Dataset) else None
        )
        for name in paths:
            new = name.replace("\\", "/").replace("_layer_checkpoint_dependencies/", "layers/")
            if new != name:
                file.move(name, new)


def load_hdf5_weights(model: keras.Model, file: h5py.File) -> None:
    """Loads weights that stand layer by layer, by their names if all are known, else in order.

    Within a layer, which may be a model, they are found by their names. Their order differs between
    Keras 2 and 3 where a part of a model was not trained.
    """
    group = file.get("model_weights", file)
    layers = [layer for layer in model.layers if layer.weights]
    stored = [(group[name], _names(group[name], "weight_names"))
              for name in _names(group, "layer_names")]  # fmt: skip
    stored = [(of_layer, names) for of_layer, names in stored if names]
    if not model.built:
        raise ValueError(
            "it does not say the shape of its pictures; load it in Python, call it on a batch, and "
            "save it again"
        )
    if len(stored) != len(layers):
        raise ValueError(f"it holds weights of {len(stored)} layers instead of {len(layers)}")
    named = {of_layer.name.rpartition("/")[2]: (of_layer, names) for of_layer, names in stored}
    if len(named) == len(stored) and all(layer.name in named for layer in layers):
        stored = [named[layer.name] for layer in layers]
    for layer, (of_layer, names) in zip(layers, stored, strict=True):
        weights = _by_name(layer, names) or _in_order(layer, names)
        for weight, name in zip(weights, names, strict=True):
            if tuple(weight.shape) != of_layer[name].shape:
                raise ValueError(
                    f"{name[:100]!r} has the shape {of_layer[name].shape}, the layer "
                    f"{layer.name!r} {tuple(weight.shape)}"
                )
            weight.assign(np.asarray(of_layer[name]))
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()


def _by_name(layer: keras.Layer, names: Sequence[str]) -> list[keras.Variable]:
    """The weights of these names; empty if a name says no weight, or two say the same."""
    known = {
        (part.name, weight.name): weight
        for part in layer._flatten_layers()
        for weight in (*part._trainable_variables, *part._non_trainable_variables)
    }
    found = []
    for name in names:
        *path, kind = name.removesuffix(":0").split("/")
        owners = ["_".join(path[n:]) for n in range(len(path))]  # a name may have had a "/"
        pairs = [(one, own) for one in owners for own in (kind, kind.removeprefix("depthwise_"))]
        found += [known[pair] for pair in pairs if pair in known][:1]
    return found if len(names) == len({id(weight) for weight in found}) == len(found) else []


def _in_order(layer: keras.Layer, names: Sequence[str]) -> list[keras.Variable]:
    """The weights of a layer in the order in which it has them."""
    weights = [*layer.trainable_weights, *layer.non_trainable_weights]
    if len(weights) != len(names):
        raise ValueError(f"it holds {len(names)} weights of {layer.name!r}, not {len(weights)}")
    for weight, name in zip(weights, names, strict=True):
        kind = name.rpartition("/")[2].partition(":")[0]
        if {kind, weight.name} <= OF_BATCH_NORMS and kind != weight.name:
            raise ValueError(f"the weights of {layer.name!r} have unknown names in another order")
    return weights


def _names(group: h5py.Group, key: str) -> list[str]:
    """A list of names, which Keras divides where it is long."""
    found = legacy_h5_format.load_attributes_from_hdf5_group(group, key)
    return [name.decode() if isinstance(name, bytes) else str(name) for name in found]
