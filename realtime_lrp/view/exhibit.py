"""The exhibit's screen: a picture, a page of large type beside or below it, cards over both.

A page is made of elements: texts, bars, buttons; their sizes are pixels. Positions depend
on the canvas only, so that a touch finds what was drawn. All boxes are x0, y0, x1, y1 in pixels of
the canvas, which is uint8 [H, W, 3] RGB.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, moved
from realtime_lrp.view import hud
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

BACKGROUND = (16, 20, 28)
SOFT = (188, 196, 208)
ACCENT = (255, 214, 90)
EDGE = (70, 78, 92)

MIN_FONT = 9  # pixels of the smallest letters


@dataclass(frozen=True)
class TextBlock:
    """A text, wrapped into lines."""

    text: str
    scale: float = 1.0  # font size as a multiple of the page's
    colour: tuple[int, int, int] = WHITE
    one_line: bool = False  # shrink the letters instead of wrapping


@dataclass(frozen=True)
class Buttons:
    """A row of buttons, wrapped into several rows if needed; large ones share a row's width."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    chosen: str = ""
    large: bool = False


@dataclass(frozen=True)
class Gap:
    """Empty space."""

    scale: float


Element = TextBlock | hud.Bar | hud.Legend | Buttons | Gap


def parts_of(elements: Iterable[Element], width: int, font: int) -> list[hud.Strip]:
    """The parts of elements, one below the other."""
    return [part for element in elements for part in _parts(element, width, font)]


def fitting_parts(elements: Sequence[Element], width: int, font: int, room: int) -> list[hud.Strip]:
    """The parts in the largest font up to `font` with which they are not higher than `room`."""
    fits = lambda font: hud.height_of(parts_of(elements, width, font)) <= room  # noqa: E731
    return parts_of(elements, width, shrunk(max(MIN_FONT, font), MIN_FONT, fits))


def _parts(element: Element, width: int, font: int) -> list[hud.Strip]:
    match element:
        case TextBlock():
            size, lines = _lines(element, width, font)
            return [hud.line(one, "", size, element.colour) for one in lines]
        case Gap():
            return [hud.Strip(round(font * element.scale))]
        case hud.Bar():
            return [hud.strip(element, round(1.35 * font)), hud.Strip(round(0.3 * font))]
        case hud.Legend():
            return hud.legend_line(element, width, max(MIN_FONT, round(0.9 * font)))
        case Buttons():
            return _button_rows(element, width, font)


def _lines(block: TextBlock, width: int, font: int) -> tuple[int, list[str]]:
    """Font size and lines of a text; letters get smaller where a word is too long for its line."""
    widest = text_width if block.one_line else unbroken_width
    size = max(MIN_FONT, round(block.scale * font))
    size = shrunk(size, MIN_FONT, lambda size: widest(block.text, size) <= width)
    lines = [block.text] if block.one_line else wrapped(block.text, width, size)
    return size, [fitted(line, width, size) for line in lines]


