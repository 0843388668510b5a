"""How `--resume` knows that an output is finished: by its manifest, in a hidden file beside it.

A file counts as unchanged while its size and the time of its last change are the same, as for make
and rsync. A film has a manifest of its own, `.NAME.mp4.resume.json`: without states of files it
says that the film was begun, with them that it is finished. It also holds the state of a film that
is overwritten: while the film has that one, the overwriting is not finished, and files beside it
may belong to either. Pictures in a folder share a `Journal`. A manifest is written when everything
beside the output is in place, just before the output gets its name. So what has no manifest was not
made by us, and is never replaced unasked.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp.config import Config
from realtime_lrp.errors import MissingInputError, OutputError
from realtime_lrp.system.atomic import atomic_file, refuse_link
from realtime_lrp.system.version import __version__

JOURNAL = ".pictures.resume.jsonl"

SECTIONS = ("model", "lrp", "input", "overlay", "video")
"""Sections of the configuration that shape an output, but for `WITHOUT_EFFECT`."""
WITHOUT_EFFECT = {"video": ("batch",), "overlay": ("follow", "style", "average")}


def fingerprint(source: Path | None, config: Config, further: Mapping[str, Any]) -> str:
    """Hash of everything that shapes an output.

    Args:
      source: the file that is read; None if `further` says which content that is.
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
    files = [source] if source else []
    for named in (config.model.name, config.model.weights, config.model.labels):
        if named and Path(named).is_file():
            files.append(Path(named))
    try:
        states = [(one.st_size, one.st_mtime_ns) for one in map(Path.stat, files)]
    except OSError as error:
        raise MissingInputError(
            f"{str(error.filename)!r} cannot be read ({error.strerror})."
        ) from None
    facts = [__version__, settings, dict(further), states]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was made, and from what.

    Attributes:
      fingerprint: of source and settings, see `fingerprint`.
      states: of each file by what it is, for example "film"; see `state_of`. Empty until
        the output is finished.
      replaces: the state of an older film of that name that is overwritten; "" if there is none.
    """

    fingerprint: str
    states: dict[str, str]
    replaces: str = ""

    @classmethod
    def of(cls, fingerprint: str, files: Mapping[str, Path], replaces: str = "") -> "Manifest":
        """The manifest of complete files, whatever their present names."""
        states = {kind: state_of(path) for kind, path in files.items()}
        return cls(fingerprint, states, replaces)

    def is_interrupted(self, film: Path) -> bool:
        """Whether a film is still the one that a killed run was about to overwrite."""
        state = state_of(film)
        return state != "" and state == self.replaces != self.states.get("film")

    def changed(self, wanted: Mapping[str, Path]) -> list[str]:
        """The names of wanted files that were not made, are gone, or have changed since."""
        return [
            path.name
            for kind, path in wanted.items()
            if not self.states.get(kind) or state_of(path) != self.states[kind]
        ]


def refuse_unknown(
    target: Path, manifest: Manifest | None, fingerprint: str, wanted: Mapping[str, Path]
) -> None:
    """Refuses to replace an output that was made otherwise, or not by this program.

    Args:
      target: the output, which exists.
      manifest: what is known of it.
      fingerprint: of the source and the settings that are wanted now.
      wanted: the output alone, by what it is.

    Raises:
      OutputError: it was not made from this source with these settings, or has changed since.
    """
    if manifest is None:
        what = "exists"
    elif manifest.fingerprint != fingerprint:
        what = "was made from another source or with other settings"
    elif manifest.changed(wanted):
        what = "has changed since it was made"
    else:
        return
    raise OutputError(f"{str(target)!r} {what}. Add --overwrite to make it again.")


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


def state_of(path: Path) -> str:
    """Size and time of the last change of a file, or of all files in a folder; "" if it is gone."""
    try:
        if not path.is_dir():
            found = path.stat()
            return f"{found.st_size} {found.st_mtime_ns}"
        states = {file.name: state_of(file) for file in sorted(path.iterdir())}
        return hashlib.sha256(json.dumps(states).encode()).hexdigest() if states else ""
    except OSError:
        return ""


class JournalEntry(msgspec.Struct, frozen=True):
    """A line of a `Journal`: the name of an output and its manifest."""

    name: str
    manifest: Manifest


class Journal:
    """The manifests of the pictures in a folder, in one hidden file that only grows.

    Args:
      folder: where the pictures are written.

    Raises:
      OutputError: a link lies in place of the file.
    """

    def __init__(self, folder: Path):
        self._path = folder / JOURNAL
        refuse_link(self._path)
        self._manifests = {entry.name: entry.manifest for entry in self._entries()}

    def _entries(self) -> Iterator[JournalEntry]:
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            with suppress(ValueError):  # the last line of a run that was killed may be incomplete
                yield msgspec.convert(json.loads(line), JournalEntry)

    def manifest(self, target: Path) -> Manifest | None:
        """What is known of an output, or None."""
        return self._manifests.get(target.name)

    def add(self, target: Path, manifest: Manifest) -> None:
        """Adds the manifest of an output, before that gets its name.

        Raises:
          OSError: the write failed.
        """
        entry = msgspec.to_builtins(JournalEntry(target.name, manifest))
        line = json.dumps(entry) + "\n"  # in ASCII: names may hold bytes of no encoding
        with self._path.open("ab") as file:
            file.write(b"\n" * (not _ends_line(self._path)) + line.encode())
        self._manifests[target.name] = manifest


def _ends_line(path: Path) -> bool:
    """Whether a file is empty or ends with a complete line."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
