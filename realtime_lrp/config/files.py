"""YAML as far as a configuration needs it: a small file in UTF-8, one document, no tricks.

Aliases, merged keys, tags and doubled keys are refused, deep and long files before they cost time.
A plain scalar is what JSON would make of it, else text: `no`, `12:30`, `007` and dates are text.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from realtime_lrp.config.words import (
    MAX_LETTERS,
    plain_words,
    printable,
    strange_space,
    unsecret,
)
from realtime_lrp.errors import ConfigError, Error, MissingInputError, masked

MAX_BYTES = 1 << 20
MAX_DEPTH = 8
MAX_NODES = 5000

Where = tuple[str | int, ...]
"""The names and numbers that lead to a value, as pydantic has them."""

Place = Callable[[yaml.Mark], str]

_CORE = "tag:yaml.org,2002:"
_MEANS: dict[str, Callable[[str], Any]] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
    "str": str,
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands, and what was expected there."""

    place: str
    text: str
    kind: type[Error] = ConfigError


@dataclass
class Tree:
    """What a YAML text says.

    Attributes:
      values: dicts, lists and scalars; None of an empty text.
      places: where each key and entry stands, for example "my.yaml:12"; with a 0 behind the names
        of a key where its scalar does, which may be a line of its own.
      problems: what is wrong with it.
    """

    values: Any = None
    places: dict[Where, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_file(file: Path, texts: bool = False) -> Tree:
    """A file of at most 1 MiB; whatever is wrong with it becomes a problem of the tree.

    Args:
      file: the file.
      texts: whether each scalar is the text that stands in the file.
    """
    name = printable(str(file))
    try:
        text = _decoded(_content(file))
    except Error as error:
        return Tree(problems=[Problem(name, str(error), type(error))])
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Tree(problems=[Problem(f"{name}:{line}", "is not UTF-8 text; save it as UTF-8")])
    return read_text(text, lambda mark: f"{name}:{mark.line + 1}", texts=texts)


def read_text(text: str, place: Place, at: Where = (), texts: bool = False) -> Tree:
    """What a text says.

    Args:
      text: YAML.
      place: names a place in it.
      at: the names that lead to it.
      texts: whether each scalar is its text.
    """
    walk = _Walk(place, texts)
    start = yaml.Mark("", 0, 0, 0, None, None)
    try:
        root = Loader(text).get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, error.position)
        mark = yaml.Mark("", error.position, line, 0, None, None)
        walk.refuse(mark, at, f"the character U+{error.character:04X} is not allowed in YAML")
        return walk.tree
    except yaml.MarkedYAMLError as error:
        line, words = plain_words(error, text)
        walk.refuse(yaml.Mark("", 0, line, 0, None, None), at, words)
        return walk.tree
    walk.tree.places[at] = place(start)
    if root is not None:
        walk.tree.values = walk.value(root, at)
    return walk.tree


def key_of(where: Where) -> str:
    """The key that people read: "live.sources" of ("live", "sources", 1)."""
    names = [unsecret(name) for name in where if isinstance(name, str)]
    return printable(masked(".".join(names)))[:200]


def _content(file: Path) -> bytes:
    """The bytes of a file; devices, pipes and folders are not opened.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: it cannot be read, or is too large.
    """
    try:
        if "\0" in str(file):
            raise FileNotFoundError
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise ConfigError("is a folder, a device or a pipe; expected a file")
        with open(file, "rb", opener=_without_waiting) as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingInputError("there is no configuration file of this name") from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})") from None
    if data is None:
        raise ConfigError("has nothing to read yet; expected a file")
    if len(data) > MAX_BYTES:
        raise ConfigError("is larger than 1 MiB; expected a configuration file")
    return data


def _without_waiting(file: str, flags: int) -> int:
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        raise ConfigError("is UTF-16 or UTF-32 text, or no text; save it as UTF-8")
    return data.decode("utf-8-sig")


class Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """Composes nodes, and stops where a text is no configuration."""

    def __init__(self, text: str):
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = self._nodes = 0

    def compose_node(
        self, parent: yaml.Node | None, index: int | yaml.Node | None
    ) -> yaml.Node | None:
        event = self.peek_event()
        self._depth += 1
        self._nodes += 1
        if isinstance(event, yaml.AliasEvent):
            words = "aliases (*name) are not allowed; quote a name that begins with *"
        elif self._depth > MAX_DEPTH:
            words = "is nested too deeply; expected sections with keys under them"
        elif self._nodes > MAX_NODES:
            words = f"has more than {MAX_NODES} entries; expected a configuration file"
        elif len(getattr(event, "value", "")) > MAX_LETTERS:
            words = f"is a text of more than {MAX_LETTERS} letters; expected a shorter one"
        else:
            node = super().compose_node(parent, index)
            self._depth -= 1
            return node
        raise yaml.MarkedYAMLError(None, None, words, event.start_mark, "refused")


for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"0|-?[1-9][0-9]{0,17}", list("-0123456789")),
    (
        "float",
        r"-?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|-?[0-9]+[eE][-+]?[0-9]+",
        list("-.0123456789"),
    ),
):
    Loader.add_implicit_resolver(_CORE + _kind, re.compile(rf"(?:{_pattern})\Z"), _first)


class _Walk:
    """Turns nodes into values."""

    def __init__(self, place: Place, texts: bool):
        self.tree = Tree()
        self._place, self._texts = place, texts

    def refuse(self, mark: yaml.Mark, where: Where, words: str) -> None:
        """Notes a problem."""
        key = key_of(where)
        self.tree.problems.append(Problem(self._place(mark), f"{key}: {words}" if key else words))

    def value(self, node: yaml.Node, at: Where) -> Any:
        """A node as dict, list or scalar."""
        kind = node.tag.removeprefix(_CORE)
        if kind not in (*_MEANS, "map", "seq"):
            self.refuse(node.start_mark, at, "put a text that begins with ! in quotes")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return list(self._items(node, at))
        try:
            return node.value if self._texts else _MEANS.get(kind, str)(node.value)
        except ValueError:
            self.refuse(node.start_mark, at, f"is no {kind}; leave the !!{kind} out")
            return None

    def _items(self, node: yaml.SequenceNode, at: Where) -> Iterator[Any]:
        for number, inner in enumerate(node.value):
            self.tree.places[*at, number] = self._place(inner.start_mark)
            yield self.value(inner, (*at, number))

    def _mapping(self, node: yaml.MappingNode, at: Where) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, inner in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.refuse(key.start_mark, at, "expected a name before the colon, not a list")
                continue
            if not key.style and (words := strange_space(key.value)):
                self.refuse(key.start_mark, at, words)
                continue
            where = (*at, key.value)
            if key.value == "<<" and not key.style:
                self.refuse(key.start_mark, where, "keys cannot be merged; write them out")
                continue
            if key.value in values:
                self.refuse(key.start_mark, where, "stands here a second time; keep one of them")
            self.tree.places[where] = self._place(key.start_mark)
            if isinstance(inner, yaml.ScalarNode) and inner.value:
                self.tree.places[*where, 0] = self._place(inner.start_mark)
            value = self.value(inner, where)
            if isinstance(value, dict) and isinstance(values.get(key.value), dict):
                value = values[key.value] | value
            values[key.value] = value
        return values
