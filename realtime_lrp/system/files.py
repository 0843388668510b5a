"""Files that are read up to a limit, and files and folders that appear complete or not at all.

Temporary folders and parts of files are gone when the program ends, also those that another thread
holds: a process that ends by `os._exit` unwinds no other thread, so they are removed before it.
"""

import errno
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from realtime_lrp.errors import (
    DamagedInputError,
    FullDiskError,
    MissingInputError,
    OutputError,
    TransferError,
    masked,
)


def read_limited(path: Path, limit: int, expected: str) -> bytes:
    """Reads a whole file of at most `limit` bytes; refuses what is no file and may never end."""
    try:
        if path.exists() and not path.is_file():
            raise MissingInputError(f"{str(path)!r} is not a file. Expected {expected}.")
        if path.stat().st_size > limit:
            raise DamagedInputError(
                f"{str(path)!r} is too large. Expected at most {limit >> 20} MiB."
            )
        return path.read_bytes()
    except OSError as error:
        raise MissingInputError(
            f"{str(path)!r} cannot be read ({error.strerror}). Expected {expected}."
        ) from None


CANNOT_CREATE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENAMETOOLONG)
"""Error numbers that mean that a file cannot be created, as opposed to a failed write."""

MOST_NAME = 255  # bytes of the longest name of a file, on the usual file systems
KEPT_FREE = 64 * 2**20  # bytes of a disk that stay free


def check_room(
    folder: Path, needed: int = KEPT_FREE, what_to_do: str = "choose another folder"
) -> None:
    """Refuses to write into a folder with less room than `needed` bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FullDiskError(
            f"The disk of {str(folder)!r} is full: {free >> 20} MiB are free, {needed >> 20} MiB "
            f"are needed. Make room, or {what_to_do}."
        )


def check_output(target: Path, overwrite: bool) -> None:
    """Refuses an output that cannot be made, before any work is done."""
    folder = target.parent
    try:
        exists = target.exists()
        is_file = target.is_file()
        is_folder = target.is_dir()
        there = folder.is_dir()
        target.resolve()
    except OSError as error:
        raise OutputError(f"{str(target)!r} cannot be made ({error.strerror}).") from None
    except RuntimeError:
        raise OutputError(f"{str(target)!r} is a link that leads back to itself.") from None
    if not there:
        shown = Path(masked(str(target)))  # it may be a URL with a password
        raise OutputError(f"There is no folder {str(shown.parent)!r} to write {shown.name!r} into.")
    if is_folder:
        raise OutputError(f"{str(target)!r} is a folder. Expected the name of a file.")
    if exists and not is_file:
        raise OutputError(f"{str(target)!r} is a device or a pipe. Expected the name of a file.")
    if exists and not overwrite:
        raise _exists(target)
    if not os.access(folder, os.W_OK):
        raise OutputError(f"The folder {str(folder)!r} is not writable.")


def _exists(target: Path) -> OutputError:
    return OutputError(f"{str(target)!r} exists. Add --overwrite or choose another name.")


def refuse_link(path: Path) -> None:
    """Refuses a link in place of a file whose name the user has not typed."""
    if path.is_symlink():
        raise OutputError(f"{str(path)!r} is a link, which may point anywhere. Remove it.")


@contextmanager
def atomic_file(target: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yields `target.PID.part`; renames it to `target`, or what that links to, on success."""
    check_output(target, overwrite)
    target = target.resolve()
    part = part_path(target)
    _temporary.add(part)
    try:
        yield part
        publish(part, target, overwrite)
    except OSError as error:
        raise write_error(target, error) from error
    finally:
        with suppress(OSError):
            part.unlink()
        _temporary.discard(part)


def write_error(target: Path, error: OSError) -> OutputError | TransferError:
    """The error for an output whose file the system refused to make or to write."""
    if error.errno in CANNOT_CREATE:
        return OutputError(f"{str(target)!r} cannot be written ({error.strerror}).")
    return TransferError(
        f"Writing {str(target)!r} failed ({error.strerror or error}). "
        "What was there before is unchanged. Make room and try again."
    )


def part_path(target: Path) -> Path:
    """The name under which this process writes a file until it is complete."""
    return target.with_name(f"{target.name}.{os.getpid()}.part")


