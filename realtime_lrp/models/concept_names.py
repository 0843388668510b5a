"""Names of channels: a YAML file {layer: {channel: name}}, which people edit."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from realtime_lrp.config import KeyPath, Problem, as_error, read_file
from realtime_lrp.errors import MissingInputError, nearest
from realtime_lrp.system.plain_text import plain

MAX_NAME = 60  # Characters of a name; a longer one does not fit beside a picture
MAX_ENTRIES = 50_000  # How many layers, channels and names the file may have

ChannelNames = Mapping[str, Mapping[int, str]]  # Layer -> channel -> name

_NUMBER = re.compile(r"0|[1-9][0-9]{0,6}")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w./-]*")


@dataclass(frozen=True)
class NamesFile:
    """The names of a file, and where they stand.

    `locations` maps (layer,) or (layer, "channel") to "names.yaml:3"; `check` raises the
    `problems`.
    """

    names: ChannelNames = field(default_factory=dict)
    locations: Mapping[KeyPath, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def check(self, layers: Mapping[str, int], partly: bool = False) -> None:
        """Refuses a file with problems, and names of channels that a network does not have.

        `layers` maps a layer to how many channels it has; `partly`: there may be other layers. The
        ConfigError lists everything, by line.
        """
        self.refuse(self._unknown(layers, partly))

    def refuse(self, further: Iterable[Problem] = ()) -> None:
        """Raises the problems of the file and further ones as one ConfigError."""
        if problems := [*self.problems, *further]:
            raise as_error(sorted(problems, key=_line))

    def _unknown(self, layers: Mapping[str, int], partly: bool) -> Iterator[Problem]:
        for layer, channels in self.names.items():
            known = layers.get(layer)
            if known is None and partly:
                continue
            if known is None:
                close = nearest(layer, layers)
                hint = f"; did you mean {close!r}?" if close else ""
                yield Problem(self.locations[(layer,)], f"the network has no layer {layer!r}{hint}")
                continue
            for channel in channels:
                if channel >= known:
                    said = f"{layer!r} has the channels 0 to {known - 1}; there is no {channel}"
                    yield Problem(self.locations[layer, str(channel)], said)


def read_names(file: Path) -> NamesFile:
    """Reads names of channels. Channels without a name, as in a template, are left out.

    Problems of single names wait for `NamesFile.check`, which adds names of missing channels.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: nothing of it can be used; the message lists every problem with its line.
    """
    if not file.exists():
        raise MissingInputError(
            f"There is no file {str(file)!r} with names of channels. "
            f"Make one: realtime-lrp concepts --gallery GALLERY --names {file}"
        )
    tree = read_file(file, texts=True, most=MAX_ENTRIES)
    problems, names = list(tree.problems), {}
    values = tree.values or {}
    if not isinstance(values, dict):
        problems.append(Problem(tree.locations[()], "expected layers with channels under them"))
        values = {}
    for layer, channels in values.items():
        names[layer] = dict(_names_of_layer(layer, channels, tree.locations, problems))
    found = NamesFile(names, tree.locations, tuple(problems))
    if not names:
        found.refuse()
    return found


def _line(problem: Problem) -> int:
    """The line of a problem; 0 if it is one of the whole file."""
    number = problem.location.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0


def _names_of_layer(
    layer: str, channels: Any, locations: Mapping[KeyPath, str], problems: list[Problem]
) -> Iterator[tuple[int, str]]:
    """Yields the channels of a layer that have a name, with it; appends what is wrong."""
    if channels and not isinstance(channels, dict):
        problems.append(
            Problem(locations[(layer,)], f"{layer}: expected channels, such as 17: whiskers")
        )
        return
    for channel, name in (channels or {}).items():
        where = locations[layer, channel]
        if not _NUMBER.fullmatch(channel):
            problems.append(
                Problem(where, f"{layer}: expected the number of a channel; received {channel!r}")
            )
        elif not isinstance(name, str):
            problems.append(Problem(where, f"{channel}: expected a name, in quotes if it has a :"))
        elif len(name := " ".join(name.split())) > MAX_NAME:
            problems.append(Problem(where, f"{channel}: expected at most {MAX_NAME} characters"))
        elif not name.isprintable():
            problems.append(Problem(where, f"{channel}: expected letters that can be shown"))
        elif name:
            yield int(channel), name


def names_text(
    names: ChannelNames, comments: Mapping[str, Mapping[int, str]], first_lines: str
) -> str:
    """A file of names to edit: the channels of each layer in the order of the comments.

    `comments` are layer -> channel -> text; `first_lines` come without comment signs.
    """
    lines = [f"# {line}".rstrip() for line in first_lines.splitlines()]
    for layer in dict.fromkeys((*comments, *names)):
        known, said = names.get(layer, {}), comments.get(layer, {})
        lines += ["", f"{_key(layer)}:"]
        for channel in dict.fromkeys((*said, *sorted(known))):
            name = json.dumps(known[channel], ensure_ascii=False) if channel in known else ""
            text = " ".join(plain(said.get(channel, "")).split())  # it may come from anybody
            comment = f" # {text}" if text else ""
            lines.append(f"  {channel}: {name}{comment}".rstrip())
    return "\n".join(lines) + "\n"


def _key(layer: str) -> str:
    """A layer's name as a key of YAML."""
    return layer if _PLAIN_KEY.fullmatch(layer) else json.dumps(layer, ensure_ascii=False)
