"""Draws figures and notices on the canvas. Knows texts and numbers, not what they mean.

Figures come in blocks of rows, bars, legends and paragraphs. Where blocks may stand is decided by
`view.arrangement`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.colormaps import colormap_named
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, text_width, wrapped

MIN_LETTERS = 9
"""Minimum size of letters, in pixels. Blocks that do not fit their area get smaller letters."""

TEXT_SCALES = {"small": 0.8, "medium": 1.0, "large": 1.3}
"""Text size (`live.text`) -> how much larger letters are than medium ones."""

ANSWER_SCALE, ANSWER_SHARE = 2.0, 0.035
"""The answer in the presenter view: how much larger its letters are than those of other figures,
and their least height as a share of the canvas's."""

NOTICE_SCALE = 1.2
"""How much larger notices are than figures."""

STEP = 1.35
"""Height of a line of text, as a multiple of that of its letters."""

WIDE, WIDEST = 14, 40
"""Least and greatest width of a column of blocks in a wide area, in heights of a letter."""

LINES = 3
"""A name, value or notice has at most this many lines; a notice in a narrow area twice as many."""

DIM = (190, 190, 190)
WARNING = (255, 190, 60)
BAR = (90, 190, 255)
MARK = (255, 255, 255)
TRACK = (70, 70, 70)

