"""The exhibit's screen: a picture, a page of large type beside or below it, cards over both.

What stands where depends on the canvas alone, so that a touch finds what was drawn. All positions
are boxes x0, y0, x1, y1 in pixels of the canvas, uint8 [H, W, 3] RGB.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.view.hud import Legend, draw_colours
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, text_width, wrapped

Box = tuple[int, int, int, int]

BACKGROUND = (16, 20, 28)
SOFT = (188, 196, 208)
ACCENT = (255, 214, 90)
EDGE = (70, 78, 92)

WIDE, HIGH = 0.36, 0.42
"""Share of the screen that the page has: of the width beside the picture, of the height below."""

LEAST = 9
"""Pixels of the smallest letters."""

CARD_SHADE = 0.3
"""How bright the screen stays behind a card."""


@dataclass(frozen=True)
class TextBlock:
    """A text, wrapped.

    Attributes:
      text: what it says.
      scale: its size, of the page's letters.
      colour: RGB.
      one_line: smaller letters rather than a second line.
    """

    text: str
    scale: float = 1.0
    colour: tuple[int, int, int] = WHITE
    one_line: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar.

    Attributes:
      value: 0 to 1.
      colour: RGB.
    """

    value: float
    colour: tuple[int, int, int] = ACCENT


@dataclass(frozen=True)
class Buttons:
    """Words that can be touched.

    Attributes:
      names: what is told of a touch.
      words: what stands there.
      chosen: the name of the one that stands out, or "".
    """

    names: tuple[str, ...]
    words: tuple[str, ...]
    chosen: str = ""


@dataclass(frozen=True)
class Gap:
    """Nothing.

    Attributes:
      scale: its height, of the page's letters.
    """

    scale: float


Element = TextBlock | Bar | Legend | Buttons | Gap


@dataclass(frozen=True)
class Page:
    """What stands beside the picture.

    Attributes:
      top: from the upper edge on.
      bottom: down to the lower edge.
    """

    top: tuple[Element, ...]
    bottom: tuple[Element, ...] = ()


@dataclass(frozen=True)
class ScreenLayout:
    """Where picture and page stand.

    Attributes:
      picture: the picture's box.
      page: the page's box.
      letters: the box in it that holds the page's elements; its size does not change as it wanders.
    """

    picture: Box
    page: Box
    letters: Box


def layout_of(
    size: tuple[int, int], swapped: bool, far: int = 0, shift: tuple[int, int] = (0, 0)
) -> ScreenLayout:
    """Where picture and page stand.

    Args:
      size: rows and columns of the canvas.
      swapped: whether the page comes first, so that no edge burns in.
      far: pixels by which anything is moved at most.
      shift: pixels by which what lies between the two, and the page's letters, are moved.
    """
    rows, columns = size
    if columns >= rows:
        edge = round(columns * (WIDE if swapped else 1 - WIDE)) + shift[0]
        first, second = (0, 0, edge, rows), (edge, 0, columns, rows)
    else:
        edge = round(rows * (HIGH if swapped else 1 - HIGH)) + shift[1]
        first, second = (0, 0, columns, edge), (0, edge, columns, rows)
    picture, page = (second, first) if swapped else (first, second)
    x0, y0, x1, y1 = page
    dx, dy = shift
    if columns >= rows:  # the edge between the two has moved across already
        x0, x1 = (x0 + dx, x1) if swapped else (x0, x1 + dx)
        y0, y1 = y0 + dy, y1 + dy
    else:
        y0, y1 = (y0 + dy, y1) if swapped else (y0, y1 + dy)
        x0, x1 = x0 + dx, x1 + dx
    return ScreenLayout(picture, page, (x0 + far, y0 + far, x1 - far, y1 - far))


