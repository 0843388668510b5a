"""What libraries do past us: they print on standard error, they need a temporary folder."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_lock = threading.Lock()


IN_MEMORY = "/dev/shm"
"""Where Linux keeps files in memory."""


def ensure_temporary_folder() -> None:
    """Where no folder for temporary files can be written, memory is taken: the disk may be full.

    TensorFlow cannot be imported without one.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        if os.access(IN_MEMORY, os.W_OK):
            os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """Holds back what is printed; yields a list that gets the lines once it has ended.

    Where there is no standard error stream, or no place to hold anything, nothing is held back.
    """
    lines: list[str] = []
    with _lock:
        try:
            stderr = os.dup(2)
        except OSError:
            yield lines
            return
        held = None
        with suppress(OSError):
            held = _nameless()
            os.dup2(held, 2)
        try:
            yield lines
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            if held is not None:
                os.lseek(held, 0, os.SEEK_SET)
                with os.fdopen(held, "rb") as file:
                    lines += file.read().decode(errors="replace").splitlines()


def _nameless() -> int:
    """A file without a name, in memory where the system can: the disk may be full."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("held back")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
