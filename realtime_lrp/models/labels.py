"""Class names: from a user's file, or ImageNet's as Keras publishes them."""

import ast
import json
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realtime_lrp.errors import DamagedInputError, Error, UnavailableError, UsageError
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.system.files import read_limited

log = logging.getLogger(__name__)

CLASS_INDEX = Download(  # ImageNet's class names
    "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json",
    "c2c37ea517e94d9795004a39431a14cb",
)
BESIDE = "labels.txt"  # the file with the class names of the network beside it
MAX_FILE_BYTES = 2**24
MAX_WRITTEN = 1 << 18  # Characters; Python takes some hundred times as many bytes to read them
MAX_NAME_LENGTH = 500  # Characters; what is longer is no class name, and would take long to draw


def class_names(labels: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Class names as a user gives them: a list, or the path of a file, see `read_labels`."""
    if isinstance(labels, str | os.PathLike):
        return read_labels(Path(labels))
    names = list(labels)
    if not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"Expected labels as a list of names, or the path of a file. Received {labels!r:.80}.",
            "labels",
        )
    return names


def read_labels(path: Path) -> list[str]:
    """Reads class names, in the order of the network's outputs.

    The file is a JSON list of names, Keras's class index {"0": ["n01440764", "tench"], ...}, or
    text with one name per line, perhaps numbered: "0 cardboard", "1: glass", or all in one line
    with commas. A dictionary may also say the number of each name, as Keras's `class_indices`.
    """
    try:
        text = read_limited(path, MAX_FILE_BYTES, "a file of class names").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DamagedInputError(f"The labels file {str(path)!r} is not UTF-8 text.") from None
    names = names_in(text)
    if not names or not all(isinstance(n, str) and 0 < len(n) <= MAX_NAME_LENGTH for n in names):
        raise DamagedInputError(
            f"The labels file {str(path)!r} holds no class names. Expected a JSON list, Keras's "
            f"class index or one name per line, each at most {MAX_NAME_LENGTH} characters."
        )
    return names


def names_in(text: str) -> list[Any]:
    """The class names in a text, as `read_labels` reads it; unchecked."""
    try:
        return _in_order(json.loads(text))
    except RecursionError:
        return []
    except ValueError:
        if names := written_labels(text):
            return names
        lines = [line.strip().strip("\"'") for line in text.splitlines() if line.strip()]
        lines = re.split(r"\s*[,;\t]\s*", lines[0]) if len(lines) == 1 else lines
        head, *rest = [_without_numbers(lines), _without_numbers(lines[1:])]
        headed = head == lines and rest[0] != lines[1:] and re.search("[,;\t]", lines[0])
        return rest[0] if headed else head


def _in_order(data: Any) -> list[Any]:
    """The names in a list, or in a dictionary with their numbers; empty if it is neither."""
    if isinstance(data, dict) and all(isinstance(number, int) for number in data.values()):
        data = {number: name for name, number in data.items()}
    if isinstance(data, dict):
        data = [data.get(n, data.get(str(n))) for n in range(len(data))]
        data = [entry[-1] if isinstance(entry, list) and entry else entry for entry in data]
    return [*data] if isinstance(data, list | tuple) and None not in data else []


def _without_numbers(lines: list[str]) -> list[str]:
    """Names without the numbers before them, where they count all lines from 0 or 1."""
    parts = [re.fullmatch(r"(\d{1,6})(?:\s*[:.,;)=-]\s*|\s+)(\S.*)", line) for line in lines]
    numbers = [int(part[1]) for part in parts if part]
    counted = len(numbers) == len(lines) and numbers[:1] in ([0], [1])
    if not counted or numbers != [*range(numbers[0], numbers[0] + len(lines))]:
        return lines
    return [part[2] for part in parts if part]


def labels_beside(path: Path, counts: Sequence[int]) -> list[str] | None:
    """The names in `labels.txt` beside a file, which the log says; None for another number."""
    beside = path.parent / BESIDE
    if not beside.is_file():
        return None
    try:
        names = read_labels(beside)
    except Error as error:
        log.warning("%s", error)
        return None
    if len(names) not in counts:
        log.warning(
            "%s beside %s has %d names, the network %d outputs: it is not used. Give --labels FILE",
            BESIDE, path.name, len(names), counts[0],
        )  # fmt: skip
        return None
    log.warning("%s: the class names are those in %s beside it", path.name, BESIDE)
    return names


def written_labels(text: str) -> list[str] | None:
    """Class names in a text that a program has written: a Python or JSON dictionary, or a list."""
    try:
        names = _in_order(ast.literal_eval(text) if 0 < len(text) <= MAX_WRITTEN else None)
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return None
    named = all(
        isinstance(name, str) and name.isprintable() and 0 < len(name) <= MAX_NAME_LENGTH
        for name in names
    )
    return names if named and names else None


def imagenet_labels(classes: int, download: bool) -> list[str] | None:
    """ImageNet's class names, from Keras's cache or a download; None without all of them."""
    if not download and not CLASS_INDEX.path.exists():
        return None
    try:
        names = read_labels(fetch(CLASS_INDEX))
        if len(names) != classes:
            raise DamagedInputError(f"The labels file {str(CLASS_INDEX.path)!r} is damaged.")
        return names
    except (DamagedInputError, UnavailableError) as error:
        log.warning(
            "%s Classes are shown by number. Put the file at %s or give --labels FILE",
            error, CLASS_INDEX.path,
        )  # fmt: skip
        return None
