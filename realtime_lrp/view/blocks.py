"""Draws blocks of figures into an area of the canvas, and the legends of panels.

Each entry of a block is laid out as lines of text and strips of colour; the same list gives the
height of the block and draws it.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.hud import (
    ANSWER_SCALE,
    DIM,
    LINES,
    STEP,
    WARNING,
    WIDE,
    Bar,
    Block,
    Colour,
    Entry,
    Legend,
    Paragraph,
    Row,
    draw_bar,
    draw_colours,
    percent,
)
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, shrunk, text_width, wrapped

MIN_LETTERS = 9
"""Minimum size of letters, in pixels. Blocks that do not fit their area get smaller letters."""

ANSWER_SHARE = 0.035
"""Least height of the answer's letters in the presenter view, as a share of the canvas's."""

WIDEST = 40  # greatest width of a column of blocks in a wide area, in heights of a letter


def draw_blocks(canvas: np.ndarray, blocks: Sequence[Block], area: Box, size: int) -> None:
    """Draws blocks into an area, from the top down, in place; side by side in a wide area."""
    if not blocks:
        return
    x0, y0, x1, _ = area
    columns, size = _laid_out(blocks, area, canvas.shape[:2], size)
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


@functools.lru_cache(maxsize=16)
def blocks_end(blocks: tuple[Block, ...], area: Box, shape: tuple[int, int], size: int) -> int:
    """The row of the canvas below these blocks."""
    if not blocks:
        return area[1]
    columns, size = _laid_out(blocks, area, shape, size)
    return area[1] + max(_height(column, size) for column in columns)


def draw_legend(canvas: np.ndarray, legend: Legend, x: int, y: int, width: int, size: int) -> None:
    """Draws a legend in one line from x, y, in place; its letters get smaller where they must."""
    strip = _Strip(legend, size)
    strip.draw(canvas, x, y, width)
    y += strip.height
    words = f"{legend.low}  {legend.high}"
    size = shrunk(size, MIN_LETTERS, lambda size: text_width(words, size) <= width)
    _Line(legend.low, legend.high, size, (DIM, DIM)).draw(canvas, x, y, width)


@dataclass(frozen=True)
class _Line:
    """A line with a text at each end; the left one is cut where there is too little room."""

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
    """A bar or the colours of a legend."""

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
            bar = self.entry
            draw_bar(canvas, (x, y, x + width, y + thickness + 1), bar.share, bar.colour)
            if bar.before is not None:
                mark = x + round(width * bar.before)
                canvas[y : y + round(1.7 * thickness) + 1, mark - 1 : mark + 2] = WHITE
        else:
            draw_colours(canvas, self.entry.colormap, x, y, width, thickness)


_Part = _Line | _Strip


@dataclass(frozen=True)
class _Letters:
    """How large letters are."""

    size: int  # the height of usual ones, in pixels
    # how much larger those with a scale are for it, on a canvas that is taller than wide
    tall: float
    least: int  # the least height of an answer's letters in the presenter view

    def scaled(self, scale: float) -> int:
        """The height of letters of this scale, in pixels."""
        return self.size if scale == 1 else round(scale * self.size * self.tall)


def _laid_out(
    blocks: Sequence[Block], area: Box, shape: tuple[int, ...], size: int
) -> tuple[list[list[tuple[_Part, ...]]], int]:
    """The columns of blocks, and the size of letters with which they fit into the area."""
    x0, y0, x1, y1 = area
    least, tall = round(ANSWER_SHARE * shape[0]), shape[0] / min(shape)

    def columns(size: int) -> list[list[tuple[_Part, ...]]]:
        return _columns(blocks, x1 - x0, _Letters(size, tall, least))

    def fits(size: int) -> bool:
        return max(_height(column, size) for column in columns(size)) <= y1 - y0

    size = shrunk(size, MIN_LETTERS, fits)
    return columns(size), size


def _columns(
    blocks: Sequence[Block], width: int, letters: _Letters
) -> list[list[tuple[_Part, ...]]]:
    """The parts of the blocks in columns of an area of this width, each in the shortest so far."""
    size = letters.size
    count = max(1, min(len(blocks), width // (WIDE * size)))
    inner = _column_width(width, count, size) - size - size // 3
    columns: list[list[tuple[_Part, ...]]] = [[] for _ in range(count)]
    for block in blocks:
        parts = _block_parts(block, inner, letters)
        min(columns, key=lambda column: _height(column, size)).append(parts)
    return columns


def _column_width(width: int, count: int, size: int) -> int:
    return min(width // count, WIDEST * size) if count > 1 else min(width, WIDEST * size)


def _height(column: Iterable[tuple[_Part, ...]], size: int) -> int:
    return sum(_block_height(parts, size) + size // 3 for parts in column)


def _block_height(parts: Iterable[_Part], size: int) -> int:
    return sum(part.height for part in parts) + size


def _block_parts(block: Block, width: int, letters: _Letters) -> tuple[_Part, ...]:
    """What a block is drawn of, in this width; its bars have letters of one size."""
    bars = [bar for bar in block if isinstance(bar, Bar) and bar.scale < ANSWER_SCALE]
    size = min((_bar_size(bar, width, letters) for bar in bars), default=letters.size)
    return tuple(part for entry in block for part in _parts(entry, width, letters, size))


def _parts(entry: Entry, width: int, letters: _Letters, bars: int) -> list[_Part]:
    """What an entry is drawn of; `bars` is the size of the letters of usual bars."""
    size = letters.size
    match entry:
        case Row():
            return _row_parts(entry, width, size)
        case Bar() if entry.scale >= ANSWER_SCALE:
            size = max(letters.least, letters.scaled(entry.scale))
            return _answer_parts(entry, width, size, letters.least)
        case Bar():
            return [_Line(_spaced(entry.name), percent(entry.share), bars), _Strip(entry, bars)]
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
    colours, name = (DIM, WARNING if row.warn else WHITE), row.name
    if text_width(name, size) + text_width(row.value, size) + size <= width:
        return [_Line(name, row.value, size, colours)]
    values = _broken(row.value, width, size)
    return [_Line(name, "", size, colours), *(_Line("", v, size, colours) for v in values)]


def _bar_size(bar: Bar, width: int, letters: _Letters) -> int:
    """The height of a bar's letters: large ones get smaller where the name does not fit."""
    text = f"{_spaced(bar.name)}  {percent(bar.share)}"
    large = letters.scaled(bar.scale)
    return shrunk(large, letters.size, lambda size: text_width(text, size) <= width)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _answer_parts(bar: Bar, width: int, size: int, least: int) -> list[_Part]:
    """Name, share and bar in large letters; smaller ones where a word is too long for its line."""
    name = _spaced(bar.name)

    def fits(size: int) -> bool:
        return all(text_width(line, size) <= width for line in wrapped(name, width, size))

    size = shrunk(size, least, fits)
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
    """A text in lines of at most this width, also broken after underscores; `LINES` at most."""
    if text_width(text, size) <= width:
        return [text]
    lines = wrapped(text.replace("_", "_ ").replace(" %", "\xa0%"), width, size)
    return [fitted(line.replace("_ ", "_"), width, size) for line in lines[:LINES]]
