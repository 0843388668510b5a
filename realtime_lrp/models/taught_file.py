"""The .keras file of a network that was taught: beside the model what commands need to use it.

Own members of the archive, which Keras leaves alone, hold labels, preprocessing, how it was made,
and the features of what was shown, for later lessons. Files may come from anybody.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import keras
import msgspec
import numpy as np

from realtime_lrp.config.preprocessing import parse
from realtime_lrp.config.provenance import TAUGHT, Provenance
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.models.labels import MAX_NAME_LENGTH
from realtime_lrp.models.untrusted.loading import DESCRIPTION, METADATA, WEIGHTS, read_extra
from realtime_lrp.system.files import temporary_folder

MAX_BYTES = 1 << 20  # size of the member with the facts
VECTORS = "realtime_lrp.vectors"  # the member with the features: float16, showing after showing
MAX_VECTORS = 32 << 20  # bytes of that member
LARGEST = 6e4  # what float16 holds

Shown = tuple[int, np.ndarray]  # the number of its class, vectors [pictures, copies, features]
ClassAndCount = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=1)]]


class About(msgspec.Struct, frozen=True):
    """A file's facts about its network: class names, preprocessing, how it was made."""

    labels: tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)], ...]
    preprocess: str
    provenance: Provenance
    shown: tuple[ClassAndCount, ...] = ()  # each showing's class, and its pictures in `VECTORS`


def read_about(path: Path) -> About | None:
    """A .keras file's facts about its network; None if it has none."""
    text = read_extra(path, TAUGHT, MAX_BYTES)
    if text is None:
        return None
    try:
        about = msgspec.json.decode(text, type=About)
        parse(about.preprocess)
        return about
    except (msgspec.MsgspecError, UnicodeError, RecursionError, UsageError) as error:
        raise DamagedInputError(f"{TAUGHT} in {str(path)!r} is damaged ({error}).") from None


def read_shown(path: Path, about: About, copies: int) -> list[Shown]:
    """The pictures shown to the network of a file; empty if the file does not hold them."""
    data = read_extra(path, VECTORS, MAX_VECTORS)
    if not data or not about.shown:
        return []
    numbers, counts = zip(*about.shown, strict=True)
    try:
        vectors = np.frombuffer(data, np.float16).astype(np.float32)
        parts = np.split(vectors.reshape(sum(counts), copies, -1), np.cumsum(counts)[:-1])
        if not np.isfinite(vectors).all() or max(numbers) >= len(about.labels):
            raise ValueError
    except ValueError:
        wrong = f"{VECTORS} in {str(path)!r} is damaged. Take another file, or teach anew."
        raise DamagedInputError(wrong) from None
    return [*zip(numbers, parts, strict=True)]


def write_taught(path: Path, model: keras.Model, about: About, shown: Sequence[Shown]) -> None:
    """Writes the file. The same network makes the same bytes: no time and no address is kept."""
    vectors = [np.clip(part, -LARGEST, LARGEST).astype(np.float16) for _, part in shown]
    if fits := sum(part.nbytes for part in vectors) <= MAX_VECTORS:
        counts = tuple((number, len(part)) for number, part in shown)
        about = msgspec.structs.replace(about, shown=counts)
    with temporary_folder() as folder:
        saved = folder / "model.keras"
        model.save(saved)
        with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as target:
            described = json.loads(source.read(METADATA)) | {"date_saved": ""}
            target.writestr(zipfile.ZipInfo(METADATA), json.dumps(described))
            target.writestr(zipfile.ZipInfo(TAUGHT), msgspec.json.encode(about))
            if fits:
                data = b"".join(part.tobytes() for part in vectors)
                target.writestr(zipfile.ZipInfo(VECTORS), data)
            target.writestr(zipfile.ZipInfo(DESCRIPTION), _numbered(source.read(DESCRIPTION)))
            member = zipfile.ZipInfo(WEIGHTS)
            member.file_size = source.getinfo(WEIGHTS).file_size
            with source.open(WEIGHTS) as reading, target.open(member, "w") as writing:
                shutil.copyfileobj(reading, writing, 1 << 20)


def _numbered(description: bytes) -> bytes:
    """Numbers the objects that layers share, which Keras names by their addresses in memory."""
    numbers: dict[bytes, int] = {}
    return re.sub(
        rb'(?<="shared_object_id": )\d+',
        lambda found: b"%d" % numbers.setdefault(found[0], len(numbers)),
        description,
    )
