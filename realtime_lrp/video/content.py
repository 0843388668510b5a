"""Says what a file holds that cannot be read, by its first bytes; only for messages.

Must not raise: the file may be anything.
"""

from pathlib import Path

PICTURES = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"BM": "BMP",
    b"II*\0": "TIFF", b"MM\0*": "TIFF",
}  # fmt: skip
VIDEOS = {b"\x1a\x45\xdf\xa3": "MKV or WebM"}
INSIDE = {
    b"ftypavif": ("AVIF", "picture"), b"ftypavis": ("AVIF", "picture"),
    b"ftyp": ("MP4 or MOV", "video"),
}  # fmt: skip
"""What stands behind the first four bytes; longer texts first."""

OTHERS = {
    b"%PDF": "a PDF document", b"PK\x03\x04": "a ZIP archive", b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive", b"Rar!": "a RAR archive", b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array", b"P7\n": "a PAM picture", b"PF\n": "a PFM picture",
    b"Pf\n": "a PFM picture",
}  # fmt: skip
"""First bytes -> what is not read."""

HEIC = (b"ftypheic", b"ftypheix", b"ftypheim", b"ftypheis")
"""Pictures of phones, which OpenCV's wheel does not read."""

HEAD = 1024
"""Bytes that are looked at."""


def why_unreadable(path: Path, kind: str) -> str:
    """Why a file is no "picture" or "video", such as ": it is empty"; "" if that is unclear."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return ""
    reason = _reason(head, kind)
    return f": {reason}" if reason else ""


def _reason(head: bytes, kind: str) -> str:
    if not head:
        return "it is empty"
    if not any(head):
        return "it begins with nothing but zeros"
    for begin, name in OTHERS.items():
        if head.startswith(begin):
            return f"it is {name}"
    if _is_text(head):
        return "it is text"
    if head[4:12] in HEIC:
        return "it is a HEIC picture"
    found, held = _format(head)
    if found and held == kind:
        return f"it begins as {found}, but ends early or is damaged"
    return f"it is a {held} ({found})" if found else ""


def _format(head: bytes) -> tuple[str, str]:
    """The format of a picture or video, or "", and which of the two it is."""
    for begin, name in (PICTURES | VIDEOS).items():
        if head.startswith(begin):
            return name, "picture" if begin in PICTURES else "video"
    for inside, known in INSIDE.items():
        if head[4:].startswith(inside):
            return known
    if head.startswith(b"RIFF"):
        return {b"WEBP": ("WebP", "picture"), b"AVI ": ("AVI", "video")}.get(head[8:12], ("", ""))
    return "", ""


def _is_text(head: bytes) -> bool:
    """Whether the bytes are UTF-8 text; a letter that is cut off at the end does not count."""
    text = head.decode("utf-8", "replace").rstrip("\ufffd")
    shown = all(letter.isprintable() or letter in "\t\n\r\f\ufeff" for letter in text)
    return bool(text) and shown and "\ufffd" not in text
