"""Where the numbers and the chunks lie in a format, as far as damaging them well needs it.

A structure's functions take bytes that may be damaged already, and never fail.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

Field = tuple[int, int, str]
"""Offset, bytes, "big" or "little"."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Structure:
    """What is known of a format.

    Attributes:
      fields: the numbers in bytes of it.
      chunks: begin and end of what can be left out, repeated and moved.
      mended: the bytes with checksums that hold again.
    """

    fields: Callable[[bytes], list[Field]]
    chunks: Callable[[bytes], list[Span]]
    mended: Callable[[bytes], bytes] = lambda data: data


def _every(size: int, order: str, end: int | None = None) -> Callable[[bytes], list[Field]]:
    """Each aligned number up to `end`."""
    return lambda data: [(at, size, order) for at in range(0, min(len(data), end or 4096), size)]


def _blocks(data: bytes) -> list[Span]:
    """Where nothing better is known: 16 equal pieces."""
    step = max(1, len(data) // 16)
    return [(at, min(len(data), at + step)) for at in range(0, len(data), step)]


def _lines(data: bytes) -> list[Span]:
    spans, at = [], 0
    for line in data.splitlines(keepends=True):
        spans.append((at, at + len(line)))
        at += len(line)
    return spans


def _digits(data: bytes) -> list[Field]:
    return [(at, 1, "big") for at, one in enumerate(data[:4096]) if 48 <= one < 58]


def _png_chunks(data: bytes) -> list[Span]:
    spans, at = [], 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            break
        spans.append((at, end))
        at = end
    return spans


def _png_fields(data: bytes) -> list[Field]:
    fields: list[Field] = [
        (16, 4, "big"),
        (20, 4, "big"),
        *((at, 1, "big") for at in range(24, 29)),
    ]
    for begin, end in _png_chunks(data):
        fields += [(begin, 4, "big"), *((at, 4, "big") for at in range(begin + 8, end - 4, 4)[:12])]
    return fields


def _png_mended(data: bytes) -> bytes:
    new = bytearray(data)
    for begin, end in _png_chunks(data):
        new[end - 4 : end] = struct.pack(">I", zlib.crc32(data[begin + 4 : end - 4]))
    return bytes(new)


def _jpeg_segments(data: bytes) -> list[Span]:
    spans, at = [], 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        spans.append((at, min(end, len(data))))
        if data[at + 1] == 0xDA:  # the picture itself follows
            break
        at = end
    return spans


def _jpeg_fields(data: bytes) -> list[Field]:
    fields: list[Field] = []
    for begin, end in _jpeg_segments(data):
        fields.append((begin + 2, 2, "big"))
        fields += [(at, 1, "big") for at in range(begin + 4, min(end, begin + 20))]
        if data[begin + 1] in (0xC0, 0xC2):
            fields += [(begin + 5, 2, "big"), (begin + 7, 2, "big")] * 4
        if data[begin + 1] == 0xE1:
            fields += [(at, 2, "big") for at in range(begin + 10, end - 2, 2)]
    return fields


def _riff_chunks(data: bytes) -> list[Span]:
    spans, at = [], 12
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        end = at + 8 + size + size % 2
        if data[at : at + 4] == b"LIST":
            end = at + 12
        if end > len(data):
            break
        spans.append((at, end))
        at = end
    return spans


def _riff_fields(data: bytes) -> list[Field]:
    fields: list[Field] = [(4, 4, "little")]
    for begin, end in _riff_chunks(data)[:60]:
        fields.append((begin + 4, 4, "little"))
        fields += [(at, 2, "little") for at in range(begin + 8, min(end, begin + 64) - 1, 2)]
    return fields


_NESTED = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"udta", b"dinf", b"meta"}


def _mp4_boxes(data: bytes, at: int = 0, end: int | None = None) -> list[Span]:
    spans, end = [], len(data) if end is None else end
    while at + 8 <= end:
        size = int.from_bytes(data[at : at + 4], "big")
        if size < 8 or at + size > end:
            break
        spans.append((at, at + size))
        if data[at + 4 : at + 8] in _NESTED:
            spans += _mp4_boxes(data, at + 8, at + size)
        at += size
    return spans


