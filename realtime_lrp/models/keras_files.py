"""Keras files from strangers: loaded without running code that they bring."""

import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import keras

from realtime_lrp.errors import DamagedInputError, first_line


def load_model(path: Path) -> keras.Model:
    """Loads a .keras file of layers that Keras itself knows.

    Raises:
      DamagedInputError: the file is damaged, holds Lambda code, or needs code from elsewhere.
    """
    _refuse_code(path)
    try:
        model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        raise _damaged(path, error) from error
    if not isinstance(model, keras.Model):
        raise DamagedInputError(f"{str(path)!r} holds a {type(model).__name__}, not a model.")
    return model


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads weights from .weights.h5, .h5 or .keras into a model of the same shape.

    Raises:
      DamagedInputError: the file is damaged or its weights have other shapes.
    """
    if path.suffix == ".keras":
        model.set_weights(_matching(model, load_model(path), path))
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            model.load_weights(path)
    except Exception as error:
        raise DamagedInputError(
            f"The weights {str(path)!r} do not fit {model.name} or are damaged "
            f"({first_line(error)}). Expected .h5, .weights.h5 or .keras of the same network."
        ) from error


def _matching(model: keras.Model, other: keras.Model, path: Path) -> list:
    expected = [tuple(weight.shape) for weight in model.weights]
    received = [tuple(weight.shape) for weight in other.weights]
    if expected != received:
        raise DamagedInputError(
            f"The weights {str(path)!r} do not fit {model.name}: they have other shapes."
        )
    return other.get_weights()


def _refuse_code(path: Path) -> None:
    """Looks at the file's description of the model before anything is built from it."""
    try:
        with zipfile.ZipFile(path) as archive:
            described = json.loads(archive.read("config.json"))
    except Exception as error:  # zipfile and json know many ways to be damaged
        raise _damaged(path, error) from error
    for part in _objects(described):
        if part.get("class_name") in ("Lambda", "__lambda__"):
            raise DamagedInputError(
                f"{str(path)!r} holds Lambda code, which is never run. "
                "Replace the Lambda layer by a Keras layer and save the model again."
            )
        module = str(part.get("module") or "keras").split(".")[0]
        if module not in ("keras", "builtins"):
            raise DamagedInputError(
                f"{str(path)!r} needs code that is not in Keras ({module}: "
                f"{part.get('class_name')}). Build the model from Keras layers."
            )


def _objects(part) -> Iterator[dict]:
    if isinstance(part, dict):
        if "class_name" in part:
            yield part
        for value in part.values():
            yield from _objects(value)
    elif isinstance(part, list):
        for value in part:
            yield from _objects(value)


def _damaged(path: Path, error: Exception) -> DamagedInputError:
    return DamagedInputError(
        f"{str(path)!r} is no Keras model that can be loaded ({first_line(error)}). "
        "Expected a file written by model.save('name.keras')."
    )
