"""Whether weights in a file are those of a model: the first layer that differs is named."""

import re
from collections.abc import Iterator
from pathlib import Path

import keras

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.hdf5 import Shapes, held_by


def check_weights(path: Path, model: keras.Model, file: str) -> None:
    """Refuses a file of weights that is dangerous to read or of another network.

    Args:
      path: the HDF5 file.
      model: what the weights are for.
      file: how messages call the file.

    Raises:
      DamagedInputError: as `held_by`, or a layer differs.
    """
    by_name, held = held_by(path, file)
    if by_name:
        expected = _layers_by_name(model)
        pairs = [(*one, other) for one, other in zip(expected, held.values(), strict=False)]
        surplus = list(held)[len(expected) :]
    else:
        places = dict(_places(model))
        pairs = [(*places[key], shapes) for key, shapes in held.items() if key in places]
        surplus = [key for key in held if key not in places]
    for name, shapes, others in pairs:
        if shapes != others:
            raise DamagedInputError(
                f"The weights {file} do not fit {model.name}: layer {name!r} has weights of "
                f"{_listed(shapes)}, the file {_listed(others)}. Take those of the same network."
            )
    if surplus:
        raise DamagedInputError(
            f"The weights {file} do not fit {model.name}, which has no layer for {surplus[0]!r}. "
            "Take those of the same network."
        )


def _layers_by_name(model: keras.Model) -> list[tuple[str, Shapes]]:
    weights = [
        (one.name, one.trainable_weights + one.non_trainable_weights) for one in model.layers
    ]
    return [(name, _shapes(of)) for name, of in weights if of]


def _places(model: keras.Model, before: str = "") -> Iterator[tuple[str, tuple[str, Shapes]]]:
    """The place at which Keras writes each layer: its type in small letters and a number."""
    counts: dict[str, int] = {}
    for layer in model.layers:
        kind = _small(type(layer).__name__)
        counts[kind] = counts.get(kind, -1) + 1
        place = f"{before}layers/{kind}_{counts[kind]}".removesuffix("_0")
        if isinstance(layer, keras.Model):
            yield from _places(layer, f"{place}/")
        else:
            yield place, (layer.name, _shapes(layer.weights))


def _shapes(weights: list[keras.Variable]) -> Shapes:
    return [list(weight.shape) for weight in weights]


def _small(kind: str) -> str:
    words = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub("([a-z])([A-Z])", r"\1_\2", words).lower()


def _listed(shapes: Shapes) -> str:
    return ", ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes) or "nothing"
