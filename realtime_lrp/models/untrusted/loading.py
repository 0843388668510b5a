"""Loads model and weight files that may come from an attacker.

Keras's own loader can be made to run code from a file, to read other files, to download, and to
allocate any amount of memory. Here nothing happens before it is checked, in this order: the
archive (this file), the description of the model (allowlist.py), the memory it needs, the
weights (hdf5_check.py). Change the order, or open a file in another way, only
with tests/test_model_files.py and tests/test_weight_files.py in hand: they hold the known attacks.
"""

import errno
import json
import math
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf
from keras.src.legacy.saving import legacy_h5_format

from realtime_lrp.errors import DamagedInputError, Error, UnavailableError, first_line
from realtime_lrp.models.memory import (
    assigned_without_copies,
    build_within_memory,
    initialise_with_zeros,
)
from realtime_lrp.models.untrusted.allowlist import check_description
from realtime_lrp.models.untrusted.hdf5_check import stored_values
from realtime_lrp.models.untrusted.keras2 import translated
from realtime_lrp.relevance.network.checks import too_large
from realtime_lrp.system.files import temporary_folder

DESCRIPTION = "config.json"  # the members of a .keras archive that are read
WEIGHTS = "model.weights.h5"
METADATA = "metadata.json"

MAX_DESCRIPTION_BYTES = 32 << 20  # The largest description in keras.applications has 2 MB
MAX_EXPANSION = 100  # times their size in the archive for weights; Keras does not compress at all
SMALL_BYTES = 256 << 20  # Weights up to this size may be unpacked whatever their compression
SMALL_VALUES = 1 << 16  # read for any network, so that Keras tells which layer has others

_EXPECTED_MODEL = "Expected layers of Keras in a file written by model.save('name.keras')."
_EXPECTED_WEIGHTS = "Expected .h5, .weights.h5 or .keras of the same network."

OF_BATCH_NORMS = {"gamma", "beta", "moving_mean", "moving_variance"}
HDF5 = b"\x89HDF\r\n\x1a\n"  # How HDF5 files begin


def load_model(path: Path) -> keras.Model:
    """Loads a .keras or HDF5 file, of Keras 3 or 2, whose layers are all on the allow-list."""
    name = repr(str(path))
    problem = f"{name} is not a Keras model that can be loaded"
    with naming_the_file(name, problem, _EXPECTED_MODEL):
        with path.open("rb") as file:
            in_hdf5 = file.read(len(HDF5)) == HDF5
        return _from_hdf5(path, name) if in_hdf5 else _from_archive(path, name)


def _from_archive(path: Path, name: str) -> keras.Model:
    with _open_archive(path) as archive:
        version = ""  # where the archive does not say it
        with suppress(KeyError, TypeError, ValueError):
            metadata = json.loads(_read_member(archive, METADATA, MAX_DESCRIPTION_BYTES))
            version = str(metadata["keras_version"])
        old = version.startswith("2.")
        text = _read_member(archive, DESCRIPTION, MAX_DESCRIPTION_BYTES)
        described = _checked(text, old, translate=old)
        with _unpacked_weights(archive, name) as weights:

            def check(model: keras.Model) -> None:
                values = stored_values(weights, str(path), name)
                if old:
                    _rename_weights(weights)
                _check_number(model, values)
                initialise_with_zeros(model.weights)

            model = build_within_memory(lambda: deserialised(described, version), name, check)
            with filling(model):
                model.load_weights(weights)
    return model


def _from_hdf5(path: Path, name: str) -> keras.Model:
    values = stored_values(path, str(path), name)
    with h5py.File(path, "r") as file:
        text, version = (
            one.decode() if isinstance(one, bytes) else str(one)
            for one in (file.attrs.get(key, "") for key in ("model_config", "keras_version"))
        )
        if not text:
            raise DamagedInputError(
                f"{name} holds weights alone. Expected a whole network: build it in Python, load "
                "the weights and write it with model.save('name.keras').\nThe weights of a network "
                "that has a name: --model NAME --weights FILE."
            )
        if len(text) > MAX_DESCRIPTION_BYTES:
            raise ValueError(f"its description has {len(text):,} characters")

        described = _checked(text, not version.startswith("3."), translate=True)

        def check(model: keras.Model) -> None:
            needed = number_of_values(model.weights)
            if needed > values:
                raise ValueError(f"{model.name} has {needed:,} values, the file {values:,}")
            initialise_with_zeros(model.weights)

        model = build_within_memory(lambda: deserialised(described, version), name, check)
        with filling(model):
            _load_hdf5_weights(model, file)
    return model


def _checked(text: str | bytes, old: bool, translate: bool) -> Any:
    """A description that names nothing that is not allowed; an `old` one is of Keras 2."""
    described = without_training(json.loads(text))
    described = translated(described, old) if translate else described
    check_description(described)
    return described


