"""The .keras file of a network that was taught: beside the model what commands need to use it.

An own member of the archive, which Keras leaves alone, holds labels, preprocessing and how it was
made. Files may come from anybody.
"""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Annotated

import keras
import msgspec

from realtime_lrp.config.provenance import TAUGHT, Provenance
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.labels import MAX_NAME_LENGTH
from realtime_lrp.models.preprocessing import PREPROCESSING
from realtime_lrp.models.untrusted.loading import DESCRIPTION, METADATA, WEIGHTS, read_extra
from realtime_lrp.system.temporary import temporary_folder

MAX_BYTES = 1 << 20


class About(msgspec.Struct, frozen=True):
    """What a file says of its network: class names, preprocessing, how it was made."""

    labels: tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)], ...]
    preprocess: Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(PREPROCESSING)})$")]
    provenance: Provenance


def read_about(path: Path) -> About | None:
    """What a .keras file says of its network; None if it says nothing."""
    text = read_extra(path, TAUGHT, MAX_BYTES)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=About)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DamagedInputError(f"{TAUGHT} in {str(path)!r} is damaged ({error}).") from None


def write_taught(path: Path, model: keras.Model, about: About) -> None:
    """Writes the file. The same network makes the same bytes: no time is kept."""
    with temporary_folder() as folder:
        saved = folder / "model.keras"
        model.save(saved)
        with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as target:
            described = json.loads(source.read(METADATA)) | {"date_saved": ""}
            target.writestr(zipfile.ZipInfo(METADATA), json.dumps(described))
            target.writestr(zipfile.ZipInfo(TAUGHT), msgspec.json.encode(about))
            for name in (DESCRIPTION, WEIGHTS):
                member = zipfile.ZipInfo(name)
                member.file_size = source.getinfo(name).file_size
                with source.open(name) as reading, target.open(member, "w") as writing:
                    shutil.copyfileobj(reading, writing, 1 << 20)
