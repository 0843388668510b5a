"""Recordings and pictures as a live source that can be paused, stepped, skipped and sought."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, Error, masked
from realtime_lrp.video.containers import is_address
from realtime_lrp.video.files import PICTURES
from realtime_lrp.video.pictures import first_pages, read_picture
from realtime_lrp.video.reader import Span, TimedFrame, VideoReader
from realtime_lrp.video.source import MOST_SECONDS, PATIENCE_S, Action, Source, Timeline

PICTURE_S = 3.0  # how long a picture is shown
ANIMATIONS = (".gif", ".apng")  # played at their own speed if they are animated
BEHIND_S = 1.0  # if playback is later than this, it does not catch up
POLL_S = 0.05  # how often a wait checks whether it has to stop
SEEK_S = 0.5  # a longer seek gives way to a newer one, with the frame that it reached

log = logging.getLogger(__name__)


class Playback(Source):
    """Plays recordings at their own speed and pictures for `PICTURE_S` each, in a loop."""

    def __init__(self, files: Sequence[str], stop: threading.Event):
        super().__init__(stop)
        self.files = len(files)
        self._frames = self._played(files)
        self.described = _name(files[0])
        self.patience_s = PATIENCE_S if any(map(is_address, files)) else 0.0
        self._due: float | None = None  # when the present frame ends
        self._changed = threading.Condition()
        self._paused = False
        self._steps = 0
        self._skipped = 0
        self._sought: float | None = None
        self._began = 0.0  # when the present file was opened

    def read(self) -> np.ndarray | None:
        return next(self._frames, None)

    def close(self) -> None:
        self._frames.close()

    def control(self, action: Action, value: float = 0) -> None:
        with self._changed:
            match action:
                case "pause":
                    self._paused = bool(value)
                    self._steps = 0
                case "step":
                    self._steps += 1  # counts while paused only
                case "skip":
                    self._skipped += int(value)
                case "seek":
                    self._sought = max(0.0, value)
            self._changed.notify()

    def _played(self, files: Sequence[str]) -> Generator[np.ndarray, None, None]:
        playable = list(files)
        index = 0
        by = 1
        start = 0.0
        while playable and not self.stop.is_set():
            index %= len(playable)
            file = playable[index]
            self.described = _name(file)
            if len(playable) > 1:
                self.described += f" ({index + 1} of {len(playable)})"
            place = Timeline(index, len(playable), "files") if len(playable) > 1 else None
            self._began = time.monotonic()
            try:
                shown = _timed(file, start, place, self._goes_on_seeking)
                for picture, duration_s, self.timeline in shown:
                    yield picture
                    if not self._shown_for(duration_s):
                        break
            except Error as error:
                if len(files) == 1:
                    raise
                log.warning("%s", error)
                playable.remove(file)
                self.files = len(playable)
                start = 0.0
                index -= by < 0  # the next file has taken its index
                continue
            before = index
            index, start = self._next(index, len(playable))
            by = index - before
        if not playable:
            raise DamagedInputError(f"None of the {len(files)} files can be played.")

    @property
    def _jumps(self) -> bool:
        return bool(self._skipped) or self._sought is not None

    def _shown_for(self, duration_s: float) -> bool:
        """Waits until the next frame is due; False if the file is to be left at once."""
        with self._changed:
            now = time.monotonic()
            due = now if self._due is None or now - self._due > BEHIND_S else self._due
            ends: float | None = due + duration_s
            self._due = ends
            while not (self.stop.is_set() or self._jumps):
                self.on_wait()
                if self._paused:
                    self._due = ends = None
                    if self._steps:
                        self._steps -= 1
                        return True
                    self._changed.wait(POLL_S)
                    continue
                if ends is None:  # no longer paused: the frame is shown for its time again
                    ends = time.monotonic() + duration_s
                if (wait_s := ends - time.monotonic()) <= 0:
                    return True
                self._changed.wait(min(wait_s, POLL_S))
        return False

    def _goes_on_seeking(self) -> bool:
        """Whether a seek is to be finished; asked for each frame before the one that is sought."""
        self.on_wait()
        long = time.monotonic() - self._began > SEEK_S
        return not (self.stop.is_set() or self._skipped or (long and self._sought is not None))

    def _next(self, index: int, files: int) -> tuple[int, float]:
        """The index of the file to open next, and the seconds at which it begins."""
        with self._changed:
            skipped = self._skipped
            sought = self._sought
            if self._jumps:
                self._skipped = self._steps = 0
                self._sought = self._due = None
        if skipped or sought is None:
            return index + (skipped or 1), 0.0
        if self.timeline and self.timeline.unit == "files":
            return min(int(sought), files - 1), 0.0
        return index, sought


def _name(file: str) -> str:
    return masked(file) if is_address(file) else Path(file).name


def _timed(
    file: str, start: float, place: Timeline | None, go_on: Callable[[], bool]
) -> Iterator[tuple[np.ndarray, float, Timeline | None]]:
    """Yields pictures, the seconds until the next one, and where they stand.

    A recording begins with the frame shown at `start` seconds, a still picture stands at `place`.
    """
    suffix = "" if is_address(file) else Path(file).suffix.lower()
    animated = suffix in ANIMATIONS and len(first_pages(Path(file))) > 1
    if suffix in PICTURES and not animated:
        yield read_picture(Path(file)), PICTURE_S, place
        return
    with VideoReader(file, Span(start, with_shown=True)) as reader:
        reader.go_on = go_on
        length = float(reader.length or 0)
        unit = reader.time_base
        ends: list[TimedFrame | None] = [None]
        for frame, following in pairwise(chain(reader, ends)):
            if frame:
                seconds = (following.pts - frame.pts) * unit if following else 1 / reader.fps
                place = None
                if 0 < length <= MOST_SECONDS:
                    position = min(max(0.0, float(frame.pts * unit)), length)
                    place = Timeline(position, length, "seconds")
                yield frame.picture, float(seconds), place
