"""Builds a network from the files of a KerasHub preset, which may come from an attacker.

A preset is a folder: `task.json` describes an image classifier or an object detector with its
preprocessing, two HDF5 files hold the weights of backbone and head; where the head has none of its
own there is no second file. They are checked as a .keras file is, in the same order: the
description (allowlist.py, and the kinds of classes of KerasHub below), memory, the weights. The
preset's tokenizers, which read further files, are never built.
"""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.memory import build_within_memory, initialise_with_zeros
from realtime_lrp.models.untrusted.allowlist import check_description, is_registered, parts_of
from realtime_lrp.models.untrusted.hdf5_check import stored_values
from realtime_lrp.models.untrusted.loading import (
    MAX_DESCRIPTION_BYTES,
    filling,
    naming_the_file,
    number_of_values,
    without_training,
)
from realtime_lrp.system.files import read_limited

TASK = "task.json"
BACKBONE_WEIGHTS = "model.weights.h5"
HEAD_WEIGHTS = "task.weights.h5"
"""The files of a preset that are read."""

CONFIG = "config.json"
"""A file that every preset has; it describes the backbone. It is read for messages only."""

PACKAGE = "keras_hub>"  # How the names begin under which KerasHub registers its classes with Keras

MAX_NUMBER = 2**17
"""The largest number in a description. Sizes of pictures and numbers of channels are far smaller,
numbers of classes reach 21 843."""

MAX_REPEATS = 1000  # The most layers or blocks that one entry of a description may ask for

A_PRESET = (
    "Expected one such as hub:vit_base_patch16_224_imagenet, hub:dfine_nano_coco or "
    "hub:segformer_b0_ade20k_512."
)
EXPECTED = "Expected what classifier.save_to_preset(folder) of KerasHub writes."
UNUSED = ("label_encoder", "labels", "prediction_decoder")
"""Parts of detectors that are for training, or chosen otherwise here."""

_REPEATS = re.compile(r"num_(\w+_)?(layers|levels|blocks|repeats|stages)|depths?$|_points$")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")


Weights = Callable[[str], Path] | None
"""Finds the files of the weights by their names; None for random ones."""


def describe_preset(preset: str, task: Path, hub: ModuleType) -> dict[str, Any]:
    """The checked description of a network, with every layer in float32.

    Refused are damage, classes that are not allowed, and other tasks than `tasks_of`.
    """
    shown = repr(preset)
    data = read_limited(task, MAX_DESCRIPTION_BYTES, "the description of a preset")
    with naming_the_file(shown, f"The preset {shown} cannot be read", EXPECTED):
        described = without_training(json.loads(data))
        if not isinstance(described, dict) or not isinstance(described.get("config"), dict):
            raise DamagedInputError(f"The preset {shown} describes no model. {EXPECTED}")
        _refuse_other_tasks(described, hub, shown)
        for part in parts_of(described):
            for key in UNUSED:
                part.pop(key, None)
        _require_floats(described)
        _check_classes(described, hub)
        check_description(described)
        _check_numbers(described, "")
    described["config"]["compile"] = False  # an optimiser has variables of its own
    return described


def tasks_of(hub: ModuleType) -> tuple[Any, ...]:
    """The kinds of networks of KerasHub that are read."""
    models = hub.models
    return (
        models.ImageClassifier, models.ObjectDetector,
        models.DeepLabV3ImageSegmenter, models.SegFormerImageSegmenter,
    )  # fmt: skip


def build_preset(described: dict[str, Any], preset: str, weights: Weights) -> keras.Model:
    """Builds what `describe_preset` checked, with weights; random ones are always the same."""
    shown = repr(preset)
    with naming_the_file(shown, f"The preset {shown} cannot be loaded", EXPECTED):
        keras.utils.set_random_seed(0)
        model = build_within_memory(
            lambda: _deserialise(described), shown, lambda one: _check_weights(one, weights, shown)
        )
        if weights:
            with filling(model):
                model.backbone.load_weights(str(weights(BACKBONE_WEIGHTS)))
                if _head(model):
                    model.load_task_weights(str(weights(HEAD_WEIGHTS)))
    return model


def _deserialise(described: dict[str, Any]) -> keras.Model:
    with warnings.catch_warnings(action="ignore"):
        return keras.saving.deserialize_keras_object(described, safe_mode=True)


def _head(model: keras.Model) -> list[keras.Variable]:
    """The weights that are not the backbone's."""
    of_backbone = {id(weight) for weight in model.backbone.weights}
    return [weight for weight in model.weights if id(weight) not in of_backbone]


def _check_weights(model: keras.Model, files: Weights, shown: str) -> None:
    """Refuses weights that are unsafe to read, fewer than the model has, or of a larger backbone.

    The file of the head may hold more: what its training has left.
    """
    if not files:
        return
    of_head = _head(model)
    for file, weights in ((BACKBONE_WEIGHTS, model.backbone.weights), (HEAD_WEIGHTS, of_head)):
        if not weights:
            continue
        needed = number_of_values(weights)
        path = files(file)
        name = f"{file} of the preset {shown}"
        stored = stored_values(path, name, name)
        if needed > stored or (weights is not of_head and needed < stored):
            raise DamagedInputError(
                f"{name} holds {stored:,} values, the network has {needed:,}. {EXPECTED}"
            )
    initialise_with_zeros(model.weights)


def _refuse_other_tasks(described: dict[str, Any], hub: ModuleType, shown: str) -> None:
    if not is_registered(described.get("registered_name"), tasks_of(hub)):
        raise DamagedInputError(
            f"The preset {shown} is no classifier, detector or segmentation of KerasHub, but "
            f"{str(described.get('class_name'))[:100]!r}.\n{A_PRESET}"
        )


def _check_classes(described: dict[str, Any], hub: ModuleType) -> None:
    """Refuses classes of KerasHub that do not belong in such a network."""
    allowed = (
        *tasks_of(hub), hub.models.Backbone, hub.models.ImageClassifierPreprocessor,
        hub.models.ObjectDetectorPreprocessor, hub.models.ImageSegmenterPreprocessor,
        hub.layers.ImageConverter, hub.layers.AnchorGenerator,
    )  # fmt: skip
    for part in parts_of(described):
        name = str(part.get("registered_name"))
        if name.startswith(PACKAGE) and not is_registered(name, allowed):
            raise ValueError(f"{name[:100]!r} does not belong in a network for pictures")


def _require_floats(described: dict[str, Any]) -> None:
    """Makes every layer float32, as KerasHub does; refuses quantised layers."""
    for part in parts_of(described):
        if part.get("dtype") in _FLOATS:
            part["dtype"] = "float32"
        if "Policy" not in str(part.get("class_name")):
            continue
        config = part.get("config")
        if not isinstance(config, dict) or config.get("name") not in _FLOATS:
            raise ValueError("it is quantised; its weights have to be floating point numbers")
        part |= {"class_name": "DTypePolicy", "config": {"name": "float32"}}


def _check_numbers(part: Any, key: str) -> None:
    """Refuses numbers of layers, or sizes, that no network has: building it would not end."""
    if isinstance(part, dict):
        for name, value in part.items():
            _check_numbers(value, str(name))
    elif isinstance(part, list):
        if len(part) > MAX_REPEATS:
            raise ValueError(f"{key[:100]} has {len(part):,} entries")
        for value in part:
            _check_numbers(value, key)
    elif isinstance(part, int | float):
        most = MAX_REPEATS if _REPEATS.search(key) else MAX_NUMBER
        if not abs(part) <= most:
            raise ValueError(f"{key[:100]} is {part:.6g}. Expected at most {most:,}")
