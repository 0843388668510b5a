"""Looks at an untrusted JPEG without decoding it.

A progressive JPEG of 100 KB can have thousands of scans, each of which goes over the whole picture:
decoding it takes seconds. Browsers send baseline JPEGs of one scan.
"""

MOST_SCANS = 4
"""Scans of a baseline JPEG: one, or one for each component."""

_BASELINE, _SCAN = 0xC0, 0xDA
_SEGMENTS = frozenset((*range(0xE0, 0xF0), 0xFE, 0xDB, 0xC4, 0xDD, _BASELINE, _SCAN))
"""Application data, comment, tables, restart interval, frame, scan; no other kind of frame."""


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
