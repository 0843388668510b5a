"""Problems of a configuration: each with its location, all of them together as one error.

What the schema cannot see is checked here: whether names, files and folders exist. No message may
show a password: values go through `showable`, keys through `hide_secrets`.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from realtime_lrp import errors
from realtime_lrp.config.keys import FIELDS, OPTIONS, keys_within, names_of
from realtime_lrp.config.names import HUB, MODELS, NAMING, check_rule
from realtime_lrp.config.schema import Config, Model
from realtime_lrp.errors import ConfigError, Error, MissingInputError, UsageError

MAX_PROBLEMS = 100  # problems that are listed
MAX_LINE = 400  # characters of each
KeyPath = tuple[str | int, ...]  # leads to a value: ("live", "sources", 1)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where ("my.yaml:12", an option), and what was expected."""

    location: str
    text: str
    kind: type[Error] = ConfigError  # the exception that it is by itself


def key_of(path: KeyPath) -> str:
    """The key that people read: "live.sources" for ("live", "sources", 1)."""
    names = [hide_secrets(name) for name in path if isinstance(name, str)]
    return printable(hide_secrets(".".join(names)))[:200]


def errors_of(
    path: KeyPath, check: Callable[..., object], *arguments: Any
) -> Iterator[tuple[KeyPath, Error]]:
    """Yields (path, error) if `check(*arguments)` raises an error of ours, else nothing."""
    try:
        check(*arguments)
    except Error as error:
        yield path, error


def problems_of(path: KeyPath, error: Error, locations: Mapping[KeyPath, str]) -> Iterable[Problem]:
    """The problems that an error lists by itself, else the error about a value as one problem."""
    if listed := getattr(error, "problems", ()):
        return listed
    key = key_of(path)
    location = _nearest_location(path, locations)
    text = f"{key}: {error}" if location not in ("", *OPTIONS) else str(error)
    return [Problem(location or key, text, type(error))]


def schema_problem(
    detail: Mapping[str, Any], locations: Mapping[KeyPath, str], schema: type[BaseModel] = Config
) -> Problem:
    """One of pydantic's errors about a schema as a problem."""
    path: KeyPath = detail["loc"]
    location = _nearest_location(path, locations) or locations.get((), "")
    if detail["type"] == "extra_forbidden":
        return Problem(location, _unknown_key(path, schema))
    key = key_of(tuple(name for name in path if name != "[key]"))  # pydantic's mark of a dict's key
    text = _expectation(detail)
    return Problem(location, text if location in OPTIONS else f"{key}: {text}")


def _expectation(detail: Mapping[str, Any]) -> str:
    """The expected and the received value, and the nearest legal value."""
    kind = detail["type"]
    received = detail["input"]
    context = detail.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind in ("model_type", "dict_type"):
        return "expected a section, with 'key: value' lines under it"
    if kind == "list_type":
        return "expected a list, each entry in a line that begins with a dash"
    text = str(context["error"]) if kind == "value_error" else detail["msg"]
    text = text.replace("Input should be ", "expected ")
    field = FIELDS.get(key_of(detail["loc"][:2]))
    if " instead of " in text or (field and not field.repr):
        return text
    text += f"; received {showable(received)}"
    close = None
    if kind == "string_type" and isinstance(received, bool | int | float):
        return f"{text}; put it in quotes"
    if kind == "literal_error":
        close = errors.nearest(str(received), re.findall(r"'([^']*)'", context["expected"]))
    elif kind == "bool_type":
        words = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false"}
        close = words.get(str(received).lower())
    return f"{text}; did you mean {close}?" if close else text


def _unknown_key(path: KeyPath, schema: type[BaseModel]) -> str:
    """Says that there is no such key, with the one that was meant or all that there are."""
    *within, name = (str(part) for part in path if isinstance(part, str))
    legal = [key.split(".") for key in keys_within(schema)]
    here = [key[-1] for key in legal if key[:-1] == within]
    message = f"there is no key '{key_of(path)}'"
    if not within and name.split(".") in legal:
        return f"{message}; write {name.partition('.')[0]}: and the rest on a line under it"
    if meant := next((key for key in legal if key[-1] == name), None):
        return f"{message}; did you mean '{'.'.join(meant)}'?"
    if close := errors.nearest(name, here):
        return f"{message}; did you mean '{key_of((*within, close))}'?"
    return f"{message}; {key_of(tuple(within)) or 'the file'} has {', '.join(here)}"


def as_error(problems: list[Problem]) -> Error:
    """All problems, a line for each, as one error, whose kind decides the exit code."""
    problems = sorted(problems, key=_place)
    # missing files alone, wrong options alone, else a wrong configuration
    kind: type[Error] = ConfigError
    kinds = {problem.kind for problem in problems}
    if kinds <= {MissingInputError, errors.UnavailableError}:
        kind = MissingInputError if MissingInputError in kinds else errors.UnavailableError
    elif all(problem.location in OPTIONS for problem in problems):
        kind = UsageError
    lines = [
        printable(errors.masked(f"{one.location}: {one.text}")) for one in problems[:MAX_PROBLEMS]
    ]
    lines = [f"{line[:MAX_LINE]}..." if len(line) > MAX_LINE else line for line in lines]
    if len(problems) > len(lines):
        lines.append(f"{problems[-1].location}: there are more problems; these come first")
    error = kind("\n".join(lines))
    if isinstance(error, ConfigError):
        error.problems = tuple(problems)
    return error


