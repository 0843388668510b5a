"""Draws the exhibit's screen: picture with map, page, cards; everything moves a little.

What is drawn is a `Screen`; where, is decided by `view.exhibit`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from realtime_lrp.system.geometry import Box, FloatBox
from realtime_lrp.view.arrangement import central_square
from realtime_lrp.view.decals import Buffers
from realtime_lrp.view.exhibit import (
    BACKGROUND,
    Page,
    draw_card,
    draw_hold,
    draw_pad,
    draw_page,
    fill,
    layout_of,
    visible_part,
)
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import Painted
from realtime_lrp.view.scene import Artist, Scene

MAX_ROWS = 1080  # pixels of the canvas's shorter side, at most; it is stretched to larger screens
DRIFT, CARD_DRIFT = 0.008, 0.06  # moves against burn-in, as shares of the canvas's shorter side
DRIFT_PERIOD_S = 420.0, 660.0  # seconds of one cycle across and down

BLACK = 0, 0, 0

HOLD_SHOWN = 0.2  # the bar of a held key or corner appears after this share of the hold


@dataclass(frozen=True, eq=False)
class Screen:
    """The screen's contents; without a page it is black.

    A picture, uint8 [H, W, 3] RGB, with its map, and the page beside it. Over both lies a card, its
    title and text; over that the PIN pad, its title, message and number of typed digits, and a line
    for the share of a hold.
    """

    picture: np.ndarray | None = None
    explained: Painted | None = None
    page: Page | None = None
    card: tuple[str, str] | None = None
    pad: tuple[str, str, int] | None = None
    held: float = 0.0


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
        canvas = self._buffers.get((*size, 3))
        fill(canvas, BACKGROUND if screen.page else BLACK)
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
            draw_hold(canvas, screen.held)
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
        if explained and explained.picture.shape != picture.shape:
            explained = None
        rows, columns = picture.shape[:2]
        region = explained.box if explained else central_square(picture.shape)
        x0, y0, x1, y1 = box
        room = y1 - y0, x1 - x0
        part = visible_part((rows, columns), region, room)
        scale = min(room[0] / (part[3] - part[1]), room[1] / (part[2] - part[0]))
        scene = Scene(
            size=(max(1, round(rows * scale)), max(1, round(columns * scale))),
            picture=picture,
            explained=explained,
            tiled=False,
            look=self._look,
        )
        drawn = self._artist.draw(scene)
        _, self.elsewhere = self._artist.lost(scene)
        left, top = round(part[0] * scale), round(part[1] * scale)
        drawn = drawn[top : top + room[0], left : left + room[1]]
        y, x = y0 + (room[0] - drawn.shape[0]) // 2, x0 + (room[1] - drawn.shape[1]) // 2
        canvas[y : y + drawn.shape[0], x : x + drawn.shape[1]] = drawn
        x, y = x - left, y - top
        self._whole = x, y, x + columns * scale, y + rows * scale


def _drift(now: float, distance: float) -> tuple[int, int]:
    """Pixels across and down by which something has moved, at most `distance`."""
    x, y = (distance * math.sin(2 * math.pi * now / period_s) for period_s in DRIFT_PERIOD_S)
    return round(x), round(y)
