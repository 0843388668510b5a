"""Class names: files that users bring, and ImageNet's from Keras."""

import json
import logging
import os
from pathlib import Path

import keras

from realtime_lrp.errors import DamagedInputError, MissingInputError

log = logging.getLogger(__name__)

DOWNLOADS = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "models"
"""Where Keras keeps what it downloads."""

CLASS_INDEX_URL = (
    "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json"
)
CLASS_INDEX_HASH = "c2c37ea517e94d9795004a39431a14cb"


def read_labels(path: Path) -> list[str]:
    """Class names in order.

    Args:
      path: a JSON list of names, Keras's class index {"0": ["n01440764", "tench"], ...}, or one
        name a line.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: it holds no names.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise MissingInputError(
            f"The labels {str(path)!r} cannot be read ({error.strerror}). Check the name."
        ) from None
    except UnicodeDecodeError:
        raise DamagedInputError(f"The labels {str(path)!r} are not UTF-8 text.") from None
    names = _names(text)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise DamagedInputError(
            f"The labels {str(path)!r} hold no list of names. Expected a JSON list, Keras's class "
            "index or one name a line."
        )
    return names


def _names(text: str) -> list:
    try:
        data = json.loads(text)
    except ValueError:
        return [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(data, list):
        return data
    if isinstance(data, dict) and set(data) == {str(index) for index in range(len(data))}:
        entries = [data[str(index)] for index in range(len(data))]
        return [entry[-1] if isinstance(entry, list) and entry else entry for entry in entries]
    return []


def imagenet_labels(download: bool) -> list[str] | None:
    """ImageNet's 1000 class names by Keras's class index, or None where they cannot be had.

    Args:
      download: whether the index may be downloaded; else only Keras's cache is looked at.
    """
    cached = DOWNLOADS / "imagenet_class_index.json"
    if not download and not cached.exists():
        return None
    try:
        path = keras.utils.get_file(
            cached.name,
            CLASS_INDEX_URL,
            cache_subdir="models",
            file_hash=CLASS_INDEX_HASH,
        )
    except Exception as error:
        log.warning(
            "the class names cannot be downloaded (%s): classes are shown by index. "
            "Put imagenet_class_index.json into %s or add --labels FILE",
            error, cached.parent,
        )  # fmt: skip
        return None
    return read_labels(Path(path))
