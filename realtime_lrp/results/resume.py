"""How `--resume` knows that an output is finished: a hidden JSON file beside it, the manifest.

`.NAME.mp4.resume.json` says that an output was begun, and with its sizes that it is finished. Those
are written when everything beside the output is in place, just before the output itself. So what
has no manifest was not made by us, and is never replaced unasked.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp import __version__
from realtime_lrp.config import Config
from realtime_lrp.errors import MissingInputError
from realtime_lrp.system.atomic import atomic_file, refuse_link

SAMPLE = 2**20
"""Bytes that are hashed at the start, in the middle and at the end of a file, with its size."""

SECTIONS = ("model", "lrp", "input", "overlay", "video")
"""Sections of the configuration that shape an output, but for `WITHOUT_EFFECT`."""
WITHOUT_EFFECT = {"video": ("batch",), "overlay": ("follow", "style", "average")}


def fingerprint(source: Path, config: Config, further: Mapping[str, Any]) -> str:
    """Hash of everything that shapes an output.

    Args:
      source: the file that is read.
      config: its settings count, and the content of the files that they name.
      further: other settings, anything that JSON can hold.

    Returns:
      32 hexadecimal digits, different for each version of this program.

    Raises:
      MissingInputError: a file cannot be read.
    """
    settings = config.model_dump(mode="json", include=set(SECTIONS))
    for section, keys in WITHOUT_EFFECT.items():
        for key in keys:
            settings[section].pop(key)
    files = [source]
    for named in (config.model.name, config.model.weights, config.model.labels):
        if named and Path(named).is_file():
            files.append(Path(named))
    facts = [__version__, settings, dict(further), [_sampled(file) for file in files]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _sampled(file: Path) -> str:
    try:
        size = file.stat().st_size
        digest = hashlib.sha256(str(size).encode())
        with file.open("rb") as stream:
            for position in (0, max(0, size // 2 - SAMPLE // 2), max(0, size - SAMPLE)):
                stream.seek(position)
                digest.update(stream.read(SAMPLE))
    except OSError as error:
        raise MissingInputError(f"{str(file)!r} cannot be read ({error.strerror}).") from None
    return digest.hexdigest()


class Manifest(msgspec.Struct, frozen=True):
    """What was made, and from what.

    Attributes:
      fingerprint: of source and settings, see `fingerprint`.
      sizes: bytes of each file by what it is, for example "film"; of a folder all its files. Empty
        until the output is finished.
    """

    fingerprint: str
    sizes: dict[str, int]

    @classmethod
    def of(cls, fingerprint: str, files: Mapping[str, Path]) -> "Manifest":
        """The manifest of complete files, whatever their present names."""
        return cls(fingerprint, {kind: size_of(path) for kind, path in files.items()})

    def missing(self, wanted: Mapping[str, Path]) -> list[str]:
        """The names of wanted files that were not made, are gone, or have another size now."""
        return [
            path.name
            for kind, path in wanted.items()
            if kind not in self.sizes or size_of(path) != self.sizes[kind]
        ]


def manifest_path(target: Path) -> Path:
    """Where the manifest of an output lies."""
    return target.with_name(f".{target.name}.resume.json")


def read_manifest(target: Path) -> Manifest | None:
    """The manifest of an output; None if there is none or it is damaged."""
    try:
        return msgspec.json.decode(manifest_path(target).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_manifest(target: Path, manifest: Manifest) -> None:
    """Writes the manifest of an output.

    Raises:
      OutputError: it cannot be made, or a link lies in its place.
      TransferError: the write failed.
    """
    path = manifest_path(target)
    refuse_link(path)
    with atomic_file(path, overwrite=True) as part:
        part.write_bytes(msgspec.json.encode(manifest) + b"\n")


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; -1 if there is nothing."""
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.iterdir()) or -1
        return path.stat().st_size
    except OSError:
        return -1
