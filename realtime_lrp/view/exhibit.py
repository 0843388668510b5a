"""The exhibit's screen: a picture, a page of large type beside or below it, cards over both.

A page is made of elements: texts, bars, buttons; their sizes are pixels. Positions depend on the
canvas and the time only, so that a touch finds what was drawn. All boxes are x0, y0, x1, y1 in
pixels of the canvas, which is uint8 [H, W, 3] RGB.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, FloatBox, moved
from realtime_lrp.view import hud
from realtime_lrp.view.arrangement import central_square
from realtime_lrp.view.decals import Buffers
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import Painted
from realtime_lrp.view.scene import Artist, Scene
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

BLACK = (0, 0, 0)
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


def _parts(elements: Sequence[Element], width: int, font: int) -> list[hud.Strip]:
    parts: list[hud.Strip] = []
    for element in elements:
        match element:
            case TextBlock(text, scale, colour, one_line):
                widest = text_width if one_line else unbroken_width
                size = max(MIN_FONT, round(scale * font))
                size = shrunk(size, MIN_FONT, lambda size: widest(text, size) <= width)  # noqa: B023
                lines = [text] if one_line else wrapped(text, width, size)
                parts += [hud.line(fitted(line, width, size), "", size, colour) for line in lines]
            case Gap(scale):
                parts.append(hud.Strip(round(font * scale)))
            case hud.Bar():
                parts += [hud.strip(element, round(1.35 * font)), hud.Strip(round(0.3 * font))]
            case hud.Legend():
                parts += hud.legend_line(element, width, max(MIN_FONT, round(0.9 * font)))
            case Buttons():
                parts += _button_rows(element, width, font)
    return parts


def _fitting_parts(
    elements: Sequence[Element], width: int, font: int, room: int
) -> list[hud.Strip]:
    """The parts in the largest font up to `font` with which they are not higher than `room`."""
    fits = lambda font: hud.height_of(_parts(elements, width, font)) <= room  # noqa: E731
    return _parts(elements, width, shrunk(max(MIN_FONT, font), MIN_FONT, fits))


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
    x0, y0 = shift
    if rows <= columns:
        x0 += round(columns * (1 - PAGE_WIDTH))
        picture = (0, 0, x0, rows)
    else:
        y0 += round(rows * (1 - PAGE_HEIGHT))
        picture = (0, 0, columns, y0)
    x1, y1 = columns + shift[0], rows + shift[1]
    return picture, (x0 + margin, y0 + margin, x1 - margin, y1 - margin)


def draw_page(canvas: np.ndarray, box: Box, page: Page) -> dict[str, Box]:
    """Draws a page, or copies it if it was drawn before; returns the boxes of its buttons."""
    x0, y0, x1, y1 = box
    pixels, buttons = _drawn((y1 - y0, x1 - x0), page)
    canvas[y0:y1, x0:x1] = pixels
    return {name: moved(box, x0, y0) for name, box in buttons.items()}


@functools.lru_cache(maxsize=2)
def _drawn(size: tuple[int, int], page: Page) -> tuple[np.ndarray, dict[str, Box]]:
    """A page in the largest letters that fit, and the boxes of its buttons.

    The bottom elements do not depend on the top ones: buttons stay where they are.
    """
    rows, columns = size
    font = max(MIN_FONT, round(min(rows / 17, columns / 14)))
    canvas = np.full((*size, 3), BACKGROUND, np.uint8)
    width = columns - 2 * font
    room = rows - 2 * font
    bottom = _fitting_parts(page.bottom, width, round(BOTTOM_SIZE * font), round(MAX_BOTTOM * room))
    if bottom:
        room -= hud.height_of(bottom) + font
    buttons = hud.draw_parts(canvas, _fitting_parts(page.top, width, font, room), font, font, width)
    below = rows - font - hud.height_of(bottom)
    return canvas, buttons | hud.draw_parts(canvas, bottom, font, below, width)


def draw_card(canvas: np.ndarray, title: str, text: str, shift: tuple[int, int] = (0, 0)) -> None:
    """Darkens a canvas and draws a card in its middle, moved by some pixels, in place."""
    rows, columns = canvas.shape[:2]
    darken(canvas, (0, 0, columns, rows), CARD_SHADE)
    font = max(MIN_FONT, round(min(rows / 17, columns / 24)))
    elements = (TextBlock(title, 1.5, ACCENT), Gap(0.5), TextBlock(text))
    width = min(round(columns * 0.84), 26 * font)

    def parts(font: int) -> list[hud.Strip]:
        return [hud.Strip(font), *_parts(elements, width - 2 * font, font), hud.Strip(font)]

    font = shrunk(font, MIN_FONT, lambda font: hud.height_of(parts(font)) <= 0.84 * rows)
    height = hud.height_of(parts(font))
    x, y = (columns - width) // 2 + shift[0], (rows - height) // 2 + shift[1]
    cv2.rectangle(canvas, (x, y), (x + width, y + height), BACKGROUND, -1)
    cv2.rectangle(canvas, (x, y), (x + width, y + height), EDGE, max(1, font // 12))
    hud.draw_parts(canvas, parts(font), x + font, y, width - 2 * font)


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
    side = step - 2 * gap
    corners = {
        name: (left + column * step + gap, top + row * step + gap)
        for row, names in enumerate(KEYS)
        for column, name in enumerate(names)
        if name
    }
    return {name: (x, y, x + side, y + side) for name, (x, y) in corners.items()}


def draw_pad(canvas: np.ndarray, title: str, message: str, typed: int) -> None:
    """Darkens a canvas and draws the keys over it, and a dot for each typed digit, in place."""
    rows, columns = canvas.shape[:2]
    step, left, top = _grid((rows, columns))
    darken(canvas, (0, 0, columns, rows), 0.15)
    room = round(0.94 * columns)
    for text, above, size, colour in (
        (title, 1.1, round(0.4 * step), hud.WARNING),
        (message, 0.4, round(0.3 * step), WHITE),
    ):
        size = shrunk(size, 6, lambda size: text_width(text, size) <= room)  # noqa: B023
        origin = (columns - text_width(text, size)) // 2, top - round(above * step)
        draw_text(canvas, text, origin, size, colour)
    apart = step / 3  # distance of the dots, six in a row
    for number in range(typed):
        x = left + (number % 6 + 0.5) * apart
        y = top + step / 2 + (number // 6 - (typed > 6) / 2) * apart
        cv2.circle(canvas, (round(x), round(y)), max(2, round(apart / 4)), WHITE, -1, cv2.LINE_AA)
    for name, (x0, y0, x1, y1) in key_boxes((rows, columns)).items():
        side = x1 - x0
        corners = (x0, y0), (x1 - 1, y1 - 1)
        cv2.rectangle(canvas, *corners, KEY_COLOUR, -1)
        cv2.rectangle(canvas, *corners, KEY_EDGE, max(1, side // 60))
        label = LABELS.get(name, name)
        size = round((0.8 if name in LABELS else 0.45) * side)
        x = (x0 + x1) // 2 - text_width(label, size) // 2
        draw_text(canvas, label, (x, (y0 + y1) // 2 + round(0.37 * size)), size)


def _grid(size: tuple[int, int]) -> tuple[int, int, int]:
    """Side of a cell, and the grid's left and upper edge."""
    rows, columns = size
    if rows > columns:  # the lower half, where everybody reaches them
        step = min(rows // (2 * len(KEYS) + 1), columns // 4)
        return step, (columns - 3 * step) // 2, rows - len(KEYS) * step - step // 2
    step = min(rows // 8, columns // 4)
    height = (len(KEYS) + 2) * step
    return step, (columns - 3 * step) // 2, (rows - height) // 2 + 2 * step


MAX_ROWS = 1080  # pixels of the canvas's shorter side, at most; it is stretched to larger screens
DRIFT, CARD_DRIFT = 0.008, 0.06  # moves against burn-in, as shares of the canvas's shorter side
DRIFT_PERIOD_S = 420.0, 660.0  # seconds of one cycle across and down

HOLD_SHOWN = 0.2  # the bar of a held key or corner appears after this share of the hold


@dataclass(frozen=True, eq=False)
class Screen:
    """The screen's contents; without a page it is black."""

    picture: np.ndarray | None = None  # uint8 [H, W, 3] RGB, beside the page
    explained: Painted | None = None  # its map
    page: Page | None = None
    card: tuple[str, str] | None = None  # title and text, over both
    pad: tuple[str, str, int] | None = None  # title, message and number of typed digits of a PIN
    held: float = 0.0  # the share of a hold that is done


def canvas_size(screen: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the canvas for a screen of these rows and columns."""
    scale = min(1.0, MAX_ROWS / min(screen))
    return round(screen[0] * scale), round(screen[1] * scale)


class ScreenArtist:
    """Draws the screen; `look` says how maps are drawn."""

    def __init__(self, look: Look):
        self._look = look
        self._artist = Artist()
        self._buffers = Buffers()
        self.buttons: dict[str, Box] = {}  # their boxes on the canvas that was drawn last
        self._whole: FloatBox | None = None  # where the whole picture would lie on it
        # whether the last picture showed something else than the map that was drawn with it
        self.elsewhere = False

    def draw(self, size: tuple[int, int], screen: Screen, now: float) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB; the time decides how far things have moved."""
        rows, columns = size
        canvas = self._buffers.get((*size, 3))
        ground = BACKGROUND if screen.page else BLACK
        cv2.rectangle(canvas, (0, 0), (columns, rows), ground, -1)  # 60 times as fast as NumPy
        if screen.page:
            margin = round(DRIFT * min(size))
            beside, box = layout_of(size, margin, _drift(now, margin))
            if screen.picture is not None:
                self._draw_picture(canvas, beside, screen.picture, screen.explained)
            self.buttons = draw_page(canvas, box, screen.page)
        if screen.card:
            draw_card(canvas, *screen.card, _drift(now, CARD_DRIFT * min(size)))
        if screen.pad:
            draw_pad(canvas, *screen.pad)
        if screen.held > HOLD_SHOWN:
            end = round(columns * screen.held), max(3, rows // 120)
            cv2.rectangle(canvas, (0, 0), end, ACCENT, -1)
        return canvas

    def place_at(self, x: int, y: int) -> tuple[float, float] | None:
        """The place of the picture that was drawn there, x, y in shares of it; None beside it."""
        if self._whole is None:
            return None
        x0, y0, x1, y1 = self._whole
        across, down = (x + 0.5 - x0) / (x1 - x0), (y + 0.5 - y0) / (y1 - y0)
        return (across, down) if 0 <= across < 1 and 0 <= down < 1 else None

    def _draw_picture(
        self, canvas: np.ndarray, box: Box, picture: np.ndarray, explained: Painted | None
    ) -> None:
        """Draws as much of a picture as fills the box, but all of the region that is explained."""
        if explained and explained.picture.shape != picture.shape:
            explained = None
        rows, columns = picture.shape[:2]
        x0, y0, x1, y1 = explained.box if explained else central_square(picture.shape)
        room = box[3] - box[1], box[2] - box[0]
        fill = min(rows / room[0], columns / room[1])
        width = min(columns, max(round(room[1] * fill), x1 - x0))
        height = min(rows, max(round(room[0] * fill), y1 - y0))
        scale = min(room[0] / height, room[1] / width)
        scene = Scene(
            size=(max(1, round(rows * scale)), max(1, round(columns * scale))),
            picture=picture,
            explained=explained,
            tiled=False,
            look=self._look,
        )
        drawn = self._artist.draw(scene)
        _, self.elsewhere = self._artist.lost(scene)
        left = round(min(max((x0 + x1 - width) // 2, 0), columns - width) * scale)
        top = round(min(max((y0 + y1 - height) // 2, 0), rows - height) * scale)
        drawn = drawn[top : top + room[0], left : left + room[1]]
        y = box[1] + (room[0] - drawn.shape[0]) // 2
        x = box[0] + (room[1] - drawn.shape[1]) // 2
        canvas[y : y + drawn.shape[0], x : x + drawn.shape[1]] = drawn
        x, y = x - left, y - top
        self._whole = x, y, x + columns * scale, y + rows * scale


def _drift(now: float, distance: float) -> tuple[int, int]:
    """Pixels across and down by which something has moved, at most `distance`."""
    x, y = (distance * math.sin(2 * math.pi * now / period_s) for period_s in DRIFT_PERIOD_S)
    return round(x), round(y)