Colour = tuple[int, int, int]


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
      scale: how much larger its letters are than those of other figures.
    """

    name: str
    share: float
    before: float | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class Legend:
    """A colour map with a word at each end.

    Attributes:
      colormap: the name of the colour map.
      low: at the left end; this is relevance 0 where the colour map has no signs.
      high: at the right end.
      scale: how much larger its letters are than those of other figures.
    """

    colormap: str
    low: str
    high: str
    scale: float = 1.0


@dataclass(frozen=True)
class Paragraph:
    """A text of several lines.

    Attributes:
      head: its first words, in the colour of headings.
      text: the rest.
    """

    head: str
    text: str


Entry = Row | Bar | Legend | Paragraph
Block = tuple[Entry, ...]
"""Entries that are drawn together, on one dark background."""


@dataclass(frozen=True)
class _Line:
    """A line of text with a part at each end; the left one is cut where there is too little room.

    Attributes:
      left, right: the parts.
      size: height of the letters in pixels.
      colours: of the left and the right part.
    """

    left: str
    right: str
    size: int
    colours: tuple[Colour, Colour] = (WHITE, WHITE)

    @property
    def height(self) -> int:
        """Pixels."""
        return round(STEP * self.size)

    def draw(self, canvas: np.ndarray, x: int, y: int, width: int) -> None:
        """Draws it in place, from x, y down."""
        right = fitted(self.right, width, self.size)
        taken = text_width(right, self.size)
        base = y + self.size
        draw_text(canvas, right, (x + width - taken, base), self.size, self.colours[1])
        room = width - taken - (self.size // 2 if taken else 0)
        if self.left and room > self.size:
            left = fitted(self.left, room, self.size)
            draw_text(canvas, left, (x, base), self.size, self.colours[0])


@dataclass(frozen=True)
class _Strip:
    """A bar or the colours of a legend.

    Attributes:
      entry: what it shows.
      size: height of the letters beside it.
    """

    entry: Bar | Legend
    size: int

    @property
    def height(self) -> int:
        """Pixels, with the gap below."""
        return round(0.45 * self.size)

    def draw(self, canvas: np.ndarray, x: int, y: int, width: int) -> None:
        """Draws it in place, from x, y down."""
        thickness = max(3, self.size // 4)
        if isinstance(self.entry, Bar):
            _draw_bar(canvas, self.entry, (x, y, x + width, y + thickness))
        else:
            draw_colours(canvas, self.entry.colormap, x, y, width, thickness)


_Part = _Line | _Strip


@dataclass(frozen=True)
class _Letters:
    """How large letters are.

    Attributes:
      size: the height of usual ones, in pixels.
      tall: how much larger those with a scale are for it, on a canvas that is taller than wide.
      least: the least height of an answer's letters in the presenter view.
    """

    size: int
    tall: float
    least: int

    def scaled(self, scale: float) -> int:
        """The height of letters of this scale, in pixels."""
        return self.size if scale == 1 else round(scale * self.size * self.tall)


def figure_size(rows: int, columns: int, text: str = "medium") -> int:
    """The size of letters on a canvas of these rows and columns, in pixels.

    Args:
      rows: of the canvas.
      columns: of the canvas.
      text: a size of text out of `TEXT_SCALES`.
    """
    return max(11, round(min(rows, columns) / 40 * TEXT_SCALES[text]))


def draw_blocks(canvas: np.ndarray, blocks: Sequence[Block], area: Box, size: int) -> None:
    """Draws blocks into an area, from the top down, in place; side by side in a wide area.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      blocks: the figures.
      area: the area on the canvas.
      size: the height of letters in pixels; smaller where the blocks do not fit.
    """
    if not blocks:
        return
    x0, y0, x1, y1 = area
    rows, least = canvas.shape[0], round(ANSWER_SHARE * canvas.shape[0])
    tall = rows / min(canvas.shape[:2])
    columns = _columns(blocks, x1 - x0, _Letters(size, tall, least))
    while size > MIN_LETTERS and max(_height(c, size) for c in columns) > y1 - y0:
        size -= 1
        columns = _columns(blocks, x1 - x0, _Letters(size, tall, least))
    width = _column_width(x1 - x0, len(columns), size)
    x = x0 + (x1 - x0 - width * len(columns)) // 2
    for column in columns:
        y = y0
        for parts in column:
            end = y + _block_height(parts, size)
            darken(canvas, (x, y, x + width - (len(columns) > 1) * size // 3, end))
            line = y + size // 2
            for part in parts:
                part.draw(canvas, x + size // 2, line, width - size - size // 3)
                line += part.height
            y = end + size // 3
        x += width


def draw_legend(canvas: np.ndarray, legend: Legend, line: tuple[int, int, int], size: int) -> None:
    """Draws a legend in one line, in place; in smaller letters where its words do not fit.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      legend: the colours and their words.
      line: x and y of the upper left corner, and the width.
      size: the height of letters in pixels.
    """
    x, y, width = line
    strip = _Strip(legend, size)
    strip.draw(canvas, x, y, width)
    y += strip.height
    words = f"{legend.low}  {legend.high}"
    while size > MIN_LETTERS and text_width(words, size) > width:
        size -= 1
    _Line(legend.low, legend.high, size, (DIM, DIM)).draw(canvas, x, y, width)


def draw_notice(canvas: np.ndarray, text: str, area: Box, size: int, top: bool = False) -> None:
    """Draws a text at the middle of the lower edge of an area, in place.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      text: may have several lines; long ones are broken. "" draws nothing.
      area: the area on the canvas.
      size: the height of the figures' letters in pixels.
      top: whether it goes to the upper edge.
    """
    if not text:
        return
    size = round(NOTICE_SCALE * size)
    x0, y0, x1, y1 = area
    room = x1 - x0 - 2 * size
    most = LINES if room > WIDE * size else 2 * LINES
    lines = [broken for line in text.split("\n") for broken in wrapped(line, room, size)]
    lines = [fitted(line, room, size) for line in lines[:most]]
    step = round(STEP * size)
    width = max(text_width(line, size) for line in lines) + 2 * size
    x, y = (x0 + x1 - width) // 2, y0 + size if top else y1 - len(lines) * step - 2 * size
    darken(canvas, (x, y, x + width, y + len(lines) * step + size), 0.3)
    for number, line in enumerate(lines):
        origin = (x0 + x1 - text_width(line, size)) // 2, y + size // 2 + number * step + size
        draw_text(canvas, line, origin, size, WARNING)


def _columns(
    blocks: Sequence[Block], width: int, letters: _Letters
) -> list[list[tuple[_Part, ...]]]:
    """The parts of the blocks in columns of an area of this width, each in the shortest so far."""
    size = letters.size
    count = max(1, min(len(blocks), width // (WIDE * size)))
    inner = _column_width(width, count, size) - size - size // 3
    columns: list[list[tuple[_Part, ...]]] = [[] for _ in range(count)]
    for block in blocks:
        parts = tuple(part for entry in block for part in _parts(entry, inner, letters))
        min(columns, key=lambda column: _height(column, size)).append(parts)
    return columns


def _column_width(width: int, count: int, size: int) -> int:
    return min(width // count, WIDEST * size) if count > 1 else min(width, WIDEST * size)


def _height(column: Iterable[tuple[_Part, ...]], size: int) -> int:
    return sum(_block_height(parts, size) + size // 3 for parts in column)


def _block_height(parts: Iterable[_Part], size: int) -> int:
    return sum(part.height for part in parts) + size


def _parts(entry: Entry, width: int, letters: _Letters) -> list[_Part]:
    """What an entry is drawn of, in this width."""
    size = letters.size
    match entry:
        case Row():
            return _row_parts(entry, width, size)
        case Bar() if entry.scale >= ANSWER_SCALE:
            size = max(letters.least, letters.scaled(entry.scale))
            return _answer_parts(entry, width, size, letters.least)
        case Bar():
            return _bar_parts(entry, width, letters)
        case Legend():
            return _legend_parts(entry, width, letters.scaled(entry.scale))
        case Paragraph():
            return _paragraph_parts(entry, width, size)


def _paragraph_parts(paragraph: Paragraph, width: int, size: int) -> list[_Part]:
    head, text = _broken(paragraph.head, width, size), wrapped(paragraph.text, width, size)
    coloured = [*((line, WARNING) for line in head), *((line, WHITE) for line in text)]
    return [_Line(line, "", size, (colour, WHITE)) for line, colour in coloured]


def _row_parts(row: Row, width: int, size: int) -> list[_Part]:
    """One line, or the name above the value where both do not fit."""
    colours, name = (DIM, WARNING if row.warn else WHITE), row.name.replace("_", " ")
    if text_width(name, size) + text_width(row.value, size) + size <= width:
        return [_Line(name, row.value, size, colours)]
    values = _broken(row.value, width, size)
    return [_Line(name, "", size, colours), *(_Line("", v, size, colours) for v in values)]


def _bar_parts(bar: Bar, width: int, letters: _Letters) -> list[_Part]:
    """One line and the bar; large letters get smaller where the name does not fit."""
    size, name, share = letters.scaled(bar.scale), bar.name.replace("_", " "), percent(bar.share)
    while size > letters.size and text_width(f"{name}  {share}", size) > width:
        size -= 1
    return [_Line(name, share, size), _Strip(bar, size)]


def _answer_parts(bar: Bar, width: int, size: int, least: int) -> list[_Part]:
    """Name, share and bar in large letters; smaller ones where a word is too long for its line."""
    name = bar.name.replace("_", " ")
    while size > least and max(text_width(w, size) for w in wrapped(name, width, size)) > width:
        size -= 1
    share = percent(bar.share)
    if text_width(f"{name}  {share}", size) <= width:
        return [_Line(name, share, size), _Strip(bar, size)]
    lines: list[_Part] = [_Line(line, "", size) for line in _broken(name, width, size)]
    return [*lines, _Line(share, "", size), _Strip(bar, size)]


def _legend_parts(legend: Legend, width: int, size: int) -> list[_Part]:
    """The words above the colours, or one above and one below where both do not fit."""
    low, high, strip = legend.low, legend.high, _Strip(legend, size)
    dim = DIM, DIM
    if text_width(low, size) + text_width(high, size) + 2 * size <= width:
        return [_Line(low, high, size, dim), strip]
    above = [_Line(line, "", size, dim) for line in _broken(low, width, size)]
    return [*above, strip, *(_Line("", line, size, dim) for line in _broken(high, width, size))]


def _broken(text: str, width: int, size: int) -> list[str]:
    """A text in lines of at most this width, also broken at underscores; `LINES` at most."""
    if text_width(text, size) <= width:
        return [text]
    lines = wrapped(text.replace("_", " "), width, size)
    return [fitted(line, width, size) for line in lines[:LINES]]


def draw_colours(
    canvas: np.ndarray, colormap: str, x: int, y: int, width: int, height: int
) -> None:
    """Draws a colour map from its low end to its high one, in place."""
    table = colormap_named(colormap).table
    colours = table[np.linspace(0, len(table) - 1, width).round().astype(int)]
    part = canvas[y : y + height, x : x + width]
    part[:] = colours[: part.shape[1]]


def _draw_bar(canvas: np.ndarray, bar: Bar, box: Box) -> None:
    x0, y0, x1, y1 = box
    end = x0 + round((x1 - x0) * min(max(bar.share, 0.0), 1.0))
    cv2.rectangle(canvas, (x0, y0), (x1, y1), TRACK, -1)
    if end > x0:
        cv2.rectangle(canvas, (x0, y0), (end, y1), BAR, -1)
    if bar.before is not None:
        mark = x0 + round((x1 - x0) * bar.before)
        cv2.rectangle(canvas, (mark - 1, y0), (mark + 1, y0 + round(1.7 * (y1 - y0))), MARK, -1)


def percent(share: float) -> str:
    """A share, 0 to 1, in percent."""
    if 0 < share < 0.01:
        return "<1 %"
    return f"{share:.0%}".replace("%", " %")
