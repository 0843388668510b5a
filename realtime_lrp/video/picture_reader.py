"""Reads many pictures in a child process, which a damaged file may crash or hang."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child import Child
from realtime_lrp.system.child_command import module_command
from realtime_lrp.system.child_errors import death, failure, hang
from realtime_lrp.video.picture_child import Pages, ReadPages

HANGS_S = 60.0
"""A child that needs longer for a file is killed."""

log = logging.getLogger(__name__)


def child_command() -> list[str]:
    """The command line of the child process."""
    return module_command("realtime_lrp.video.picture_child")


class PictureReader:
    """Reads pictures; the child decodes one while the caller works on the last.

    Args:
      first_only: as `read_pages` takes it.
    """

    def __init__(self, first_only: bool):
        self._first_only = first_only
        self._child: Child | None = None

    def __enter__(self) -> "PictureReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def read(self, paths: Sequence[Path]) -> Iterator[tuple[Path, list[np.ndarray] | Exception]]:
        """Yields each path with its pictures, as `read_pages` gives them, or with its error."""
        for path, following in zip_longest(paths, paths[1:]):
            if self._child is None:
                self._request(path)
            outcome = self._outcome(path)
            if following and self._child:
                self._request(following)
            yield path, outcome

    def _request(self, path: Path) -> None:
        self._child = self._child or Child(child_command(), Pages | Failed)
        with suppress(OSError):  # it has ended, which `_outcome` reports
            self._child.send(ReadPages(path, self._first_only))

    def _outcome(self, path: Path) -> list[np.ndarray] | Exception:
        if self._child is None:
            raise ValueError("Nothing was requested.")
        message, hung = self._child.receive_within(HANGS_S)
        if isinstance(message, Failed):
            return failure(str(path), message)
        if message is None:
            file = str(path)
            error = hang(file, HANGS_S) if hung else death(file, self._child.death())
            self._close()
            return error
        return self._checked(path, message)

    def _checked(self, path: Path, message: Pages) -> list[np.ndarray] | Exception:
        for note in message.notes:
            log.warning("%s", note)
        if message.pictures and all(map(_is_picture, message.pictures)):
            return message.pictures
        return DamagedInputError(f"{str(path)!r} makes the decoder send invalid pictures.")

    def _close(self) -> None:
        if self._child:
            self._child.close()
            self._child = None


def _is_picture(array: np.ndarray) -> bool:
    return array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3 and array.size > 0
