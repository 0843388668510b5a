"""Text on a picture, readable on any background; OpenCV's own fonts, any script."""

from collections.abc import Sequence

import cv2
import numpy as np

WHITE = (255, 255, 255)
SHADE = 0.45
"""How bright the picture stays under text."""


def text_size(rows: int) -> int:
    """Pixels of a line of text on a picture of so many rows."""
    return max(11, round(rows / 26))


def draw_lines(
    picture: np.ndarray, lines: Sequence[str], box: tuple[int, int, int, int], bottom: bool
) -> None:
    """Draws lines in white on a darkened strip at the top or bottom of a box, in place.

    Args:
      picture: uint8 [H, W, 3] RGB.
      lines: the text, top to bottom.
      box: x0, y0, x1, y1 of the region that holds the text.
      bottom: whether the strip lies at the bottom edge of the box.
    """
    if not lines:
        return
    x0, y0, x1, y1 = box
    size = text_size(y1 - y0)
    step = round(size * 1.35)
    height = min(step * len(lines) + size // 2, y1 - y0)
    top = y1 - height if bottom else y0
    darken(picture, (x0, top, x1, top + height))
    for number, line in enumerate(lines):
        baseline = top + size // 4 + number * step + size
        draw_text(picture, line, (x0 + size // 2, baseline), size)


def darken(picture: np.ndarray, box: tuple[int, int, int, int], shade: float = SHADE) -> None:
    """Darkens a box x0, y0, x1, y1 in place, so that text on it can be read."""
    x0, y0, x1, y1 = box
    part = picture[max(0, y0) : y1, max(0, x0) : x1]
    if part.size:
        part[:] = cv2.convertScaleAbs(part, alpha=shade)


def draw_text(
    picture: np.ndarray,
    text: str,
    origin: tuple[int, int],
    size: int,
    colour: tuple[int, int, int] = WHITE,
) -> None:
    """Draws a line whose baseline begins at `origin` (x, y), `size` pixels high, in place."""
    cv2.putText(picture, text, origin, colour, _font_for(text), size, 500)


def text_width(text: str, size: int) -> int:
    """How many pixels wide a line is."""
    return cv2.getTextSize((0, 0), text, (0, 0), _font_for(text), size, 500)[2] if text else 0


def fitted(text: str, width: int, size: int) -> str:
    """A line cut so that it is at most so many pixels wide, with a sign that it was."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def _font_for(line: str) -> "cv2.FontFace":
    return cv2.FontFace("sans" if all(ord(letter) < 0x2E80 for letter in line) else "uni")
