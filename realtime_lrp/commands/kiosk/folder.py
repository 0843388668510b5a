"""The folder of the exhibit's log and health file, which only one process may use."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_state_path

from realtime_lrp.errors import UnavailableError


def state_folder() -> Path:
    """The folder of the service, or the user's own when started by hand; created if missing."""
    try:
        folder = Path(os.environ.get("STATE_DIRECTORY") or user_state_path("realtime-lrp"))
    except RuntimeError:  # a user without a home
        folder = Path(tempfile.gettempdir()) / "realtime-lrp"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def single_instance() -> Iterator[None]:
    """Locks the state folder, so that only one exhibit uses it; the lock ends with the process.

    Where folders cannot be locked (Windows, some file systems), nothing is refused.

    Raises:
      UnavailableError: another exhibit is using the folder.
    """
    lock = _lock(state_folder())
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock and is not inherited; None if locking is impossible."""
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
            f"The exhibit is already running{_process_using(folder)}. "
            "Stop that one first, with its exit key or SIGTERM."
        ) from None
    except OSError:  # a file system without locks
        os.close(lock)
        return None
    return lock


def _process_using(folder: Path) -> str:
    """Names the process that has the folder open, in brackets; "" if the system hides it."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if link.readlink() == folder.resolve():
                return f" (process {link.parts[2]})"
    return ""
