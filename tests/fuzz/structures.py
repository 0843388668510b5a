"""Where numbers and chunks lie in a file, told by the marks that formats set before them.

The functions take bytes that may be damaged already, and never fail.
"""

import itertools
import re
import struct
import zlib

Field = tuple[int, int, str]
"""Offset, bytes, "big" or "little"."""

Span = tuple[int, int]

PNG = b"\x89PNG\r\n\x1a\n"
MARK = re.compile(
    rb"[A-Za-z][A-Za-z0-9]{2}[A-Za-z0-9 ]"  # chunks of PNG and RIFF, boxes of MP4, nodes of HDF5
    rb"|PK[\1-\10][\1-\10]"  # ZIP
    rb"|\xff[\xc0-\xef]"  # JPEG
    rb"|\x1a\x45\xdf\xa3|\x1f\x43\xb6\x75|\x16\x54\xae\x6b|[\xae\xe0\xe1\xa3]"  # Matroska
    rb"|\x47[\x00-\x5f]"  # MPEG-TS
)
MOST_MARKS = 400


def fields(data: bytes) -> list[Field]:
    """The digits of a text, else the numbers at the beginning and around marks."""
    if _is_text(data):
        return [(at, 1, "big") for at, one in enumerate(data[:4096]) if 48 <= one < 58]
    found: list[Field] = [(at, 1, "big") for at in range(64)]
    for mark in _marks(data):
        found += [(mark - 4, 4, "big"), (mark + 2, 2, "big")]
        found += [(mark + at, 2, "little") for at in range(4, 24, 2)]
        found += [(mark + at, 4, order) for at in range(4, 40, 4) for order in ("big", "little")]
        found += [(mark + at, 8, "little") for at in range(8, 40, 8)]
    return [one for one in found if 0 <= one[0] <= len(data) - one[1]]


def chunks(data: bytes) -> list[Span]:
    """What can be left out, repeated and moved: lines of a text, else what lies between marks."""
    if _is_text(data):
        ends = itertools.accumulate(len(line) for line in data.splitlines(keepends=True))
        return list(itertools.pairwise((0, *ends)))
    step = max(1, len(data) // 16)
    return [*itertools.pairwise(_marks(data)), *itertools.pairwise(range(0, len(data), step))]


def mended(data: bytes) -> bytes:
    """The bytes with checksums that hold again, where it is a PNG; others go without."""
    new, at = bytearray(data), 8
    while data.startswith(PNG) and at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            break
        new[end - 4 : end] = struct.pack(">I", zlib.crc32(data[at + 4 : end - 4]))
        at = end
    return bytes(new)


def _marks(data: bytes) -> list[int]:
    return [found.start() for found in itertools.islice(MARK.finditer(data), MOST_MARKS)]


def _is_text(data: bytes) -> bool:
    return (
        data[:40].isascii() and data[:40].decode().replace("\n", "").replace("\r", "").isprintable()
    )
