"""The PIN pad: keys on the screen, large enough for fingers."""

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.hud import WARNING
from realtime_lrp.view.text import WHITE, darken, draw_text, shrunk, text_width

ROWS = (
    ("", "", "leave"),
    ("1", "2", "3"),
    ("4", "5", "6"),
    ("7", "8", "9"),
    ("back", "0", "enter"),
)
"""The grid of keys; the typed digits are shown in the empty cells."""

KEY_COLOUR, EDGE = (52, 52, 58), (130, 130, 140)

LABELS = {"leave": "✕", "back": "←", "enter": "✓"}  # of the keys without a digit


def key_boxes(size: tuple[int, int]) -> dict[str, Box]:
    """The boxes of the keys: "0" to "9", "back", "enter", "leave"."""
    step, left, top = _grid(size)
    gap = max(2, step // 16)
    return {
        name: (
            left + column * step + gap,
            top + row * step + gap,
            left + (column + 1) * step - gap,
            top + (row + 1) * step - gap,
        )
        for row, names in enumerate(ROWS)
        for column, name in enumerate(names)
        if name
    }


def draw_pad(canvas: np.ndarray, title: str, message: str, typed: int) -> None:
    """Darkens a canvas and draws the keys over it, in place."""
    rows, columns = canvas.shape[:2]
    step, left, top = _grid((rows, columns))
    darken(canvas, (0, 0, columns, rows), 0.15)
    _draw_centred(canvas, title, top - round(1.1 * step), round(0.4 * step), WARNING)
    _draw_centred(canvas, message, top - round(0.4 * step), round(0.3 * step), WHITE)
    _draw_dots(canvas, typed, (left, top, left + 2 * step, top + step))
    for name, box in key_boxes((rows, columns)).items():
        _draw_key(canvas, name, box)


def _grid(size: tuple[int, int]) -> tuple[int, int, int]:
    """Side of a cell, and the grid's left and upper edge."""
    rows, columns = size
    if rows > columns:  # the lower half, where everybody reaches them
        step = min(rows // (2 * len(ROWS) + 1), columns // 4)
        return step, (columns - 3 * step) // 2, rows - len(ROWS) * step - step // 2
    step = min(rows // 8, columns // 4)
    height = (len(ROWS) + 2) * step
    return step, (columns - 3 * step) // 2, (rows - height) // 2 + 2 * step


def _draw_centred(
    canvas: np.ndarray, text: str, base: int, size: int, colour: tuple[int, int, int]
) -> None:
    columns = canvas.shape[1]
    room = round(0.94 * columns)
    size = shrunk(size, 6, lambda size: text_width(text, size) <= room)
    draw_text(canvas, text, ((columns - text_width(text, size)) // 2, base), size, colour)


def _draw_dots(canvas: np.ndarray, typed: int, box: Box) -> None:
    x0, y0, x1, y1 = box
    step = (x1 - x0) / 6
    rows = 1 if typed <= 6 else 2
    for number in range(typed):
        x = x0 + (number % 6 + 0.5) * step
        y = (y0 + y1) / 2 + (number // 6 - (rows - 1) / 2) * step
        cv2.circle(canvas, (round(x), round(y)), max(2, round(step / 4)), WHITE, -1, cv2.LINE_AA)


def _draw_key(canvas: np.ndarray, name: str, box: Box) -> None:
    x0, y0, x1, y1 = box
    side = x1 - x0
    cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), KEY_COLOUR, -1)
    cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), EDGE, max(1, side // 60))
    x, y = (x0 + x1) // 2, (y0 + y1) // 2
    label = LABELS.get(name, name)
    size = round((0.8 if name in LABELS else 0.45) * side)
    origin = x - text_width(label, size) // 2, y + round(0.37 * size)
    draw_text(canvas, label, origin, size)
