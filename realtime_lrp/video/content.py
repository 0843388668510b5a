"""Says what a file holds that cannot be read, by its first bytes; only for messages.

Must not raise: the file may be anything.
"""

from contextlib import suppress
from pathlib import Path

KNOWN = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG", "picture"),
    (0, b"\xff\xd8\xff", "JPEG", "picture"),
    (0, b"GIF8", "GIF", "picture"),
    (8, b"WEBP", "WebP", "picture"),
    (4, b"ftypavi", "AVIF", "picture"),
    (4, b"ftyphei", "a HEIC picture", ""),  # of phones; OpenCV's wheel does not read it
    (4, b"ftyp", "MP4 or MOV", "video"),
    (0, b"\x1a\x45\xdf\xa3", "MKV or WebM", "video"),
    (0, b"%PDF", "a PDF document", ""),
    (0, b"PK\x03\x04", "a ZIP archive", ""),
)
"""Where which bytes stand, what they say, and whether that is read: as a picture or a video."""

HEAD = 1024
"""Bytes that are looked at."""


def why_unreadable(path: Path, kind: str) -> str:
    """Why a file is no "picture" or "video", such as ": it is empty"; "" if that is unclear."""
    with suppress(OSError), path.open("rb") as file:
        if reason := _reason(file.read(HEAD), kind):
            return f": {reason}"
    return ""


def _reason(head: bytes, kind: str) -> str:
    if not head:
        return "it is empty"
    if not any(head):
        return "it begins with nothing but zeros"
    for at, begin, name, held in KNOWN:
        if head[at:].startswith(begin):
            if held == kind:
                return f"it begins as {name}, but ends early or is damaged"
            return f"it is a {held} ({name})" if held else f"it is {name}"
    text = head.decode("utf-8", "replace").rstrip("\ufffd")  # a letter that is cut off at the end
    shown = all(letter.isprintable() or letter in "\t\n\r\f\ufeff" for letter in text)
    return "it is text" if text and shown and "\ufffd" not in text else ""
