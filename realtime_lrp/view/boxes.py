"""Draws the boxes that a detector found over a picture."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from realtime_lrp.system.geometry import FloatBox
from realtime_lrp.view.text import WHITE, darken, draw_text, text_size, text_width

PALE = (170, 170, 170)


class Outline(NamedTuple):
    """A box with the text that stands at it."""

    box: FloatBox  # in pixels of the picture
    text: str


def draw_outlines(
    tile: np.ndarray, outlines: Sequence[Outline], shape: Sequence[int] | None = None
) -> None:
    """Draws outlines in place, the first, whose map is shown, the brightest and thickest.

    `shape` is that of the picture which fills the tile, if it has another size.
    """
    rows, columns = tile.shape[:2]
    down, across = (rows / shape[0], columns / shape[1]) if shape else (1, 1)
    thin, size = max(1, round(min(rows, columns) / 360)), text_size(rows)
    for number, (box, text) in reversed(list(enumerate(outlines))):
        x0, x1 = (round(min(max(x * across, 0), columns - 1)) for x in box[::2])
        y0, y1 = (round(min(max(y * down, 0), rows - 1)) for y in box[1::2])
        colour, thick = (PALE, thin) if number else (WHITE, thin + 1)
        cv2.rectangle(tile, (x0, y0), (x1, y1), (0, 0, 0), thick + 2)
        cv2.rectangle(tile, (x0, y0), (x1, y1), colour, thick)
        wide, high = text_width(text, size) + size // 2, round(1.35 * size)
        left = max(0, min(x0, columns - wide))
        top = y0 - high if y0 >= high else min(y0, rows - high)
        darken(tile, (left, top, left + wide, top + high))
        draw_text(tile, text, (left + size // 4, top + size), size, colour)
