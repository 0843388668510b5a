"""Draws the exhibit's screen: picture with map, page, cards; everything moves a little.

What is drawn is a `ScreenContent`; where, is decided by `view.exhibit`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.commands.kiosk.captions import Captions, with_seconds
from realtime_lrp.commands.kiosk.keys import ExitLock
from realtime_lrp.commands.kiosk.states import Fault
from realtime_lrp.system.geometry import Box
from realtime_lrp.view.buffers import Buffers
from realtime_lrp.view.elements import BACKGROUND
from realtime_lrp.view.exhibit import (
    Page,
    PageArtist,
    draw_card,
    draw_hold,
    fill,
    layout_of,
    visible_part,
)
from realtime_lrp.view.look import Look
from realtime_lrp.view.pad import draw_pad
from realtime_lrp.view.scene import Artist, ExplainedPicture, Scene
from realtime_lrp.view.text import undrawable

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

MAX_ROWS = 1080
"""Pixels of the canvas's shorter side, at most; it is stretched to larger screens."""

DRIFT, CARD_DRIFT = 0.008, 0.06
"""How far pages and cards move against burn-in, as a share of the canvas's shorter side."""

DRIFT_PERIOD_S = 420.0, 660.0
"""Seconds of one cycle across and down."""

HOLD_SHOWN = 0.2
"""The bar of a held key or corner appears after this share of the hold."""


@dataclass(frozen=True, eq=False)
class ScreenContent:
    """A picture, uint8 [H, W, 3] RGB, with its map, and the page beside it.

    Over both lies the card of a fault, or the privacy card. Page and picture may be swapped.
    """

    picture: np.ndarray | None
    explained: ExplainedPicture | None
    page: Page
    fault: Fault | None = None
    privacy: bool = False
    swapped: bool = False


@dataclass(frozen=True)
class ClosedCard:
    """What is shown on a black screen outside the opening hours."""

    title: str
    text: str


def canvas_size(screen: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the canvas for a screen of these rows and columns."""
    scale = min(1.0, MAX_ROWS / min(screen))
    return round(screen[0] * scale), round(screen[1] * scale)


class ScreenArtist:
    """Draws the screen; `look` says how maps are drawn."""

    def __init__(self, look: Look):
        self._look = look
        self._artist, self._pages, self._buffers = Artist(), PageArtist(), Buffers()

    @property
    def buttons(self) -> dict[str, Box]:
        """Boxes of the buttons on the canvas that was drawn last."""
        return self._pages.buttons

    def draw(
        self,
        size: tuple[int, int],
        content: ScreenContent | ClosedCard | None,
        captions: Captions,
        lock: ExitLock,
        now: float,
    ) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB; without content it is black.

        The lock's PIN pad and bar are drawn over everything. The time decides how far things have
        moved.
        """
        canvas = self._buffers.get((*size, 3))
        canvas.fill(0)
        if isinstance(content, ClosedCard):
            draw_card(canvas, content.title, content.text, _drift(now, CARD_DRIFT * min(size)))
        elif content:
            self._draw_content(canvas, content, captions, now)
        if lock.asking:
            _draw_pad(canvas, lock, captions)
        if lock.held > HOLD_SHOWN:
            draw_hold(canvas, lock.held)
        return canvas

    def _draw_content(
        self, canvas: np.ndarray, content: ScreenContent, captions: Captions, now: float
    ) -> None:
        fill(canvas, BACKGROUND)
        size = canvas.shape[:2]
        margin = round(DRIFT * min(size))
        layout = layout_of(size, content.swapped, margin, _drift(now, margin))
        if content.picture is not None:
            self._draw_picture(canvas, layout.picture, content.picture, content.explained)
        self._pages.draw(canvas, layout, content.page)
        if content.privacy:
            draw_card(canvas, captions.privacy.title, captions.privacy.text)
        elif content.fault:
            card = getattr(captions.cards, content.fault.card)
            text = with_seconds(card.text, content.fault.remaining_s)
            draw_card(canvas, card.title, text, _drift(now, CARD_DRIFT * min(size)))

    def _draw_picture(
        self, canvas: np.ndarray, box: Box, picture: np.ndarray, explained: ExplainedPicture | None
    ) -> None:
        if explained and explained.picture.shape != picture.shape:
            explained = None
        rows, columns = picture.shape[:2]
        region = explained.box if explained else _square(rows, columns)
        x0, y0, x1, y1 = box
        room = y1 - y0, x1 - x0
        part = visible_part((rows, columns), region, room)
        scale = min(room[0] / (part[3] - part[1]), room[1] / (part[2] - part[0]))
        drawn = self._artist.draw(
            Scene(
                size=(max(1, round(rows * scale)), max(1, round(columns * scale))),
                picture=picture,
                explained=explained,
                tiled=False,
                look=self._look,
            )
        )
        left, top = round(part[0] * scale), round(part[1] * scale)
        drawn = drawn[top : top + room[0], left : left + room[1]]
        y, x = y0 + (room[0] - drawn.shape[0]) // 2, x0 + (room[1] - drawn.shape[1]) // 2
        canvas[y : y + drawn.shape[0], x : x + drawn.shape[1]] = drawn


def missing_letters(engine: Engine) -> str:
    """What to say about letters in a network's labels that the fonts lack; "" for nothing."""
    letters = dict.fromkeys("".join(engine.network.labels or ()))
    missing = undrawable("".join(letters))
    said = f"labels: the fonts have no {' '.join(missing)}; translate them in the captions"
    return said if missing else ""


def _square(rows: int, columns: int) -> Box:
    """The largest centred square of a picture."""
    side = min(rows, columns)
    x, y = (columns - side) // 2, (rows - side) // 2
    return x, y, x + side, y + side


def _drift(now: float, distance: float) -> tuple[int, int]:
    """Pixels across and down by which something has moved, at most `distance`."""
    x, y = (distance * math.sin(2 * math.pi * now / period_s) for period_s in DRIFT_PERIOD_S)
    return round(x), round(y)


def _draw_pad(canvas: np.ndarray, lock: ExitLock, captions: Captions) -> None:
    message = captions.leave.wrong if lock.wrong else captions.leave.pin
    if lock.wait_s:
        message = with_seconds(captions.leave.wait, lock.wait_s)
    draw_pad(canvas, captions.leave.title, message, lock.typed)
