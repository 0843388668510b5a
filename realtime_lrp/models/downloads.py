"""Files of Keras that are downloaded once: whole, and the ones that were meant, or not used."""

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

FOLDER = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "models"
"""Where Keras keeps what it downloads."""

TIMEOUT_S = 30
"""Seconds without a byte until a download is given up."""

REPORT_S = 10
"""Seconds between two lines about a download that goes on."""

FORGOTTEN_S = 3600
"""Seconds after which a part that nobody writes to was left by a process that was killed."""

_CHUNK = 1 << 20

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


def fetched(wanted: Download) -> Path:
    """The file's place, once the right file is there; it is downloaded where it is not.

    A file with another checksum, such as a part that an earlier program left, is downloaded again.

    Raises:
      UnavailableError: it is not there and cannot be downloaded.
    """
    place = wanted.place
    try:
        if place.exists():
            if _checksum(place) == wanted.md5:
                return place
            log.warning("%s is damaged and is downloaded again", place)
        _download(wanted)
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if type(error) is urllib.error.URLError else error
        raise UnavailableError(
            f"{place.name} is not there, or damaged, and could not be downloaded "
            f"({first_line(cause)})."
        ) from error
    return place


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, _md5).hexdigest()


def _md5():
    return hashlib.md5(usedforsecurity=False)


def _download(wanted: Download) -> None:
    wanted.place.parent.mkdir(parents=True, exist_ok=True)
    for old in wanted.place.parent.glob(f"{wanted.place.name}.*.part"):
        with suppress(OSError):  # another process may be done with it just now
            if time.time() - old.stat().st_mtime > FORGOTTEN_S:
                old.unlink()
    part = wanted.place.with_name(f"{wanted.place.name}.{os.getpid()}.part")
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
