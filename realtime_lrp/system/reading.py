"""Reads files that a user has named: regular files only, and never more than a limit."""

from pathlib import Path

from realtime_lrp.errors import DamagedInputError, MissingInputError


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
