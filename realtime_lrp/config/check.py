"""Checks what the schema cannot see: whether names, files and folders exist.

It must stay as light as the schema: names come from `names`, never from the tables of other rooms.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from realtime_lrp.config.keys import legal_keys, names_of
from realtime_lrp.config.names import HUB, MODELS, NAMING, check_rule
from realtime_lrp.config.problems import KeyPath, errors_of
from realtime_lrp.config.schema import Config, Model
from realtime_lrp.errors import (
    Error,
    MissingInputError,
    UnavailableError,
    UsageError,
    unknown,
)


def check_names(config: Config) -> None:
    """Raises the first error that `wrong_names` yields."""
    for _, error in wrong_names(config):
        raise error


def wrong_names(config: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields every name, file or folder that does not exist: the path of its key, and the error.

    A class name as target is not checked: that needs the network.
    """
    yield from _wrong_names_of_model(("model",), config.model)
    for number, other in enumerate(config.live.also_models):
        yield from _wrong_names_of_model(("live", "also_models", number), other)
    for key in legal_keys():
        section, name = key.split(".")
        names, value = names_of(key), getattr(getattr(config, section), name)
        if names and not names.open and isinstance(value, str):
            yield from errors_of((section, name), names.check, value)
        elif names and not names.open and isinstance(value, list):
            for number, one in enumerate(value):
                yield from errors_of((section, name, number), names.check, one)
    for pattern, rule in config.lrp.layers.items():
        yield from errors_of(("lrp", "layers", pattern), check_rule, rule)
    folder, gallery, model = config.live.folder, config.concepts.gallery, config.model.name
    if folder and not os.path.isdir(folder):
        why = f"There is no folder {folder!r}. Make it, or name another one."
        yield ("live", "folder"), MissingInputError(why)
    if gallery and not os.path.isfile(gallery):
        images = "" if model.lower() in NAMING else " --images FOLDER"
        why = f"There is no gallery {gallery!r}. "
        why += f"Make one: realtime-lrp concepts --model {model}{images} -o {gallery}"
        yield ("concepts", "gallery"), MissingInputError(why)


def _wrong_names_of_model(path: KeyPath, model: Model) -> Iterator[tuple[KeyPath, Error]]:
    yield from errors_of((*path, "name"), check_model_name, model.name)
    weights, labels = model.weights, model.labels
    if weights not in (None, "", "imagenet", "random") and not os.path.isfile(weights):
        why = f"There is no weights file {weights!r}. Expected imagenet, random or a file."
        yield (*path, "weights"), UnavailableError(why)
    if labels and not os.path.isfile(labels):
        why = f"There is no labels file {labels!r}. Expected class names."
        yield (*path, "labels"), MissingInputError(why)


def check_also_models(config: Config) -> None:
    """Refuses to explain with a network twice: the same name, or file, and the same weights."""
    present: list[tuple[str, str | None]] = []
    for model in (config.model, *config.live.also_models):
        known = model.name.lower() in MODELS.known()
        identity = model.name.lower() if known else os.path.realpath(model.name), model.weights
        if identity in present:
            raise UsageError(
                f"--also-model {model.name}: it is shown already. Expected another network, or the "
                "same with other weights.",
                "further model",
            )
        present.append(identity)


def check_model_name(name: str) -> None:
    """Raises an error for a name that is neither a network (in any case) nor a file or folder.

    Presets of KerasHub are not known here; only their folder is checked.
    """
    preset = name.removeprefix(HUB)
    if name.startswith(HUB):
        if not preset.strip():
            raise UsageError(
                "Expected the name or the folder of a preset of KerasHub after hub:, such as "
                "hub:vit_base_patch16_224_imagenet.",
                MODELS.kind,
            )
        if os.sep in preset and "://" not in preset and not os.path.isdir(preset):
            raise MissingInputError(
                f"There is no folder {preset!r}. Expected one that "
                "classifier.save_to_preset(folder) of KerasHub has written."
            )
    elif name.lower() in MODELS.known():
        return
    elif os.path.isdir(name):
        _check_saved_model(name)
    elif not (Path(name).suffix or os.sep in name):
        others = ["FILE.keras", "FILE.onnx", "the folder of a SavedModel", "hub:NAME"]
        raise unknown(MODELS.kind, name, [*MODELS.known(), *others])
    elif not os.path.isfile(name):
        raise MissingInputError(
            f"There is no model file {name!r}. Expected a .keras or .onnx file or a SavedModel."
        )


def _check_saved_model(folder: str) -> None:
    """Refuses a preset of KerasHub without hub:; the files are checked when they are loaded."""
    found = [os.path.isfile(f"{folder}/{name}") for name in ("saved_model.pb", "metadata.json")]
    if found == [False, True]:
        prefix = "" if os.sep in folder else f".{os.sep}"
        raise UsageError(
            f"{folder!r} is no SavedModel. If it is a preset of KerasHub: --model "
            f"{HUB}{prefix}{folder}",
            MODELS.kind,
        )