def read_extra(path: Path, member: str, limit: int) -> bytes | None:
    """A further member of a .keras archive, at most `limit` bytes; None if it has none."""
    name = repr(str(path))
    problem = f"{name} is not a Keras model that can be loaded"
    with naming_the_file(name, problem, _EXPECTED_MODEL), _open_archive(path, member) as archive:
        return _read_member(archive, member, limit) if member in archive.namelist() else None


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads weights from .weights.h5, .h5 or .keras; a refused file may have changed some."""
    name = repr(str(path))
    problem = f"The weights {name} do not fit the network or are damaged"
    with naming_the_file(name, problem, _EXPECTED_WEIGHTS):
        if path.suffix == ".h5":
            _compare(model, path, path)
        elif path.suffix == ".keras":
            with _open_archive(path) as archive, _unpacked_weights(archive, name) as weights:
                _compare(model, weights, path)
        else:
            raise ValueError("it is no weights file")


@contextmanager
def naming_the_file(name: str, problem: str, expected: str) -> Iterator[None]:
    """Turns every error inside into one of ours: "`problem` (the error). `expected`"."""
    try:
        yield
    except Error:
        raise
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise too_large(name, "the memory ran out") from error
    except RecursionError as error:
        why = "more layers follow each other, or are nested, than Keras can connect"
        raise DamagedInputError(f"{problem}: {why}. Expected less than about 1000.") from error
    except Exception as error:  # zipfile, json, h5py and Keras raise anything on damaged files
        raise DamagedInputError(f"{problem} ({first_line(error)}). {expected}") from error


def deserialised(described: dict[str, Any], version: str = "") -> keras.Model:
    """Builds what was checked, and written by a version of Keras, "" if it is not known."""
    try:
        with warnings.catch_warnings(action="ignore"):
            model = keras.saving.deserialize_keras_object(described, safe_mode=True)
    except (TypeError, ValueError) as error:
        hint = f"it was written by Keras {version[:20]!r}, this is Keras {keras.__version__}: "
        unlike = version not in ("", keras.__version__)
        cause: BaseException = error
        # Keras wraps the reason once for each model around a layer
        while cause.__context__ and re.search("could not be|rror (when|encountered)", str(cause)):
            cause = cause.__context__
        raise ValueError(f"{hint if unlike else ''}{first_line(cause)}") from error
    if not isinstance(model, keras.Model):
        raise ValueError(f"it holds a {type(model).__name__}")
    return model


def without_training(part: Any) -> Any:
    """A model's description without optimisers, losses, metrics, and LoRA, which is merged in."""
    if isinstance(part, dict):
        return {
            key: without_training(value)
            for key, value in part.items()
            if key not in ("compile_config", "lora_rank", "lora_alpha")
        }
    return [without_training(value) for value in part] if isinstance(part, list) else part


@contextmanager
def _open_archive(path: Path, *further: str) -> Iterator[zipfile.ZipFile]:
    """Opens the archive if each member stands there once, so that all readers see the same.

    A reader of bzip2 or LZMA would unpack everything, whatever size the archive claims.
    """
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for member in filter(names.count, (DESCRIPTION, WEIGHTS, METADATA, *further)):
            if names.count(member) > 1:
                raise ValueError(f"it holds {member} twice")
            method = archive.getinfo(member).compress_type
            if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member} is compressed by zip method {method}, not 0 or 8")
        yield archive


def _read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    claimed = archive.getinfo(name).file_size
    if claimed > limit:
        raise ValueError(f"{name} claims {claimed:,} bytes, more than {limit:,}")
    with archive.open(name) as member:
        return member.read(claimed)  # read() without a limit would unpack everything first


@contextmanager
def _unpacked_weights(archive: zipfile.ZipFile, name: str) -> Iterator[Path]:
    """Unpacks the weights into a temporary file that exists as long as the context."""
    member = archive.getinfo(WEIGHTS)
    packed_bytes = min(member.compress_size, os.path.getsize(archive.filename or ""))
    if member.file_size > max(SMALL_BYTES, MAX_EXPANSION * packed_bytes):
        raise ValueError(
            f"it claims {member.file_size:,} bytes of weights but holds only {packed_bytes:,}"
        )
    with ExitStack() as stack:
        try:
            unpacked = stack.enter_context(temporary_folder()) / WEIGHTS
            with archive.open(member) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        except OSError as error:
            if error.errno in (None, errno.EINVAL):  # raised for a damaged archive, not by the disk
                raise
            raise UnavailableError(
                f"There is no room to unpack {name}, {member.file_size:,} bytes "
                f"({error.strerror}). Make room, or set TMPDIR to another folder."
            ) from error
        yield unpacked


def _compare(model: keras.Model, weights: Path, file: Path) -> None:
    """Loads weights into a model; Keras names the first layer that has others."""
    values = stored_values(weights, str(file), repr(str(file)))
    with h5py.File(weights) as content:
        old = "layer_names" in content.attrs or "model_weights" in content
    with filling(model), temporary_folder() as folder:
        named = weights
        if old == weights.name.endswith(".weights.h5"):  # Keras goes by the name
            named = folder / ("old.h5" if old else "new.weights.h5")
            named.symlink_to(weights.absolute())
        model.load_weights(named)
    if not old:  # of a new file Keras leaves out further layers
        _check_number(model, values)


