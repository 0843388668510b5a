"""The gallery of a network: what the channels of its layers answer to, in pictures and in words.

A gallery file is a line, `MAGIC`, the length of a JSON text in four bytes, that text (`Contents`)
and the pictures, each a WebP, one after the other. Such files may be untrusted: sizes, shapes and
the hash of the pictures are checked before one is decoded.

Names of channels are a YAML file {layer: {channel: name}}, which people edit.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import cv2
import msgspec
import numpy as np
from pydantic import AfterValidator, BeforeValidator

from realtime_lrp.config import ASSETS, Config, KeyPath, Problem, as_error, read_as
from realtime_lrp.config.names import NAMING
from realtime_lrp.errors import DamagedInputError, MissingInputError, UsageError, nearest
from realtime_lrp.system.files import read_limited
from realtime_lrp.system.terminal import plain

MAX_NAME = 60  # Characters of a name; a longer one does not fit beside a picture
MAX_ENTRIES = 50_000  # How many layers, channels and names the file may have
ChannelNames = Mapping[str, Mapping[int, str]]  # Layer -> channel -> name


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
    """The names of a file; `locations` maps (layer,) or (layer, "channel") to "names.yaml:3"."""

    names: ChannelNames = field(default_factory=dict)
    locations: Mapping[KeyPath, str] = field(default_factory=dict)

    def check(self, layers: Mapping[str, int], partly: bool = False) -> None:
        """Refuses names of channels that a network does not have (ConfigError).

        `layers` maps a layer to how many channels it has; `partly`: there may be other layers.
        """
        problems = []
        for layer, channels in self.names.items():
            known = layers.get(layer)
            if known is None and not partly:
                close = nearest(layer, layers)
                said = f"the network has no layer {layer!r}"
                said += f"; did you mean {close!r}?" if close else ""
                problems.append(Problem(self.locations[(layer,)], said))
            for channel in channels:
                if known is not None and channel >= known:
                    said = f"{layer!r} has the channels 0 to {known - 1}; there is no {channel}"
                    problems.append(Problem(self.locations[layer, str(channel)], said))
        if problems:
            raise as_error(problems)


def read_names(file: Path) -> NamesFile:
    """Reads names of channels. Channels without a name, as in a template, are left out.

    A wrong file is a ConfigError, whose message lists every problem with its line.
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
        known = names.get(layer, {})
        said = comments.get(layer, {})
        plainly = re.fullmatch(r"[A-Za-z_][\w./-]*", layer)
        lines += ["", f"{layer if plainly else json.dumps(layer, ensure_ascii=False)}:"]
        for channel in dict.fromkeys((*said, *sorted(known))):
            name = json.dumps(known[channel], ensure_ascii=False) if channel in known else ""
            text = " ".join(plain(said.get(channel, "")).split())  # it may come from anybody
            comment = f" # {text}" if text else ""
            lines.append(f"  {channel}: {name}{comment}".rstrip())
    return "\n".join(lines) + "\n"


MAGIC = b"realtime_lrp concepts 1\n"
SUFFIX = ".concepts"
NAMES_SUFFIX = ".names.yaml"  # Names of the channels of an embedded gallery stand beside it
MAX_BYTES = 1 << 26  # Largest file that is read
MAX_TEXT_BYTES = 1 << 24
MAX_SIDE = 256
MAX_CHANNELS = 1 << 20
MAX_ROW = 32  # How many pictures a channel may have, of each kind
SHOWN = 6  # How many pictures of a row are decoded: those with the largest values
DECODED_BYTES = 32 << 20  # How much is kept decoded: 202 rows of six pictures of 96 x 96

Number = Annotated[int, msgspec.Meta(ge=0)]
Row = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MAX_ROW)]
Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
Word = Annotated[str, msgspec.Meta(max_length=500)]


class ChannelContents(msgspec.Struct, frozen=True):
    """A file's contents on a channel."""

    relevant: Row  # numbers of pictures, largest share of relevance first
    activating: Row  # the same by activation
    # the classes that it speaks for most, each with its part of the channel's positive relevance
    classes: Annotated[tuple[tuple[Word, Part], ...], msgspec.Meta(max_length=8)] = ()
    often: Number = 0  # pictures in which it had one share among the four largest


