"""Finds out how an output was made, see `config.provenance`; files may come from anybody.

Every reader takes a limited number of bytes, runs nothing, and skips what it does not know.
"""

import os
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from realtime_lrp.config.provenance import KEY, MAX_BYTES, TAUGHT, Provenance, read_provenance
from realtime_lrp.errors import DamagedInputError, MissingInputError
from realtime_lrp.models.gallery import read_gallery_file
from realtime_lrp.system.files import read_limited
from realtime_lrp.video.pictures import read_description, read_film_description

MAX_JSON_BYTES = 1 << 28
MAX_ARRAY_BYTES = 4 * MAX_BYTES + 10_000  # NumPy stores four bytes for each character
MAX_EVENTS = 8  # entries of TensorBoard's file that are searched; ours is among the first

SAVED_MODEL = "saved_model.pb"
ASSET = "assets/provenance.json"
EVENTS = "*tfevents*"


def provenance_of_file(path: Path) -> Provenance:
    """How an output was made."""
    if found := find_provenance(path):
        return found
    raise DamagedInputError(
        f"{str(path)!r} does not say how it was made. Expected an output of realtime-lrp: a "
        "picture (.png, .jpg), film (.mp4, .mov, .mkv), .npz, .json, .jsonl or .concepts file, "
        "a network of teach (.keras), a SavedModel, or a run for TensorBoard."
    )


def find_provenance(path: Path) -> Provenance | None:
    """Like `provenance_of_file`, but None for a file that does not say how it was made."""
    folder = os.path.isdir(path)
    if not os.path.exists(path):
        raise MissingInputError(f"There is no file {str(path)!r}.")
    if not (folder or os.path.isfile(path)):
        raise MissingInputError(f"{str(path)!r} is a device or a pipe. Expected a file.")
    try:
        reader = _of_folder if folder else READERS.get(path.suffix.lower())
        text = reader(path) if reader else None
        return read_provenance(text) if text else None
    except DamagedInputError as error:
        raise DamagedInputError(f"{str(path)!r}: {error}.") from None
    except OSError as error:
        raise MissingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from None


def _of_picture(path: Path) -> str | None:
    try:
        return read_description(path)
    except DamagedInputError:
        return None


class _Row(msgspec.Struct):
    provenance: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b""))


def _of_row(data: bytes) -> bytes | None:
    """The JSON of the key `KEY` in a JSON object."""
    try:
        return bytes(msgspec.json.decode(data, type=_Row).provenance) or None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _of_lines(path: Path) -> bytes | None:
    with path.open("rb") as file:
        return _of_row(file.readline(2 * MAX_BYTES))


def _of_gallery(path: Path) -> bytes | None:
    made = read_gallery_file(path)[0].provenance
    return msgspec.json.encode(made) if made else None


def _of_network(path: Path) -> bytes | None:
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive, archive.open(TAUGHT) as member:
                return _of_row(member.read(MAX_BYTES))
        except Exception:  # as of arrays
            return None


def _of_arrays(path: Path) -> str | None:
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive, archive.open(f"{KEY}.npy") as member:
                stream = BytesIO(member.read(MAX_ARRAY_BYTES))
                text = np.lib.format.read_array(stream, allow_pickle=False)
                return str(text) if text.dtype.kind == "U" and text.shape == () else None
        except Exception:  # of damaged files zipfile, the decompressors and NumPy raise anything
            return None


def _of_folder(folder: Path) -> str | bytes | None:
    if (folder / SAVED_MODEL).is_file():
        asset = folder / ASSET
        return read_limited(asset, MAX_BYTES, "provenance") if asset.is_file() else None
    if maps := sorted(folder.glob("maps_*.npz")):
        return _of_arrays(maps[0])
    if events := sorted(folder.glob(EVENTS)):
        return _of_events(events[0])
    return None


def _of_events(path: Path) -> bytes | None:
    """The text that was written to TensorBoard's file before anything else."""
    from tensorboard.compat.proto.event_pb2 import Event

    with path.open("rb") as file:
        for _ in range(MAX_EVENTS):
            size = int.from_bytes(file.read(12)[:8], "little")  # then a checksum of the size
            if not 0 < size <= 2 * MAX_BYTES:
                return None
            try:
                event = Event.FromString(file.read(size + 4)[:size])
            except DecodeError:
                return None
            for value in event.summary.value:
                if value.tag == KEY and value.tensor.string_val:
                    return value.tensor.string_val[0]
    return None


READERS: dict[str, Callable[[Path], str | bytes | None]] = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp"), _of_picture),
    **dict.fromkeys((".mp4", ".mov", ".mkv"), read_film_description),
    ".npz": _of_arrays,
    ".jsonl": _of_lines,
    ".json": lambda path: _of_row(read_limited(path, MAX_JSON_BYTES, "a JSON file")),
    ".concepts": _of_gallery,
    ".keras": _of_network,
}
"""Ending of a file -> what finds the JSON text in it."""
