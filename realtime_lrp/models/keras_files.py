"""Keras files from strangers: loaded without running code that they bring.

Keras's own loader would unpack whatever the archive holds and build whatever it describes. Here
the description is checked first (allowed.py), then the memory (size.py), then the weights
(hdf5.py, fitting.py); only what passed is given to Keras.
"""

import errno
import json
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
from realtime_lrp.models.allowed import check_description
from realtime_lrp.models.fitting import check_weights
from realtime_lrp.models.size import built, too_large

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
        model = built(lambda: _deserialised(described, archive), file)
        if not isinstance(model, keras.Model):
            raise DamagedInputError(f"{file} holds a {type(model).__name__}, not a model.")
        with _unpacked(archive, file) as weights:
            _fill(model, weights, file)
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
            _fill(model, path, file)
        elif path.suffix == ".keras":
            with _archive(path) as archive, _unpacked(archive, file) as weights:
                _fill(model, weights, file)
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
            return keras.saving.deserialize_keras_object(described, safe_mode=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_versions(archive)}{first_line(error)}") from error


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


def _archive(path: Path) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    twice = next((name for name in (DESCRIPTION, WEIGHTS) if names.count(name) > 1), None)
    if twice:
        archive.close()
        raise DamagedInputError(f"{str(path)!r} holds {twice} twice. {_MODEL}")
    return archive


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    if archive.getinfo(name).file_size > most:
        raise DamagedInputError(
            f"{archive.filename!r} claims {archive.getinfo(name).file_size:,} bytes in {name}; "
            f"no network needs more than {most:,}. {_MODEL}"
        )
    return archive.read(name)


@contextmanager
def _unpacked(archive: zipfile.ZipFile, file: str) -> Iterator[Path]:
    """The archive's weights as a file, as long as they are needed."""
    info = archive.getinfo(WEIGHTS)
    if info.file_size > max(SMALL, MOST_EXPANSION * info.compress_size):
        raise DamagedInputError(
            f"{file} claims {info.file_size:,} bytes of weights and holds "
            f"{info.compress_size:,}. {_MODEL}"
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


def _fill(model: keras.Model, weights: Path, file: str) -> None:
    check_weights(weights, model, file)
    with warnings.catch_warnings(action="ignore"):
        model.load_weights(weights)
