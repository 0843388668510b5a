"""Loads a configuration: options win over `--set`, `--set` over the file, the file over defaults.

Every value is decided here, once, and its origin is kept.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from realtime_lrp.config.keys import COMMAND_DEFAULTS, COMMAND_KEYS, FIELDS, OPTIONS
from realtime_lrp.config.problems import (
    MAX_LINE,
    MAX_PROBLEMS,
    KeyPath,
    Problem,
    as_error,
    key_of,
    problems_of,
    schema_problem,
    showable,
    wrong_names,
)
from realtime_lrp.config.reading import Tree, read_file, read_text
from realtime_lrp.config.schema import Config
from realtime_lrp.errors import ConfigError, Error, UsageError

DEFAULT = "default"  # the origin of a value that nobody set

EMPTY_VALUE = (
    "the value is empty; for the default leave the assignment out, or write null where the key "
    "allows it; is a variable of the shell not set?"
)

log = logging.getLogger(__name__)

_KEY_OF_SUBJECT = {
    "model": "model.name", "further model": "live.also_models",
    "weights": "model.weights", "method": "lrp.method",
    "composite": "lrp.composite", "class": "lrp.target", "colormap": "overlay.colormap",
    "follow": "input.follow", "at": "input.at", "size": "model.size", "output": "model.output",
    "output activation": "model.output_activation", "scores": "model.scores",
    "layers": "lrp.layers", "rule": "lrp.layers",
    "codec": "video.codec", "panel": "live.panels",
    "gallery": "concepts.gallery", "concept layer": "concepts.layer",
}  # fmt: skip
"""`UsageError.about` -> the key that is wrong."""

Check = Callable[[Config], Iterable[tuple[KeyPath, Error]]]  # yields what the schema cannot see


@dataclass(frozen=True)
class Settings:
    """A valid configuration in which every value is decided, and where each value came from."""

    config: Config
    origins: Mapping[str, str]  # key -> "my.yaml:12", "--set", "--opacity", "default of live"
    # file, assignments and options that `load` was given
    given: tuple[str | Path | None, tuple[str, ...], Mapping[str, Any]] = (None, (), {})
    complaint: str = ""  # what is wrong with the file that this configuration replaces; else ""
    command: str = ""  # whose defaults hold

    def is_set(self, key: str) -> bool:
        """Whether a file or the command line sets a key "section.key"."""
        defaults = (DEFAULT, f"{DEFAULT} of {self.command}")
        return self.origins.get(key, DEFAULT) not in defaults

    def located(self, error: UsageError) -> Error:
        """The error as a `ConfigError` with its location, if a file or `--set` caused it."""
        key = _KEY_OF_SUBJECT.get(error.about or "", "")
        if not self.is_set(key) or self.origins[key] in OPTIONS:
            return error
        return ConfigError(f"{self.origins[key]}: {key}: {error}")


def load(
    file: str | Path | Tree | None = None, sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None, check: Check | None = wrong_names, command: str = "",
) -> Settings:  # fmt: skip
    """Loads a configuration; raises everything that is wrong with it at once, see `as_error`.

    The `file` is YAML, or what `settings_tree` returns; `sets` are assignments "section.key=value",
    `options` such as "--opacity" -> value. `check` looks at the values after the schema, where
    refused ones have their default. The defaults of the `command` hold, or the schema's own.
    """
    tree = _sections(file)
    for assignment in sets:
        _assign(tree, assignment)
    for name, value in (options or {}).items():
        _put(tree, tuple(OPTIONS[name].split(".")), value, name)
    # a command's defaults stand where nothing is set; null stands for nothing set
    defaults = COMMAND_DEFAULTS.get(command, {})
    for key in COMMAND_KEYS:
        section, name = key.split(".")
        keys = tree.values.get(section, {})
        if isinstance(keys, dict) and keys.get(name, 0) is None:
            del keys[name]
            tree.locations.pop((section, name), None)
    for key, value in defaults.items():
        section, name = key.split(".")
        keys = tree.values.setdefault(section, {})
        if isinstance(keys, dict):
            keys.setdefault(name, value)
    config, details = _validated(tree.values)
    problems = [*tree.problems, *(schema_problem(detail, tree.locations) for detail in details)]
    for path, error in islice(check(config) if check else (), MAX_PROBLEMS + 1):
        problems += problems_of(path, error, tree.locations)
    if problems:
        raise as_error(problems)
    origins = dict.fromkeys(FIELDS, DEFAULT)
    origins |= dict.fromkeys(defaults, f"{DEFAULT} of {command}")
    origins |= {".".join(map(str, path)): where for path, where in tree.locations.items() if path}
    named = None if isinstance(file, Tree) else file
    settings = Settings(config, origins, (named, sets, options or {}), command=command)
    if config.lrp.method != "lrp" and (config.lrp.layers or settings.is_set("lrp.composite")):
        log.warning("the method %s uses neither composite nor layers", config.lrp.method)
    return settings


def settings_tree(settings: Mapping[str, Any], location: str) -> Tree:
    """Settings, "section.key" -> value, as `load` takes them instead of a file."""
    tree = Tree({}, {(): location})
    for key, value in settings.items():
        section, _, name = key.partition(".")
        _put(tree, (section, name), value, location)
    return tree


def read_as(
    file: Path, kind: Any, expected: str, schema: type[BaseModel] = Config, **how: Any
) -> tuple[Any, Mapping[KeyPath, str]]:
    """The content of a YAML file as a type of pydantic, and where each key stands; or problems."""
    tree = read_file(file, **how)
    problems = tree.problems
    if not problems:
        try:
            return TypeAdapter(kind).validate_python(tree.values), tree.locations
        except ValidationError as error:
            problems = [
                schema_problem(one, tree.locations, schema)
                if one["loc"]
                else Problem(tree.locations[()], expected)
                for one in error.errors(include_url=False)
            ]
    raise as_error(problems)


def _sections(file: str | Path | Tree | None) -> Tree:
    """The contents of a file, whose values are always sections."""
    if isinstance(file, Tree):
        return file
    tree = Tree() if file is None else read_file(Path(file))
    if tree.values is not None and not isinstance(tree.values, dict):
        text = "expected sections such as 'lrp:' with keys under them"
        tree.problems.append(Problem(tree.locations[()], text))
        tree.values = None
    sections = (tree.values or {}).items()
    tree.values = {section: {} if value is None else value for section, value in sections}
    return tree


def _assign(tree: Tree, assignment: str) -> None:
    """Adds "section.key=value"; no message shows the value, which may be secret."""
    key, equals, text = assignment.partition("=")
    path = tuple(key.strip().split(".", 1))
    if not equals or len(path) < 2 or len(key) > MAX_LINE:
        message = f"expected section.key=value instead of {showable(key.strip())}"
        tree.problems.append(Problem("--set", message))
        return
    if not text.strip():
        tree.problems.append(Problem("--set", f"{key_of(path)}: {EMPTY_VALUE}"))
        return
    value = read_text(text, lambda line: "--set", path)
    tree.problems += value.problems
    if not value.problems:
        _put(tree, path, value.values, "--set")
        tree.locations |= value.locations


def _put(tree: Tree, path: tuple[str, ...], value: Any, location: str) -> None:
    section, name = path
    keys = tree.values.setdefault(section, {})
    if isinstance(keys, dict):
        keys[name] = value
        tree.locations[path] = location
        tree.locations.setdefault((section,), location)


def _validated(values: dict[str, Any]) -> tuple[Config, list[Mapping[str, Any]]]:
    """A configuration of everything that is right, and pydantic's errors about the rest."""
    details: list[Mapping[str, Any]] = []
    while True:
        try:
            return Config.model_validate(values), details[: MAX_PROBLEMS + 1]
        except ValidationError as error:
            found = error.errors(include_url=False)
        details += found
        for section, *key in {tuple(map(str, detail["loc"][:2])) for detail in found}:
            if key:
                values[section].pop(key[0])
            else:
                values.pop(section)
