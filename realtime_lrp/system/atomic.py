"""Files and folders that appear complete or not at all."""

import errno
import glob
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from realtime_lrp.errors import OutputError, TransferError, masked

CANNOT_CREATE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENAMETOOLONG)
"""Error numbers that mean that a file cannot be created, as opposed to a failed write."""

MOST_NAME = 255
"""Bytes of the longest name of a file, on the usual file systems."""

LISTING_SHARE = 20
"""The listing of a folder is used for so many times as long as it took."""

MOST_LISTINGS = 8
_listings: dict[Path, tuple[float, dict[str, list[Path]]]] = {}
"""Folder -> until when its listing is used, and the parts in it by the names of their targets."""


def check_output(target: Path, overwrite: bool) -> None:
    """Refuses an output that cannot be made, before any work is done.

    Raises:
      OutputError: its folder is missing or not writable, or its name is taken.
    """
    folder = target.parent
    try:
        exists, is_file, is_folder = target.exists(), target.is_file(), target.is_dir()
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
    """Refuses a link in place of a file whose name the user has not typed.

    Raises:
      OutputError: the path is a link.
    """
    if path.is_symlink():
        raise OutputError(f"{str(path)!r} is a link, which may point anywhere. Remove it.")


@contextmanager
def atomic_file(
    target: Path,
    overwrite: bool = False,
    before_publishing: Callable[[Path], None] | None = None,
    part: Path | None = None,
) -> Iterator[Path]:
    """Yields the path `target.PID.part`; renames it to `target` on success, else removes it.

    If `target` is a link, the file that it points to is replaced.

    Args:
      target: the final name.
      overwrite: whether an existing file is replaced.
      before_publishing: called with the path of the complete part before that gets its name.
      part: the temporary name, if it may not lie beside the target; on the same disk.

    Raises:
      OutputError: the target cannot be made.
      TransferError: the disk is full, or a write failed.
    """
    check_output(target, overwrite)
    target = target.resolve()
    part = part or part_path(target)
    try:
        yield part
        if before_publishing:
            before_publishing(part)
        publish(part, target, overwrite)
    except OSError as error:
        _discard(part)
        raise write_error(target, error) from error
    except BaseException:
        _discard(part)
        raise


def write_error(target: Path, error: OSError) -> OutputError | TransferError:
    """What it means for an output that the system refused to make or to write a file."""
    if error.errno in CANNOT_CREATE:
        return OutputError(f"{str(target)!r} cannot be written ({error.strerror}).")
    return TransferError(
        f"Writing {str(target)!r} failed ({error.strerror or error}). "
        "Nothing is left of it; make room and start again."
    )


def part_path(target: Path) -> Path:
    """The name under which this process writes a file until it is complete."""
    return target.with_name(f"{target.name}.{os.getpid()}.part")


def publish(part: Path, target: Path, overwrite: bool) -> None:
    """Renames a complete part, once it is on the disk.

    Raises:
      OutputError: the target cannot be made; another process may have been faster.
      OSError: the disk is full or a write failed.
    """
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


def stale_parts(target: Path) -> list[Path]:
    """Parts of a file that were left by processes that no longer run."""
    return [part for part in _parts_of(target) if not runs(part.name.split(".")[-2])]


def remove_parts(target: Path) -> bool:
    """Removes the parts of a file or folder that processes have left which no longer run.

    Returns:
      Whether there are no others.
    """
    pattern = f"{glob.escape(target.name)}.*.part"
    for part in stale_parts_in(target.parent, pattern):
        with suppress(OSError):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
    return not any(target.parent.glob(pattern))


def stale_parts_in(folder: Path, pattern: str) -> list[Path]:
    """Parts in a folder that match a pattern and belong to no running process."""
    return [part for part in folder.glob(pattern) if not runs(part.name.split(".")[-2])]


def refuse_busy(target: Path) -> None:
    """Refuses a file that another running process is writing.

    Raises:
      OutputError: there is a part of it that belongs to a running process.
    """
    for part in _parts_of(target):
        if part != part_path(target) and runs(part.name.split(".")[-2]):
            raise OutputError(
                f"{str(target)!r} is being written by another process. Wait for it to finish, or "
                "choose another name."
            )


def _parts_of(target: Path) -> list[Path]:
    """The parts of a file, from a listing of its folder.

    A listing for each of n files in a folder would take n² steps, so a listing is used for a while:
    `LISTING_SHARE` times as long as it took. For a folder of a few files that is a millisecond.
    """
    folder, now = target.parent, time.monotonic()
    until, parts = _listings.get(folder, (0.0, {}))
    if now >= until:
        parts = {}
        with suppress(OSError):
            for name in os.listdir(folder):
                if name.endswith(".part"):
                    parts.setdefault(name.rsplit(".", 2)[0], []).append(folder / name)
        took = time.monotonic() - now
        while len(_listings) >= MOST_LISTINGS:
            _listings.pop(next(iter(_listings)), None)
        _listings[folder] = now + took + LISTING_SHARE * took, parts
    return parts.get(target.name, [])


def runs(number: str) -> bool:
    """Whether there is a process with this number; if in doubt, yes."""
    if os.name != "posix" or not number.isdecimal():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


@contextmanager
def atomic_folder(
    target: str | os.PathLike[str], overwrite: bool, mark: str | Collection[str]
) -> Iterator[Path]:
    """Yields the folder `target.PID.part`; renames it to `target` on success, else removes it.

    The folder around them is made if it is missing.

    Args:
      target: the final name.
      overwrite: whether an existing folder is replaced.
      mark: text in the name of each of its files, or all names that they may have; a folder with
        any other file is not replaced.

    Raises:
      OutputError: the folder cannot be made, or exists.
      TransferError: it cannot be renamed, or the disk is full.
    """
    target = Path(target).resolve()
    parent, part = target.parent, part_path(target)
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
        _move_folder(part, target, overwrite)
    except OSError as error:
        raise write_error(target, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if new:
            with suppress(OSError):  # unless there is something else in it
                parent.rmdir()


def check_folder(target: Path, overwrite: bool, mark: str | Collection[str]) -> None:
    """Refuses a folder that may not be replaced.

    Args:
      target: the folder.
      overwrite: whether it may be replaced.
      mark: text in the name of each of its files, or all names that they may have.

    Raises:
      OutputError: it exists, or holds another file.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"{str(target)!r} is a file. Expected the name of a folder.")
    if not overwrite:
        raise _folder_exists(target)
    for file in target.iterdir():
        ours = mark in file.name if isinstance(mark, str) else file.name in mark
        if not ours:
            raise OutputError(
                f"The folder {str(target)!r} holds {file.name!r}, which this command does not "
                "replace. Choose another folder, or empty it."
            )


def _folder_exists(target: Path) -> OutputError:
    return OutputError(f"The folder {str(target)!r} exists. Add --overwrite or choose another.")


def _move_folder(part: Path, target: Path, overwrite: bool) -> None:
    old = part.with_suffix(".old")
    try:
        if overwrite and target.exists():
            target.rename(old)
        part.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # another process was faster
            raise _folder_exists(target) from None
        raise TransferError(f"{str(target)!r} cannot be made ({error.strerror}).") from error
    shutil.rmtree(old, ignore_errors=True)


def _discard(part: Path) -> None:
    with suppress(OSError):
        part.unlink()
