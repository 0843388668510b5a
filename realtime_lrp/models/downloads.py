"""Weights and labels that are downloaded once into Keras's own cache folder.

A file is used only if its checksum is the published one. Anything that replaces this must never
leave an incomplete or changed file under its final name.
"""

import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.errors import UnavailableError, first_line
from realtime_lrp.system.atomic import part_path, stale_parts

FOLDER = Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")) / "models"
"""Where Keras keeps what it downloads."""

TIMEOUT_S = 30
"""A download fails after this many seconds without data."""

REPORT_S = 10
"""Seconds between two progress lines."""

CHUNK_BYTES = 1 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Download:
    """A public file with a known checksum.

    Attributes:
      url: its address; the last part is the file's name.
      md5: its checksum, as Keras publishes it.
    """

    url: str
    md5: str

    @property
    def path(self) -> Path:
        """Where the file is kept."""
        return FOLDER / self.url.rsplit("/", 1)[-1]

    @property
    def is_intact(self) -> bool:
        """Whether the file is there and has the right checksum."""
        import pooch  # here, so that `--help` does not wait for it

        return self.path.exists() and pooch.file_hash(str(self.path), "md5") == self.md5


def fetch(download: Download) -> Path:
    """Returns the path of the file; downloads it if it is missing or its checksum is wrong.

    Raises:
      UnavailableError: the file is not there and cannot be downloaded.
    """
    path = download.path
    try:
        if not download.is_intact:
            if path.exists():
                log.warning("%s is damaged and will be downloaded again", path)
            _download(download)
    except (OSError, ValueError) as error:  # the errors of requests are OSErrors
        raise UnavailableError(
            f"{path.name} is missing or damaged, and {download.url} could not be downloaded "
            f"({reason(error)})."
        ) from error
    return path


def _download(download: Download) -> None:
    import pooch

    path = download.path
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in stale_parts(path):
        with suppress(OSError):  # another process may have removed it
            stale.unlink()
    part = part_path(path)
    receive = pooch.HTTPDownloader(_ProgressLog(path), CHUNK_BYTES, timeout=TIMEOUT_S)
    try:
        receive(download.url, str(part), None)
        md5 = pooch.file_hash(str(part), "md5")
        if md5 != download.md5:
            raise ValueError(f"expected the MD5 checksum {download.md5}, received {md5}")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class _ProgressLog:
    """The progress bar that pooch calls: logs the size, then every `REPORT_S` what has come.

    Attributes:
      total: bytes in all, 0 if the server did not say; pooch sets it before the first `update`.
    """

    def __init__(self, path: Path):
        self.total = 0
        self._path = path
        self._received = 0
        self._reported = 0.0

    def update(self, count: int) -> None:
        """Counts bytes; pooch counts whole chunks, so the last one may be too many."""
        now = time.monotonic()
        if not self._reported:
            log.warning("Downloading %s once (%.1f MB)", self._path, self.total / 1e6)
            self._reported = now
        self._received += count
        if now - self._reported > REPORT_S:
            received = min(self._received, self.total or self._received)
            log.warning("%.1f of %.1f MB", received / 1e6, self.total / 1e6)
            self._reported = now

    def reset(self) -> None:
        """Called once before the last update, which then counts the whole file."""
        self._received = 0

    def close(self) -> None:
        """Called at the end."""


def reason(error: BaseException) -> str:
    """What went wrong: the innermost of the errors that requests and urllib3 wrap."""
    inner = getattr(error, "reason", None) or next(iter(error.args), None)
    if isinstance(inner, BaseException):
        return reason(inner)
    return inner if isinstance(inner, str) else first_line(error)
