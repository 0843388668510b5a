"""Reads many pictures in a child process, which a damaged file may crash or hang."""

import os
import threading
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, Error
from realtime_lrp.video.picture_process import PictureProcess
from realtime_lrp.video.pictures import read_pages
from realtime_lrp.video.source import Pictures

HANGS_S = 60.0
"""A child that needs longer for a file is killed."""


def pages(path: str, first_only: bool, stop: threading.Event) -> Pictures:
    """Opens the pictures of a file in this process."""
    return Pictures(((0.0, page) for page in read_pages(Path(path), first_only)), stop)


class PictureReader:
    """Reads pictures; the child decodes one while the caller works on the last.

    Args:
      first_only: as `read_pages` takes it.
    """

    def __init__(self, first_only: bool):
        self._first_only = first_only
        self._process: PictureProcess | None = None

    def __enter__(self) -> "PictureReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def read(self, paths: Sequence[Path]) -> Iterator[tuple[Path, list[np.ndarray] | Exception]]:
        """Yields each path with its pictures, as `read_pages` gives them, or with its error."""
        for path, following in zip_longest(paths, paths[1:]):
            process = self._process or self._open(path)
            outcome: list[np.ndarray] | Exception
            try:
                found = [picture for _, picture in process.pictures(str(path), HANGS_S)]
                outcome = found or DamagedInputError(f"{str(path)!r} has no pictures.")
            except (Error, OSError) as error:
                outcome = error
            if process.ended:
                self._close()
            elif following:
                self._open(following)
            yield path, outcome

    def _open(self, path: Path) -> PictureProcess:
        self._process = self._process or PictureProcess()
        self._process.open(pages, [os.fspath(path), self._first_only])
        return self._process

    def _close(self) -> None:
        process, self._process = self._process, None
        if process:
            process.close()
