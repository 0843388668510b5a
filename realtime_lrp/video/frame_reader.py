"""Reads some frames of recordings in a child process, which a damaged file may crash or hang."""

import logging
import os
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from realtime_lrp.video.picture_process import PictureProcess
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.source import Pictures

HANGS_S = 60.0
"""A child that needs longer for its next picture is killed."""

MOST_NOTES = 5
"""How much is logged about a recording."""

log = logging.getLogger(__name__)


def read_frames(path: Path, every: float, notes: bool = True) -> Iterator[np.ndarray]:
    """Yields the first frame of a recording, then one every so many seconds, uint8 [H, W, 3] RGB.

    Args:
      path: the recording.
      every: seconds between two frames; 0 for all frames.
      notes: whether to log what is wrong with it, though it can be read.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: nothing in it can be decoded, or it makes the decoder crash or hang.
    """
    for _, picture in read_timed_frames(path, every, notes):
        yield picture


def read_timed_frames(
    path: Path, every: float = 0.0, notes: bool = True
) -> Iterator[tuple[float, np.ndarray]]:
    """As `read_frames`, with the seconds since the first frame; `every` 0 is for all frames."""
    process = PictureProcess(MOST_NOTES * notes)
    try:
        process.open(frames, [os.fspath(path), every])
        yield from process.pictures(str(path), HANGS_S)
    finally:
        process.close()


def frames(path: str, every: float, stop: threading.Event) -> Pictures:
    """Opens what `read_timed_frames` yields, in this process."""
    return Pictures(frames_every(Path(path), every), stop)


def frames_every(path: Path, every: float) -> Iterator[tuple[float, np.ndarray]]:
    """What `read_timed_frames` yields, decoded in this process."""
    with VideoReader(path) as reader:
        begun: Fraction | None = None
        due = 0  # number of the next frame on the grid of times
        for frame in reader:
            time = frame.pts * reader.time_base
            begun = time if begun is None else begun
            number = int((time - begun) / Fraction(every)) if every else due
            if number >= due:
                due = number + 1
                yield float(time - begun), frame.picture
        if reader.expected:
            log.warning("%s: ends early, of about %d frames", path, reader.expected)
