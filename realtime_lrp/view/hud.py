"""What figures are made of, and how large. Knows texts and numbers, no meanings.

Figures come in blocks of rows, bars, legends and paragraphs. `view.blocks` draws them,
`view.arrangement` decides where.
"""

from dataclasses import dataclass

import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.colormaps import Colormap, colormap_named

TEXT_SIZES = {"small": 0.8, "medium": 1.0, "large": 1.3}
"""`live.text_size` -> how much larger letters are than medium ones."""

ANSWER_SCALE = 3.0
"""How much larger the letters of the presenter view's answer are than those of other figures: 7.5 %
of the height."""

PRESENTED_SCALE = 1.5  # how much larger those of what else it shows are

STEP = 1.35  # height of a line of text, as a multiple of that of its letters
WIDE = 14  # least width of a wide area, in heights of a letter

LINES = 3
"""A name, value or notice has at most this many lines; a notice in a narrow area twice as many."""

DIM = (190, 190, 190)
WARNING = (255, 190, 60)
BAR = (90, 190, 255)
TRACK = (70, 70, 70)

Colour = tuple[int, int, int]


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
    scale: float = 1.0  # how much larger its letters are than those of other figures
    colour: tuple[int, int, int] = BAR  # RGB


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


@dataclass(frozen=True)
class Legend:
    """A colour map with a word at each end."""

    colormap: str | Colormap  # the name of the colour map
    low: str  # at the left end; this is relevance 0 where the colour map has no signs
    high: str  # at the right end
    scale: float = 1.0  # how much larger its letters are than those of other figures


@dataclass(frozen=True)
class Paragraph:
    """A text of several lines."""

    head: str
    text: str


Entry = Row | Bar | Headline | Line | Legend | Paragraph
Block = tuple[Entry, ...]  # entries that are drawn together, on one dark background


def figure_size(rows: int, columns: int, text_size: str = "medium") -> int:
    """The size of letters on a canvas of these rows and columns, in pixels."""
    return max(11, round(min(rows, columns) / 40 * TEXT_SIZES[text_size]))


def draw_bar(
    canvas: np.ndarray, box: Box, share: float, colour: Colour = BAR, track: Colour = TRACK
) -> None:
    """Draws a bar that is filled up to a share, 0 to 1, in place."""
    x0, y0, x1, y1 = box
    canvas[y0:y1, x0:x1] = track
    canvas[y0:y1, x0 : x0 + round((x1 - x0) * min(max(share, 0.0), 1.0))] = colour


def draw_colours(
    canvas: np.ndarray, colormap: str | Colormap, x: int, y: int, width: int, height: int
) -> None:
    """Draws a colour map from its low end to its high one, in place."""
    table = colormap_named(colormap).table
    colours = table[np.linspace(0, len(table) - 1, width).round().astype(int)]
    part = canvas[y : y + height, x : x + width]
    part[:] = colours[: part.shape[1]]


def percent(share: float) -> str:
    """A share, -1 to 1, in percent; without a sign where it is nearly nothing."""
    if 0 < abs(share) < 0.01:
        return "<1 %"
    return f"{share:.0%}".replace("%", " %")
