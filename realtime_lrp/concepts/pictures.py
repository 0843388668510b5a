"""The pictures that a gallery is chosen from: files, frames of recordings, drawn symbols."""

import logging
import math
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from realtime_lrp.errors import Error, MissingInputError
from realtime_lrp.models.drawings import drawings
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of, listed, skipped_in
from realtime_lrp.video.untrusted import read_frames, read_pictures

APART_S = 2.0  # seconds between two pictures of a recording that a channel has, at least
NAMED = 5  # how many files that are left out are named
Place = tuple[int, int]  # number of a file, or of a batch of drawn pictures, and of a frame in it
Found = tuple[Place, np.ndarray]  # a place, and the picture there, uint8 [H, W, 3] RGB

log = logging.getLogger(__name__)


class Pictures:
    """Pictures that can be read twice: drawn symbols for the embedded networks, or files."""

    files: Sequence[Path] = ()
    total = 0  # how many there are, 0 if that is not known
    apart = 0  # frames of a recording that make `APART_S`, rounded up; 0 without recordings

    def __init__(self) -> None:
        self.left_out: dict[int, Exception] = {}  # files that could not be read, by number

    def read(self, wanted: Collection[Place] | None = None) -> Iterator[Found]:
        """Yields pictures in order; of `wanted` places, or all."""
        raise NotImplementedError

    def tell_left_out(self) -> None:
        """Logs how many files could not be read, and names some."""
        if names := [repr(self.files[number].name) for number in sorted(self.left_out)]:
            text = listed(names, NAMED)
            log.warning("left out because they cannot be read: %d (%s)", len(names), text)


class DrawnPictures(Pictures):
    """Drawn symbols, each class equally often."""

    def __init__(self, count: int | None):
        super().__init__()
        self._pixels = drawings(count).pixels
        self.total = len(self._pixels)

    def read(self, wanted: Collection[Place] | None = None) -> Iterator[Found]:
        for number, picture in enumerate(self._pixels):
            if wanted is None or (number, 0) in wanted:
                yield (number, 0), picture


class FilePictures(Pictures):
    """Pictures, and a frame of recordings each `every` seconds; unreadable files are left out."""

    def __init__(self, words: Sequence[str], images: Path | None, every: float):
        super().__init__()
        kinds = (*PICTURES, *VIDEOS)
        files = inputs_of(words, kinds, "picture or recording")
        if images and not images.is_dir():
            raise MissingInputError(f"There is no folder {str(images)!r}.")
        of_images = [str(images)] if images else []
        self.files = files + inputs_of(of_images, PICTURES, "picture")
        for skipped in filter(None, (skipped_in(words, kinds), skipped_in(of_images, PICTURES))):
            log.warning("%s", skipped)
        self._every = every
        moving = any(map(_is_recording, self.files))
        self.total = 0 if moving else len(self.files)
        self.apart = math.ceil(APART_S / every) if moving else 0
        self._read: set[int] = set()

    def read(self, wanted: Collection[Place] | None = None) -> Iterator[Found]:
        files = set(range(len(self.files)) if wanted is None else (file for file, _ in wanted))
        for moving, run in groupby(sorted(files), lambda number: _is_recording(self.files[number])):
            for place, picture in (self._frames if moving else self._stills)([*run]):
                if wanted is None or place in wanted:
                    yield place, picture

    def _stills(self, numbers: Sequence[int]) -> Iterator[Found]:
        paths = [self.files[number] for number in numbers]
        for number, (_, pages) in zip(numbers, read_pictures(paths), strict=True):
            if isinstance(pages, Exception):
                self.left_out[number] = pages
            else:
                yield (number, 0), pages[0]

    def _frames(self, numbers: Sequence[int]) -> Iterator[Found]:
        for number in numbers:
            try:
                frames = read_frames(self.files[number], self._every, number not in self._read)
                for frame, picture in enumerate(frames):
                    yield (number, frame), picture
                self._read.add(number)
            except Error as error:
                self.left_out[number] = error


def _is_recording(path: Path) -> bool:
    return path.suffix.lower() in VIDEOS
