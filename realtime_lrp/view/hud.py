"""Figures on the picture: blocks of rows and bars, stacked in two columns beside the region.

What is drawn is plain text, prepared elsewhere; nothing here knows what it means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, text_width

COLUMN = 0.21875
"""Share of the width of a column: beside the centred square of a 16:9 picture."""

LEAST = 150
"""Pixels: no column is narrower."""

DIM = (190, 190, 190)
WARNING = (255, 190, 60)
BAR = (90, 190, 255)
WAS = (255, 255, 255)


@dataclass(frozen=True)
class Row:
    """A name and a value.

    Attributes:
      name: at the left.
      value: at the right.
      warn: whether it stands out.
    """

    name: str
    value: str
    warn: bool = False


@dataclass(frozen=True)
class Bar:
    """A share as a bar.

    Attributes:
      name: above the bar.
      share: 0 to 1.
      before: another share, 0 to 1, as a mark on the bar; or None.
    """

    name: str
    share: float
    before: float | None = None


Block = tuple[Row | Bar, ...]
"""Rows that stand together."""


def figure_size(rows: int) -> int:
    """Pixels of a line of figures on a canvas of so many rows."""
    return max(11, round(rows / 40))


def column_width(columns: int) -> int:
    """Pixels of a column of figures on a canvas of so many columns."""
    return min(max(LEAST, round(columns * COLUMN)), columns)


def draw_column(canvas: np.ndarray, blocks: Sequence[Block], x: int) -> None:
    """Draws blocks below each other, from the top, in place.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      blocks: the figures.
      x: the left edge.
    """
    size, width = figure_size(canvas.shape[0]), column_width(canvas.shape[1])
    y = 0
    for block in blocks:
        height = sum(_height(one, size) for one in block) + size
        darken(canvas, (x, y, x + width, y + height))
        line = y + size // 2
        for one in block:
            _draw(canvas, one, x + size // 2, line, width - size, size)
            line += _height(one, size)
        y += height + size // 3


def draw_notice(canvas: np.ndarray, text: str) -> None:
    """Draws a line in the middle of the lower edge, in place."""
    if not text:
        return
    rows, columns = canvas.shape[:2]
    size = round(1.3 * figure_size(rows))
    lines = _wrapped(text, columns - 2 * size, size)
    step = round(1.35 * size)
    width = max(text_width(line, size) for line in lines) + 2 * size
    x, y = (columns - width) // 2, rows - len(lines) * step - 2 * size
    darken(canvas, (x, y, x + width, y + len(lines) * step + size), 0.3)
    for number, line in enumerate(lines):
        place = (columns - text_width(line, size)) // 2, y + size // 3 + number * step + size
        draw_text(canvas, line, place, size, WARNING)


def _wrapped(text: str, width: int, size: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitted(line, width, size) for line in lines[:3]]


def _height(one: Row | Bar, size: int) -> int:
    return round(size * (1.35 if isinstance(one, Row) else 1.8))


def _draw(canvas: np.ndarray, one: Row | Bar, x: int, y: int, width: int, size: int) -> None:
    if isinstance(one, Row):
        value, colour = one.value, WARNING if one.warn else WHITE
    else:
        value, colour = percent(one.share), WHITE
        _draw_bar(canvas, one, x, y + round(1.3 * size), width, max(3, size // 4))
    value = fitted(value, width, size)
    room = width - text_width(value, size) - size // 2
    draw_text(canvas, value, (x + width - text_width(value, size), y + size), size, colour)
    name = one.name.replace("_", " ")
    if room > size:
        dim = WHITE if isinstance(one, Bar) else DIM
        draw_text(canvas, fitted(name, room, size), (x, y + size), size, dim)


def _draw_bar(canvas: np.ndarray, bar: Bar, x: int, y: int, width: int, height: int) -> None:
    end = x + round(width * min(max(bar.share, 0.0), 1.0))
    cv2.rectangle(canvas, (x, y), (x + width, y + height), (70, 70, 70), -1)
    if end > x:
        cv2.rectangle(canvas, (x, y), (end, y + height), BAR, -1)
    if bar.before is not None:
        mark = x + round(width * bar.before)
        cv2.rectangle(canvas, (mark - 1, y), (mark + 1, y + round(1.7 * height)), WAS, -1)


def percent(share: float) -> str:
    """A share of 0 to 1 as people read it."""
    if 0 < share < 0.01:
        return "<1 %"
    return f"{share:.0%}".replace("%", " %")
