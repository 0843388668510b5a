"""Reads YAML as far as a configuration needs it: a small UTF-8 file, one document, no tricks.

PyYAML composes the text into nodes that know their lines; what is too large or has anchors stops it
early. A plain scalar is what JSON would make of it, else text: `no`, `12:30`, `007` and dates are
text.
"""

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml
from yaml.reader import ReaderError

from realtime_lrp.config.problems import KeyPath, Problem, key_of, printable
from realtime_lrp.config.values import MAX_LETTERS
from realtime_lrp.errors import ConfigError, Error, MissingInputError

MAX_BYTES = 1 << 20
MAX_DEPTH = 8
MAX_NODES = 5000

INTEGER = re.compile(r"(?:-?0|-?[1-9][0-9]{0,17})\Z")
FLOAT = re.compile(
    r"(?:-?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|-?[0-9]+[eE][-+]?[0-9]+)\Z"
)

_TAG = "tag:yaml.org,2002:"
_SCALARS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}null": lambda text: None,
    f"{_TAG}bool": lambda text: text.lower() == "true",
    f"{_TAG}int": int,
    f"{_TAG}float": float,
}
"""Tag -> what makes a value of a plain scalar; others are texts."""

_TAGS = {*_SCALARS, f"{_TAG}str", f"{_TAG}seq", f"{_TAG}map"}


@dataclass
class Tree:
    """The contents of a YAML text (None if empty), and the line of each key and list entry."""

    values: Any = None
    locations: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_file(file: Path, texts: bool = False, most: int = MAX_NODES) -> Tree:
    """Reads a file of at most 1 MiB; what is wrong becomes problems. `texts`: all stays text."""
    name = printable(str(file))
    try:
        data = _read_bytes(file)
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
            raise ConfigError("is UTF-16, UTF-32 or not text at all; save it as UTF-8")
        text = data.decode("utf-8-sig")
    except Error as error:
        return Tree(problems=[Problem(name, str(error), type(error))])
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Tree(problems=[Problem(f"{name}:{line}", "is not UTF-8 text; save it as UTF-8")])
    return read_text(text, lambda line: f"{name}:{line + 1}", texts=texts, most=most)


def read_text(
    text: str, locate: Callable[[int], str], path: KeyPath = (), texts: bool = False,
    most: int = MAX_NODES,
) -> Tree:  # fmt: skip
    """Reads YAML, a key's value or a whole file, (); `locate` makes places of line numbers."""
    reader = YamlReader(locate, texts)
    reader.tree.locations[path] = locate(0)
    try:
        loader = _Loader(text, most)
        if node := loader.get_single_node():
            reader.tree.values = reader.value(node, path)
    except ReaderError as error:
        line = text.count("\n", 0, error.position)
        reader.refuse(line, path, f"the character U+{error.character:04X} is not allowed in YAML")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line if mark else 0, text.rstrip().count("\n"))
        words = ", ".join(filter(None, (error.context, error.problem)))
        reader.refuse(line, path, f"cannot be read as YAML: {words}")
    return reader.tree


def _read_bytes(file: Path) -> bytes:
    """The bytes of a file; folders, devices and pipes are not opened."""
    try:
        if "\0" in str(file):
            raise FileNotFoundError
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise ConfigError("is a folder, a device or a pipe; expected a file")
        with open(file, "rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingInputError("there is no such configuration file") from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})") from None
    if len(data) > MAX_BYTES:
        raise ConfigError("is larger than 1 MiB; expected a configuration file")
    return data


class _Loader(yaml.SafeLoader):
    """Refuses what a configuration does not need, before it costs time or memory."""

    yaml_implicit_resolvers: ClassVar[dict] = {}

    def __init__(self, text: str, most: int):
        super().__init__(text)
        self._most = most
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        self._nodes += 1
        self._depth += 1
        for refused, words in (
            (
                isinstance(event, yaml.AliasEvent) or event.anchor is not None,
                "anchors (&name) and aliases (*name) are not supported; put a text that begins "
                "with & or * in quotes",
            ),
            (
                getattr(event, "tag", None) not in (None, "!", *_TAGS),
                "tags (!name) are not supported; put a text that begins with ! in quotes",
            ),
            (self._depth > MAX_DEPTH, "it is nested too deeply; expected sections with keys"),
            (self._nodes > self._most, f"it has more than {self._most} entries; expected fewer"),
            (
                len(getattr(event, "value", "")) > MAX_LETTERS,
                f"a text has more than {MAX_LETTERS} characters; expected a shorter one",
            ),
        ):
            if refused:
                raise yaml.MarkedYAMLError(None, None, words, event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


for _name, _pattern in {
    "null": re.compile(r"(?:~|null|Null|NULL|)\Z"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    "int": INTEGER,
    "float": FLOAT,
}.items():
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, None)


class YamlReader:
    """Builds values from nodes, and notes where each key stands."""

    def __init__(self, locate: Callable[[int], str], texts: bool):
        self.tree = Tree()
        self._locate = locate
        self._texts = texts

    def refuse(self, line: int, path: KeyPath, text: str) -> None:
        key = key_of(path)
        self.tree.problems.append(Problem(self._locate(line), f"{key}: {text}" if key else text))

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for number, one in enumerate(node.value):
                self.tree.locations[(*path, number)] = self._locate(one.start_mark.line)
            return [self.value(one, (*path, number)) for number, one in enumerate(node.value)]
        if not self._texts and node.tag in _SCALARS:
            with suppress(ValueError):
                return _SCALARS[node.tag](node.value)
        return node.value

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, node_of_value in node.value:
            line = name.start_mark.line
            if not isinstance(name, yaml.ScalarNode):
                self.refuse(line, path, "expected a name before the colon, not a list")
                continue
            key = (*path, name.value)
            if name.value in values:
                self.refuse(line, key, "is set twice; keep one of them")
            self.tree.locations[key] = self._locate(line)
            values[name.value] = self.value(node_of_value, key)
        return values