def _button_rows(buttons: Buttons, width: int, font: int) -> list[hud.Strip]:
    """The buttons, in as many rows as they need; where each can be touched comes from drawing."""
    size = max(MIN_FONT, round(0.72 * font))
    height = round(2.0 * font)
    if buttons.large:
        size = round(1.2 * font)
        height = round(4.0 * font)
    gap = max(2, font // 5)
    rows: list[dict[str, tuple[str, int]]] = [{}]
    for name, text in zip(buttons.names, buttons.texts, strict=True):
        needed = text_width(text, size) + round(1.1 * font)
        needed = width // len(buttons.names) if buttons.large else needed
        if rows[-1] and sum(taken for _, taken in rows[-1].values()) + needed > width:
            rows.append({})
        rows[-1][name] = text, needed

    def row(texts: dict[str, tuple[str, int]]) -> hud.Strip:
        def draw(canvas: np.ndarray, x: int, y: int, width: int) -> hud.Boxes:
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

        return hud.Strip(height, draw)

    return [row(texts) for texts in rows]


PAGE_WIDTH, PAGE_HEIGHT = 0.36, 0.42  # shares of a wide screen's width, a tall one's height
BOTTOM_SIZE, MAX_BOTTOM = 0.7, 0.3  # shares of the page's letters and height, at the bottom
CARD_SHADE = 0.3  # brightness of the screen behind a card


@dataclass(frozen=True)
class Page:
    """The page beside the picture."""

    top: tuple[Element, ...]
    bottom: tuple[Element, ...] = ()


def layout_of(
    size: tuple[int, int], margin: int = 0, shift: tuple[int, int] = (0, 0)
) -> tuple[Box, Box]:
    """The boxes of the picture, and of the page beside or below it, which drifts at its size."""
    rows, columns = size
    dx, dy = shift
    if rows <= columns:
        edge = round(columns * (1 - PAGE_WIDTH)) + dx
        picture = (0, 0, edge, rows)
        x0, y0, x1, y1 = (edge, dy, columns + dx, rows + dy)
    else:
        edge = round(rows * (1 - PAGE_HEIGHT)) + dy
        picture = (0, 0, columns, edge)
        x0, y0, x1, y1 = (dx, edge, columns + dx, rows + dy)
    return picture, (x0 + margin, y0 + margin, x1 - margin, y1 - margin)


def draw_page(canvas: np.ndarray, box: Box, page: Page) -> dict[str, Box]:
    """Draws a page, or copies it if it was drawn before; returns the boxes of its buttons."""
    x0, y0, x1, y1 = box
    rows, columns = y1 - y0, x1 - x0
    font = max(MIN_FONT, round(min(rows / 17, columns / 14)))
    pixels, buttons = _drawn((rows, columns), page, font)
    canvas[y0:y1, x0:x1] = pixels
    return {name: moved(box, x0, y0) for name, box in buttons.items()}


def fill(part: np.ndarray, colour: tuple[int, int, int]) -> None:
    """Fills a part of a canvas with a colour, 60 times as fast as NumPy's assignment."""
    cv2.rectangle(part, (0, 0), part.shape[1::-1], colour, -1)


def draw_card(canvas: np.ndarray, title: str, text: str, shift: tuple[int, int] = (0, 0)) -> None:
    """Darkens a canvas and draws a card in its middle, moved by some pixels, in place."""
    rows, columns = canvas.shape[:2]
    darken(canvas, (0, 0, columns, rows), CARD_SHADE)
    font = max(MIN_FONT, round(min(rows / 17, columns / 24)))
    elements = (TextBlock(title, 1.5, ACCENT), Gap(0.5), TextBlock(text))
    width = min(round(columns * 0.84), 26 * font)

    def parts(font: int) -> list[hud.Strip]:
        return [hud.Strip(font), *parts_of(elements, width - 2 * font, font), hud.Strip(font)]

    font = shrunk(font, MIN_FONT, lambda font: hud.height_of(parts(font)) <= 0.84 * rows)
    height = hud.height_of(parts(font))
    x, y = (columns - width) // 2 + shift[0], (rows - height) // 2 + shift[1]
    cv2.rectangle(canvas, (x, y), (x + width, y + height), BACKGROUND, -1)
    cv2.rectangle(canvas, (x, y), (x + width, y + height), EDGE, max(1, font // 12))
    hud.draw_parts(canvas, parts(font), x + font, y, width - 2 * font)


def draw_hold(canvas: np.ndarray, share: float) -> None:
    """Draws how much of a hold is done, as a line at the upper edge, in place."""
    rows, columns = canvas.shape[:2]
    cv2.rectangle(canvas, (0, 0), (round(columns * share), max(3, rows // 120)), ACCENT, -1)


def visible_part(picture: tuple[int, int], region: Box, room: tuple[int, int]) -> Box:
    """The shown part of a picture: of the room's proportions, and with all of the region."""
    rows, columns = picture
    x0, y0, x1, y1 = region
    scale = min(rows / room[0], columns / room[1])
    width = min(columns, max(round(room[1] * scale), x1 - x0))
    height = min(rows, max(round(room[0] * scale), y1 - y0))
    x = min(max((x0 + x1 - width) // 2, 0), columns - width)
    y = min(max((y0 + y1 - height) // 2, 0), rows - height)
    return x, y, x + width, y + height


@functools.lru_cache(maxsize=2)
def _drawn(size: tuple[int, int], page: Page, font: int) -> tuple[np.ndarray, dict[str, Box]]:
    """A page in the largest letters that fit, up to `font`, and the boxes of its buttons.

    The bottom elements do not depend on the top ones: buttons stay where they are.
    """
    canvas = np.full((*size, 3), BACKGROUND, np.uint8)
    width = size[1] - 2 * font
    room = size[0] - 2 * font
    bottom = fitting_parts(page.bottom, width, round(BOTTOM_SIZE * font), round(MAX_BOTTOM * room))
    if bottom:
        room -= hud.height_of(bottom) + font
    top = fitting_parts(page.top, width, font, room)
    buttons = hud.draw_parts(canvas, top, font, font, width)
    below = size[0] - font - hud.height_of(bottom)
    return canvas, buttons | hud.draw_parts(canvas, bottom, font, below, width)


KEYS = (
    ("", "", "leave"), ("1", "2", "3"), ("4", "5", "6"), ("7", "8", "9"), ("back", "0", "enter"),
)  # fmt: skip
"""The grid of keys; the typed digits are shown in the empty cells."""

KEY_COLOUR = (52, 52, 58)
KEY_EDGE = (130, 130, 140)

LABELS = {"leave": "✕", "back": "←", "enter": "✓"}  # signs on the keys without a digit


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
        for row, names in enumerate(KEYS)
        for column, name in enumerate(names)
        if name
    }


def draw_pad(canvas: np.ndarray, title: str, message: str, typed: int) -> None:
    """Darkens a canvas and draws the keys over it, in place."""
    rows, columns = canvas.shape[:2]
    step, left, top = _grid((rows, columns))
    darken(canvas, (0, 0, columns, rows), 0.15)
    _draw_centred(canvas, title, top - round(1.1 * step), round(0.4 * step), hud.WARNING)
    _draw_centred(canvas, message, top - round(0.4 * step), round(0.3 * step), WHITE)
    _draw_dots(canvas, typed, (left, top, left + 2 * step, top + step))
    for name, box in key_boxes((rows, columns)).items():
        _draw_key(canvas, name, box)


def _grid(size: tuple[int, int]) -> tuple[int, int, int]:
    """Side of a cell, and the grid's left and upper edge."""
    rows, columns = size
    if rows > columns:  # the lower half, where everybody reaches them
        step = min(rows // (2 * len(KEYS) + 1), columns // 4)
        return step, (columns - 3 * step) // 2, rows - len(KEYS) * step - step // 2
    step = min(rows // 8, columns // 4)
    height = (len(KEYS) + 2) * step
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
    cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), KEY_EDGE, max(1, side // 60))
    x, y = (x0 + x1) // 2, (y0 + y1) // 2
    label = LABELS.get(name, name)
    size = round((0.8 if name in LABELS else 0.45) * side)
    origin = x - text_width(label, size) // 2, y + round(0.37 * size)
    draw_text(canvas, label, origin, size)
