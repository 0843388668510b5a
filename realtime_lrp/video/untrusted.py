"""Reads files and pictures of strangers in a child process, which they may crash or hang.

A progressive JPEG of 100 KB can have thousands of scans, each over the whole picture: decoding it
takes seconds. Browsers send baseline JPEGs of one scan; no other gets to the child.
"""

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, Error
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.picture_process import PictureProcess
from realtime_lrp.video.pictures import first_pages
from realtime_lrp.video.reader import VideoReader

HANGS_S = 60.0  # a child that needs longer for a file, or the next frame, is killed
MOST_NOTES = 5  # how much is logged about a recording
MOST_PIXELS = 640 * 640  # largest JPEG; checked before it is decoded
DECODING_S = 1.0  # maximum time for a JPEG; then the child is killed
STARTING_S = 20.0  # the same for the first picture of a child, which has to start
MOST_SCANS = 4  # scans of a baseline JPEG: one, or one for each component

_BASELINE = 0xC0
_SCAN = 0xDA
_SEGMENTS = frozenset((*range(0xE0, 0xF0), 0xFE, 0xDB, 0xC4, 0xDD, _BASELINE, _SCAN))
"""Application data, comment, tables, restart interval, frame, scan; no other kind of frame."""

log = logging.getLogger(__name__)


def pages(path: str, stop: threading.Event) -> list[np.ndarray]:
    """The first pictures of a file, in this process."""
    return first_pages(Path(path))


def frames(path: str, every: float, stop: threading.Event) -> Iterator[np.ndarray]:
    """Yields what `read_frames` yields, in this process."""
    with VideoReader(Path(path)) as reader:
        begun: Fraction | None = None
        due = 0  # number of the next frame on the grid of times
        for frame in reader:
            time = frame.pts * reader.time_base
            begun = time if begun is None else begun
            number = int((time - begun) / Fraction(every)) if every else due
            if number >= due:
                due = number + 1
                yield frame.picture
        if reader.expected:
            log.warning("%s: ends early, of about %d frames", path, reader.expected)


def decoded(jpeg: bytes, stop: threading.Event) -> list[np.ndarray]:
    """The picture, in this process: none if it is damaged or too large."""
    try:
        picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:  # it has too many pixels
        return []
    return [] if picture is None else [picture]


def read_pictures(paths: Sequence[Path]) -> Iterator[tuple[Path, list[np.ndarray] | Exception]]:
    """Yields each path with its `first_pages` or its error; the next one is decoded meanwhile."""
    with closing(PictureProcess()) as process:
        for number, path in enumerate(paths):
            if number == 0:
                process.open(pages, [os.fspath(path)])
            outcome: list[np.ndarray] | Exception
            try:
                found = list(process.pictures(str(path), HANGS_S))
                outcome = found or DamagedInputError(f"{str(path)!r} has no pictures.")
            except (Error, OSError) as error:
                outcome = error
            for following in paths[number + 1 : number + 2]:
                process.open(pages, [os.fspath(following)])
            yield path, outcome


def read_frames(path: Path, every: float, notes: bool = True) -> Iterator[np.ndarray]:
    """Yields the first frame of a recording, then one in each `every` seconds, uint8 [H, W, 3] RGB.

    `notes` says whether what is wrong with it, though it can be read, is logged.
    """
    with closing(PictureProcess(MOST_NOTES * notes)) as process:
        process.open(frames, [os.fspath(path), every])
        yield from process.pictures(str(path), HANGS_S)


class ChildDecoder:
    """Decodes pictures one after the other, for one thread."""

    def __init__(self) -> None:
        self.crashes = 0
        self._process: PictureProcess | None = None

    def decode(self, jpeg: bytes) -> np.ndarray | None:
        """The picture, uint8 [H, W, 3] RGB; None if it cannot be decoded."""
        if not is_plain_jpeg(jpeg, MOST_PIXELS):
            return None
        starts = self._process is None or self._process.child.ended
        if self._process is None:  # OpenCV reads the variable when it is loaded
            self._process = PictureProcess(
                variables={"OPENCV_IO_MAX_IMAGE_PIXELS": str(MOST_PIXELS)}
            )
        self._process.open(decoded, data=jpeg)
        limit_s = STARTING_S if starts else DECODING_S
        try:
            found = list(self._process.pictures("a visitor's JPEG", limit_s))
        except (Error, OSError) as error:
            if self._process.child.ended:
                self.crashes += 1
                log.warning("%s", error)
            return None
        small = len(found) == 1 and found[0].shape[0] * found[0].shape[1] <= MOST_PIXELS
        return found[0] if small else None

    def close(self) -> None:
        if self._process:
            self._process.close()
            self._process = None


def is_plain_jpeg(data: bytes, most_pixels: int) -> bool:
    """Whether a JPEG is baseline, of few scans and pixels, by what precedes its first scan."""
    if data[:2] != b"\xff\xd8" or data.count(bytes((0xFF, _SCAN))) > MOST_SCANS:
        return False
    pixels = 0
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] in _SEGMENTS:
        kind = data[at + 1]
        length = int.from_bytes(data[at + 2 : at + 4])
        if kind == _SCAN:
            return 0 < pixels <= most_pixels
        if kind == _BASELINE:
            pixels = int.from_bytes(data[at + 5 : at + 7]) * int.from_bytes(data[at + 7 : at + 9])
        at += 2 + length
    return False
