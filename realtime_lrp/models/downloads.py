"""Files of Keras that are downloaded once: whole, and the ones that were meant, or not used."""

import functools
import hashlib
import http.client
import logging
import os
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.errors import UnavailableError, first_line
from realtime_lrp.system.atomic import part_path, stale_parts

FOLDER = Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")) / "models"
"""Where Keras keeps what it downloads."""

TIMEOUT_S = 30
"""Seconds without a byte until a download is given up."""

REPORT_S = 10
"""Seconds between two lines about a download that goes on."""

_CHUNK = 1 << 20

_md5 = functools.partial(hashlib.md5, usedforsecurity=False)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Download:
    """A file that anybody can get.

    Attributes:
      url: where it is; its last part is the file's name.
      md5: its checksum as Keras publishes it; nobody knows how to make another file for a given
        one.
    """

    url: str
    md5: str

    @property
    def place(self) -> Path:
        """Where it is kept."""
        return FOLDER / self.url.rsplit("/", 1)[-1]

    @property
    def intact(self) -> bool:
        """Whether the right file is there."""
        return self.place.exists() and _checksum(self.place) == self.md5


def fetched(wanted: Download) -> Path:
    """The file's place, once the right file is there; it is downloaded where it is not.

    A file with another checksum, such as a part that an earlier program left, is downloaded again.

    Raises:
      UnavailableError: it is not there and cannot be downloaded.
    """
    place = wanted.place
    try:
        if wanted.intact:
            return place
        if place.exists():
            log.warning("%s is damaged and is downloaded again", place)
        _download(wanted)
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if type(error) is urllib.error.URLError else error
        why = first_line(cause) if isinstance(cause, Exception) else cause
        raise UnavailableError(
            f"{place.name} is not there, or damaged, and could not be downloaded ({why})."
        ) from error
    return place


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, _md5).hexdigest()


def _download(wanted: Download) -> None:
    wanted.place.parent.mkdir(parents=True, exist_ok=True)
    for old in stale_parts(wanted.place):
        with suppress(OSError):  # another process may be faster
            old.unlink()
    part = part_path(wanted.place)
    try:
        _receive(wanted, part)
        os.replace(part, wanted.place)
    finally:
        with suppress(OSError):
            part.unlink()


def _receive(wanted: Download, part: Path) -> None:
    """Writes what the server sends, to the disk as well, and compares it."""
    checksum, received, told = _md5(), 0, time.monotonic()
    with urllib.request.urlopen(wanted.url, timeout=TIMEOUT_S) as server, part.open("wb") as file:
        size = int(server.headers.get("Content-Length") or 0)
        log.warning("%s is downloaded once (%.1f MB)", wanted.place, size / 1e6)
        while chunk := server.read(_CHUNK):
            file.write(chunk)
            checksum.update(chunk)
            received += len(chunk)
            if time.monotonic() - told > REPORT_S:
                log.warning("%.1f of %.1f MB", received / 1e6, size / 1e6)
                told = time.monotonic()
        file.flush()
        os.fsync(file.fileno())
    if checksum.hexdigest() != wanted.md5:
        raise ValueError(
            f"{received:,} of {size:,} bytes came with the checksum {checksum.hexdigest()}, "
            f"not {wanted.md5}"
        )
