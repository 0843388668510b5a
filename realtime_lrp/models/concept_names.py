"""Names of channels: a YAML file {layer: {channel: name}}, which people edit."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from realtime_lrp.config import KeyPath, Problem, as_error, read_as
from realtime_lrp.errors import MissingInputError, nearest
from realtime_lrp.system.terminal import plain

MAX_NAME = 60  # Characters of a name; a longer one does not fit beside a picture
MAX_ENTRIES = 50_000  # How many layers, channels and names the file may have

ChannelNames = Mapping[str, Mapping[int, str]]  # Layer -> channel -> name

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w./-]*")


def _keys(expected: str) -> BeforeValidator:
    """Keys, or nothing, which stands for none."""

    def read(value: Any) -> Any:
        if value and not isinstance(value, dict):
            raise ValueError(f"expected {expected}")
        return value or {}

    return BeforeValidator(read)


def _number(key: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,6}", key):
        raise ValueError("expected the number of a channel")
    return int(key)


def _name(text: str) -> str:
    name = " ".join(text.split())
    if len(name) > MAX_NAME:
        raise ValueError(f"expected at most {MAX_NAME} characters")
    if not name.isprintable():
        raise ValueError("expected letters that can be shown")
    return name


_Number = Annotated[str, AfterValidator(_number)]
_Name = Annotated[str, AfterValidator(_name)]
_Channels = Annotated[dict[_Number, _Name], _keys("channels, such as 17: whiskers")]
_Layers = Annotated[dict[str, _Channels], _keys("layers with channels under them")]


@dataclass(frozen=True)
class NamesFile:
    """The names of a file, and where they stand.

    `locations` maps (layer,) or (layer, "channel") to "names.yaml:3".
    """

    names: ChannelNames = field(default_factory=dict)
    locations: Mapping[KeyPath, str] = field(default_factory=dict)

    def check(self, layers: Mapping[str, int], partly: bool = False) -> None:
        """Refuses names of channels that a network does not have (ConfigError).

        `layers` maps a layer to how many channels it has; `partly`: there may be other layers.
        """
        if problems := list(self._unknown(layers, partly)):
            raise as_error(problems)

    def _unknown(self, layers: Mapping[str, int], partly: bool) -> Iterator[Problem]:
        for layer, channels in self.names.items():
            known = layers.get(layer)
            if known is None and not partly:
                close = nearest(layer, layers)
                hint = f"; did you mean {close!r}?" if close else ""
                yield Problem(self.locations[(layer,)], f"the network has no layer {layer!r}{hint}")
            for channel in channels:
                if known is not None and channel >= known:
                    said = f"{layer!r} has the channels 0 to {known - 1}; there is no {channel}"
                    yield Problem(self.locations[layer, str(channel)], said)


def read_names(file: Path) -> NamesFile:
    """Reads names of channels. Channels without a name, as in a template, are left out.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: the file is wrong; the message lists every problem with its line.
    """
    if not file.exists():
        raise MissingInputError(
            f"There is no file {str(file)!r} with names of channels. "
            f"Make one: realtime-lrp concepts --gallery GALLERY --names {file}"
        )
    expected = "expected layers with channels under them"
    layers, locations = read_as(file, _Layers, expected, texts=True, most=MAX_ENTRIES)
    names = {
        layer: {channel: name for channel, name in channels.items() if name}
        for layer, channels in layers.items()
    }
    return NamesFile(names, locations)


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
