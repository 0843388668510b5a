"""The panel of concepts: for each channel its share, its own map and what it answers to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, Extent, moved
from realtime_lrp.view.hud import BAR, DIM, STEP, WARNING, Bar, draw_parts, line, strip
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import Drawn, lay_over, paint
from realtime_lrp.view.text import WHITE, draw_text, fitted, shrunk, text_width, wrapped

ROWS = 4  # how many channels have a row
GROUND, GROUND_FOLLOWED = 34, 60  # the grey of the panel, and of the row that is followed
SHOWN = 3  # pictures of the gallery in a row
SHOWN_UPRIGHT = 2  # the same on tall canvases, where two rows stand beside each other
WIDEST = 0.35  # the share of the width that the panel takes at most, beside the picture
LEAST = 16  # the least width there, in heights of a letter: the answer stays large
LEAST_PICTURE = 14  # smaller pictures of the gallery, in pixels, are left out
CAPTIONS = "of the layer's relevance", "here", "answers to"  # headings
AGAINST = (120, 160, 255)  # the colour of shares that speak against what is explained
BAR_FOR = (255, 150, 50)
HEADER, NAME, PAD = 3.7, 1.95, 0.35  # heights of header, name with bar, and gap, in letters
ANSWER = 3.6  # the height of the answer in it, in heights of a letter: letters of 6.7 %
WARNED = 2.1  # what a warning of two lines adds to the height of the header
CAPTION = 0.75  # how high the letters of captions are, in heights of other letters
KEPT = 48  # how many drawn rows of gallery pictures and texts are kept


@dataclass(frozen=True, eq=False)
class ConceptRow:
    """A channel."""

    channel: int
    name: str  # what it is called; "channel 17" without a name
    share: float  # -1 to 1, of the magnitude of the relevance at the layer; the length of the bar
    figure: str  # the same in words
    drawn: Drawn  # its map; fades so that all rows have one scale
    pictures: Sequence[np.ndarray]  # what the channel answers to, uint8 [S, S, 3] RGB, or none
    followed: bool = False  # whether its map lies over the picture alone


@dataclass(frozen=True, eq=False)
class ConceptPanel:
    """The panel's contents."""

    title: str  # the layer
    picture: np.ndarray  # uint8 [h, w, 3] RGB, the explained region
    rows: tuple[ConceptRow, ...]  # the channels, `ROWS` at most
    look: Look
    note: str = ""  # what stands in place of the rows, or ""
    with_pictures: bool = True  # whether rows have room for pictures of the gallery
    network: str = ""  # whose channels they are, or "" where there is one network only
    thing: str = ""  # the class of a detector's box that they are found in, where no answer says it
    warning: str = ""  # what is wrong with the pictures of the gallery, or ""
    # the answer in large letters above them, and its share, where it stands nowhere else
    answer: tuple[str, str] = "", ""
    old: str = ""  # says that all of it is of an earlier picture, in place of the heading
    words: Callable[[str], str] = str  # translates the captions

    def place(self, size: Extent, letters: int) -> "PanelPlace":
        """The place with room for it: at the right, on tall canvases at the bottom."""
        rows, columns = size
        above = ANSWER * bool(self.answer[0]) + WARNED * bool(self.warning)
        header = round((HEADER + above) * letters)
        above_tile = (NAME + 2 * PAD) * letters
        if rows > 1.1 * columns:
            across, shown = (2, SHOWN_UPRIGHT) if self.with_pictures else (ROWS, 0)
            height = header + ROWS // across * (columns / across / (1 + shown) + above_tile)
            height = min(round(height), rows * 2 // 5)
            x0, y0 = 0, rows - height
        else:
            across = 1
            shown = SHOWN * self.with_pictures
            tile = (rows - header) / ROWS - above_tile
            width = round(tile * (1 + shown) + 4 * PAD * letters)
            width = min(max(width, LEAST * letters), int(columns * WIDEST))
            x0, y0 = columns - width, 0
        rest = (y0, columns) if y0 else (rows, x0)
        down = ROWS // across
        xs = [x0 + (columns - x0) * n // across for n in range(across + 1)]
        ys = [y0 + header + (rows - y0 - header) * n // down for n in range(down + 1)]
        cells = tuple(
            (xs[n % across], ys[n // across], xs[n % across + 1], ys[n // across + 1])
            for n in range(ROWS)
        )
        box = (x0, y0, columns, rows)
        return PanelPlace(rest, box, (x0, y0, columns, y0 + header), cells, shown)


@dataclass(frozen=True)
class PanelPlace:
    """The panel's place."""

    rest: Extent  # rows and columns of what it leaves
    box: Box
    header: Box
    rows: tuple[Box, ...]
    shown: int  # how many pictures of the gallery each row has room for


class ConceptArtist:
    """Draws panels. Keeps the last one, and the galleries' drawn pictures."""

    def __init__(self) -> None:
        self._drawn: tuple[ConceptPanel, PanelPlace, int, np.ndarray] | None = None
        # by `id`, of pictures that are kept with what was drawn of them
        self._sheets: dict[tuple[int, ...], tuple[Sequence[np.ndarray], np.ndarray]] = {}

    def draw(
        self, canvas: np.ndarray, panel: ConceptPanel, place: PanelPlace, letters: int
    ) -> None:
        """Draws a panel on a canvas in place."""
        x0, y0, x1, y1 = place.box
        last = self._drawn
        if last is None or last[0] is not panel or last[1:3] != (place, letters):
            image = np.full((y1 - y0, x1 - x0, 3), GROUND, np.uint8)
            self._draw_panel(image, panel, place, letters)
            self._drawn = last = panel, place, letters, image
        canvas[y0:y1, x0:x1] = last[3]

    def _draw_panel(
        self, image: np.ndarray, panel: ConceptPanel, place: PanelPlace, letters: int
    ) -> None:
        pad = round(PAD * letters)
        x0, y0, x1, y1 = moved(place.header, -place.box[0], -place.box[1])
        small = _caption_size(letters)
        width = x1 - x0 - 2 * pad
        first, *rest = wrapped(panel.warning, width, small)
        warning = filter(None, (first, fitted(" ".join(rest), width, small)))
        large = []
        if panel.answer[0]:
            fits = lambda size: text_width(" ".join(panel.answer), size) + size // 2 <= width  # noqa: E731
            large = [line(*panel.answer, shrunk(round(ANSWER / STEP * letters), letters, fits))]
        thing = f"“{panel.thing}”" if panel.thing else f"{panel.network or 'What it'} found"
        told = panel.words(f"{thing}: {panel.title}")
        size = shrunk(letters, small, lambda size: text_width(told, size) <= width)
        if text_width(told, size) > width:
            told = panel.title  # its end tells
        heading = line(panel.old, "", size, WARNING) if panel.old else line(told, "", size)
        header = [*large, heading, *(line(one, "", small, WARNING) for one in warning)]
        draw_parts(image, header, x0 + pad, y0 + round(0.3 * letters), width)
        if panel.note:
            note = [line(one, "", letters, WARNING) for one in wrapped(panel.note, width, letters)]
            draw_parts(image, note, x0 + pad, y1 + round(0.35 * letters), width)
            return
        for row, box in zip(panel.rows, place.rows, strict=False):
            self._draw_row(image, panel, row, place, box, letters)

    def _draw_row(
        self, image: np.ndarray, panel: ConceptPanel, row: ConceptRow, place: PanelPlace, box: Box,
        letters: int,
    ) -> None:  # fmt: skip
        """Draws a row; above it what its figures and pictures are, where it is the uppermost."""
        pad = round(PAD * letters)
        ground = GROUND_FOLLOWED if row.followed else GROUND
        x0, y0, x1, y1 = moved(box, -place.box[0], -place.box[1])
        base = y0 - round(0.3 * _caption_size(letters))
        if row.followed:
            image[y0:y1, x0:x1] = ground
            cv2.rectangle(image, (x0, y0), (x1 - 1, y1 - 1), BAR, max(1, letters // 9))
        x0, y0, x1, y1 = x0 + pad, y0 + pad, x1 - pad, y1 - pad
        colour = AGAINST if row.share < 0 else BAR_FOR
        colour = colour if round(100 * row.share) else DIM  # too small for either
        bar = Bar("", abs(row.share), colour=colour)
        told = f"{row.name}  {row.figure}"
        fits = shrunk(letters, round(0.7 * letters), lambda one: text_width(told, one) <= x1 - x0)
        named = [line(row.name, row.figure, fits, WHITE, colour), strip(bar, letters)]
        draw_parts(image, named, x0, y0, x1 - x0)
        y = y0 + round(NAME * letters)
        widest = (x1 - x0) / (1 + place.shown)
        rows, columns = panel.picture.shape[:2]
        scale = min(widest / columns, (y1 - y) / rows)
        size = max(1, int(columns * scale)), max(1, int(rows * scale))
        x = x0 + size[0] + pad  # left edge of the gallery's pictures
        if box[1] == place.header[3]:
            small = _caption_size(letters)
            of_what, own_map, examples = map(panel.words, CAPTIONS)
            across = x1 - text_width(of_what, small), base - round(1.3 * small)
            draw_text(image, of_what, across, small, DIM)
            draw_text(image, own_map, (x0, base), small, DIM)
            if place.shown:
                draw_text(image, examples, (x, base), small, DIM)
        if min(size) < 4:
            return
        picture = cv2.resize(panel.picture, size, interpolation=cv2.INTER_AREA)
        _paste(image, map_over(picture, row.drawn, panel.look), x0, y)
        if not place.shown:
            return
        gap = max(1, letters // 8)
        side = min((x1 - x + gap) // place.shown - gap, y1 - y)
        if not row.pictures:
            draw_text(image, panel.words("no pictures of it"), (x, y + letters), letters, DIM)
        elif side >= LEAST_PICTURE:
            _paste(image, self._sheet(row.pictures, place.shown, side, gap, ground), x, y)

    def _sheet(
        self, pictures: Sequence[np.ndarray], count: int, side: int, gap: int, ground: int
    ) -> np.ndarray:
        """The first pictures of a gallery side by side; each sheet is drawn once."""
        key = id(pictures), count, side, gap, ground
        if key not in self._sheets:
            if len(self._sheets) == KEPT:
                self._sheets.clear()
            sheet = np.full((side, count * (side + gap) - gap, 3), ground, np.uint8)
            for number, picture in enumerate(pictures[:count]):
                x = number * (side + gap)
                how = cv2.INTER_LINEAR if side >= picture.shape[1] else cv2.INTER_AREA
                sheet[:, x : x + side] = cv2.resize(picture, (side, side), interpolation=how)
            self._sheets[key] = pictures, sheet
        return self._sheets[key][1]


def map_over(picture: np.ndarray, drawn: Drawn, look: Look) -> np.ndarray:
    """The explained region at any size, uint8 [h, w, 3], with a channel's map over it."""
    look = replace(look, style="heat")
    box = (0, 0, *picture.shape[1::-1])
    return lay_over(picture, paint(picture, [drawn], look, box).overlays[0])


def _caption_size(letters: int) -> int:
    return max(9, round(CAPTION * letters))


def _paste(image: np.ndarray, part: np.ndarray, x: int, y: int) -> None:
    """Copies a part into an image at x, y; what does not fit is cut."""
    room = image[y : y + part.shape[0], x : x + part.shape[1]]
    room[:] = part[: room.shape[0], : room.shape[1]]
