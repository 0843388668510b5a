"""The folder that the exhibit keeps what it knows in, which is that of one process at a time."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_state_path

from realtime_lrp.errors import UnavailableError


def state_folder() -> Path:
    """Where log, health file and last good configuration are: the service's folder, or the user's.

    It is made where there is none.
    """
    try:
        folder = Path(os.environ.get("STATE_DIRECTORY") or user_state_path("realtime-lrp"))
    except RuntimeError:  # a user without a home
        folder = Path(tempfile.gettempdir()) / "realtime-lrp"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def single_instance() -> Iterator[None]:
    """Lets no second exhibit use the state folder; the system ends that with the process.

    Where folders cannot be locked nothing is refused.

    Raises:
      UnavailableError: another one uses it.
    """
    lock = _locked(state_folder())
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """The lock of a folder, which no program that is started gets; None where there is none."""
    try:
        import fcntl  # not on every system

        lock = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UnavailableError(
            f"The exhibit already runs{_process_with(folder)}. "
            "Leave that one first, with its key or SIGTERM."
        ) from None
    except OSError:  # a file system without locks
        os.close(lock)
        return None
    return lock


def _process_with(folder: Path) -> str:
    """The process that has a folder open, in words; "" where the system does not tell."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if link.readlink() == folder.resolve():
                return f" (process {link.parts[2]})"
    return ""
