"""Draws the boxes that a detector found over a picture."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from realtime_lrp.system.geometry import FloatBox
from realtime_lrp.view.text import darken, draw_text, text_size, text_width

COLOURS = (
    (255, 150, 30), (60, 170, 255), (90, 220, 90), (255, 90, 170),
    (250, 230, 60), (170, 120, 255), (60, 225, 215), (255, 85, 70),
)  # fmt: skip
"""RGB; a box with the number n has colour n, modulo 8."""

PALE = (150, 150, 150)  # RGB of a box whose map is not shown


class Outline(NamedTuple):
    """A box, or lines within it, with what stands above and below."""

    box: FloatBox  # in pixels of the picture
    above: str
    below: str
    colour: tuple[int, int, int]
    # closed lines x, y, drawn instead of the box, in pixels of the picture
    lines: tuple[tuple[tuple[float, float], ...], ...] = ()
    strong: bool = True  # whether lines are as thick as a box

    def moved(self, x: float, y: float) -> "Outline":
        """The same outline, moved by pixels to the right and down."""
        x0, y0, x1, y1 = self.box
        lines = tuple(tuple((left + x, top + y) for left, top in line) for line in self.lines)
        return self._replace(box=(x0 + x, y0 + y, x1 + x, y1 + y), lines=lines)


def draw_outlines(
    tile: np.ndarray, outlines: Sequence[Outline], shape: Sequence[int] | None = None
) -> None:
    """Draws outlines in place, the first on top; `shape` is the picture's where it is scaled."""
    rows, columns = tile.shape[:2]
    down, across = (rows / shape[0], columns / shape[1]) if shape else (1, 1)
    thick = max(1, round(min(rows, columns) / 240))
    size = text_size(rows)
    high = round(1.35 * size)
    for box, above, below, colour, lines, strong in reversed(outlines):
        x0, x1 = (round(min(max(x * across, 0), columns - 1)) for x in box[::2])
        y0, y1 = (round(min(max(y * down, 0), rows - 1)) for y in box[1::2])
        width = thick if strong else max(1, thick // 2)
        corners = [np.rint(np.array(line) * (across, down)).astype(np.int32) for line in lines]
        corners = corners or [np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])]
        cv2.polylines(tile, corners, True, (0, 0, 0), width + 2)
        cv2.polylines(tile, corners, True, colour, width)
        ends = x0, x0
        if lines:  # the texts stand where the lines begin and end
            every = np.concatenate(corners)
            ends = every[every[:, 1].argmin(), 0], every[every[:, 1].argmax(), 0]
        tops = y0 - high if y0 >= high else y0, y1 if y1 + high <= rows else y1 - high
        for text, x, top in zip((above, below), ends, tops, strict=True):
            if text:
                wide = text_width(text, size) + size // 2
                left, top = max(0, min(x, columns - wide)), max(0, min(top, rows - high))
                darken(tile, (left, top, left + wide, top + high))
                draw_text(tile, text, (left + size // 4, top + size), size, colour)


def tinted(strengths: Sequence[np.ndarray], colours: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """Positive strengths, int8 [h, w] each, as [h, w, 3] in their colours; the brightest wins."""
    drawn = np.zeros((*strengths[0].shape, 3), np.float32)
    for strength, colour in zip(strengths, colours, strict=True):
        one = np.maximum(strength, 0)[..., None] * (np.float32(1 / 255) * np.array(colour))
        drawn = np.maximum(drawn, one)
    return np.rint(drawn).astype(np.int8)
