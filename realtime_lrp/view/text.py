"""Draws text that can be read on any picture, in any script, with the fonts of OpenCV."""

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from realtime_lrp.system.geometry import Pixel

WHITE = (255, 255, 255)
_CLOSING = "\\u3001\\u3002\\u300d\\u300f\\uff01\\uff09\\uff0c\\uff1a\\uff1b\\uff1f\\u2026"
_PIECES = re.compile(rf"[^\S\xa0]+|[\u2e80-\uffff][{_CLOSING}]*|(?:[^\s\u2e80-\uffff]|\xa0)+")
"""Never broken: words, and East Asian letters with the punctuation after them."""

LEAST = 8  # pixels; smaller letters cannot be read
SHADE = 0.45  # brightness of the picture under text


def text_size(rows: int) -> int:
    """The size of letters on a picture of this height, in pixels."""
    return max(11, round(rows / 26))


def draw_lines(
    picture: np.ndarray, lines: Sequence[str], box: tuple[int, int, int, int], bottom: bool
) -> None:
    """Draws white lines on a dark strip at the top or bottom of a box; letters shrink to fit."""
    if not lines:
        return
    x0, y0, x1, y1 = box
    size = shrunk(
        text_size(y1 - y0), LEAST,
        lambda size: all(text_width(line, size) <= x1 - x0 - size for line in lines),
    )  # fmt: skip
    lines = [_cut(line, x1 - x0 - size, size) for line in lines]
    step = round(size * 1.35)
    height = min(step * len(lines) + size // 2, y1 - y0)
    top = y1 - height if bottom else y0
    darken(picture, (x0, top, x1, top + height))
    for number, line in enumerate(lines):
        baseline = top + size // 4 + number * step + size
        draw_text(picture, line, (x0 + size // 2, baseline), size)


def darken(picture: np.ndarray, box: tuple[int, int, int, int], shade: float = SHADE) -> None:
    """Darkens a box in place, so that text on it can be read."""
    x0, y0, x1, y1 = box
    part = picture[max(0, y0) : y1, max(0, x0) : x1]
    if part.size:
        part[:] = cv2.convertScaleAbs(part, alpha=shade)


def draw_text(
    picture: np.ndarray, text: str, origin: Pixel, size: int,
    colour: tuple[int, int, int] = WHITE,
) -> None:  # fmt: skip
    """Draws a line `size` pixels high, its baseline starting at `origin` (x, y), in place."""
    cv2.putText(picture, _drawable(text), origin, colour, _font_for(text), size, 500)


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: int) -> int:
    """The width of a line, in pixels."""
    box = cv2.getTextSize((0, 0), _drawable(text), (0, 0), _font_for(text), size, 500)
    return box[2] if text else 0


def wrapped(text: str, width: int, size: int) -> list[str]:
    """A text in lines of at most `width` pixels; long words and East Asian ones are broken."""
    lines = [""]
    pieces = (part for word in _PIECES.findall(text) for part in _broken(word, width, size))
    for piece in pieces:
        longer = lines[-1] + piece
        if lines[-1].strip() and text_width(longer.rstrip(), size) > width:
            lines.append(piece.lstrip())
        else:
            lines[-1] = longer
    return [line.strip() for line in lines]


def fitted(text: str, width: int, size: int) -> str:
    """A line, cut to at most `width` pixels; a cut line ends with an ellipsis."""
    if text_width(text, size) <= width:
        return text
    beginnings = range(1, len(text))
    fits = bisect_right(beginnings, width, key=lambda end: text_width(text[:end] + "…", size))
    return text[:fits].rstrip() + "…"


def _cut(line: str, width: int, size: int) -> str:
    """A line of at most `width` pixels; what is cut is its beginning, the name before a number."""
    name, _, number = line.rpartition(" ")
    left = width - text_width(f" {number}", size)
    if not name or text_width(line, size) <= width or left < 2 * size:
        return fitted(line, width, size)
    return f"{fitted(name, left, size)} {number}"


def unbroken_width(text: str, size: int) -> int:
    """The width of the longest word, in pixels."""
    return max(text_width(word, size) for word in _PIECES.findall(text) or [""])


def _broken(word: str, width: int, size: int) -> list[str]:
    parts = []
    while text_width(word, size) > width and len(word) > 1:
        fits = max(1, len(fitted(word, width, size)) - 1)  # without the ellipsis
        count = 1 + max(word.rfind(mark, 0, fits) for mark in "_-/:") or fits
        parts.append(word[:count])
        word = word[count:]
    return [*parts, word]


def shrunk(size: int, least: int, fits: Callable[[int], bool]) -> int:
    """The largest size of letters up to `size` that fits; `least` if none above it does."""
    while size > least and not fits(size):
        size -= 1
    return size


def _drawable(text: str) -> str:
    """The text without halves of surrogate pairs (names that are not UTF-8): OpenCV crashes.

    The font's zero has a slash, which looks like an 8 from afar; its O is as high, without one.
    """
    return text.encode("utf-8", "replace").decode().replace("0", "O")


def undrawable(text: str) -> str:
    """The characters of a text that its font cannot draw, each once, in order."""
    font = _font_for(text)

    def drawn(letter: str) -> bytes:
        picture = np.zeros((48, 96), np.uint8)
        cv2.putText(picture, letter, (24, 32), 255, font, 24, 500)
        return picture.tobytes()

    def has(letter: str) -> bool:
        if unicodedata.category(letter) in ("Cc", "Cs"):  # halves of surrogate pairs crash OpenCV
            return False
        empty = () if letter.isspace() else (drawn(" "),)
        return letter == "?" or drawn(letter) not in (drawn("\uffff"), *empty)

    return "".join(letter for letter in dict.fromkeys(text) if not has(letter))


def _font_for(line: str) -> "cv2.FontFace":
    return cv2.FontFace("sans" if all(ord(letter) < 0x2E80 for letter in line) else "uni")
