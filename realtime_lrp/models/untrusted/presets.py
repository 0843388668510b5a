"""Builds an image classifier from the files of a KerasHub preset, which may come from an attacker.

A preset is a folder: `task.json` describes the classifier with its preprocessing, two HDF5 files
hold the weights of backbone and head. They are checked as a .keras file is, in the same order: the
description (allowlist.py, and the kinds of classes of KerasHub below), memory, the weights. The
preset's tokenizers, which read further files, are never built.
"""

import json
import re
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.memory import build_within_memory, initialise_with_zeros
from realtime_lrp.models.untrusted.allowlist import check_description, parts_of
from realtime_lrp.models.untrusted.hdf5_check import stored_values
from realtime_lrp.models.untrusted.loading import (
    MAX_DESCRIPTION_BYTES,
    filling,
    naming_the_file,
    number_of_values,
    without_training,
)
from realtime_lrp.system.files import read_limited

TASK, BACKBONE_WEIGHTS, HEAD_WEIGHTS = "task.json", "model.weights.h5", "task.weights.h5"
"""The files of a preset that are read."""

CONFIG = "config.json"
"""A file that every preset has; it describes the backbone. It is read for messages only."""

PACKAGE = "keras_hub>"  # How the names begin under which KerasHub registers its classes with Keras

MAX_NUMBER = 2**17
"""The largest number in a description. Sizes of pictures and numbers of channels are far smaller,
numbers of classes reach 21 843."""

MAX_REPEATS = 1000  # The most layers or blocks that one entry of a description may ask for

A_CLASSIFIER = "Expected a classifier of pictures, such as hub:vit_base_patch16_224_imagenet."
EXPECTED = "Expected what classifier.save_to_preset(folder) of KerasHub writes."
_REPEATS = re.compile("num_(layers|blocks|repeats|stages)|depths?$")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")


Weights = tuple[Path, Path] | None
"""The files of the backbone's weights and of the head's; None for random ones."""


def describe_classifier(preset: str, task: Path, hub: ModuleType) -> dict[str, Any]:
    """The checked description of a classifier, with every layer in float32.

    Refused are damage, classes that are not allowed, and what is no image classifier.
    """
    shown = repr(preset)
    data = read_limited(task, MAX_DESCRIPTION_BYTES, "the description of a preset")
    with naming_the_file(shown, f"The preset {shown} cannot be read", EXPECTED):
        described = without_training(json.loads(data))
        if not isinstance(described, dict) or not isinstance(described.get("config"), dict):
            raise DamagedInputError(f"The preset {shown} describes no model. {EXPECTED}")
        _refuse_other_tasks(described, hub, shown)
        _require_floats(described, shown)
        _check_classes(described, hub, shown)
        check_description(described, f"The preset {shown}")
        _check_numbers(described, "", shown)
    described["config"]["compile"] = False  # an optimiser has variables of its own
    return described


def build_classifier(described: dict[str, Any], preset: str, weights: Weights) -> keras.Model:
    """Builds what `describe_classifier` checked, with weights; random ones are always the same."""
    shown = repr(preset)
    with naming_the_file(shown, f"The preset {shown} cannot be loaded", EXPECTED):
        keras.utils.set_random_seed(0)
        model = build_within_memory(
            lambda: _deserialise(described), shown, lambda one: _check_weights(one, weights, shown)
        )
        if weights:
            with filling(model):
                model.backbone.load_weights(str(weights[0]))
                model.load_task_weights(str(weights[1]))
    return model


def _deserialise(described: dict[str, Any]) -> keras.Model:
    with warnings.catch_warnings(action="ignore"):
        return keras.saving.deserialize_keras_object(described, safe_mode=True)


def _check_weights(model: keras.Model, files: Weights, shown: str) -> None:
    """Refuses weights that are unsafe to read, fewer than the model has, or of a larger backbone.

    The file of the head may hold more: what its training has left.
    """
    if not files:
        return
    of_backbone = {id(weight) for weight in model.backbone.weights}
    of_head = [weight for weight in model.weights if id(weight) not in of_backbone]
    for path, weights in zip(files, (model.backbone.weights, of_head), strict=True):
        needed = number_of_values(weights)
        name = f"{path.name} of the preset {shown}"
        stored = stored_values(path, name, name)
        if needed > stored or (weights is not of_head and needed < stored):
            raise DamagedInputError(
                f"{name} holds {stored:,} values, the network has {needed:,}. {EXPECTED}"
            )
    initialise_with_zeros(model.weights)


def _refuse_other_tasks(described: dict[str, Any], hub: ModuleType, shown: str) -> None:
    name = described.get("registered_name")
    found = keras.saving.get_registered_object(name) if isinstance(name, str) else None
    if not (isinstance(found, type) and issubclass(found, hub.models.ImageClassifier)):
        raise DamagedInputError(
            f"The preset {shown} is no image classifier of KerasHub, but "
            f"{str(described.get('class_name'))[:100]!r}.\n{A_CLASSIFIER}"
        )


def _check_classes(described: dict[str, Any], hub: ModuleType, shown: str) -> None:
    """Refuses classes of KerasHub that do not belong in an image classifier."""
    allowed = (
        hub.models.ImageClassifier, hub.models.Backbone,
        hub.models.ImageClassifierPreprocessor, hub.layers.ImageConverter,
    )  # fmt: skip
    for part in parts_of(described):
        name = part.get("registered_name")
        if not isinstance(name, str) or not name.startswith(PACKAGE):
            continue
        found = keras.saving.get_registered_object(name)
        if not (isinstance(found, type) and issubclass(found, allowed)):
            raise DamagedInputError(
                f"The preset {shown} names {name[:100]!r}, which does not belong in an image "
                f"classifier. {EXPECTED}"
            )


def _require_floats(described: dict[str, Any], shown: str) -> None:
    """Makes every layer float32, as KerasHub does; refuses quantised layers."""
    for part in parts_of(described):
        if part.get("dtype") in _FLOATS:
            part["dtype"] = "float32"
        if "Policy" not in str(part.get("class_name")):
            continue
        config = part.get("config")
        if not isinstance(config, dict) or config.get("name") not in _FLOATS:
            raise DamagedInputError(
                f"The preset {shown} is quantised. Expected a preset with floating point weights."
            )
        part |= {"class_name": "DTypePolicy", "config": {"name": "float32"}}


def _check_numbers(part: Any, key: str, shown: str) -> None:
    """Refuses numbers of layers, or sizes, that no network has: building it would not end."""
    if isinstance(part, dict):
        for name, value in part.items():
            _check_numbers(value, str(name), shown)
    elif isinstance(part, list):
        if len(part) > MAX_REPEATS:
            raise DamagedInputError(f"The preset {shown} has {len(part):,} entries in {key[:100]}.")
        for value in part:
            _check_numbers(value, key, shown)
    elif isinstance(part, int | float):
        most = MAX_REPEATS if _REPEATS.search(key) else MAX_NUMBER
        if not abs(part) <= most:
            raise DamagedInputError(
                f"The preset {shown} has {key[:100]} {part:.6g}. Expected at most {most:,}."
            )
