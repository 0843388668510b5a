"""Class names: files that users bring, and ImageNet's from Keras."""

import json
import logging
from pathlib import Path
from typing import Any

from realtime_lrp.errors import DamagedInputError, MissingInputError, UnavailableError
from realtime_lrp.models.downloads import Download, fetch

log = logging.getLogger(__name__)

CLASS_INDEX = Download(
    "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json",
    "c2c37ea517e94d9795004a39431a14cb",
)
"""ImageNet's class names as Keras keeps them."""


MOST_BYTES = 2**24
MOST_LETTERS = 500
"""Of a name; longer ones are something else, and take long to draw."""


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
        if path.exists() and not path.is_file():
            raise MissingInputError(f"{str(path)!r} is no file. Expected labels.")
        if path.stat().st_size > MOST_BYTES:
            raise DamagedInputError(
                f"The labels {str(path)!r} are too large. Expected at most {MOST_BYTES >> 20} MiB."
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise MissingInputError(
            f"The labels {str(path)!r} cannot be read ({error.strerror}). Check the name."
        ) from None
    except UnicodeDecodeError:
        raise DamagedInputError(f"The labels {str(path)!r} are not UTF-8 text.") from None
    names = _names(text)
    if not names or not all(isinstance(n, str) and 0 < len(n) <= MOST_LETTERS for n in names):
        raise DamagedInputError(
            f"The labels {str(path)!r} hold no list of names. Expected a JSON list, Keras's class "
            f"index or one name a line, each of at most {MOST_LETTERS} letters."
        )
    return names


def _names(text: str) -> list[Any]:
    try:
        data = json.loads(text)
    except RecursionError:
        return []
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
    if not download and not CLASS_INDEX.path.exists():
        return None
    try:
        return read_labels(fetch(CLASS_INDEX))
    except UnavailableError as error:
        log.warning(
            "%s Classes are shown by index. Put the file at %s or add --labels FILE",
            error, CLASS_INDEX.path,
        )  # fmt: skip
        return None
