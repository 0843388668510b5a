"""Command line over `--set` over file over default: every value, and the place it came from."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from realtime_lrp.config.check import wrong_names
from realtime_lrp.config.defaults import COMMAND_DEFAULTS, COMMAND_KEYS
from realtime_lrp.config.files import Problem, Tree, Where, key_of, read_file, read_text
from realtime_lrp.config.keys import as_if_clear, clear_section, unknown_key
from realtime_lrp.config.schema import OPTIONS, Config, field_of, legal_keys
from realtime_lrp.config.words import expectation, misplaced, printable, shown
from realtime_lrp.errors import (
    ConfigError,
    Error,
    MissingInputError,
    UnavailableError,
    UsageError,
    masked,
)

DEFAULT = "default"
"""The origin of a value that nobody set."""

MOST_PROBLEMS = 100
MOST_LETTERS = 400
"""How many problems are told, and how much of each."""

log = logging.getLogger(__name__)

_ABOUT = {
    "model": "model.name", "weights": "model.weights", "method": "lrp.method",
    "composite": "lrp.composite", "class": "lrp.target", "colormap": "overlay.colormap",
    "size": "model.size", "layers": "lrp.layers", "rule": "lrp.layers", "guided": "lrp.guided",
    "codec": "video.codec", "panel": "live.panels", "exit key": "kiosk.exit_key",
}  # fmt: skip
"""What a `UsageError` is about -> the key that holds it."""

Check = Callable[[Config], Iterable[tuple[Where, Error]]]
"""Yields where a value stands that the schema cannot judge, and what is wrong with it."""


@dataclass(frozen=True)
class Settings:
    """A valid configuration in which every value is decided, and where each value came from.

    Attributes:
      config: the values.
      origins: key "section.key" -> "my.yaml:12", "--set", "--opacity", "default" or "default of
        live".
      given: file, assignments and options that `load` was given.
      complaint: what is wrong with the file that this configuration replaces; else "".
      command: whose defaults hold.
    """

    config: Config
    origins: Mapping[str, str]
    given: tuple[str | Path | None, tuple[str, ...], Mapping[str, Any]] = (None, (), {})
    complaint: str = ""
    command: str = ""

    def is_set(self, key: str) -> bool:
        """Whether a file or the command line sets a key "section.key"."""
        defaults = (DEFAULT, f"{DEFAULT} of {self.command}")
        return self.origins.get(key, DEFAULT) not in defaults

    def located(self, error: UsageError) -> Error:
        """The error as a `ConfigError` with its place, where a file or `--set` caused it."""
        key = _ABOUT.get(error.about or "", "")
        if not self.is_set(key) or self.origins[key] in OPTIONS:
            return error
        return ConfigError(f"{self.origins[key]}: {key}: {error}")


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
    check: Check | None = wrong_names,
    command: str = "",
) -> Settings:
    """Command line over `--set` over file over default.

    Args:
      file: a YAML file, or None.
      sets: assignments "section.key=value".
      options: option such as "--opacity" -> value.
      check: looks at the values too, where what the schema refuses is at its default; None checks
        the schema alone.
      command: whose defaults hold, see `COMMAND_DEFAULTS`; "" are those of the schema.

    Raises:
      MissingInputError: all that is wrong is that files are not there.
      UnavailableError: all that is wrong is that weights are not there.
      ConfigError: the file or an assignment is wrong; the message lists every error.
      UsageError: only values given as options are wrong.
    """
    tree = _sections(file)
    for assignment in sets:
        _assign(tree, assignment)
    for name, value in (options or {}).items():
        _put(tree, tuple(OPTIONS[name].split(".")), value, name)
    defaults = COMMAND_DEFAULTS.get(command, {})
    _apply_defaults(tree, defaults)
    config, wrong = _validated(as_if_clear(tree.values))
    for where in list(tree.places):
        if where and (close := clear_section(str(where[0]))):
            tree.places.setdefault((close, *where[1:]), tree.places[where])
    problems = [*tree.problems, *(_problem(one, tree.places) for one in wrong[: MOST_PROBLEMS + 1])]
    for where, error in islice(check(config) if check else (), MOST_PROBLEMS + 1):
        problems += located_problems(where, error, tree.places)
    if problems:
        raise refusal(_in_order(problems, file))
    origins = dict.fromkeys(legal_keys(), DEFAULT)
    origins |= dict.fromkeys(defaults, f"{DEFAULT} of {command}")
    origins |= {".".join(map(str, where)): place for where, place in tree.places.items() if where}
    settings = Settings(config, origins, (file, sets, options or {}), command=command)
    _warn_of_unused(settings)
    return settings


def located_problems(
    where: Where, error: Error, places: Mapping[Where, str] | None = None
) -> Iterable[Problem]:
    """The problems that an error lists by itself, or else the error as one, with its place."""
    if listed := getattr(error, "problems", ()):
        return listed
    key, place = key_of(where), _nearest_place(where, places or {})
    text = f"{key}: {error}" if place not in ("", *OPTIONS) else str(error)
    return [Problem(place or key, text, type(error))]


def refusal(problems: list[Problem]) -> Error:
    """All problems as one error, a line for each: 66, 69, 2 or 78 as its exit code."""
    kind: type[Error] = ConfigError
    kinds = {problem.kind for problem in problems}
    if kinds <= {MissingInputError, UnavailableError}:
        kind = MissingInputError if MissingInputError in kinds else UnavailableError
    elif all(problem.place in OPTIONS for problem in problems):
        kind = UsageError
    lines = [printable(masked(f"{one.place}: {one.text}")) for one in problems[:MOST_PROBLEMS]]
    lines = [f"{one[:MOST_LETTERS]}..." if len(one) > MOST_LETTERS else one for one in lines]
    if len(problems) > len(lines):
        lines.append(f"{problems[-1].place}: this and further problems are left out")
    error = kind("\n".join(lines))
    if isinstance(error, ConfigError):
        error.problems = tuple(problems)
    return error


def _sections(file: str | Path | None) -> Tree:
    """What a file says; its values are always sections."""
    tree = Tree() if file is None else read_file(Path(file))
    if tree.values is not None and not isinstance(tree.values, dict):
        words = "expected sections such as 'lrp:' with keys under them"
        tree.problems.append(Problem(tree.places[()], words))
        tree.values = None
    sections = (tree.values or {}).items()
    tree.values = {section: {} if value is None else value for section, value in sections}
    return tree


def _assign(tree: Tree, assignment: str) -> None:
    """Adds "section.key=value"; no message holds the value, which may be secret."""
    key, equals, text = assignment.partition("=")
    where = tuple(key.strip().split(".", 1))
    if not equals or len(where) < 2 or len(key) > MOST_LETTERS:
        words = f"expected section.key=value instead of {shown(key.strip())}"
        tree.problems.append(Problem("--set", words))
        return
    value = read_text(text, lambda mark: "--set", where)
    tree.problems += value.problems
    if not value.problems:
        _put(tree, where, value.values, "--set")
        tree.places |= value.places


def _apply_defaults(tree: Tree, defaults: Mapping[str, Any]) -> None:
    """Puts a command's defaults where nothing is set; null stands for nothing set."""
    for key in COMMAND_KEYS:
        section, name = key.split(".")
        keys = tree.values.get(section, {})
        if isinstance(keys, dict) and keys.get(name, 0) is None:
            del keys[name]
            tree.places.pop((section, name), None)
    for key, value in defaults.items():
        section, name = key.split(".")
        keys = tree.values.setdefault(section, {})
        if isinstance(keys, dict):
            keys.setdefault(name, value)


