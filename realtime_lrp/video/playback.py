"""Recordings and pictures as a live source that can be paused, stepped and skipped."""

import logging
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, Error
from realtime_lrp.video.files import PICTURES
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.source import Source

PICTURE_S = 3.0
"""How long a picture is shown."""
BEHIND_S = 1.0
"""If playback is later than this, it does not catch up."""
POLL_S = 0.05
"""How often a wait checks whether it has to stop."""

log = logging.getLogger(__name__)


class Playback(Source):
    """Plays recordings at their own speed and pictures for `PICTURE_S` each, in a loop.

    Args:
      files: recordings and pictures, in playing order.
      stop: ends every wait.
    """

    def __init__(self, files: Sequence[Path], stop: threading.Event):
        super().__init__(stop)
        self.described, self.files = files[0].name, len(files)
        self._frames = self._played(files)
        self._due: float | None = None  # when the present frame ends
        self._changed = threading.Condition()
        self._paused, self._steps, self._skipped = False, 0, 0

    def read(self) -> np.ndarray | None:
        return next(self._frames, None)

    def close(self) -> None:
        self._frames.close()

    def pause(self, paused: bool) -> None:
        with self._changed:
            self._paused, self._steps = paused, 0
            self._changed.notify()

    def step(self) -> None:
        with self._changed:
            self._steps += 1  # counts while paused only
            self._changed.notify()

    def skip(self, files: int) -> None:
        with self._changed:
            self._skipped += files
            self._changed.notify()

    def _played(self, files: Sequence[Path]) -> Generator[np.ndarray, None, None]:
        playable, index, by = list(files), 0, 1
        while playable and not self.stop.is_set():
            index %= len(playable)
            file = playable[index]
            position = f" ({index + 1} of {len(playable)})" if len(playable) > 1 else ""
            self.described = file.name + position
            try:
                for picture, duration_s in _timed(file):
                    yield picture
                    if not self._shown_for(duration_s):
                        break
            except Error as error:
                if len(files) == 1:
                    raise
                log.warning("%s", error)
                playable.remove(file)
                self.files = len(playable)
                index -= by < 0  # the next file has taken its index
                continue
            by = self._files_further()
            index += by
        if not playable:
            raise DamagedInputError(f"None of the {len(files)} files can be played.")

    def _shown_for(self, duration_s: float) -> bool:
        """Waits until the next frame is due; False if the file is to be left at once."""
        with self._changed:
            now = time.monotonic()
            due = now if self._due is None or now - self._due > BEHIND_S else self._due
            self._due = due + duration_s
            while not (self.stop.is_set() or self._skipped):
                self.on_wait()
                if self._paused:
                    self._due = None
                    if self._steps:
                        self._steps -= 1
                        return True
                    self._changed.wait(POLL_S)
                elif self._due is None or (wait_s := self._due - time.monotonic()) <= 0:
                    return True
                else:
                    self._changed.wait(min(wait_s, POLL_S))
        return False

    def _files_further(self) -> int:
        with self._changed:
            by, self._skipped = self._skipped, 0
            if by:
                self._due, self._steps = None, 0
        return by or 1


def _timed(file: Path) -> Iterator[tuple[np.ndarray, float]]:
    """Yields (picture, seconds until the next one); the last one has the average duration."""
    if file.suffix.lower() in PICTURES:
        yield read_picture(file), PICTURE_S
        return
    with VideoReader(file) as reader:
        before = None
        for frame in reader:
            if before is not None:
                yield before.picture, float((frame.pts - before.pts) * reader.time_base)
            before = frame
        if before is not None:
            yield before.picture, float(1 / reader.fps)