def publish(part: Path, target: Path, overwrite: bool) -> None:
    """Renames a complete part, once it is on the disk."""
    with part.open("r+b") as written:
        os.fsync(written.fileno())
    check_output(target, overwrite)
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # of two processes that get here at once, one fails
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # the file system has no links
        os.replace(part, target)
    else:
        part.unlink()


def parts_in(folder: Path) -> Iterator[tuple[Path, Path, bool]]:
    """The parts of files and folders: each with its target, and whether its process still runs."""
    for part in sorted(folder.glob("*.*.part")):
        name, number, _ = part.name.rsplit(".", 2)
        yield part, folder / name, runs(number)


def stale_parts(targets: Iterable[Path]) -> list[Path]:
    """Parts of files that were left by processes that no longer run."""
    wanted = set(targets)
    found = (part for folder in sorted({one.parent for one in wanted}) for part in parts_in(folder))
    return [part for part, target, running in found if target in wanted and not running]


def remove_parts(target: Path) -> bool:
    """Removes what `stale_parts` finds of a file or folder; gives whether there are no others."""
    for part in stale_parts([target]):
        with suppress(OSError):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
    return all(of != target for _, of, _ in parts_in(target.parent))


def refuse_busy(target: Path) -> None:
    """Refuses a file that another running process is writing."""
    own = part_path(target)
    if any(of == target and running and part != own for part, of, running in parts_in(own.parent)):
        raise OutputError(
            f"{str(target)!r} is being written by another process. Wait for it to finish, or "
            "choose another name."
        )


def runs(number: str) -> bool:
    """Whether there is a process with this number; if in doubt, yes."""
    import psutil  # this takes a while

    return not re.fullmatch("[0-9]{1,9}", number) or psutil.pid_exists(int(number))


@contextmanager
def atomic_folder(
    target: str | os.PathLike[str], overwrite: bool, mark: str | Collection[str]
) -> Iterator[Path]:
    """Yields the folder `target.PID.part`; renames it to `target` on success, else removes it.

    The folder around them is made if it is missing. A folder is not replaced if a file in it lacks
    `mark` in its name, or its name is not among the `mark`.
    """
    target = Path(target).resolve()
    parent = target.parent
    part = part_path(target)
    try:
        new = not parent.exists()
        check_folder(target, overwrite, mark)
        parent.mkdir(exist_ok=True)
        part.mkdir()
    except OSError as error:
        raise OutputError(
            f"The folder {str(target)!r} cannot be made ({error.strerror})."
        ) from None
    try:
        yield part
        check_folder(target, overwrite, mark)  # another process may have been faster
        old = part.with_suffix(".old")
        if overwrite and target.exists():
            target.rename(old)
        try:
            part.rename(target)
        except OSError:
            with suppress(OSError):  # nothing was there before, or it cannot be put back
                old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # another process was faster
            raise _exists(target) from None
        raise write_error(target, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if new:
            with suppress(OSError):  # unless there is something else in it
                parent.rmdir()


def check_folder(target: Path, overwrite: bool, mark: str | Collection[str]) -> None:
    """Refuses a folder that may not be replaced; `mark` as in `atomic_folder`."""
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"{str(target)!r} is a file. Expected the name of a folder.")
    if not overwrite:
        raise _exists(target)
    for file in target.iterdir():
        ours = mark in file.name if isinstance(mark, str) else file.name in mark
        if not ours:
            raise OutputError(
                f"The folder {str(target)!r} holds {file.name!r}, which this command does not "
                "replace. Choose another folder, or empty it."
            )


PREFIX = "realtime-lrp-"  # how the names of the folders begin; the number of the process follows
LOCK_S = 1.0  # maximum wait for a thread that makes a folder; a dead network drive may hang
_lock = threading.Lock()  # held while a folder is made: none appears after the last removal
_temporary: set[Path] = set()  # folders, and parts of files


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Makes a folder that exists as long as the context; raises `OSError` if it cannot be made."""
    with _lock:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        _temporary.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _temporary.discard(folder)


def remove_temporary() -> None:
    """Removes folders and parts. Only for the end of the process: whoever wants another waits."""
    _lock.acquire(timeout=LOCK_S)  # never released
    for one in list(_temporary):
        shutil.rmtree(one, ignore_errors=True)
        with suppress(OSError):
            one.unlink()


def remove_abandoned(prefix: str = PREFIX) -> None:
    """Removes the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if not runs(folder.name.removeprefix(prefix).split("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
