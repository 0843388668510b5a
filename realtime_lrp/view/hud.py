"""Draws figures on the picture: blocks of rows and bars, in two columns beside the region.

Knows texts and numbers, not what they mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.view.colormaps import colormap_named
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, text_width, wrapped

COLUMN = 0.21875
"""Width of a column as a share of the canvas: the room beside the centred square of 16:9."""

MIN_COLUMN = 150
"""Minimum width of a column, in pixels."""

MIN_LETTERS = 9
"""Minimum size of letters, in pixels. A column that does not fit gets smaller letters."""

DIM = (190, 190, 190)
WARNING = (255, 190, 60)
BAR = (90, 190, 255)
MARK = (255, 255, 255)


@dataclass(frozen=True)
class Row:
    """A name and a value.

    Attributes:
      name: at the left.
      value: at the right.
      warn: whether the value has the colour of warnings.
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
      before: an earlier share, 0 to 1, shown as a mark on the bar; or None.
    """

    name: str
    share: float
    before: float | None = None


@dataclass(frozen=True)
class Legend:
    """A colour map with a word at each end.

    Attributes:
      colormap: the name of the colour map.
      low: at the left end; this is relevance 0 where the colour map has no signs.
      high: at the right end.
    """

    colormap: str
    low: str
    high: str


Entry = Row | Bar | Legend
Block = tuple[Entry, ...]
"""Entries that are drawn together, on one dark background."""


def figure_size(rows: int, columns: int) -> int:
    """The size of letters on a canvas of these rows and columns, in pixels."""
    return max(11, min(round(rows / 40), round(columns / 71)))


def column_width(columns: int) -> int:
    """The width of a column of figures on a canvas of this width, in pixels."""
    return min(max(MIN_COLUMN, round(columns * COLUMN)), columns)


def draw_column(canvas: np.ndarray, blocks: Sequence[Block], x: int) -> None:
    """Draws blocks from the top down, in place.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      blocks: the figures.
      x: the left edge.
    """
    rows, columns = canvas.shape[:2]
    width, size = column_width(columns), figure_size(rows, columns)
    while size > MIN_LETTERS and sum(_block_height(b, width, size) for b in blocks) > rows:
        size -= 1
    y = 0
    for block in blocks:
        height = _block_height(block, width, size) - size // 3
        darken(canvas, (x, y, x + width, y + height))
        line = y + size // 2
        for one in block:
            _draw(canvas, one, x + size // 2, line, width - size, size)
            line += _height(one, width - size, size)
        y += height + size // 3


def draw_notice(canvas: np.ndarray, text: str, top: bool = False) -> None:
    """Draws a line of text at the middle of the lower edge, in place.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      text: broken into three lines at most; "" draws nothing.
      top: whether it goes to the upper edge.
    """
    if not text:
        return
    rows, columns = canvas.shape[:2]
    size = round(1.3 * figure_size(rows, columns))
    room = columns - 2 * size
    lines = [fitted(line, room, size) for line in wrapped(text, room, size)[:3]]
    step = round(1.35 * size)
    width = max(text_width(line, size) for line in lines) + 2 * size
    x, y = (columns - width) // 2, size if top else rows - len(lines) * step - 2 * size
    darken(canvas, (x, y, x + width, y + len(lines) * step + size), 0.3)
    for number, line in enumerate(lines):
        origin = (columns - text_width(line, size)) // 2, y + size // 2 + number * step + size
        draw_text(canvas, line, origin, size, WARNING)


def _block_height(block: Block, width: int, size: int) -> int:
    return sum(_height(one, width - size, size) for one in block) + size + size // 3


def _height(one: Entry, width: int, size: int) -> int:
    lines = 1.35 if isinstance(one, Row) else 1.8
    return round(size * (2.7 if isinstance(one, Row) and _is_long(one, width, size) else lines))


def _is_long(row: Row, width: int, size: int) -> bool:
    """Whether name and value do not fit into one line."""
    return text_width(row.name, size) + text_width(row.value, size) + size > width


def _draw(canvas: np.ndarray, one: Entry, x: int, y: int, width: int, size: int) -> None:
    base = y + size
    if isinstance(one, Bar):
        _draw_pair(canvas, one.name, percent(one.share), (x, base, width), size, (WHITE, WHITE))
        _draw_bar(canvas, one, x, y + round(1.3 * size), width, max(3, size // 4))
    elif isinstance(one, Legend):
        _draw_pair(canvas, one.low, one.high, (x, base, width), size, (DIM, DIM))
        draw_colours(canvas, one.colormap, x, y + round(1.3 * size), width, max(3, size // 4))
    else:
        colours = DIM, WARNING if one.warn else WHITE
        if _is_long(one, width, size):
            draw_text(canvas, fitted(one.name, width, size), (x, base), size, DIM)
            _draw_pair(canvas, "", one.value, (x, base + round(1.35 * size), width), size, colours)
        else:
            _draw_pair(canvas, one.name, one.value, (x, base, width), size, colours)


def _draw_pair(
    canvas: np.ndarray,
    left: str,
    right: str,
    line: tuple[int, int, int],
    size: int,
    colours: tuple[tuple[int, int, int], tuple[int, int, int]],
) -> None:
    """Draws a text at each end of a line (x, baseline, width); the left text is cut to fit."""
    x, base, width = line
    right = fitted(right, width, size)
    taken = text_width(right, size)
    draw_text(canvas, right, (x + width - taken, base), size, colours[1])
    room = width - taken - size // 2
    if left and room > size:
        draw_text(canvas, fitted(left.replace("_", " "), room, size), (x, base), size, colours[0])


def draw_colours(
    canvas: np.ndarray, colormap: str, x: int, y: int, width: int, height: int
) -> None:
    """Draws a colour map from its low end to its high one, in place."""
    table = colormap_named(colormap).table
    colours = table[np.linspace(0, len(table) - 1, width).round().astype(int)]
    part = canvas[y : y + height, x : x + width]
    part[:] = colours[: part.shape[1]]


def _draw_bar(canvas: np.ndarray, bar: Bar, x: int, y: int, width: int, height: int) -> None:
    end = x + round(width * min(max(bar.share, 0.0), 1.0))
    cv2.rectangle(canvas, (x, y), (x + width, y + height), (70, 70, 70), -1)
    if end > x:
        cv2.rectangle(canvas, (x, y), (end, y + height), BAR, -1)
    if bar.before is not None:
        mark = x + round(width * bar.before)
        cv2.rectangle(canvas, (mark - 1, y), (mark + 1, y + round(1.7 * height)), MARK, -1)


def percent(share: float) -> str:
    """A share, 0 to 1, in percent."""
    if 0 < share < 0.01:
        return "<1 %"
    return f"{share:.0%}".replace("%", " %")
