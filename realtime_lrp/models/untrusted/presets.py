"""Builds a network from the files of a KerasHub preset, which may come from an attacker.

A preset is a folder: `task.json` describes a network with its preprocessing, two HDF5 files hold
the weights of backbone and head, if it has some. They are checked as a .keras file is, in the same
order: the description (allowlist.py, and the classes of KerasHub below), memory, the weights.
Tokenizers, which read further files, are never built.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.memory import build_within_memory, initialise_with_zeros
from realtime_lrp.models.untrusted import loading
from realtime_lrp.models.untrusted.allowlist import check_description, is_registered, parts_of
from realtime_lrp.models.untrusted.hdf5_check import stored_values
from realtime_lrp.system.files import read_limited

TASK = "task.json"  # the files of a preset that are read
BACKBONE_WEIGHTS = "model.weights.h5"
HEAD_WEIGHTS = "task.weights.h5"
CONFIG = "config.json"  # every preset has it, about its backbone; it is looked for in messages only
PACKAGE = "keras_hub>"  # How the names begin under which KerasHub registers its classes with Keras

MAX_NUMBER = 2**17  # largest number in a description; there are up to 21 843 classes
MAX_REPEATS = 1000  # The most layers or blocks that one entry of a description may ask for

A_PRESET = (
    "Expected one such as hub:vit_base_patch16_224_imagenet, hub:dfine_nano_coco or "
    "hub:segformer_b0_ade20k_512."
)
EXPECTED = "Expected what classifier.save_to_preset(folder) of KerasHub writes."
UNUSED = ("label_encoder", "labels", "prediction_decoder")  # parts of detectors for training

_REPEATS = re.compile(r"num_(\w+_)?(layers|levels|blocks|repeats|stages)|depths?$|_points$")
_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")

Weights = Callable[[str], Path] | None  # finds files by their names; None for random weights


def describe_preset(shown: str, task: Path, hub: ModuleType) -> dict[str, Any]:
    """The checked description, with layers in float32, of a network of one of `tasks_of`.

    `shown` is how a sentence begins about the preset.
    """
    data = read_limited(task, loading.MAX_DESCRIPTION_BYTES, "the description of a preset")
    described = loading.without_training(json.loads(data))
    if not isinstance(described, dict) or not isinstance(described.get("config"), dict):
        raise DamagedInputError(f"{shown} describes no model. {EXPECTED}")
    if not is_registered(described.get("registered_name"), tasks_of(hub)):
        raise DamagedInputError(
            f"{shown} is no classifier, detector or segmentation of KerasHub, but "
            f"{str(described.get('class_name'))[:100]!r}.\n{A_PRESET}"
        )
    allowed = (
        *tasks_of(hub), hub.models.Backbone, hub.models.ImageClassifierPreprocessor,
        hub.models.ObjectDetectorPreprocessor, hub.models.ImageSegmenterPreprocessor,
        hub.layers.ImageConverter, hub.layers.AnchorGenerator,
    )  # fmt: skip
    for part in parts_of(described):
        _prepare(part, allowed)
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


def build_preset(described: dict[str, Any], name: str, weights: Weights) -> keras.Model:
    """Builds what `describe_preset` checked, with weights; random ones are always the same."""
    keras.utils.set_random_seed(0)
    check = partial(_check_weights, files=weights, name=name)
    model = build_within_memory(lambda: loading.deserialised(described), name, check)
    if weights:
        with loading.filling(model):
            model.backbone.load_weights(str(weights(BACKBONE_WEIGHTS)))
            if _head(model):
                model.load_task_weights(str(weights(HEAD_WEIGHTS)))
    return model


def _head(model: keras.Model) -> list[keras.Variable]:
    """The weights that are not the backbone's."""
    of_backbone = {id(weight) for weight in model.backbone.weights}
    return [weight for weight in model.weights if id(weight) not in of_backbone]


def _check_weights(model: keras.Model, files: Weights, name: str) -> None:
    """Refuses weights that are unsafe to read, fewer than the model has, or of a larger backbone.

    The file of the head may hold more: what its training has left.
    """
    if not files:
        return
    for file, weights in ((BACKBONE_WEIGHTS, model.backbone.weights), (HEAD_WEIGHTS, _head(model))):
        if not weights:
            continue
        needed = loading.number_of_values(weights)
        which = f"{file} of the preset {name}"
        stored = stored_values(files(file), which, which)
        if needed > stored or (file == BACKBONE_WEIGHTS and needed < stored):
            raise DamagedInputError(
                f"{which} holds {stored:,} values, the network has {needed:,}. {EXPECTED}"
            )
    initialise_with_zeros(model.weights)


def _prepare(part: dict[str, Any], allowed: tuple[Any, ...]) -> None:
    """Makes a layer float32, as KerasHub does; refuses quantised ones, and KerasHub's others."""
    for key in UNUSED:
        part.pop(key, None)
    if part.get("dtype") in _FLOATS:
        part["dtype"] = "float32"
    if "Policy" in str(part.get("class_name")):
        config = part.get("config")
        if not isinstance(config, dict) or config.get("name") not in _FLOATS:
            raise ValueError("it is quantised; its weights have to be floating point numbers")
        part |= {"class_name": "DTypePolicy", "config": {"name": "float32"}}
    name = str(part.get("registered_name"))
    if name.startswith(PACKAGE) and not is_registered(name, allowed):
        raise ValueError(f"{name[:100]!r} does not belong in a network for pictures")


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
