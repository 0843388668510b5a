"""The exhibit's screen: a picture, a page of large type beside or below it, cards over both.

Positions depend on the canvas only, so that a touch finds what was drawn. All boxes are x0, y0, x1,
y1 in pixels of the canvas, which is uint8 [H, W, 3] RGB.
"""

import functools
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, moved
from realtime_lrp.view.elements import (
    ACCENT,
    BACKGROUND,
    EDGE,
    MIN_FONT,
    Element,
    Gap,
    TextBlock,
    fitting_parts,
    parts_of,
)
from realtime_lrp.view.hud import Part, draw_parts, height_of
from realtime_lrp.view.text import darken, shrunk

PAGE_WIDTH, PAGE_HEIGHT = 0.36, 0.42
"""The page's share of a wide screen's width, and of a tall screen's height."""

BUTTONS_HEIGHT = 0.09
"""On a tall screen, the buttons' share of its height where the page stands above the picture."""

BOTTOM_SIZE, MAX_BOTTOM = 0.7, 0.3
"""Size of the bottom elements' letters as a share of the page's, and their share of its height."""

CARD_SHADE = 0.3  # brightness of the screen behind a card


@dataclass(frozen=True)
class Page:
    """What is shown beside the picture."""

    top: tuple[Element, ...]
    bottom: tuple[Element, ...] = ()


@dataclass(frozen=True)
class ScreenLayout:
    """Where picture and page are on the canvas."""

    picture: Box
    text: Box  # the box of the page's elements; it drifts without changing its size
    # of the bottom elements that stand at the lower edge of a tall screen, where all reach them
    bottom: Box | None = None


def layout_of(
    size: tuple[int, int], swapped: bool, margin: int = 0, shift: tuple[int, int] = (0, 0)
) -> ScreenLayout:
    """Where picture and page are."""
    rows, columns = size
    if rows > columns:
        return _tall_layout(size, swapped, margin, shift)
    edge = round(columns * (PAGE_WIDTH if swapped else 1 - PAGE_WIDTH)) + shift[0]
    first, second = (0, 0, edge, rows), (edge, 0, columns, rows)
    picture, page = (second, first) if swapped else (first, second)
    x0, y0, x1, y1 = page
    dx, dy = shift
    x0, x1 = (x0 + dx, x1) if swapped else (x0, x1 + dx)  # the edge has been shifted already
    return ScreenLayout(picture, _inset((x0, y0 + dy, x1, y1 + dy), margin))


def _tall_layout(
    size: tuple[int, int], swapped: bool, margin: int, shift: tuple[int, int]
) -> ScreenLayout:
    """`layout_of` for a canvas with more rows than columns; buttons are always at its foot."""
    (rows, columns), (dx, dy) = size, shift
    if not swapped:
        edge = round(rows * (1 - PAGE_HEIGHT)) + dy
        text = _inset((dx, edge, columns + dx, rows + dy), margin)
        return ScreenLayout((0, 0, columns, edge), text)
    edge = round(rows * (PAGE_HEIGHT - BUTTONS_HEIGHT)) + dy
    foot = round(rows * (1 - BUTTONS_HEIGHT)) + dy
    return ScreenLayout(
        picture=(0, edge, columns, foot),
        text=_inset((dx, dy, columns + dx, edge), margin),
        bottom=_inset((dx, foot, columns + dx, rows + dy), margin),
    )


def _inset(box: Box, margin: int) -> Box:
    x0, y0, x1, y1 = box
    return x0 + margin, y0 + margin, x1 - margin, y1 - margin


def draw_page(canvas: np.ndarray, layout: ScreenLayout, page: Page) -> dict[str, Box]:
    """Draws a page, or copies it if it was drawn before; returns the boxes of its buttons."""
    rows = sum(box[3] - box[1] for box in (layout.text, layout.bottom) if box)
    columns = layout.text[2] - layout.text[0]
    font = max(MIN_FONT, round(min(rows / 17, columns / 14)))
    places = [(layout.text, page)]
    if layout.bottom:
        places = [(layout.text, Page(page.top)), (layout.bottom, Page((), page.bottom))]
    buttons: dict[str, Box] = {}
    for (x0, y0, x1, y1), part in places:
        pixels, found = _drawn((y1 - y0, x1 - x0), part, font)
        canvas[y0:y1, x0:x1] = pixels
        buttons |= {name: moved(box, x0, y0) for name, box in found.items()}
    return buttons


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

    def parts(font: int) -> list[Part]:
        return [Part(font), *parts_of(elements, width - 2 * font, font), Part(font)]

    font = shrunk(font, MIN_FONT, lambda font: height_of(parts(font)) <= 0.84 * rows)
    height = height_of(parts(font))
    x, y = (columns - width) // 2 + shift[0], (rows - height) // 2 + shift[1]
    cv2.rectangle(canvas, (x, y), (x + width, y + height), BACKGROUND, -1)
    cv2.rectangle(canvas, (x, y), (x + width, y + height), EDGE, max(1, font // 12))
    draw_parts(canvas, parts(font), x + font, y, width - 2 * font)


def draw_hold(canvas: np.ndarray, share: float) -> None:
    """Draws how much of a hold is done, as a line at the upper edge, in place."""
    rows, columns = canvas.shape[:2]
    cv2.rectangle(canvas, (0, 0), (round(columns * share), max(3, rows // 120)), ACCENT, -1)


def visible_part(picture: tuple[int, int], region: Box, room: tuple[int, int]) -> Box:
    """The part of a picture that is shown.

    It has the proportions of the room if the picture is large enough, and always contains the
    region.
    """
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
    width, room = size[1] - 2 * font, size[0] - 2 * font
    most = round(MAX_BOTTOM * room) if page.top else room
    bottom = fitting_parts(page.bottom, width, round(BOTTOM_SIZE * font), most)
    if bottom:
        room -= height_of(bottom) + font
    top = fitting_parts(page.top, width, font, room)
    buttons = draw_parts(canvas, top, font, font, width)
    below = size[0] - font - height_of(bottom)
    return canvas, buttons | draw_parts(canvas, bottom, font, below, width)
