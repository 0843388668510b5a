"""Files as Keras 2 wrote them, from descriptions by hand; Keras 2 itself is not needed."""

import json
from typing import Any

import h5py
import numpy as np
from model_files import archived


def layer(kind: str, name: str, *calls: Any, **config: Any) -> dict[str, Any]:
    """A layer of a functional model, or of a Sequential one where there are no calls."""
    described = {"class_name": kind, "config": {"name": name, "trainable": True, **config}}
    return described | ({"name": name, "inbound_nodes": list(calls)} if calls else {})


def pictures(*shape: int, name: str = "pictures") -> dict[str, Any]:
    """An input."""
    config = {"batch_input_shape": [None, *shape], "dtype": "float32", "sparse": False,
              "ragged": False, "name": name}  # fmt: skip
    return {"class_name": "InputLayer", "config": config, "name": name, "inbound_nodes": []}


def read(*names: str, **arguments: Any) -> list[Any]:
    """A call of a layer that reads the outputs of others."""
    return [[name, 0, 0, arguments] for name in names]


def function(kind: str, name: str, first: str, **arguments: Any) -> dict[str, Any]:
    """A function of TensorFlow on the output of a layer."""
    described = layer("TFOpLambda", name, function=kind)
    return described | {"name": name, "inbound_nodes": [[first, 0, 0, arguments | {"name": None}]]}


def functional(*layers: dict[str, Any], name: str = "net") -> dict[str, Any]:
    """A model from the first layer to the last."""
    config = {"name": name, "layers": list(layers), "input_layers": [[layers[0]["name"], 0, 0]],
              "output_layers": [[layers[-1]["name"], 0, 0]]}  # fmt: skip
    return {"class_name": "Functional", "config": config}


def sequential(*layers: dict[str, Any], name: str = "net") -> dict[str, Any]:
    """A Sequential model."""
    return {"class_name": "Sequential", "config": {"name": name, "layers": list(layers)}}


def hdf5(path, described: Any, weights: dict[str, dict[str, np.ndarray]], version="2.4.0"):
    """`model.save("name.h5")`: layer -> name of a weight -> its values."""
    with h5py.File(path, "w") as file:
        if described is not None:
            file.attrs["model_config"] = json.dumps(described).encode()
        file.attrs["keras_version"] = version
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name in weights]
        for name, arrays in weights.items():
            of_layer = group.create_group(name)
            of_layer.attrs["weight_names"] = [key.encode() for key in arrays]
            for key, values in arrays.items():
                of_layer[key] = values
    return path


def archive(path, described: Any, weights: dict[str, np.ndarray]):
    """`model.save("name.keras")`: path of a weight in model.weights.h5 -> its values."""
    inner = path.with_suffix(".weights.h5")
    with h5py.File(inner, "w") as file:
        for name, values in weights.items():
            file[name] = values
    members = {
        "config.json": json.dumps(described),
        "metadata.json": json.dumps({"keras_version": "2.13.1"}),
        "model.weights.h5": inner.read_bytes(),
    }
    inner.unlink()
    return archived(path, members)