class LayerContents(msgspec.Struct, frozen=True):
    """A file's contents on a layer."""

    name: Word
    channels: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHANNELS)]
    entries: dict[Number, ChannelContents]  # channels that have pictures


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON text of a gallery file."""

    network: Word
    sha256: dict[str, str] = {}  # hashes of the network's files, "model" and "weights"
    # in the order of the network
    layers: Annotated[tuple[LayerContents, ...], msgspec.Meta(max_length=1000)] = ()
    pictures: Number = 0  # how many it was chosen from
    side: Annotated[int, msgspec.Meta(ge=8, le=MAX_SIDE)] = 96  # pixels of its own pictures
    sizes: tuple[Number, ...] = ()  # bytes of each
    hash: str = ""  # SHA-256 of all of them
    provenance: dict[str, Any] = {}


class Gallery:
    """Pictures for the channels of some layers, and a user's names. Threads may share it.

    `data` holds the pictures, one after the other. `network` is "" for an empty gallery.
    """

    def __init__(self, contents: Contents, data: bytes = b"", names: NamesFile | None = None):
        self.contents = contents
        self._data = data
        self._ends = list(accumulate(contents.sizes, initial=0))
        self._layers = {layer.name: layer for layer in contents.layers}
        self._named = names or NamesFile()
        self.names = self._named.names  # the user's: layer -> channel -> name
        self.network, self.layers = contents.network, tuple(self._layers)
        self.other_network = ""  # what it was made with instead: "other weights of vgg16"
        self._decoded = lru_cache(DECODED_BYTES // (SHOWN * 3 * contents.side**2))(self._decode)

    def name(self, layer: str, channel: int) -> str:
        """The name that a user gave to a channel; "" without one."""
        return self.names.get(layer, {}).get(channel, "")

    def described(self, layer: str) -> bool:
        """Whether any channel of a layer has pictures or a name."""
        return bool(self.channels(layer) or self.names.get(layer))

    def channels(self, layer: str) -> Mapping[int, ChannelContents]:
        """The contents on the channels of a layer that have pictures."""
        return self._layers[layer].entries if layer in self._layers else {}

    def pictures(self, layer: str, channel: int) -> Sequence[np.ndarray]:
        """The pictures in which a channel carries most relevance, cropped and masked, in order.

        At most `SHOWN`, uint8 [S, S, 3] RGB each; empty if there are none.
        """
        known = self.channels(layer).get(channel)
        return self._decoded(known.relevant) if known else ()

    def activating(self, layer: str, channel: int) -> Sequence[np.ndarray]:
        """The pictures that activate a channel most, as `pictures`."""
        known = self.channels(layer).get(channel)
        return self._decoded(known.activating) if known else ()

    def check(self, layers: Mapping[str, int]) -> None:
        """Refuses a gallery, or names, of another network; `layers` has numbers of channels."""
        for layer in self.contents.layers:
            have = layers.get(layer.name)
            if have != layer.channels:
                why = f"has {have} channels there" if have else "has no such layer"
                raise UsageError(
                    f"The gallery is of the network {plain(self.network)!r}: its layer "
                    f"{plain(layer.name)!r} has {layer.channels} channels, and this network {why}. "
                    "Make one of this network: realtime-lrp concepts --model NETWORK --images "
                    "FOLDER -o FILE",
                    "gallery",
                )
        self._named.check(layers)

    def _decode(self, numbers: Row) -> tuple[np.ndarray, ...]:
        """Pictures; a grey one where it cannot be decoded although its header is right."""
        shape = (self.contents.side, self.contents.side, 3)
        pictures = []
        for number in numbers[:SHOWN]:
            found = decode_picture(self._data[self._ends[number] : self._ends[number + 1]])
            if found is None or found.shape != shape:
                found = np.full(shape, 128, np.uint8)
            found.flags.writeable = False
            pictures.append(found)
        return tuple(pictures)


def load_gallery(config: Config) -> Gallery:
    """The gallery that a configuration names, else that of an embedded network, else an empty one.

    Names come from the configuration; only the embedded gallery has its own. Names with mistakes
    that show without the network are a ConfigError.
    """
    chosen = config.concepts
    names = Path(chosen.names) if chosen.names else None
    name = config.model.name.lower()  # not a file of a user's that is called shapes.keras
    file = Path(chosen.gallery) if chosen.gallery else ASSETS / f"{name}{SUFFIX}"
    empty = not chosen.gallery and (config.model.weights or name not in NAMING)
    own = file.with_suffix(NAMES_SUFFIX)
    if not chosen.gallery and not empty and not names and own.is_file():
        names = own
    contents, data = (Contents(network=""), b"") if empty else read_gallery_file(file)
    named = read_names(names) if names else NamesFile()
    named.check({layer.name: layer.channels for layer in contents.layers}, partly=True)
    return Gallery(contents, data, named)


def read_gallery_file(file: Path) -> tuple[Contents, bytes]:
    """Reads and checks a gallery file: what it says, and its pictures end to end."""
    whole = read_limited(file, MAX_BYTES, "a gallery made by realtime-lrp concepts")
    try:
        return parse_gallery(whole)
    except (ValueError, RecursionError) as error:
        raise DamagedInputError(
            f"{str(file)!r} is no gallery, or it is damaged ({plain(str(error))[:200]}). Expected "
            "a file that realtime-lrp concepts has made."
        ) from None


def parse_gallery(whole: bytes) -> tuple[Contents, bytes]:
    """`read_gallery_file` for bytes. Raises ValueError, which says what is wrong."""
    if not whole.startswith(MAGIC):
        raise ValueError("it does not begin as one")
    begin = len(MAGIC) + 4
    length = int.from_bytes(whole[len(MAGIC) : begin], "little")
    if length > min(MAX_TEXT_BYTES, len(whole) - begin):
        raise ValueError("it ends early")
    contents = msgspec.json.decode(whole[begin : begin + length], type=Contents)
    data = whole[begin + length :]
    if sum(contents.sizes) != len(data):
        raise ValueError("it ends early" if sum(contents.sizes) > len(data) else "it is too long")
    if hashlib.sha256(data).hexdigest() != contents.hash:
        raise ValueError("its pictures have changed")
    _check_layers(contents)
    end = 0
    for size in contents.sizes:
        if _webp_size(data[end : end + 30]) != (contents.side, contents.side):
            raise ValueError("a picture of it has another format or size")
        end += size
    return contents, data


def write_gallery(file: Path, contents: Contents, pictures: Sequence[bytes]) -> None:
    """Writes a gallery with encoded pictures; fills in `sizes` and `hash`. Raises OSError."""
    data = b"".join(pictures)
    contents = msgspec.structs.replace(
        contents, sizes=tuple(map(len, pictures)), hash=hashlib.sha256(data).hexdigest()
    )
    text = msgspec.json.encode(contents)
    file.write_bytes(MAGIC + len(text).to_bytes(4, "little") + text + data)


def encode_picture(picture: np.ndarray, quality: int) -> bytes:
    """A picture, uint8 [S, S, 3] RGB, as a gallery file holds it; the quality is 1 to 100."""
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(".webp", bgr, [cv2.IMWRITE_WEBP_QUALITY, quality])
    if not done:
        raise ValueError(f"cannot encode a picture of the shape {picture.shape}")
    return data.tobytes()


def decode_picture(data: bytes) -> np.ndarray | None:
    """The picture that `encode_picture` encoded, uint8 [S, S, 3] RGB; None if it is none."""
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:
        return None


def _check_layers(contents: Contents) -> None:
    """Raises ValueError for a channel or a picture that does not exist."""
    if len({layer.name for layer in contents.layers}) < len(contents.layers):
        raise ValueError("it has a layer twice")
    for layer in contents.layers:
        for channel, known in layer.entries.items():
            if channel >= layer.channels:
                raise ValueError(f"it has a channel {channel} of {layer.channels}")
            if max((*known.relevant, *known.activating), default=-1) >= len(contents.sizes):
                raise ValueError("a channel has a picture that is not there")


def _webp_size(begin: bytes) -> tuple[int, int] | None:
    """Rows and columns of a simple lossy WebP (RFC 9649), from its first 30 bytes; else None."""
    marks = begin[:4] + begin[8:16] + begin[23:26]
    if len(begin) < 30 or marks != b"RIFFWEBPVP8 \x9d\x01\x2a":
        return None
    columns, rows = (int.from_bytes(begin[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return rows, columns
