"""The elements of the exhibit's pages: texts, bars, buttons, pictures. Sizes are pixels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.view.hud import Bar, Boxes, Legend, Part, height_of, legend_line, line, strip
from realtime_lrp.view.text import (
    WHITE,
    draw_text,
    fitted,
    shrunk,
    text_width,
    unbroken_width,
    wrapped,
)

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

    text: str
    scale: float = 1.0  # font size as a multiple of the page's
    colour: tuple[int, int, int] = WHITE
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


def parts_of(elements: Iterable[Element], width: int, font: int) -> list[Part]:
    """What elements are drawn of, one below the other."""
    return [part for element in elements for part in _parts(element, width, font)]


def fitting_parts(elements: Sequence[Element], width: int, font: int, room: int) -> list[Part]:
    """The parts in the largest font up to `font` with which they are not higher than `room`."""
    fits = lambda font: height_of(parts_of(elements, width, font)) <= room  # noqa: E731
    return parts_of(elements, width, shrunk(max(MIN_FONT, font), MIN_FONT, fits))


def _parts(element: Element, width: int, font: int) -> list[Part]:
    match element:
        case TextBlock():
            size, lines = _lines(element, width, font)
            return [line(one, "", size, element.colour) for one in lines]
        case Gap():
            return [Part(round(font * element.scale))]
        case Bar():
            return [strip(element, round(1.35 * font)), Part(round(0.3 * font))]
        case Legend():
            return legend_line(element, width, max(MIN_FONT, round(0.9 * font)))
        case Buttons():
            return _button_rows(element, width, font)
        case Pictures():
            return _picture_rows(element.pictures, width, font)


def _lines(block: TextBlock, width: int, font: int) -> tuple[int, list[str]]:
    """Font size and lines of a text; letters get smaller where a word is too long for its line."""
    widest = text_width if block.one_line else unbroken_width
    size = max(MIN_FONT, round(block.scale * font))
    size = shrunk(size, MIN_FONT, lambda size: widest(block.text, size) <= width)
    lines = [block.text] if block.one_line else wrapped(block.text, width, size)
    return size, [fitted(line, width, size) for line in lines]


def _picture_rows(pictures: tuple[np.ndarray, ...], width: int, font: int) -> list[Part]:
    count, gap = max(1, len(pictures)), round(PICTURE_GAP * font)
    columns = count if (width + gap) // count - gap >= LEAST_SIDE * font else -(-count // 2)
    side = max(1, min((width + gap) // columns - gap, round(PICTURE_SIDE * font)))

    def row(pictures: Sequence[np.ndarray]) -> Part:
        def draw(canvas: np.ndarray, x: int, y: int, width: int) -> None:
            for left, picture in enumerate(pictures):
                how = cv2.INTER_AREA if side < len(picture) else cv2.INTER_CUBIC
                at = x + left * (side + gap)
                drawn = cv2.resize(picture, (side, side), interpolation=how)
                canvas[y : y + side, at : at + side] = drawn

        return Part(side + gap, draw)

    return [row(pictures[start : start + columns]) for start in range(0, len(pictures), columns)]


def _button_rows(buttons: Buttons, width: int, font: int) -> list[Part]:
    """The buttons, in as many rows as they need; where each can be touched comes from drawing."""
    size, height = max(MIN_FONT, round(0.72 * font)), round(2.0 * font)
    gap = max(2, font // 5)
    rows: list[dict[str, tuple[str, int]]] = [{}]
    for name, text in zip(buttons.names, buttons.texts, strict=True):
        needed = text_width(text, size) + round(1.1 * font)
        if rows[-1] and sum(taken for _, taken in rows[-1].values()) + needed > width:
            rows.append({})
        rows[-1][name] = text, needed

    def row(texts: dict[str, tuple[str, int]]) -> Part:
        def draw(canvas: np.ndarray, x: int, y: int, width: int) -> Boxes:
            boxes = {}
            for name, (text, width) in texts.items():
                boxes[name] = x, y, x + width, y + height
                chosen = name == buttons.chosen
                corners = (x, y + gap), (x + width - gap, y + height - gap)
                cv2.rectangle(canvas, *corners, WHITE if chosen else EDGE, -1 if chosen else 1)
                text_x = x + (width - gap - text_width(text, size)) // 2
                origin = text_x, y + (height + round(0.7 * size)) // 2
                draw_text(canvas, text, origin, size, BACKGROUND if chosen else SOFT)
                x += width
            return boxes

        return Part(height, draw)

    return [row(texts) for texts in rows]
