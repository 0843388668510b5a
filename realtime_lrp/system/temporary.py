"""Temporary folders that are gone when the program ends, also those that another thread holds.

A process that ends by `os._exit` unwinds no other thread, so their folders are removed before it.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from realtime_lrp.system.atomic import runs

PREFIX = "realtime-lrp-"
"""How the names of the folders begin; the number of the process follows."""

LOCK_S = 1.0
"""Maximum wait for a thread that is making a folder, in seconds; a dead network drive may hang."""

_lock = threading.Lock()  # held while a folder is made: none appears after the last removal
_folders: set[Path] = set()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Makes a folder that exists as long as the context; raises `OSError` if it cannot be made."""
    with _lock:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        _folders.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.discard(folder)


def remove_temporary_folders() -> None:
    """Removes all folders. Only for the end of the process: whoever wants another one waits."""
    _lock.acquire(timeout=LOCK_S)  # never released
    for folder in list(_folders):
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(prefix: str = PREFIX) -> None:
    """Removes the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if not runs(folder.name.removeprefix(prefix).split("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
