"""What is kept for this user, so that phones come back after a restart: token and certificate."""

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_state_path

from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.temporary import temporary_folder

TOKEN, CERTIFICATE = "token", "certificate.pem"
"""The files: the token, and the certificate with its key."""

log = logging.getLogger(__name__)


@contextmanager
def kept_folder() -> Iterator[Path]:
    """The folder of what is kept; where there can be none, one that is gone afterwards."""
    try:
        folder = user_state_path("realtime-lrp") / "serve"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):  # also a user without a home
        kept = False
    if kept:
        yield folder
        return
    log.warning("token and certificate cannot be kept: after a restart they are others")
    with temporary_folder() as folder:
        yield Path(folder)


def write_private(file: Path, data: bytes) -> None:
    """Writes a file that nobody else can read.

    Raises:
      OutputError: it cannot be made.
      TransferError: the disk is full, or the write failed.
    """
    with atomic_file(file, overwrite=True) as part:
        part.touch(mode=0o600)
        part.write_bytes(data)


def is_private(mode: int) -> bool:
    """Whether a file's mode lets only its user read it."""
    return os.name != "posix" or not stat.S_IMODE(mode) & 0o077
