"""Lines of text on a picture, readable on any background; OpenCV's own fonts, any script."""

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
    strip = picture[top : top + height, x0:x1]
    strip[:] = (strip * SHADE).astype(np.uint8)
    for number, line in enumerate(lines):
        baseline = top + size // 4 + number * step + size
        origin = (x0 + size // 2, baseline)
        cv2.putText(picture, line, origin, WHITE, _font_for(line), size, 500)


def _font_for(line: str) -> "cv2.FontFace":
    return cv2.FontFace("sans" if all(ord(letter) < 0x2E80 for letter in line) else "uni")