def _warn_of_unused(settings: Settings) -> None:
    lrp = settings.config.lrp
    if lrp.method != "lrp" and (lrp.layers or settings.is_set("lrp.composite")):
        log.warning("the method %s uses neither composite nor layers", lrp.method)


def _put(tree: Tree, where: tuple[str, ...], value: Any, place: str) -> None:
    section, name = where
    keys = tree.values.setdefault(section, {})
    if isinstance(keys, dict):
        keys[name] = value
        tree.places[where] = place
        tree.places.setdefault((section,), place)


def _validated(values: dict[str, Any]) -> tuple[Config, list[Mapping[str, Any]]]:
    """A configuration of all that is right, and what is wrong."""
    wrong: list[Mapping[str, Any]] = []
    while True:
        try:
            return Config.model_validate(values), wrong
        except ValidationError as error:
            details = error.errors(include_url=False)
        wrong += details
        for section, *key in {tuple(map(str, detail["loc"][:2])) for detail in details}:
            if key:
                values[section].pop(key[0])
            else:
                values.pop(section)


def _problem(detail: Mapping[str, Any], places: Mapping[Where, str]) -> Problem:
    """One error of pydantic's."""
    where: Where = detail["loc"]
    key, place = key_of(where[:3]), _nearest_place(where, places)
    if detail["type"] == "extra_forbidden":
        return Problem(place, unknown_key(where))
    if detail["type"] in ("model_type", "dict_type"):
        place = _nearest_place((*where, 0), places)
        words = misplaced(detail["input"], is_section=len(where) == 1)
        return Problem(place, f"{key}: {words}")
    text = expectation(detail, field_of(key_of(where[:2])))
    return Problem(place, text if place in OPTIONS else f"{key}: {text}")


def _nearest_place(where: Where, places: Mapping[Where, str]) -> str:
    """The place of a value, or of the one around it; "" of a default."""
    around = (where[:length] for length in range(len(where), 0, -1))
    return next((places[one] for one in around if one in places), "")


def _in_order(problems: list[Problem], file: str | Path | None) -> list[Problem]:
    """Those of the file by their lines, then the others."""

    def line(problem: Problem) -> float:
        name, _, number = problem.place.rpartition(":")
        return int(number) if name and name == printable(str(file)) else float("inf")

    return sorted(problems, key=line)
