"""What a network is read from, with SHA-256 of the files, and how an output was made."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from realtime_lrp.config import Config
from realtime_lrp.config.names import AUTO
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.models.names import model_files

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


def provenance_of(engine: Engine, config: Config | None = None, *further: str) -> Provenance:
    """How the maps of an engine are made. Waits for the hashes of the network's files.

    The configuration is that of the output; None is the engine's. `further` are sections of it that
    shape the output besides those of every one.
    """
    config = config or engine.config
    if config.lrp.composite == AUTO:
        lrp = config.lrp.model_copy(update={"composite": engine.composite})
        config = config.model_copy(update={"lrp": lrp})
    model, lrp = config.model, config.lrp
    return msgspec.structs.replace(
        engine.explainer.provenance(),
        model=ModelProvenance(
            name=model.name,
            weights=model.weights,
            preprocess=engine.network.preprocess,
            labels=model.labels,
            sha256=hashes(engine.files),
        ),
        composite=lrp.composite if lrp.method == "lrp" else None,
        target=lrp.target,
        device=engine.device,
        settings=recorded_settings(config, *further),
    )


class FileVersion(NamedTuple):
    """A file as it was at some time; `changed_ns` is the time of its last change."""

    path: Path
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> FileVersion:
        """The present version. Raises `OSError` if there is no such file."""
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)


Files = Mapping[str, FileVersion]
""""model", "weights" or "labels" -> the file."""

_hashes: dict[FileVersion, Future[str]] = {}


def network_files(config: Config) -> Files:
    """The present versions of the files that the configured network is read from."""
    model, files = config.model, {}
    for kind, path in model_files(model.name, model.weights, model.labels).items():
        with suppress(OSError):
            files[kind] = FileVersion.of(path)
    return files


def begin_hashing(files: Files) -> None:
    """Begins to hash files, each in a thread, so that `hashes` need not wait later."""
    for file in files.values():
        if file not in _hashes:
            _hashes[file] = Future()
            threading.Thread(target=_hash, args=(file, _hashes[file]), daemon=True).start()


def hashes(files: Files) -> dict[str, str]:
    """SHA-256 of files, 64 hexadecimal digits; waits until they are known.

    Files that have changed before they were hashed, or are gone, are left out.
    """
    begin_hashing(files)
    found = {}
    for kind, file in files.items():
        with suppress(OSError):
            found[kind] = _hashes[file].result()
    return found


def _hash(file: FileVersion, hashed: Future[str]) -> None:
    try:
        with file.path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if FileVersion.of(file.path) != file:
            raise OSError("the file has changed")
        hashed.set_result(digest)
    except OSError as error:
        hashed.set_exception(error)
