"""How `--resume` knows that an output is finished: by its manifest, in a hidden file beside it.

A file counts as unchanged while its size and the time of its last change are the same. A manifest
is written when all is complete, before the first file gets its name: for each film
`.NAME.mp4.resume.json`, for the pictures of a folder a `Journal`. A file without one is not ours.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp.config import Config
from realtime_lrp.errors import MissingInputError, OutputError
from realtime_lrp.system.files import atomic_file, refuse_link
from realtime_lrp.system.program import __version__

JOURNAL = ".pictures.resume.jsonl"

SECTIONS = ("model", "lrp", "input", "overlay", "video")
"""Sections of the configuration that shape an output, except for `WITHOUT_EFFECT`."""
WITHOUT_EFFECT = {"video": ("batch",), "overlay": ("motion", "style", "average")}


def fingerprint(source: Path | None, config: Config, further: Mapping[str, Any]) -> str:
    """Hash of all that shapes an output: version, settings, `further` ones, files and states."""
    settings = config.model_dump(mode="json", include=set(SECTIONS))
    for section, keys in WITHOUT_EFFECT.items():
        for key in keys:
            settings[section].pop(key)
    files = [source] if source else []
    models = [config.model, *filter(None, [config.input.follow])]
    for named in (file for model in models for file in (model.name, model.weights, model.labels)):
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


class Manifest(msgspec.Struct, frozen=True):
    """Outputs and their sources: a fingerprint, and states of files, see `state_of`."""

    fingerprint: str
    states: dict[str, str]

    def changed(self, states: Mapping[str, str]) -> list[str]:
        """Which files of these states were not made, are gone, or have changed since."""
        return [kind for kind, state in states.items() if not state == self.states.get(kind) != ""]

    def owns(self, states: Mapping[str, str]) -> bool:
        """Whether every existing file is the one recorded here."""
        return all(state in ("", self.states.get(kind)) for kind, state in states.items())


def refuse_unknown(
    shown: str, manifest: Manifest | None, fingerprint: str, state: Mapping[str, str]
) -> None:
    """Refuses to replace an output that was made otherwise, has changed, or is not ours."""
    if manifest is None:
        what = "exists"
    elif manifest.fingerprint != fingerprint:
        what = "was made from another source or with other settings"
    elif manifest.changed(state):
        what = "has changed since it was made"
    else:
        return
    raise OutputError(f"{shown!r} {what}. Add --overwrite to make it again.")


def manifest_path(target: Path) -> Path:
    """The path of an output's manifest."""
    return target.with_name(f".{target.name}.resume.json")


def read_manifest(target: Path) -> Manifest | None:
    """The manifest of an output; None if there is none or it is damaged."""
    try:
        return msgspec.json.decode(manifest_path(target).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_manifest(target: Path, manifest: Manifest) -> None:
    """Writes the manifest of an output."""
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


class Journal:
    """The manifests of the pictures in a folder, in one hidden file that only grows."""

    def __init__(self, folder: Path):
        self._path = folder / JOURNAL
        refuse_link(self._path)
        self._manifests: dict[str, Manifest] = {}
        lines: list[bytes] = []
        with suppress(OSError):
            lines = self._path.read_bytes().splitlines()
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # a killed run may have cut its last
                row = json.loads(line)
                self._manifests[str(row["name"])] = msgspec.convert(row["manifest"], Manifest)

    def manifest(self, target: Path) -> Manifest | None:
        return self._manifests.get(target.name)

    def add(self, target: Path, manifest: Manifest) -> None:
        """Adds the manifest of an output, before that gets its name."""
        row = {"name": target.name, "manifest": msgspec.to_builtins(manifest)}
        with self._path.open("ab") as file:  # in ASCII: names may hold bytes of no encoding
            file.write(b"\n" * (file.tell() > 0) + json.dumps(row).encode())
        self._manifests[target.name] = manifest
