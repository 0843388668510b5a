"""Asks Linux (Video4Linux2) for the formats of a camera, without starting it."""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator

QUERYCAP, ENUM_FMT, ENUM_FRAMESIZES = 0x80685600, 0xC0405602, 0xC02C564A
"""Request codes from linux/videodev2.h: `VIDIOC_QUERYCAP` and so on."""

CAPABILITIES, FORMAT, SIZE = "=84x2I12x", "=3I32s4s16x", "=I4sI6I8x"
"""Layouts of their structures: capabilities of the device and of this node; index, type, flags,
description and four-letter code of a format; index, code, kind of size, and either the size or the
smallest, the largest and the step of each side."""

GIVES_PICTURES, HAS_NODE_CAPABILITIES = 0x1001, 0x80000000
"""Capability flags: pictures in one plane or several; the capabilities of the node are valid."""

CAPTURE = 1
DISCRETE = 1


def offered(node: str) -> list[str] | None:
    """Each format of a camera with its largest size, for example "MJPG up to 1920 x 1080".

    Returns:
      None if it is not a camera: video encoders are called /dev/video* as well.

    Raises:
      OSError: it cannot be opened.
    """
    camera = os.open(node, os.O_RDWR | os.O_NONBLOCK)
    try:
        return list(_formats(camera)) if _is_camera(camera) else None
    finally:
        os.close(camera)


def _is_camera(camera: int) -> bool:
    """Whether the device gives pictures; assumed if it does not answer."""
    try:
        answer = fcntl.ioctl(camera, QUERYCAP, bytes(struct.calcsize(CAPABILITIES)))
    except OSError:
        return True
    device, node = struct.unpack(CAPABILITIES, answer)
    return bool((node if device & HAS_NODE_CAPABILITIES else device) & GIVES_PICTURES)


def _formats(camera: int) -> Iterator[str]:
    for fields in _enumerate(camera, ENUM_FMT, FORMAT, CAPTURE, 0, b"", bytes(4)):
        code = fields[4]
        sizes = _enumerate(camera, ENUM_FRAMESIZES, SIZE, code, *[0] * 7)
        largest = max(map(_size, sizes), default=None)
        up_to = f" up to {largest[0]} x {largest[1]}" if largest else ""
        yield code.decode("ascii", "replace").strip() + up_to


def _enumerate(camera: int, request: int, layout: str, *fields: int | bytes) -> Iterator[tuple]:
    """Yields a camera's answers for index 0, 1, ... until it reports the end."""
    for index in range(1000):
        try:
            answer = fcntl.ioctl(camera, request, struct.pack(layout, index, *fields))
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOTTY):  # the end, or not supported
                return
            raise
        yield struct.unpack(layout, answer)


def _size(fields: tuple) -> tuple[int, int]:
    """Width and height; the largest of a range."""
    kind, sides = fields[2], fields[3:]
    return (sides[0], sides[1]) if kind == DISCRETE else (sides[1], sides[4])
