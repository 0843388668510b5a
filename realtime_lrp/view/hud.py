"""Text over a canvas: figures, notices, which pass, and marks, which last. Knows no meanings."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.look import Colormap, colormap_named
from realtime_lrp.view.text import (
    WHITE,
    darken,
    draw_text,
    fitted,
    shrunk,
    text_width,
    unbroken_width,
    wrapped,
)

TEXT_SIZES = {"small": 0.8, "medium": 1.0, "large": 1.3}  # `live.text_size` -> relative size
ANSWER_SCALE = 3.0  # letters of the presenter's answer, relative to other figures
PRESENTED_SCALE = 1.5  # the same for its other lines
NOTICE_SCALE = 1.2  # the same for notices
STEP = 1.35  # height of a line of text, as a multiple of its letters' height
WIDE = 14  # least width of a wide area, in heights of a letter
LINES = 3  # at most, of a name, value or notice; twice as many of a notice in a narrow area
DIM = (190, 190, 190)
WARNING = (255, 190, 60)
BAR = (90, 190, 255)
TRACK = (70, 70, 70)
MIN_LETTERS = 9  # pixels; blocks that do not fit their area get smaller letters
KEPT_LINES = 2  # lines kept for names if some name is too long for one line
WIDEST = 40  # greatest width of a column of blocks in a wide area, in heights of a letter
Colour = tuple[int, int, int]
Boxes = dict[str, Box]


@dataclass(frozen=True)
class Row:
    """A name and a value."""

    name: str
    value: str
    warn: bool = False


@dataclass(frozen=True)
class Bar:
    """A share as a bar."""

    name: str  # above the bar; "" for none
    share: float  # 0 to 1
    before: float | None = None  # an earlier share, 0 to 1, shown as a mark on the bar; or None
    scale: float = 1.0  # its letter size relative to other figures
    colour: Colour | None = None  # RGB; None is the usual one


@dataclass(frozen=True)
class Headline:
    """The answer in large letters, at the same place whichever it is."""

    name: str
    share: float  # 0 to 1
    longest: str  # the longest name that there can be: so much room is kept
    before: float | None = None  # see `Bar`


@dataclass(frozen=True)
class Line:
    """A text in large letters, in as many lines as the longest one takes."""

    text: str
    longest: str
    warn: bool = False


@dataclass(frozen=True)
class Legend:
    """A colour map with a word at each end."""

    colormap: str | Colormap  # the name of the colour map
    low: str  # at the left end; this is relevance 0 where the colour map has no signs
    high: str  # at the right end


@dataclass(frozen=True)
class Paragraph:
    """A text of several lines."""

    head: str
    text: str
    scale: float = 1.0  # its head's letter size relative to other figures


Entry = Row | Bar | Headline | Line | Legend | Paragraph
Block = tuple[Entry, ...]  # entries that are drawn together, on one dark background


def figure_size(rows: int, columns: int, text_size: str = "medium") -> int:
    """The size of letters on a canvas of these rows and columns, in pixels."""
    return max(11, round(min(rows, columns) / 40 * TEXT_SIZES[text_size]))


def draw_bar(canvas: np.ndarray, box: Box, share: float, colour: Colour = BAR) -> None:
    """Draws a bar that is filled up to a share, 0 to 1, in place."""
    x0, y0, x1, y1 = box
    canvas[y0:y1, x0:x1] = TRACK
    canvas[y0:y1, x0 : x0 + round((x1 - x0) * min(max(share, 0.0), 1.0))] = colour


def percent(share: float) -> str:
    """A share, -1 to 1, in percent; without a sign where it is nearly nothing."""
    if 0 < abs(share) < 0.01:
        return "<1 %"
    return f"{share:.0%}".replace("%", " %")


class Strip(NamedTuple):
    """Some rows of a column: `draw(canvas, x, y, width)` returns boxes of buttons."""

    height: int
    draw: Callable[[np.ndarray, int, int, int], Boxes | None] = lambda *_: None


def height_of(parts: Iterable[Strip]) -> int:
    """Pixels that parts need, one below the other."""
    return sum(part.height for part in parts)


def draw_parts(canvas: np.ndarray, parts: Iterable[Strip], x: int, y: int, width: int) -> Boxes:
    """Draws parts from x, y down, in place; returns the boxes of their buttons."""
    boxes: Boxes = {}
    for part in parts:
        boxes |= part.draw(canvas, x, y, width) or {}
        y += part.height
    return boxes


def line(
    left: str, right: str, size: int, left_colour: Colour = WHITE, right_colour: Colour = WHITE
) -> Strip:
    """A line with a text at each end; the left one is cut where there is too little room."""

    def draw(canvas: np.ndarray, x: int, y: int, width: int) -> None:
        shown = fitted(right, width, size)
        taken = text_width(shown, size)
        draw_text(canvas, shown, (x + width - taken, y + size), size, right_colour)
        room = width - taken - (size // 2 if taken else 0)
        if left and room > size:
            draw_text(canvas, fitted(left, room, size), (x, y + size), size, left_colour)

    return Strip(round(STEP * size), draw)


def strip(entry: Bar | Legend, size: int) -> Strip:
    """A bar or the colours of a legend, with the gap below."""
    thickness = max(3, size // 4)

    def draw(canvas: np.ndarray, x: int, y: int, width: int) -> None:
        if isinstance(entry, Legend):
            table = colormap_named(entry.colormap).table
            colours = table[np.linspace(0, len(table) - 1, width).round().astype(int)]
            part = canvas[y : y + thickness, x : x + width]
            part[:] = colours[: part.shape[1]]
            return
        draw_bar(canvas, (x, y, x + width, y + thickness + 1), entry.share, entry.colour or BAR)
        if entry.before is not None:
            mark = x + round(width * entry.before)
            canvas[y : y + round(1.7 * thickness) + 1, mark - 1 : mark + 2] = WHITE

    return Strip(round(0.45 * size), draw)


def legend_line(legend: Legend, width: int, size: int) -> list[Strip]:
    """A legend in one line below its colours; the letters get smaller where they must."""
    words = f"{legend.low}  {legend.high}"
    letters = shrunk(size, MIN_LETTERS, lambda size: text_width(words, size) <= width)
    return [strip(legend, size), line(legend.low, legend.high, letters, DIM, DIM)]


def draw_blocks(canvas: np.ndarray, blocks: Sequence[Block], area: Box, size: int) -> None:
    """Draws blocks into an area, from the top down, in place; side by side in a wide area."""
    x0, y0, x1, _ = area
    columns, width = _laid_out(blocks, area, canvas.shape[:2], size)
    x = x0 + (x1 - x0 - width * len(columns)) // 2
    for number, column in enumerate(columns):
        draw_parts(canvas, column, x + number * width, y0, width)


@functools.lru_cache(maxsize=16)
def blocks_end(blocks: tuple[Block, ...], area: Box, shape: tuple[int, int], size: int) -> int:
    """The row of the canvas below these blocks."""
    columns, _ = _laid_out(blocks, area, shape, size)
    return area[1] + max(map(height_of, columns))


class _Letters(NamedTuple):
    size: int
    tall: float  # how much larger those with a scale are on a canvas that is taller than wide

    def scaled(self, scale: float) -> int:
        return self.size if scale == 1 else round(scale * self.size * self.tall)


def _laid_out(
    blocks: Sequence[Block], area: Box, shape: tuple[int, ...], size: int
) -> tuple[list[list[Strip]], int]:
    """Columns of blocks, in letters with which they fit into the area, and a column's width."""
    x0, y0, x1, y1 = area
    tall = shape[0] / min(shape)

    def laid_out(size: int) -> tuple[list[list[Strip]], int]:
        count = max(1, min(len(blocks), (x1 - x0) // (WIDE * size)))
        width = min((x1 - x0) // count, WIDEST * size)
        columns: list[list[Strip]] = [[] for _ in range(count)]
        for block in blocks:  # each into the shortest so far
            part = _block_part(block, width, _Letters(size, tall), size // 3 if count > 1 else 0)
            min(columns, key=height_of).append(part)
        return columns, width

    fitting = shrunk(
        size, MIN_LETTERS, lambda size: max(map(height_of, laid_out(size)[0])) <= y1 - y0
    )
    return laid_out(fitting)


def _block_part(block: Block, width: int, letters: _Letters, free: int) -> Strip:
    """A block with its ground, in a column; its bars have letters of one size."""
    size = letters.size
    inner = width - size - size // 3
    bars = [_bar_size(one, inner, letters) for one in block if isinstance(one, Bar)]
    lines = [part for one in block for part in _parts(one, inner, letters, min(bars, default=size))]
    height = height_of(lines) + size

    def draw(canvas: np.ndarray, x: int, y: int, width: int) -> None:
        darken(canvas, (x, y, x + width - free, y + height))
        draw_parts(canvas, lines, x + size // 2, y + size // 2, inner)

    return Strip(height + size // 3, draw)


def _parts(entry: Entry, width: int, letters: _Letters, bars: int) -> list[Strip]:
    """The parts of an entry; `bars` is the letter size of usual bars."""
    size = letters.size
    match entry:
        case Row():  # one line, or the name above the value where both do not fit
            colour = WARNING if entry.warn else WHITE
            if text_width(entry.name, size) + text_width(entry.value, size) + size <= width:
                return [line(entry.name, entry.value, size, DIM, colour)]
            values = _lines(entry.value, width, size)
            name = line(entry.name, "", size, DIM)
            return [name, *(line("", value, size, DIM, colour) for value in values)]
        case Headline():
            size = letters.scaled(ANSWER_SCALE)
            named = _kept_lines(entry.name, entry.longest, width, size)
            fits = shrunk(size, MIN_LETTERS, lambda one: text_width("100 %", one) <= width)
            bar = strip(Bar("", entry.share, entry.before), size)
            return [*named, line(percent(entry.share), "", fits), bar]
        case Line():
            size = letters.scaled(PRESENTED_SCALE)
            colour = WARNING if entry.warn else WHITE
            return _kept_lines(entry.text, entry.longest, width, size, colour)
        case Bar():
            name = line(entry.name, percent(entry.share), bars)
            lower = letters.scaled(entry.scale) - bars  # other names move nothing
            return [Strip(round(STEP * lower)), name, strip(entry, bars + lower)]
        case Legend(_, low, high):  # both words above the colours, or one below where they must
            if text_width(low, size) + text_width(high, size) + 2 * size <= width:
                return [line(low, high, size, DIM, DIM), strip(entry, size)]
            above = [line(one, "", size, DIM) for one in _lines(low, width, size)]
            below = [line("", one, size, DIM, DIM) for one in _lines(high, width, size)]
            return [*above, strip(entry, size), *below]
        case Paragraph():
            large = round(entry.scale * size)
            head = [line(one, "", large, WARNING) for one in wrapped(entry.head, width, large)]
            return head + [line(one, "", size) for one in wrapped(entry.text, width, size)]


def _bar_size(bar: Bar, width: int, letters: _Letters) -> int:
    """The height of a bar's letters: large ones get smaller where the name does not fit."""
    text = f"{bar.name}  {percent(bar.share)}"
    large = letters.scaled(bar.scale)
    return shrunk(large, letters.size, lambda size: text_width(text, size) <= width)


def _kept_lines(
    text: str, longest: str, width: int, size: int, colour: Colour = WHITE
) -> list[Strip]:
    """A text in the lowest of the lines that the longest one takes, in letters that fit."""
    kept = 1 if text_width(longest, size) <= width else KEPT_LINES

    def fits(size: int) -> bool:
        return unbroken_width(text, size) <= width and len(wrapped(text, width, size)) <= kept

    letters = shrunk(size, MIN_LETTERS, fits)
    lines = wrapped(text, width, letters)[:kept]
    free = kept * round(STEP * size) - len(lines) * round(STEP * letters)
    return [Strip(free), *(line(one, "", letters, colour) for one in lines)]


def _lines(text: str, width: int, size: int) -> list[str]:
    return wrapped(text.replace(" %", "\xa0%"), width, size)[:LINES]


def draw_notice(canvas: np.ndarray, text: str, area: Box, size: int) -> None:
    """Draws a text at the middle of the lower edge of an area, in place."""
    x0, _, x1, y1 = area
    lines = _notice_lines(text, x1 - x0, size)
    height = notice_height(text, x1 - x0, size)
    size = round(NOTICE_SCALE * size)
    step = round(STEP * size)
    width = max(text_width(line, size) for line in lines) + 2 * size
    x, y = (x0 + x1 - width) // 2, y1 - height + size // 2
    darken(canvas, (x, y, x + width, y + len(lines) * step + size), 0.3)
    for number, line in enumerate(lines):
        origin = (x0 + x1 - text_width(line, size)) // 2, y + size // 2 + number * step + size
        draw_text(canvas, line, origin, size, WARNING)


def notice_height(text: str, width: int, size: int) -> int:
    """How many rows a notice takes in an area of this width, its margins included."""
    letters = round(NOTICE_SCALE * size)
    return len(_notice_lines(text, width, size)) * round(STEP * letters) + 2 * letters


def draw_marks(canvas: np.ndarray, text: str, box: Box, size: int) -> None:
    """Draws a line at the right end of a box, in place; in smaller letters where it is too long."""
    x0, y0, x1, y1 = box
    size = shrunk(size, MIN_LETTERS, lambda size: text_width(text, size) + size <= x1 - x0)
    text = fitted(text, x1 - x0 - size, size)
    x = x1 - text_width(text, size) - size // 2
    middle = (y0 + y1) // 2
    darken(canvas, (x - size // 2, y0, x1, y1), 0.3)
    draw_text(canvas, text, (x, middle + round(0.36 * size)), size, WARNING)


def _notice_lines(text: str, width: int, size: int) -> list[str]:
    """The lines of a notice in an area; each line of its text may take `LINES`, or twice that."""
    size = round(NOTICE_SCALE * size)
    room = width - 2 * size
    most = LINES if room > WIDE * size else 2 * LINES
    return [part for line in text.split("\n") for part in wrapped(line, room, size)[:most]]
