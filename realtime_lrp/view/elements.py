"""The elements of the exhibit's pages: texts, bars, buttons, pictures, and their drawing.

A canvas is uint8 [H, W, 3] RGB; font sizes and positions are pixels of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.blocks import draw_legend
from realtime_lrp.view.hud import STEP, Bar, Legend, draw_bar
from realtime_lrp.view.text import WHITE, draw_text, fitted, shrunk, text_width, wrapped

BACKGROUND = (16, 20, 28)
SOFT = (188, 196, 208)
ACCENT = (255, 214, 90)
EDGE = (70, 78, 92)

MIN_FONT = 9  # pixels of the smallest letters

PICTURE_SIDE, LEAST_SIDE, PICTURE_GAP = 4.0, 3.0, 0.25
"""Largest side of a picture, the least at which all stand in one row, and the space between two, as
multiples of the font size."""


@dataclass(frozen=True)
class TextBlock:
    """A text, wrapped into lines."""

    text: str  # what it says
    scale: float = 1.0  # font size as a multiple of the page's
    colour: tuple[int, int, int] = WHITE  # RGB
    one_line: bool = False  # shrink the letters instead of wrapping


@dataclass(frozen=True)
class Buttons:
    """A row of buttons, wrapped into several rows if needed."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    chosen: str = ""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Square pictures in one row, or in two where that makes them larger."""

    pictures: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Gap:
    """Empty space."""

    scale: float


Element = TextBlock | Bar | Legend | Buttons | Pictures | Gap


def fitting_font(elements: Sequence[Element], font: int, width: int, room: int) -> int:
    """The largest font up to `font` with which elements are not higher than `room`."""
    fits = lambda font: total_height(elements, width, font) <= room  # noqa: E731
    return shrunk(max(MIN_FONT, font), MIN_FONT, fits)


def total_height(elements: Sequence[Element], width: int, font: int) -> int:
    """Pixels that elements need, one below the other."""
    return sum(element_height(element, width, font) for element in elements)


def _lines(block: TextBlock, width: int, font: int) -> tuple[int, list[str]]:
    """Font size and lines of a text."""

    def lines(size: int) -> list[str]:
        return [block.text] if block.one_line else wrapped(block.text, width, size)

    def fits(size: int) -> bool:
        return all(text_width(line, size) <= width for line in lines(size))

    size = shrunk(max(MIN_FONT, round(block.scale * font)), MIN_FONT, fits)
    return size, [fitted(line, width, size) for line in lines(size)]


def element_height(element: Element, width: int, font: int) -> int:
    """Pixels that an element needs."""
    match element:
        case TextBlock():
            size, lines = _lines(element, width, font)
            return round(STEP * size * len(lines))
        case Buttons():
            return len(_button_rows(element, width, font)) * _button_height(font)
        case Gap():
            return round(font * element.scale)
        case Bar():
            return round(font * 0.9)
        case Legend():
            return round(font * 1.9)
        case Pictures():
            rows, side, gap = _picture_grid(element, width, font)
            return len(rows) * (side + gap)


def draw_element(
    canvas: np.ndarray,
    element: Element,
    x: int,
    y: int,
    width: int,
    font: int,
    buttons: dict[str, Box],
) -> None:
    """Draws an element at x, y; adds its buttons to `buttons`."""
    match element:
        case TextBlock():
            size, lines = _lines(element, width, font)
            for number, line in enumerate(lines):
                baseline = y + round((STEP * number + 1) * size)
                draw_text(canvas, line, (x, baseline), size, element.colour)
        case Bar():
            box = x, y, x + width, y + max(3, font // 3)
            draw_bar(canvas, box, element.share, element.colour, EDGE)
        case Legend():
            draw_legend(canvas, element, x, y, width, max(MIN_FONT, round(0.9 * font)))
        case Buttons():
            _draw_buttons(canvas, element, x, y, width, font, buttons)
        case Pictures():
            _draw_pictures(canvas, element, x, y, width, font)


def _picture_grid(
    pictures: Pictures, width: int, font: int
) -> tuple[list[tuple[np.ndarray, ...]], int, int]:
    """The pictures row by row, their side and the gap between them."""
    count, gap = max(1, len(pictures.pictures)), round(PICTURE_GAP * font)
    columns = count
    if (width + gap) // count - gap < LEAST_SIDE * font:
        columns = -(-count // 2)
    side = max(1, min((width + gap) // columns - gap, round(PICTURE_SIDE * font)))
    starts = range(0, len(pictures.pictures), columns)
    return [pictures.pictures[start : start + columns] for start in starts], side, gap


def _draw_pictures(
    canvas: np.ndarray, pictures: Pictures, x: int, y: int, width: int, font: int
) -> None:
    rows, side, gap = _picture_grid(pictures, width, font)
    for number, row in enumerate(rows):
        top = y + number * (side + gap)
        for column, picture in enumerate(row):
            left = x + column * (side + gap)
            how = cv2.INTER_AREA if side < len(picture) else cv2.INTER_CUBIC
            drawn = cv2.resize(picture, (side, side), interpolation=how)
            canvas[top : top + side, left : left + side] = drawn


def _button_font(font: int) -> int:
    return max(MIN_FONT, round(0.72 * font))


def _button_height(font: int) -> int:
    return round(2.0 * font)


def _button_rows(buttons: Buttons, width: int, font: int) -> list[list[tuple[str, str, int]]]:
    """Name, text and width of each button, row by row."""
    size = _button_font(font)
    rows: list[list[tuple[str, str, int]]] = [[]]
    for name, text in zip(buttons.names, buttons.texts, strict=True):
        button_width = text_width(text, size) + round(1.1 * font)
        if rows[-1] and sum(used for _, _, used in rows[-1]) + button_width > width:
            rows.append([])
        rows[-1].append((name, text, button_width))
    return rows


def _draw_buttons(
    canvas: np.ndarray,
    buttons: Buttons,
    x: int,
    y: int,
    width: int,
    font: int,
    boxes: dict[str, Box],
) -> None:
    size, height = _button_font(font), _button_height(font)
    gap = max(2, font // 5)
    for number, row in enumerate(_button_rows(buttons, width, font)):
        left, top = x, y + number * height
        for name, text, button_width in row:
            boxes[name] = left, top, left + button_width, top + height
            frame = (left, top + gap), (left + button_width - gap, top + height - gap)
            chosen = name == buttons.chosen
            cv2.rectangle(canvas, *frame, WHITE if chosen else EDGE, -1 if chosen else 1)
            text_x = left + (button_width - gap - text_width(text, size)) // 2
            baseline = top + (height + round(0.7 * size)) // 2
            draw_text(canvas, text, (text_x, baseline), size, BACKGROUND if chosen else SOFT)
            left += button_width
