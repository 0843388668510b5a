"""Decodes untrusted JPEGs in a child process: a crash or a hang there costs one picture.

A progressive JPEG of 100 KB can have thousands of scans, each of which goes over the whole picture:
decoding it takes seconds. Browsers send baseline JPEGs of one scan, and nothing else gets to the
child. That is started when the first picture comes, and again after it has ended.
"""

import logging
import threading

import numpy as np

from realtime_lrp.errors import Error
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.picture_process import PictureProcess
from realtime_lrp.video.source import Pictures

MOST_PIXELS = 640 * 640
"""Largest picture; checked before it is decoded."""

DECODING_S = 1.0
"""Maximum time for one picture; then the child is killed."""

STARTING_S = 20.0
"""The same for the first picture of a child, which has to start."""

MOST_SCANS = 4
"""Scans of a baseline JPEG: one, or one for each component."""

_BASELINE, _SCAN = 0xC0, 0xDA
_SEGMENTS = frozenset((*range(0xE0, 0xF0), 0xFE, 0xDB, 0xC4, 0xDD, _BASELINE, _SCAN))
"""Application data, comment, tables, restart interval, frame, scan; no other kind of frame."""

log = logging.getLogger(__name__)


class ChildDecoder:
    """Decodes pictures one after the other, for one thread.

    Attributes:
      crashes: how many pictures have ended the child.
    """

    def __init__(self) -> None:
        self.crashes = 0
        self._process: PictureProcess | None = None

    def decode(self, jpeg: bytes) -> np.ndarray | None:
        """The picture, uint8 [H, W, 3] RGB; None if it cannot be decoded.

        Args:
          jpeg: from an untrusted sender; only small baseline JPEGs get to the child.
        """
        if not is_plain_jpeg(jpeg, MOST_PIXELS):
            return None
        limit_s = DECODING_S if self._process else STARTING_S
        if self._process is None:  # OpenCV reads the variable when it is loaded
            self._process = PictureProcess(
                variables={"OPENCV_IO_MAX_IMAGE_PIXELS": str(MOST_PIXELS)}
            )
        self._process.open(decoded, data=jpeg)
        try:
            found = [picture for _, picture in self._process.pictures("a visitor's JPEG", limit_s)]
        except (Error, OSError) as error:
            if self._process.ended:
                self.crashes += 1
                log.warning("%s", error)
                self.close()
            return None
        small = len(found) == 1 and found[0].shape[0] * found[0].shape[1] <= MOST_PIXELS
        return found[0] if small else None

    def close(self) -> None:
        """Ends the child."""
        process, self._process = self._process, None
        if process:
            process.close()


def decoded(jpeg: bytes, stop: threading.Event) -> Pictures:
    """Opens the picture in this process: none if it is damaged or too large."""
    try:
        picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:  # it has too many pixels
        picture = None
    return Pictures([] if picture is None else [(0.0, picture)], stop)


def is_plain_jpeg(data: bytes, most_pixels: int) -> bool:
    """Whether something looks like a baseline JPEG of few scans that is not too large.

    Args:
      data: its bytes; only the segments before the first scan are read.
      most_pixels: how many it may have.
    """
    if data[:2] != b"\xff\xd8" or data.count(bytes((0xFF, _SCAN))) > MOST_SCANS:
        return False
    pixels, at = 0, 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] in _SEGMENTS:
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if kind == _SCAN:
            return 0 < pixels <= most_pixels
        if kind == _BASELINE:
            pixels = int.from_bytes(data[at + 5 : at + 7]) * int.from_bytes(data[at + 7 : at + 9])
        at += 2 + length
    return False