@contextmanager
def filling(model: keras.Model) -> Iterator[None]:
    """Within it weights are loaded into a model; of a file with far more nothing is kept."""
    # twice what the network has, as an .h5 file holds what layers share with each of them
    most = SMALL_VALUES + sum(number_of_values(one.weights) for one in (model, *model.layers))
    with warnings.catch_warnings(action="ignore"), assigned_without_copies(model.weights, most):
        yield


def number_of_values(weights: Iterable[keras.Variable]) -> int:
    """How many numbers some weights have together."""
    return sum(math.prod(weight.shape) for weight in weights)


def _check_number(model: keras.Model, values: int) -> None:
    needed = number_of_values(model.weights)
    # a file may hold some several times: SpectralNormalization has the kernel that it wraps
    most = sum(
        number_of_values(layer._trainable_variables + layer._non_trainable_variables)
        for layer in model._flatten_layers()
    )
    if not needed <= values <= most:
        raise ValueError(f"{model.name} has {needed:,} values, the file {values:,}")


def _rename_weights(path: Path) -> None:
    """Gives weights of Keras 2's .weights.h5 Keras 3's paths, in place; on Windows they differ."""
    paths: list[str] = []
    with h5py.File(path, "r+") as file:
        file.visit(paths.append)
        for name in paths:
            if not isinstance(file[name], h5py.Dataset):
                continue
            new = name.replace("\\", "/").replace("_layer_checkpoint_dependencies/", "layers/")
            if new != name:
                file.move(name, new)


def _load_hdf5_weights(model: keras.Model, file: h5py.File) -> None:
    """Loads weights that stand layer by layer, by their names if all are known, else in order.

    Within a layer, which may be a model, they are found by their names. Their order differs between
    Keras 2 and 3 where a part of a model was not trained.
    """
    group = file.get("model_weights", file)
    layers = [layer for layer in model.layers if layer.weights]
    stored = [(group[name], _names(group[name], "weight_names"))
              for name in _names(group, "layer_names")]  # fmt: skip
    stored = [(of_layer, names) for of_layer, names in stored if names]
    if not model.built:
        raise ValueError(
            "it does not say the shape of its pictures; load it in Python, call it on a batch, and "
            "save it again"
        )
    if len(stored) != len(layers):
        raise ValueError(f"it holds weights of {len(stored)} layers instead of {len(layers)}")
    named = {of_layer.name.rpartition("/")[2]: (of_layer, names) for of_layer, names in stored}
    if len(named) == len(stored) and all(layer.name in named for layer in layers):
        stored = [named[layer.name] for layer in layers]
    for layer, (of_layer, names) in zip(layers, stored, strict=True):
        weights = _by_name(layer, names) or _in_order(layer, names)
        for weight, name in zip(weights, names, strict=True):
            if tuple(weight.shape) != of_layer[name].shape:
                raise ValueError(
                    f"{name[:100]!r} has the shape {of_layer[name].shape}, the layer "
                    f"{layer.name!r} {tuple(weight.shape)}"
                )
            weight.assign(np.asarray(of_layer[name]))
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()


def _by_name(layer: keras.Layer, names: Sequence[str]) -> list[keras.Variable]:
    """The weights of these names; empty if a name says no weight, or two say the same."""
    known = {
        (part.name, weight.name): weight
        for part in layer._flatten_layers()
        for weight in (*part._trainable_variables, *part._non_trainable_variables)
    }
    found = []
    for name in names:
        *path, kind = name.removesuffix(":0").split("/")
        owners = ["_".join(path[n:]) for n in range(len(path))]  # a name may have had a "/"
        pairs = [
            (owner, own) for owner in owners for own in (kind, kind.removeprefix("depthwise_"))
        ]
        found += [known[pair] for pair in pairs if pair in known][:1]
    return found if len(names) == len({id(weight) for weight in found}) == len(found) else []


def _in_order(layer: keras.Layer, names: Sequence[str]) -> list[keras.Variable]:
    """The weights of a layer in the order in which it has them."""
    weights = [*layer.trainable_weights, *layer.non_trainable_weights]
    if len(weights) != len(names):
        raise ValueError(f"it holds {len(names)} weights of {layer.name!r}, not {len(weights)}")
    for weight, name in zip(weights, names, strict=True):
        kind = name.rpartition("/")[2].partition(":")[0]
        if {kind, weight.name} <= OF_BATCH_NORMS and kind != weight.name:
            raise ValueError(f"the weights of {layer.name!r} have unknown names in another order")
    return weights


def _names(group: h5py.Group, key: str) -> list[str]:
    """A list of names, which Keras divides where it is long."""
    found = legacy_h5_format.load_attributes_from_hdf5_group(group, key)
    return [name.decode() if isinstance(name, bytes) else str(name) for name in found]
