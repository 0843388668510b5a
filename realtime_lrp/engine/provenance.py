"""Fills in how an output was made: from an engine, and the files that its network was read from."""

from __future__ import annotations

import hashlib
import platform
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from realtime_lrp import __version__
from realtime_lrp.config import Config
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.models.names import model_files

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

_FileVersion = tuple[str, int, int]
"""Path, size and time of the last change."""

_hashes: dict[_FileVersion, Future[str]] = {}


def provenance_of(engine: Engine, config: Config | None = None, *further: str) -> Provenance:
    """How the maps of an engine are made. Waits for the hashes of the network's files.

    Args:
      engine: has explained, or is going to.
      config: the configuration of the output; None is the engine's.
      further: sections of the configuration that shape the output besides those of every one.
    """
    from realtime_lrp.engine.tensorflow import keras, tf

    config = config or engine.config
    model, lrp = config.model, config.lrp
    explainer = engine.explainer
    return Provenance(
        version=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        python=platform.python_version(),
        model=ModelProvenance(
            name=model.name,
            weights=model.weights,
            preprocess=engine.network.preprocess,
            labels=model.labels,
            sha256=hashes_of(config),
        ),
        method=lrp.method,
        composite=lrp.composite if lrp.method == "lrp" else None,
        layers=explainer.rules_by_layer,
        target=lrp.target,
        device=engine.device,
        precision=engine.precision,
        settings=recorded_settings(config, *further),
    )


def hashes_of(config: Config) -> dict[str, str]:
    """SHA-256 of the files that the configured network is read from; waits until they are known.

    Returns:
      "model", "weights" or "labels" -> 64 hexadecimal digits; files that are gone are left out.
    """
    hashes = {}
    for kind, one in begin_hashing(config).items():
        with suppress(OSError):
            hashes[kind] = one.result()
    return hashes


def begin_hashing(config: Config) -> dict[str, Future[str]]:
    """Begins to hash the network's files, each in a thread, so that nobody waits for it later."""
    model, begun = config.model, {}
    for kind, path in model_files(model.name, model.weights, model.labels).items():
        with suppress(OSError):
            found = path.stat()
            version = str(path), found.st_size, found.st_mtime_ns
            if version not in _hashes:
                _hashes[version] = Future()
                threading.Thread(target=_hash, args=(path, _hashes[version]), daemon=True).start()
            begun[kind] = _hashes[version]
    return begun


def _hash(path: Path, hashed: Future[str]) -> None:
    try:
        with path.open("rb") as file:
            hashed.set_result(hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        hashed.set_exception(error)
