"""The help: all keys and what they do, in columns, on as many pages as the window needs."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from realtime_lrp.view.hud import DIM, WARNING, figure_size
from realtime_lrp.view.keys import BINDINGS, MOUSE, key_text
from realtime_lrp.view.text import WHITE, darken, draw_text, text_width, wrapped

SIZES = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Sizes of letters to try, as multiples of those of figures. The last may take several pages."""

MIN_LINES = 4  # in a column
COLUMN = 20  # minimum width of a column, in heights of a letter
KEYS_SHARE = 0.25  # greatest share of a column that several keys in one line take
STEP = 1.4  # height of a line, as a multiple of that of its letters


@dataclass(frozen=True)
class Line:
    """A line of the help."""

    keys: str  # at the left; the heading where there is no text
    text: str  # what the keys do, or the rest of it
    indent: int = 0  # of the text, in pixels; the widest keys of the group end a letter before it


@dataclass(frozen=True)
class HelpLayout:
    """The help, laid out for a canvas."""

    size: int
    column_width: int
    pages: tuple[tuple[tuple[Line, ...], ...], ...]


@functools.lru_cache(maxsize=4)
def help_layout(rows: int, columns: int, text_size: str = "medium") -> HelpLayout:
    """Lays the help out for a canvas, with the largest letters that need only one page."""
    usual = figure_size(rows, columns, text_size)
    for scale in SIZES:
        size = max(11, round(scale * usual))
        most = max(1, (columns - size) // (COLUMN * size))
        for across in range(1, most + 1):
            layout = _laid_out(rows, columns, size, across)
            if len(layout.pages) == 1:
                return layout
    return layout


def help_pages(size: tuple[int, int], text_size: str = "medium") -> int:
    """How many pages the help has on a canvas of these rows and columns."""
    return len(help_layout(*size, text_size).pages) if min(size) > 0 else 1


def draw_help(canvas: np.ndarray, page: int = 0, text_size: str = "medium") -> None:
    """Draws a page of the help, in place."""
    rows, columns = canvas.shape[:2]
    darken(canvas, (0, 0, columns, rows), 0.15)
    layout = help_layout(rows, columns, text_size)
    size, count = layout.size, len(layout.pages)
    page = min(page, count - 1)
    for number, column in enumerate(layout.pages[page]):
        x, y = size + number * layout.column_width, 2 * size
        for line in column:
            colour = WHITE if line.text else WARNING
            draw_text(canvas, line.keys, (x, y), size, colour)
            draw_text(canvas, line.text, (x + line.indent, y), size, DIM)
            y += round(STEP * size)
    if count > 1:
        goes_on = "h: next page" if page + 1 < count else "h: close"
        text = f"page {page + 1} of {count}    {goes_on}"
        draw_text(canvas, text, (size, rows - size), size, WARNING)


def _laid_out(rows: int, columns: int, size: int, across: int) -> HelpLayout:
    """The help in letters of this size, in so many columns on each page."""
    width = (columns - size) // across
    groups = {
        name: [(key_text(b.keys), b.meaning) for b in all_] for name, all_ in BINDINGS.items()
    }
    groups["The mouse, on the picture"] = list(MOUSE)
    step = round(STEP * size)
    blocks = [
        [Line(name, ""), *_group_lines(lines, width - size, size)] for name, lines in groups.items()
    ]
    fits = (rows - 2 * size) // step
    if len(_stacks(blocks, fits)) > across:
        fits -= 2  # leaves room for the number of the page
    count = len(_stacks(blocks, fits))
    least = next(n for n in range(MIN_LINES, fits + 1) if len(_stacks(blocks, n)) <= count)
    stacks = _stacks(blocks, least)
    pages = tuple(tuple(stacks[n : n + across]) for n in range(0, len(stacks), across))
    return HelpLayout(size, width, pages)


def _unbroken(keys: str) -> str:
    """Keys in words that a line never breaks; several keys stay several words."""
    return keys.replace(", ", ",\0").replace(" ", "\xa0").replace("\0", " ")


def _stacks(blocks: list[list[Line]], fits: int) -> list[tuple[Line, ...]]:
    """The blocks in columns of at most so many lines; only longer blocks are split."""
    stacks: list[list[Line]] = [[]]
    for block in blocks:
        if stacks[-1] and len(stacks[-1]) + 1 + len(block) > fits:
            stacks.append([])
        elif stacks[-1]:
            stacks[-1].append(Line("", ""))
        for line in block:
            if len(stacks[-1]) == fits:
                stacks.append([])
            stacks[-1].append(line)
    return [tuple(stack) for stack in stacks]


def _group_lines(rows: Sequence[tuple[str, str]], width: int, size: int) -> list[Line]:
    """Keys and what they do in lines of at most this width."""
    rows = [(_unbroken(keys), text) for keys, text in rows]
    whole = max(text_width(keys, size) for keys, _ in rows)
    single = max(text_width(key, size) for keys, _ in rows for key in keys.split(" "))
    room = min(whole, max(single, round(KEYS_SHARE * width)))
    return [line for row in rows for line in _broken(row, (room, width - room - size), size)]


def _broken(row: tuple[str, str], room: tuple[int, int], size: int) -> list[Line]:
    """Keys and what they do in as many lines as they need, within the two widths."""
    lines = (wrapped(text, width, size) for text, width in zip(row, room, strict=True))
    pairs = itertools.zip_longest(*lines, fillvalue="")
    return [Line(key, text or "\xa0", room[0] + size) for key, text in pairs]
