"""Reads YAML as far as a configuration needs it: a small UTF-8 file, one document, no tricks.

PyYAML splits the text into events; this file builds the values from them, because it has to stop
early at what is too large, to know the line of every key, and to refuse anchors, aliases, tags,
merged and repeated keys. A plain scalar is what JSON would make of it, else text: `no`, `12:30`,
`007` and dates are text. Every limit here is one that tests/test_config_files.py tries to break.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from realtime_lrp.config.messages import MAX_LETTERS, printable
from realtime_lrp.config.problems import KeyPath, Problem, key_of
from realtime_lrp.errors import ConfigError, Error, MissingInputError

MAX_BYTES = 1 << 20
MAX_DEPTH = 8
MAX_NODES = 5000

_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False}
_BOOLEANS["FALSE"] = False
INTEGER = re.compile(r"(?:-?0|-?[1-9][0-9]{0,17})\Z")
FLOAT = re.compile(
    r"(?:-?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|-?[0-9]+[eE][-+]?[0-9]+)\Z"
)


@dataclass
class Tree:
    """What a YAML text says.

    Attributes:
      values: dicts, lists and scalars; None for an empty text.
      locations: where each key and each list entry stands, for example "my.yaml:12".
      problems: what is wrong with it.
    """

    values: Any = None
    locations: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_file(file: Path, texts: bool = False, most: int = MAX_NODES) -> Tree:
    """Reads a file of at most 1 MiB; whatever is wrong with it becomes a problem of the tree.

    Args:
      file: the file.
      texts: whether every scalar stays the text that stands in the file.
      most: how many keys, values and list entries it may have.
    """
    name = printable(str(file))
    try:
        text = _decode(_read_bytes(file))
    except Error as error:
        return Tree(problems=[Problem(name, str(error), type(error))])
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Tree(problems=[Problem(f"{name}:{line}", "is not UTF-8 text; save it as UTF-8")])
    return read_text(text, lambda line: f"{name}:{line + 1}", texts=texts, most=most)


def read_text(
    text: str,
    locate: Callable[[int], str],
    path: KeyPath = (),
    texts: bool = False,
    most: int = MAX_NODES,
) -> Tree:
    """Reads a YAML text.

    Args:
      text: the text.
      locate: turns a line number, from 0, into a location for messages.
      path: the key that the text is the value of; () for a whole file.
      texts: whether every scalar stays the text that stands there.
      most: how many keys, values and list entries it may have.
    """
    reader = _Reader(locate, texts, most)
    reader.tree.locations[path] = locate(0)
    try:
        reader.read(text, path)
    except _Refused as error:
        reader.add_problem(error.line, error.path, error.text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position)
        reader.add_problem(
            line, path, f"the character U+{error.character:04X} is not allowed in YAML"
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line if mark else 0, text.rstrip().count("\n"))
        words = f"is not valid YAML ({error.problem}); check indentation, colons and quotes"
        reader.add_problem(line, path, words)
    return reader.tree


def _read_bytes(file: Path) -> bytes:
    """The bytes of a file; folders, devices and pipes are not opened.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: it cannot be read, or is too large.
    """
    try:
        if "\0" in str(file):
            raise FileNotFoundError
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise ConfigError("is a folder, a device or a pipe; expected a file")
        with open(file, "rb", opener=_open_without_waiting) as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingInputError("there is no such configuration file") from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})") from None
    if data is None:
        raise ConfigError("has nothing to read yet; expected a file")
    if len(data) > MAX_BYTES:
        raise ConfigError("is larger than 1 MiB; expected a configuration file")
    return data


def _open_without_waiting(file: str, flags: int) -> int:
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        raise ConfigError("is UTF-16, UTF-32 or not text at all; save it as UTF-8")
    return data.decode("utf-8-sig")


class _Refused(Exception):
    """The text cannot be a configuration; reading stops."""

    def __init__(self, event: yaml.Event, path: KeyPath, text: str):
        super().__init__(text)
        self.line, self.path, self.text = event.start_mark.line, path, text


class _Reader:
    """Builds values from PyYAML's events."""

    def __init__(self, locate: Callable[[int], str], texts: bool, most: int):
        self.tree = Tree()
        self._locate, self._texts = locate, texts
        self._nodes, self._most = 0, most
        self._events: Iterator[yaml.Event] = iter(())

    def add_problem(self, line: int, path: KeyPath, text: str) -> None:
        key = key_of(path)
        self.tree.problems.append(Problem(self._locate(line), f"{key}: {text}" if key else text))

    def read(self, text: str, path: KeyPath) -> None:
        """Reads the one document of a text into the tree."""
        self._events = yaml.parse(text, Loader=yaml.SafeLoader)
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.tree.values = self._value(next(self._events), path, 1)
                break
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise _Refused(event, path, "a second document begins here (---); expected one")

    def _value(self, event: yaml.Event, path: KeyPath, depth: int) -> Any:
        self._check(event, path, depth)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        if self._texts or event.style:
            return event.value
        return _plain_scalar(event.value)

    def _check(self, event: yaml.Event, path: KeyPath, depth: int) -> None:
        """Refuses what a configuration does not need, before it costs time or memory."""
        self._nodes += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _Refused(
                event,
                path,
                "anchors (&name) and aliases (*name) are not supported; put a text that begins "
                "with & or * in quotes",
            )
        for refused, text in (
            (depth > MAX_DEPTH, "is nested too deeply; expected sections with keys under them"),
            (self._nodes > self._most, f"has more than {self._most} entries; expected fewer"),
            (
                len(getattr(event, "value", "")) > MAX_LETTERS,
                f"is a text of more than {MAX_LETTERS} characters; expected a shorter one",
            ),
        ):
            if refused:
                raise _Refused(event, path, text)
        if event.tag is not None:
            line = event.start_mark.line
            self.add_problem(line, path, "tags (!name) are not supported; put the text in quotes")

    def _sequence(self, path: KeyPath, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            entry = (*path, len(values))
            self.tree.locations[entry] = self._locate(event.start_mark.line)
            values.append(self._value(event, entry, depth + 1))
        return values

    def _mapping(self, path: KeyPath, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = event.start_mark.line
            if not isinstance(event, yaml.ScalarEvent):
                self.add_problem(line, path, "expected a name before the colon, not a list")
                self._value(event, path, depth + 1)
                self._value(next(self._events), path, depth + 1)
                continue
            self._check(event, path, depth + 1)
            key = (*path, event.value)
            value = self._value(next(self._events), key, depth + 1)
            if event.value == "<<" and not event.style:
                self.add_problem(line, key, "merging keys is not supported; write them out")
                continue
            if event.value in values:
                self.add_problem(line, key, "is set twice; keep one of them")
            self.tree.locations[key] = self._locate(line)
            values[event.value] = value
        return values


def _plain_scalar(text: str) -> Any:
    """The value of a scalar without quotes."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if INTEGER.match(text):
        return int(text)
    return float(text) if FLOAT.match(text) else text
