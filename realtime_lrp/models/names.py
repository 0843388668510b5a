"""The table of networks that have a name, and the files that networks are read from.

To add a named one, add a row to `NETWORKS`. This file must not import TensorFlow before one is
loaded.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from realtime_lrp.config import ASSETS, Config
from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.config.names import EMBEDDED, HUB

if TYPE_CHECKING:
    from realtime_lrp.models.network import Network

FILES = {name: ASSETS / f"{name}.keras" for name in EMBEDDED}  # embedded network -> its file

# (weights: "imagenet", "random", a path or None for its own; labels or None) -> the network
Load = Callable[[str | None, list[str] | None], "Network"]


@dataclass(frozen=True)
class Named:
    """A row of the table: one line for `realtime-lrp models`, and what loads the network."""

    description: str
    load: Load


def _load(name: str, weights: str | None, labels: list[str] | None) -> "Network":
    from realtime_lrp.models.included import load_application, load_shapes  # TensorFlow

    if name in FILES:
        return load_shapes(FILES[name], weights)
    return load_application(name, weights, labels)


_ABOUT = {**EMBEDDED, **{name: one.description for name, one in APPLICATIONS.items()}}
NETWORKS = {name: Named(about, partial(_load, name)) for name, about in _ABOUT.items()}
"""Lower-case name -> network."""


def present_networks() -> list[str]:
    """The names of networks whose weights are on this machine."""
    return [*EMBEDDED, *(name for name, one in APPLICATIONS.items() if one.weights.is_file())]


def model_files(name: str, weights: str | None, labels: str | None) -> dict[str, Path]:
    """The files that `load_network` reads for these arguments: "model", "weights", "labels".

    Of presets of KerasHub also "head", the weights of the classifier's last layers.
    """
    lower = name.lower()
    files: dict[str, Path | None] = {"model": Path(name)}
    if lower in NETWORKS:
        files = {"model": FILES.get(lower)}
    elif name.startswith(HUB):
        from realtime_lrp.models.hub import preset_files

        files = dict(preset_files(name.removeprefix(HUB)))
        if weights is not None:
            files = {"model": files.get("model")}
    elif Path(name).is_dir():
        variables = Path(name, "variables", "variables.data-00000-of-00001")
        files = {"model": Path(name, "saved_model.pb"), "weights": variables}
    elif name.endswith(".onnx") and Path(f"{name}.data").is_file():  # as PyTorch calls it
        files["weights"] = Path(f"{name}.data")
    if weights not in (None, "imagenet", "random"):
        files["weights"] = Path(weights)
    elif lower in APPLICATIONS and weights != "random":
        files["weights"] = APPLICATIONS[lower].weights
    files["labels"] = Path(labels) if labels else None
    return {kind: path for kind, path in files.items() if path}


class FileVersion(NamedTuple):
    """A file at some time; `changed_ns` is the time of its last change."""

    path: Path
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileVersion":
        """The present version. Raises `OSError` if there is no such file."""
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)


Files = Mapping[str, FileVersion]  # "model", "weights", "labels" or "detector" -> the file

_hashing = threading.Lock()


def network_files(config: Config) -> Files:
    """The present versions of the files that the configured network is read from."""
    model = config.model
    followed = config.input.follow
    files = {}
    paths = model_files(model.name, model.weights, model.labels)
    if followed and (detector := model_files(followed.name, followed.weights, None).get("model")):
        paths["detector"] = detector
    for kind, path in paths.items():
        with suppress(OSError):
            files[kind] = FileVersion.of(path)
    return files


def begin_hashing(files: Files) -> None:
    """Begins to hash files in a thread, so that `hashes` need not wait later."""
    threading.Thread(target=hashes, args=(files,), daemon=True).start()


def hashes(files: Files) -> dict[str, str]:
    """SHA-256 of files, in hexadecimal, once it is known; not of files that changed or are gone."""
    found = {}
    for kind, file in files.items():
        with _hashing, suppress(OSError):
            found[kind] = _sha256(file)
    return found


@cache
def _sha256(file: FileVersion) -> str:
    with file.path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if FileVersion.of(file.path) != file:
        raise OSError("the file has changed")
    return digest
