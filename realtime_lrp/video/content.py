"""Says what a file holds that cannot be read, by its first and last bytes; only for messages.

Must not raise: the file may be anything.
"""

import os
from pathlib import Path

PICTURES = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
}
"""First bytes -> format of pictures that are read."""

HEIC = (b"heic", b"heix", b"heim", b"heis")
"""Brands of pictures of phones, which OpenCV's wheel does not read."""

VIDEOS = {b"\x1a\x45\xdf\xa3": "MKV or WebM"}

OTHERS = {
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"P7\n": "a PAM picture",
    b"PF\n": "a PFM picture",
    b"Pf\n": "a PFM picture",
}
"""First bytes -> what is not read."""

ENDS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
"""Format -> what stands at its end."""

HEAD = TAIL = 1024
"""Bytes that are looked at."""


def why_unreadable(path: Path, kind: str) -> str:
    """Why a file cannot be read as a picture or a video: ": it is empty"; "" if that is not clear.

    Args:
      path: the file.
      kind: "picture" or "video", what was expected.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            tail = file.read(TAIL)
    except OSError:
        return ""
    reason = _reason(head, tail, kind)
    return f": {reason}" if reason else ""


def _reason(head: bytes, tail: bytes, kind: str) -> str:
    if not head:
        return "it is empty"
    if not any(head) and not any(tail):
        return "it holds nothing but zeros"
    for begin, name in OTHERS.items():
        if head.startswith(begin):
            return f"it is {name}"
    if _is_text(head):
        return "it is text"
    if head[4:8] == b"ftyp" and head[8:12] in HEIC:
        return "it is a HEIC picture"
    found, is_picture = _format(head)
    if found and is_picture == (kind == "picture"):
        end = ENDS.get(found)
        if end is None:
            return f"it begins as {found}, but ends early or is damaged"
        return f"it begins as {found}, but {'is damaged' if end in tail else 'ends early'}"
    return f"it is a {'picture' if is_picture else 'video'} ({found})" if found else ""


def _format(head: bytes) -> tuple[str, bool]:
    """The format of a picture or video, or ""; and whether it is a picture."""
    for formats in (PICTURES, VIDEOS):
        for begin, name in formats.items():
            if head.startswith(begin):
                return name, formats is PICTURES
    if head[4:8] == b"ftyp":
        brand = head[8:12]
        picture = {b"avif": "AVIF", b"avis": "AVIF"}.get(brand)
        return picture or "MP4 or MOV", bool(picture)
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"AVI "):
        return ("WebP", True) if head[8:12] == b"WEBP" else ("AVI", False)
    return "", False


def _is_text(head: bytes) -> bool:
    """Whether the bytes are UTF-8 text; a letter that is cut off at the end does not count."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(head) < HEAD:
            return False
        text = head[: error.start].decode("utf-8")
    return all(letter.isprintable() or letter in "\t\n\r\f\ufeff" for letter in text)