class PageArtist:
    """Draws pages; one that did not change is not drawn again.

    Attributes:
      places: the buttons of the page that was drawn last.
    """

    def __init__(self) -> None:
        self.places: dict[str, Box] = {}
        self._places: dict[str, Box] = {}
        self._drawn: tuple[tuple[int, int], Page] | None = None
        self._patch: np.ndarray | None = None

    def draw(self, canvas: np.ndarray, plan: ScreenLayout, page: Page) -> None:
        """Draws a page where a plan has it."""
        x0, y0, x1, y1 = plan.letters
        room = y1 - y0, x1 - x0
        if (room, page) != self._drawn:
            self._drawn = room, page
            self._patch = np.full((*room, 3), BACKGROUND, np.uint8)
            self._places = _draw_page(self._patch, page)
        self.places = {
            name: (a + x0, b + y0, c + x0, d + y0) for name, (a, b, c, d) in self._places.items()
        }
        left, top, right, bottom = plan.page
        canvas[top:bottom, left:right] = BACKGROUND
        canvas[y0:y1, x0:x1] = self._patch


def draw_card(canvas: np.ndarray, title: str, text: str, shift: tuple[int, int] = (0, 0)) -> None:
    """Draws a card in the middle, moved by some pixels, over what becomes dark, in place."""
    rows, columns = canvas.shape[:2]
    darken(canvas, (0, 0, columns, rows), CARD_SHADE)
    size = max(LEAST, round(min(rows / 17, columns / 24)))
    elements = (TextBlock(title, 1.5, ACCENT), Gap(0.5), TextBlock(text))
    width = min(round(columns * 0.84), 26 * size)
    while True:
        inner = width - 2 * size
        height = sum(_height(one, inner, size) for one in elements) + 2 * size
        if height <= 0.84 * rows or size == LEAST:
            break
        size -= 1
    x, y = (columns - width) // 2 + shift[0], (rows - height) // 2 + shift[1]
    cv2.rectangle(canvas, (x, y), (x + width, y + height), BACKGROUND, -1)
    cv2.rectangle(canvas, (x, y), (x + width, y + height), EDGE, max(1, size // 12))
    y += size
    for one in elements:
        _draw(canvas, one, x + size, y, inner, size, {})
        y += _height(one, inner, size)


def draw_hold(canvas: np.ndarray, share: float) -> None:
    """Draws how much of a hold is done, as a line at the upper edge, in place."""
    rows, columns = canvas.shape[:2]
    thick = max(3, rows // 120)
    cv2.rectangle(canvas, (0, 0), (round(columns * share), thick), ACCENT, -1)


def visible_part(picture: tuple[int, int], must: Box, room: tuple[int, int]) -> Box:
    """The part of a picture that is shown in a room.

    It has the room's proportions where the picture is large enough, and always holds what must be
    seen.

    Args:
      picture: rows and columns of the picture.
      must: what must be seen of it.
      room: rows and columns of the room.
    """
    rows, columns = picture
    x0, y0, x1, y1 = must
    scale = min(rows / room[0], columns / room[1])
    width = min(columns, max(round(room[1] * scale), x1 - x0))
    height = min(rows, max(round(room[0] * scale), y1 - y0))
    x = min(max((x0 + x1 - width) // 2, 0), columns - width)
    y = min(max((y0 + y1 - height) // 2, 0), rows - height)
    return x, y, x + width, y + height


def _draw_page(canvas: np.ndarray, page: Page) -> dict[str, Box]:
    rows, columns = canvas.shape[:2]
    size = max(LEAST, round(min(rows / 17, columns / 14)))
    while size > LEAST and _needed(page, columns - 2 * size, size) > rows - 2 * size:
        size -= 1
    places: dict[str, Box] = {}
    inner, x, y = columns - 2 * size, size, size
    for one in page.top:
        _draw(canvas, one, x, y, inner, size, places)
        y += _height(one, inner, size)
    y = rows - size - sum(_height(one, inner, size) for one in page.bottom)
    for one in page.bottom:
        _draw(canvas, one, x, y, inner, size, places)
        y += _height(one, inner, size)
    return places


def _needed(page: Page, width: int, size: int) -> int:
    return sum(_height(one, width, size) for one in (*page.top, *page.bottom)) + size


def _letters(words: TextBlock, width: int, size: int) -> tuple[int, list[str]]:
    """Size and lines of a text."""
    letters = max(LEAST, round(words.scale * size))
    while True:
        lines = [words.text] if words.one_line else wrapped(words.text, width, letters)
        if letters == LEAST or all(text_width(line, letters) <= width for line in lines):
            return letters, [fitted(line, width, letters) for line in lines]
        letters -= 1


def _height(one: Element, width: int, size: int) -> int:
    if isinstance(one, TextBlock):
        letters, lines = _letters(one, width, size)
        return round(1.35 * letters * len(lines))
    if isinstance(one, Buttons):
        return len(_button_rows(one, width, size)) * _button_height(size)
    return round(
        size * (one.scale if isinstance(one, Gap) else 0.9 if isinstance(one, Bar) else 1.9)
    )


def _draw(
    canvas: np.ndarray, one: Element, x: int, y: int, width: int, size: int, places: dict[str, Box]
) -> None:
    if isinstance(one, TextBlock):
        letters, lines = _letters(one, width, size)
        for number, line in enumerate(lines):
            base = y + round((1.35 * number + 1) * letters)
            draw_text(canvas, line, (x, base), letters, one.colour)
    elif isinstance(one, Bar):
        end = x + round(width * min(max(one.value, 0.0), 1.0))
        bottom = y + max(3, size // 3)
        cv2.rectangle(canvas, (x, y), (x + width, bottom), EDGE, -1)
        if end > x:
            cv2.rectangle(canvas, (x, y), (end, bottom), one.colour, -1)
    elif isinstance(one, Legend):
        _draw_legend(canvas, one, x, y, width, size)
    elif isinstance(one, Buttons):
        _draw_buttons(canvas, one, x, y, width, size, places)


def _draw_legend(canvas: np.ndarray, one: Legend, x: int, y: int, width: int, size: int) -> None:
    thick, letters = max(4, size // 2), max(LEAST, round(0.75 * size))
    draw_colours(canvas, one.colormap, x, y, width, thick)
    base = y + thick + round(1.2 * letters)
    draw_text(canvas, one.low, (x, base), letters, SOFT)
    draw_text(canvas, one.high, (x + width - text_width(one.high, letters), base), letters, SOFT)


def _button_height(size: int) -> int:
    return round(2.0 * size)


def _button_rows(one: Buttons, width: int, size: int) -> list[list[tuple[str, str, int]]]:
    """Name, words and width of each button, row by row."""
    letters = max(LEAST, round(0.72 * size))
    rows: list[list[tuple[str, str, int]]] = [[]]
    for name, words in zip(one.names, one.words, strict=True):
        wide = text_width(words, letters) + round(1.1 * size)
        if rows[-1] and sum(w for _, _, w in rows[-1]) + wide > width:
            rows.append([])
        rows[-1].append((name, words, wide))
    return rows


def _draw_buttons(
    canvas: np.ndarray, one: Buttons, x: int, y: int, width: int, size: int, places: dict[str, Box]
) -> None:
    letters, height = max(LEAST, round(0.72 * size)), _button_height(size)
    gap = max(2, size // 5)
    for number, row in enumerate(_button_rows(one, width, size)):
        left, top = x, y + number * height
        for name, words, wide in row:
            box = left, top, left + wide, top + height
            frame = (left, top + gap), (left + wide - gap, top + height - gap)
            chosen = name == one.chosen
            cv2.rectangle(canvas, *frame, WHITE if chosen else EDGE, -1 if chosen else 1)
            at = left + (wide - gap - text_width(words, letters)) // 2
            base = top + (height + round(0.7 * letters)) // 2
            draw_text(canvas, words, (at, base), letters, BACKGROUND if chosen else SOFT)
            places[name] = box
            left += wide