def _place(problem: Problem) -> tuple[bool, str, int]:
    """File and line of a problem; what has none comes last, as it came."""
    file, _, line = problem.location.rpartition(":")
    return (False, file, int(line)) if line.isdecimal() else (True, "", 0)


def showable(value: Any) -> str:
    """A value as far as a message may show it: addresses can hold passwords."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple | dict):
        return "keys with values" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and ("://" in value or hide_secrets(value) != value):
        return "an address"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_LOGIN = re.compile(r"(?s)\A[^/\\:@]+:(?![/\\]).*@")


def hide_secrets(text: str) -> str:
    """A text with *** for what may be secret in an address, also in one without a scheme."""
    return _LOGIN.sub("***@", errors.masked(text))


def printable(text: str) -> str:
    """A text with escapes for characters that would break a line or cannot be shown."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _nearest_location(path: KeyPath, locations: Mapping[KeyPath, str]) -> str:
    """The location of a value, or of the one around it; "" for a default."""
    around = (path[:length] for length in range(len(path), 0, -1))
    return next((locations[one] for one in around if one in locations), "")


def check_names(config: Config) -> None:
    """Raises the first error that `wrong_names` yields."""
    for _, error in wrong_names(config):
        raise error


def wrong_names(config: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields each name, file or folder that does not exist, but no class: its key, the error."""
    yield from _wrong_names_of_model(("model",), config.model)
    for number, other in enumerate(config.live.also_models):
        yield from _wrong_names_of_model(("live", "also_models", number), other)
    if config.input.follow:
        yield from _wrong_names_of_model(("input", "follow"), config.input.follow)
        if config.input.region:
            why = "A region that stays and a thing to follow exclude each other. Give one of them."
            yield ("input", "follow"), UsageError(why)
    for key in FIELDS:
        section, name = key.split(".")
        names = names_of(key)
        value = getattr(getattr(config, section), name)
        if names and not names.open and isinstance(value, str):
            yield from errors_of((section, name), names.check, value)
        elif names and not names.open and isinstance(value, list):
            for number, one in enumerate(value):
                yield from errors_of((section, name, number), names.check, one)
    for pattern, rule in config.lrp.layers.items():
        yield from errors_of(("lrp", "layers", pattern), check_rule, rule)
    folder = config.live.folder
    if folder and not os.path.isdir(folder):
        why = f"There is no folder {folder!r}. Make it, or name another one."
        yield ("live", "folder"), MissingInputError(why)
    gallery = config.concepts.gallery
    model = config.model.name
    if gallery and not os.path.isfile(gallery):
        images = "" if model.lower() in NAMING else " --images FOLDER"
        why = f"There is no gallery {gallery!r}. "
        why += f"Make one: realtime-lrp concepts --model {model}{images} -o {gallery}"
        yield ("concepts", "gallery"), MissingInputError(why)


def _wrong_names_of_model(path: KeyPath, model: Model) -> Iterator[tuple[KeyPath, Error]]:
    yield from errors_of((*path, "name"), check_model_name, model.name)
    weights = model.weights
    if weights not in (None, "", "imagenet", "random") and not os.path.isfile(weights):
        why = f"There is no weights file {weights!r}. Expected imagenet, random or a file."
        yield (*path, "weights"), errors.UnavailableError(why)
    if model.labels and not os.path.isfile(model.labels):
        why = f"There is no labels file {model.labels!r}. Expected class names."
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
    """Refuses what is no network, file or folder; of KerasHub's presets only folders are known."""
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
        files = ["FILE.keras", "FILE.h5", "FILE.onnx", "FILE.tflite"]
        others = [*files, "the folder of a SavedModel", "hub:NAME"]
        raise errors.unknown(MODELS.kind, name, [*MODELS.known(), *others])
    elif not os.path.isfile(name):
        raise MissingInputError(
            f"There is no model file {name!r}. Expected .keras, .h5, .onnx, .tflite "
            "or a SavedModel."
        )


def _check_saved_model(folder: str) -> None:
    """Refuses a folder that is no SavedModel but holds another network; says what to give."""
    held = set(os.listdir(folder))
    endings = (".keras", ".h5", ".hdf5", ".onnx", ".tflite")
    files = sorted(name for name in held - {"model.weights.h5"} if name.endswith(endings))
    if "saved_model.pb" in held:
        return
    if {"config.json", "model.weights.h5"} <= held and "task.json" not in held:
        what = "an unpacked .keras file. Pack its files into one: zip -0 -r name.keras ."
    elif "metadata.json" in held:
        prefix = "" if os.sep in folder else f".{os.sep}"
        what = f"no SavedModel. If it is a preset of KerasHub: --model {HUB}{prefix}{folder}"
    elif files:
        what = f"a folder. Give the file of the network: --model {os.path.join(folder, files[0])}"
    elif "model.json" in held:
        what = "TensorFlow.js's. Give the Keras file or the SavedModel that it was made of."
    else:
        return
    raise UsageError(f"{folder!r} is {what}", MODELS.kind)
