"""What a camera offers, asked of Linux (Video4Linux2); its pictures are left alone."""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator

QUERYCAP, ENUM_FMT, ENUM_FRAMESIZES = 0x80685600, 0xC0405602, 0xC02C564A
"""Requests out of linux/videodev2.h: `VIDIOC_QUERYCAP` and so on."""

CAPABILITIES, FORMAT, SIZE = "=84x2I12x", "=3I32s4s16x", "=I4sI6I8x"
"""Their structures. What the device can do, and what this node of it; the index, the type, flags,
the words, the letters; the index, the letters, the kind of size, and the size itself or the
smallest, the largest and the step of each side."""

FILMS, OF_THE_NODE = 0x1001, 0x80000000
"""Capabilities: it gives pictures, in one plane or several; it tells those of the node."""

CAPTURE = 1
DISCRETE = 1


def offered(node: str) -> list[str] | None:
    """Each format of a camera with its largest size, for example "MJPG up to 1920 x 1080".

    Returns:
      None where it is no camera: coders of video are called /dev/video* as well.

    Raises:
      OSError: it cannot be opened.
    """
    camera = os.open(node, os.O_RDWR | os.O_NONBLOCK)
    try:
        return list(_offered(camera)) if _films(camera) else None
    finally:
        os.close(camera)


def _films(camera: int) -> bool:
    """Whether it gives pictures; one that does not tell counts as if."""
    try:
        answer = fcntl.ioctl(camera, QUERYCAP, bytes(struct.calcsize(CAPABILITIES)))
    except OSError:
        return True
    device, node = struct.unpack(CAPABILITIES, answer)
    return bool((node if device & OF_THE_NODE else device) & FILMS)


def _offered(camera: int) -> Iterator[str]:
    for fields in _listed(camera, ENUM_FMT, FORMAT, CAPTURE, 0, b"", bytes(4)):
        letters = fields[4]
        sizes = _listed(camera, ENUM_FRAMESIZES, SIZE, letters, *[0] * 7)
        largest = max(map(_size, sizes), default=None)
        up_to = f" up to {largest[0]} x {largest[1]}" if largest else ""
        yield letters.decode("ascii", "replace").strip() + up_to


def _listed(camera: int, request: int, layout: str, *fields: int | bytes) -> Iterator[tuple]:
    """What a camera answers to a request, number after number until it says that was all."""
    for index in range(1000):
        try:
            answer = fcntl.ioctl(camera, request, struct.pack(layout, index, *fields))
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOTTY):  # no more, or not to be asked
                return
            raise
        yield struct.unpack(layout, answer)


def _size(fields: tuple) -> tuple[int, int]:
    """The width and height of a size, the largest of a range."""
    kind, sides = fields[2], fields[3:]
    return (sides[0], sides[1]) if kind == DISCRETE else (sides[1], sides[4])
