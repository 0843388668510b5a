"""Notices, which pass, and marks, which last: text over the canvas."""

import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.hud import LINES, STEP, WARNING, WIDE
from realtime_lrp.view.text import darken, draw_text, fitted, shrunk, text_width, wrapped

SCALE = 1.2  # how much larger the letters of notices are than those of figures
MIN_MARK = 9  # minimum size of the letters of marks, in pixels


def draw_notice(canvas: np.ndarray, text: str, area: Box, size: int) -> None:
    """Draws a text at the middle of the lower edge of an area, in place."""
    if not text:
        return
    x0, _, x1, y1 = area
    lines, height = _lines(text, x1 - x0, size), notice_height(text, x1 - x0, size)
    size = round(SCALE * size)
    step = round(STEP * size)
    width = max(text_width(line, size) for line in lines) + 2 * size
    x, y = (x0 + x1 - width) // 2, y1 - height + size // 2
    darken(canvas, (x, y, x + width, y + len(lines) * step + size), 0.3)
    for number, line in enumerate(lines):
        origin = (x0 + x1 - text_width(line, size)) // 2, y + size // 2 + number * step + size
        draw_text(canvas, line, origin, size, WARNING)


def notice_height(text: str, width: int, size: int) -> int:
    """How many rows a notice takes in an area of this width, its margins included."""
    letters = round(SCALE * size)
    return len(_lines(text, width, size)) * round(STEP * letters) + 2 * letters


def draw_marks(canvas: np.ndarray, text: str, box: Box, size: int) -> None:
    """Draws a line at the right end of a box, in place; in smaller letters where it is too long."""
    x0, y0, x1, y1 = box
    size = shrunk(size, MIN_MARK, lambda size: text_width(text, size) + size <= x1 - x0)
    text = fitted(text, x1 - x0 - size, size)
    x, middle = x1 - text_width(text, size) - size // 2, (y0 + y1) // 2
    darken(canvas, (x - size // 2, y0, x1, y1), 0.3)
    draw_text(canvas, text, (x, middle + round(0.36 * size)), size, WARNING)


def _lines(text: str, width: int, size: int) -> list[str]:
    """The lines of a notice in an area; each line of its text may take `LINES`, or twice that."""
    size = round(SCALE * size)
    room = width - 2 * size
    most = LINES if room > WIDE * size else 2 * LINES
    return [part for line in text.split("\n") for part in wrapped(line, room, size)[:most]]
