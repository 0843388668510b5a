"""Weights and labels that Keras downloads once into its own cache folder and checks."""

import logging
import os
import socket
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory

from realtime_lrp.config.applications import cache_folder
from realtime_lrp.errors import UnavailableError, first_line

TIMEOUT_S = 30  # A download fails after this many seconds without data

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Download:
    """A public file."""

    url: str
    checksum: str | None  # MD5 or SHA-256 as Keras publishes it
    name: str = ""  # file in the cache folder; "" takes the address's last part

    @property
    def path(self) -> Path:
        """The path of the kept file."""
        return cache_folder() / (self.name or self.url.rsplit("/", 1)[-1])


def fetch(download: Download) -> Path:
    """The path of the file, downloaded if it is missing. A file that is there is never changed."""
    path = download.path
    if path.is_file():
        checksum = download.checksum
        kind = "md5" if len(checksum or "") == 32 else "sha256"
        with path.open("rb") as file:
            if checksum and checksum != file_digest(file, kind).hexdigest():
                log.warning("%s is not the file that Keras publishes; it is left as it is", path)
        return path
    import keras  # here, so that `--help` does not wait for it

    timeout = socket.getdefaulttimeout()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        socket.setdefaulttimeout(TIMEOUT_S)
        with TemporaryDirectory(dir=path.parent) as folder, open(os.devnull, "w") as nowhere:
            log.warning("Downloading %s once", path)
            # Keras's progress bar is for a terminal
            with redirect_stdout(sys.stderr if sys.stderr.isatty() else nowhere):
                received = keras.utils.get_file(
                    path.name, download.url, file_hash=download.checksum,
                    cache_dir=folder, cache_subdir=".",
                )  # fmt: skip
            os.replace(received, path)
    except Exception as error:  # Keras raises plain exceptions
        raise UnavailableError(
            f"{path.name} is missing, and {download.url} could not be downloaded ({reason(error)})."
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)
    return path


def reason(error: BaseException) -> str:
    """The reason: the innermost of the errors that requests and urllib wrap."""
    inner = getattr(error, "reason", None) or next(iter(error.args), None)
    if isinstance(inner, BaseException):
        return reason(inner)
    return inner if isinstance(inner, str) else first_line(error)
