"""Keras files from strangers: loaded without running code that they bring.

Keras's own loader would unpack whatever the archive holds and build whatever it describes. Here
the description is checked first (allowed.py), then the memory that it asks for (size.py), then the
weights (hdf5.py, fitting.py); only what passed gets memory and is filled.
"""

import errno
import json
import os
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError, Error, UnavailableError, first_line
from realtime_lrp.models.size import built, start_at_zero, too_large
from realtime_lrp.models.untrusted.allowlist import check_description
from realtime_lrp.models.untrusted.weight_shapes import check_weights

DESCRIPTION, WEIGHTS, METADATA = "config.json", "model.weights.h5", "metadata.json"
"""The members of a .keras archive that are read; the last one only for an error's sake."""

MOST_DESCRIPTION = 32 << 20
"""Bytes of a description; the largest of keras.applications has 2 MB."""

MOST_EXPANSION, SMALL = 100, 256 << 20
"""How many times larger than packed weights may be, and the bytes that they always may have.

Keras does not pack at all.
"""


def load_model(path: Path) -> keras.Model:
    """Loads a .keras file of layers that are known.

    Raises:
      DamagedInputError: the file is damaged, holds code, needs code from elsewhere, or claims more
        than it holds.
      UnavailableError: this machine has too little memory for it, or no room to unpack it.
    """
    file = repr(str(path))
    with _named(file, "{} is no Keras model that can be loaded", _MODEL), _archive(path) as archive:
        described = _uncompiled(json.loads(_member(archive, DESCRIPTION, MOST_DESCRIPTION)))
        check_description(described, file)
        with _unpacked(archive, file) as weights:
            model = built(
                lambda: _deserialised(described, archive),
                file,
                lambda model: _proved(model, weights, file),
            )
            _fill(model, weights)
    return model


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads weights from .weights.h5, .h5 or .keras into a model of the same shape.

    Raises:
      DamagedInputError: the file is damaged, or its weights have other shapes.
      UnavailableError: there is no room to unpack it.
    """
    file = repr(str(path))
    with _named(file, "The weights {} do not fit the network or are damaged", _WEIGHTS):
        if path.suffix == ".h5":
            check_weights(path, model, file)
            _fill(model, path)
        elif path.suffix == ".keras":
            with _archive(path) as archive, _unpacked(archive, file) as weights:
                check_weights(weights, model, file)
                _fill(model, weights)
        else:
            raise DamagedInputError(f"{file} is no file of weights. {_WEIGHTS}")


_MODEL = "Expected a file written by model.save('name.keras')."
_WEIGHTS = "Expected .h5, .weights.h5 or .keras of the same network."


@contextmanager
def _named(file: str, what: str, expected: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes an error that names the file."""
    try:
        yield
    except Error:
        raise
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise too_large(file, "the memory ran out") from error
    except Exception as error:  # zipfile, json, h5py and Keras know many ways to be damaged
        reason = first_line(error)
        raise DamagedInputError(f"{what.format(file)} ({reason}). {expected}") from error


def _deserialised(described: dict[str, Any], archive: zipfile.ZipFile) -> keras.Model:
    try:
        with warnings.catch_warnings(action="ignore"):
            model = keras.saving.deserialize_keras_object(described, safe_mode=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_versions(archive)}{first_line(error)}") from error
    if not isinstance(model, keras.Model):
        raise ValueError(f"it holds a {type(model).__name__}")
    return model


def _versions(archive: zipfile.ZipFile) -> str:
    """What is worth telling where a file was written by another Keras than ours."""
    try:
        written = json.loads(_member(archive, METADATA, MOST_DESCRIPTION))["keras_version"]
    except (KeyError, TypeError, ValueError):
        return ""
    if written == keras.__version__:
        return ""
    return f"it was written by Keras {str(written)[:20]!r}, this is Keras {keras.__version__}: "


def _uncompiled(part: Any) -> Any:
    """The description without optimisers, losses and metrics."""
    if isinstance(part, dict):
        return {k: _uncompiled(value) for k, value in part.items() if k != "compile_config"}
    return [_uncompiled(value) for value in part] if isinstance(part, list) else part


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive whose members can be read no further than they claim: bzip2 and LZMA ignore it."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for member in filter(names.count, (DESCRIPTION, WEIGHTS, METADATA)):
            if names.count(member) > 1:
                raise DamagedInputError(f"{str(path)!r} holds {member} twice. {_MODEL}")
            packing = archive.getinfo(member).compress_type
            if packing not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DamagedInputError(
                    f"{str(path)!r} has {member} packed by method {packing}; Keras stores it, "
                    f"zip deflates it. {_MODEL}"
                )
        yield archive


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    claimed = archive.getinfo(name).file_size
    if claimed > most:
        raise DamagedInputError(
            f"{archive.filename!r} claims {claimed:,} bytes in {name}; "
            f"no network needs more than {most:,}. {_MODEL}"
        )
    with archive.open(name) as packed:
        return packed.read(claimed)  # read() would unpack whatever is there before it cuts it


@contextmanager
def _unpacked(archive: zipfile.ZipFile, file: str) -> Iterator[Path]:
    """The archive's weights as a file, as long as they are needed."""
    info = archive.getinfo(WEIGHTS)
    held = min(info.compress_size, os.path.getsize(archive.filename or ""))
    if info.file_size > max(SMALL, MOST_EXPANSION * held):
        raise DamagedInputError(
            f"{file} claims {info.file_size:,} bytes of weights and holds {held:,}. {_MODEL}"
        )
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="realtime-lrp-"))
            unpacked = Path(folder) / WEIGHTS
            with archive.open(info) as packed, unpacked.open("wb") as target:
                shutil.copyfileobj(packed, target, 1 << 20)
        except OSError as error:
            if error.errno in (None, errno.EINVAL):  # the archive's
                raise
            raise UnavailableError(
                f"There is no room to unpack {file}, {info.file_size:,} bytes "
                f"({error.strerror}). Make room, or set TMPDIR to another folder."
            ) from error
        yield unpacked


def _proved(model: keras.Model, weights: Path, file: str) -> None:
    """What happens before a described model takes memory: the file has to hold its weights."""
    check_weights(weights, model, file)
    start_at_zero(model.weights)


def _fill(model: keras.Model, weights: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        model.load_weights(weights)
