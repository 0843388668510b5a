"""Composes the exhibit's screen: picture with map, page, cards; always moving a little."""

import math
from dataclasses import dataclass

import numpy as np

from realtime_lrp.commands.kiosk.captions import Captions, with_seconds
from realtime_lrp.commands.kiosk.lock import ExitLock
from realtime_lrp.commands.kiosk.restarts import Fault
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.view.exhibit import (
    BACKGROUND,
    Box,
    Page,
    PageArtist,
    draw_card,
    draw_hold,
    layout_of,
    visible_part,
)
from realtime_lrp.view.pad import draw_pad
from realtime_lrp.view.scene import Artist, Look, Scene

MOST_ROWS = 1080
"""Pixels of the canvas's shorter side, at most: larger screens stretch it."""

DRIFT, CARD_DRIFT = 0.008, 0.06
"""How far pages and cards wander, of the canvas's shorter side, so that nothing burns in."""

ROUND_S = 420.0, 660.0
"""Seconds of one round across and down."""


@dataclass(frozen=True, eq=False)
class ScreenContent:
    """What is to be seen.

    Attributes:
      picture: uint8 [H, W, 3] RGB, or None.
      made: its newest map, or None.
      page: what stands beside it.
      trouble: the card over it, or None.
      privacy: whether the privacy card is shown.
      swapped: whether page and picture change sides.
    """

    picture: np.ndarray | None
    made: ExplainedFrame | None
    page: Page
    trouble: Fault | None = None
    privacy: bool = False
    swapped: bool = False


def canvas_size(screen: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the canvas for a screen."""
    scale = min(1.0, MOST_ROWS / min(screen))
    return round(screen[0] * scale), round(screen[1] * scale)


class ScreenArtist:
    """Draws what is to be seen.

    Args:
      look: how maps are drawn.
    """

    def __init__(self, look: Look):
        self._look = look
        self._artist, self._pages = Artist(), PageArtist()

    @property
    def places(self) -> dict[str, Box]:
        """The buttons on the screen."""
        return self._pages.places

    def draw(
        self,
        size: tuple[int, int],
        view: ScreenContent | None,
        words: Captions,
        lock: ExitLock,
        now: float,
    ) -> np.ndarray:
        """The canvas, uint8 [*size, 3] RGB.

        Args:
          size: its rows and columns.
          view: what is to be seen; None is a black screen.
          words: the captions in the present language.
          lock: what is asked of who wants to leave.
          now: the time.
        """
        canvas = np.zeros((*size, 3), np.uint8)
        if view:
            self._draw_view(canvas, view, words, now)
        if lock.asking:
            _draw_pad(canvas, lock, words)
        if lock.held > 0.2:
            draw_hold(canvas, lock.held)
        return canvas

    def _draw_view(
        self, canvas: np.ndarray, view: ScreenContent, words: Captions, now: float
    ) -> None:
        canvas[:] = BACKGROUND
        size = canvas.shape[:2]
        far = round(DRIFT * min(size))
        plan = layout_of(size, view.swapped, far, _drift(now, far))
        if view.picture is not None:
            self._draw_picture(canvas, plan.picture, view.picture, view.made)
        self._pages.draw(canvas, plan, view.page)
        if view.privacy:
            draw_card(canvas, words.privacy.title, words.privacy.text)
        elif view.trouble:
            card = getattr(words.cards, view.trouble.card)
            text = with_seconds(card.text, view.trouble.seconds)
            draw_card(canvas, card.title, text, _drift(now, CARD_DRIFT * min(size)))

    def _draw_picture(
        self, canvas: np.ndarray, box: Box, picture: np.ndarray, made: ExplainedFrame | None
    ) -> None:
        finding = made.finding if made and made.frame.value.shape == picture.shape else None
        rows, columns = picture.shape[:2]
        must = finding.box if finding else _square(rows, columns)
        x0, y0, x1, y1 = box
        room = y1 - y0, x1 - x0
        part = visible_part((rows, columns), must, room)
        scale = min(room[0] / (part[3] - part[1]), room[1] / (part[2] - part[0]))
        drawn = self._artist.draw(
            Scene(
                size=(max(1, round(rows * scale)), max(1, round(columns * scale))),
                picture=picture,
                finding=finding,
                tiled=False,
                look=self._look,
            )
        )
        a, b = round(part[0] * scale), round(part[1] * scale)
        drawn = drawn[b : b + room[0], a : a + room[1]]
        y, x = y0 + (room[0] - drawn.shape[0]) // 2, x0 + (room[1] - drawn.shape[1]) // 2
        canvas[y : y + drawn.shape[0], x : x + drawn.shape[1]] = drawn


def _square(rows: int, columns: int) -> Box:
    side = min(rows, columns)
    x, y = (columns - side) // 2, (rows - side) // 2
    return x, y, x + side, y + side


def _drift(now: float, far: float) -> tuple[int, int]:
    x, y = (far * math.sin(2 * math.pi * now / round_s) for round_s in ROUND_S)
    return round(x), round(y)


def _draw_pad(canvas: np.ndarray, lock: ExitLock, words: Captions) -> None:
    line = words.leave.wrong if lock.wrong else words.leave.pin
    if lock.waits_s:
        line = with_seconds(words.leave.wait, lock.waits_s)
    draw_pad(canvas, words.leave.title, line, lock.typed)