def _mp4_fields(data: bytes) -> list[Field]:
    fields: list[Field] = []
    for begin, end in _mp4_boxes(data):
        fields.append((begin, 4, "big"))
        kind = data[begin + 4 : begin + 8]
        if kind not in _NESTED and kind != b"mdat":
            fields += [(at, 4, "big") for at in range(begin + 8, min(end, begin + 200) - 3, 4)]
            if kind == b"stsd":
                fields += [(at, 2, "big") for at in range(begin + 16, min(end, begin + 200) - 1, 2)]
    return fields


def _ebml_elements(data: bytes, at: int = 0, end: int | None = None) -> list[Span]:
    """Elements of Matroska, those inside the large ones too."""
    spans, end = [], len(data) if end is None else end
    while at < end - 2 and len(spans) < 4000:
        name = 9 - data[at].bit_length()
        if name > 4 or at + name >= end or not data[at + name]:
            break
        length = 9 - data[at + name].bit_length()
        head = name + length
        size = int.from_bytes(data[at + name : at + head], "big") & (2 ** (7 * length) - 1)
        stop = min(end, at + head + size)
        spans.append((at, stop))
        if name == 4 or data[at] in (0xAE, 0xE0, 0xE1, 0xA0, 0xBB):
            spans += _ebml_elements(data, at + head, stop)
        at = stop
    return spans


def _ebml_fields(data: bytes) -> list[Field]:
    fields: list[Field] = []
    for begin, end in _ebml_elements(data):
        fields += [(at, 1, "big") for at in range(begin, min(end, begin + 12))]
        if end - begin < 16:
            fields.append((end - min(4, end - begin), min(4, end - begin), "big"))
    return fields


def _ts_chunks(data: bytes) -> list[Span]:
    return [(at, at + 188) for at in range(0, len(data) - 187, 188)]


def _ts_fields(data: bytes) -> list[Field]:
    return [(begin + k, 1, "big") for begin, _ in _ts_chunks(data) for k in range(24)]


def _zip_fields(data: bytes) -> list[Field]:
    fields: list[Field] = []
    for mark, size in ((b"PK\x01\x02", 46), (b"PK\x03\x04", 30), (b"PK\x05\x06", 22)):
        at = data.find(mark)
        while at >= 0:
            fields += [(k, 2, "little") for k in range(at + 4, min(at + size, len(data) - 1), 2)]
            fields += [(k, 4, "little") for k in range(at + 14, min(at + size, len(data) - 3), 4)]
            at = data.find(mark, at + 4)
    return fields


def _hdf5_fields(data: bytes) -> list[Field]:
    """The superblock, and what stands behind each of the marks of trees, heaps and nodes."""
    fields: list[Field] = [(at, 1, "little") for at in range(8, 24)]
    fields += [(at, 8, "little") for at in range(24, 96, 8)]
    for mark in (b"TREE", b"HEAP", b"SNOD", b"OHDR", b"GCOL"):
        at = data.find(mark)
        while at >= 0:
            fields += [(k, 2, "little") for k in range(at + 4, at + 24, 2)]
            fields += [(k, 8, "little") for k in range(at + 8, at + 64, 8)]
            at = data.find(mark, at + 4)
    return [(at, size, order) for at, size, order in fields if at + size <= len(data)]


STRUCTURES = {
    "png": Structure(_png_fields, _png_chunks, _png_mended),
    "jpg": Structure(_jpeg_fields, _jpeg_segments),
    "webp": Structure(_riff_fields, _riff_chunks),
    "bmp": Structure(_every(2, "little", 54), _blocks),
    "tiff": Structure(_every(2, "little"), _blocks),
    "gif": Structure(_every(1, "little", 64), _blocks),
    "mp4": Structure(_mp4_fields, _mp4_boxes),
    "mkv": Structure(_ebml_fields, _ebml_elements),
    "webm": Structure(_ebml_fields, _ebml_elements),
    "avi": Structure(_riff_fields, _riff_chunks),
    "ts": Structure(_ts_fields, _ts_chunks),
    "zip": Structure(_zip_fields, _blocks),
    "hdf5": Structure(_hdf5_fields, _blocks),
    "npy": Structure(_digits, _blocks),
    "text": Structure(_digits, _lines),
}
"""By format; "text" is whatever consists of lines."""
