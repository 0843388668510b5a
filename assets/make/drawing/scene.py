"""Draws scenes: several symbols in one picture of 4 : 3, on sheets that people hold or on a board.

Lengths are shares of the picture's width, so that a scene of any size looks the same.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from drawing import OVERSAMPLING, corners_of, direction, tilted
from drawing.camera import light_up, photograph
from drawing.room import hand, room, skin_colour
from drawing.sheet import Sheet, any_pen, blank, other_sheet, symbol_sheet
from drawing.strokes import by_hand, paint
from drawing.symbols import SYMBOLS, Points, Rng

SIZES = (40 / 640, 300 / 640)
"""Longer side of the smallest and the largest symbol."""

MOST = 6
"""Symbols in a scene."""

TRIES = 6
"""Places that are tried for a symbol before it is left out."""


@dataclass(frozen=True)
class Scene:
    """One picture with the boxes of its symbols.

    Attributes:
        pixels: uint8 [H, W, 3] RGB, 4 : 3.
        ink: bool [H, W], lines and filled areas of all symbols.
        boxes: float32 [N, 4], around the ink of each symbol: y0, x0, y1, x1 in pixels.
        labels: int64 [N], indices into the names of `SYMBOLS`.
    """

    pixels: np.ndarray
    ink: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray


class _Canvas:
    """A scene while it is drawn: square, of which the middle rows are cut out at the end."""

    def __init__(self, rng: Rng, width: int) -> None:
        self.rng, self.width = rng, width
        self.top = width // 8
        self.picture = room(rng, width)
        self.paper: tuple[int, int, int] | None = None
        self.ink = np.zeros((width, width), np.uint8)
        self.taken = np.zeros((width, width), np.uint8)  # where no sheet and no hand may lie
        self.boxes: list[tuple[float, ...]] = []
        self.labels: list[int] = []

    def become_board(self) -> None:
        """Replaces the room by a large sheet or screen, on which symbols are drawn directly."""
        width = self.width
        pixels, self.paper = blank(self.rng, width, width)
        self.picture = pixels

    def add_symbol(self, label: int, side: float) -> None:
        """Draws a symbol where there is room for it; `side` is its longer side in pixels."""
        name = tuple(SYMBOLS)[label]
        for _ in range(TRIES):
            before = self.picture.copy()
            if self.paper is not None:
                ink, silhouette, cover = self._draw_on_board(name, side)
            else:
                sheet = symbol_sheet(self.rng, name, side * OVERSAMPLING)
                view = self._view(sheet, side)
                ink, silhouette, cover = self._lay(sheet, view)
            whole = cv2.dilate(np.maximum(ink, silhouette), np.ones((5, 5), np.uint8))
            if not (cv2.bitwise_and(cover, self.taken)).any():
                np.maximum(self.taken, whole, out=self.taken)
                np.maximum(self.ink, ink, out=self.ink)
                self.boxes.append(_box(np.maximum(ink, silhouette)))
                self.labels.append(label)
                return
            self.picture = before

    def add_sheet(self, side: float) -> None:
        """Draws a sheet without a symbol, unless it would cover one."""
        before = self.picture.copy()
        sheet = other_sheet(self.rng, side * OVERSAMPLING)
        cover = self._lay(sheet, self._view(sheet, side))[2]
        if cv2.bitwise_and(cover, self.taken).any():
            self.picture = before

    def add_hand(self, grip: Points, inwards: Points, length: float) -> None:
        """Draws a hand, unless it would cover a symbol."""
        before = self.picture.copy()
        covered = hand(self.rng, self.picture, grip, inwards, length, skin_colour(self.rng))
        if cv2.bitwise_and(covered, self.taken).any():
            self.picture = before

    def finish(self) -> Scene:
        """The scene as a camera sees it."""
        rows = slice(self.top, self.top + self.width * 3 // 4)
        seen = photograph(self.rng, light_up(self.rng, np.ascontiguousarray(self.picture[rows])))
        boxes = np.array(self.boxes, np.float32).reshape(-1, 4) - np.float32(
            [self.top, 0, self.top, 0]
        )
        return Scene(seen, self.ink[rows] > 100, boxes, np.array(self.labels, np.int64))

    def _place(self, span: Points) -> Points:
        """A random corner for something of this size, within the rows that are cut out."""
        room = np.maximum((self.width, self.width * 3 // 4) - span - 4, 0)
        return 2 + self.rng.random(2) * room + (0, self.top)

    def _view(self, sheet: Sheet, side: float) -> np.ndarray:
        """The homography from a sheet to the picture, symbol and all, `side` pixels long."""
        view = tilted(self.rng, corners_of(sheet))
        seen = cv2.perspectiveTransform(sheet.extent[None], view)[0]
        scale = side / np.ptp(seen, axis=0).max()
        low, span = seen.min(axis=0) * scale, np.ptp(seen, axis=0) * scale
        x, y = self._place(span) - low
        return np.array([[scale, 0, x], [0, scale, y], [0, 0, 1]]) @ view

    def _lay(self, sheet: Sheet, view: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws a sheet, and hands that hold it: ink, silhouette and what all this covers."""
        size = (self.width, self.width)
        cover = np.zeros(size, np.uint8)
        outline = cv2.perspectiveTransform(corners_of(sheet)[None], view)[0]
        cv2.fillConvexPoly(cover, np.round(outline * 16).astype(np.int32), 255, cv2.LINE_AA, 4)
        seen, ink, silhouette = (
            cv2.warpPerspective(one, view, size, flags=cv2.INTER_LINEAR)
            for one in (sheet.pixels, sheet.mask, sheet.silhouette)
        )
        weight = cover[..., None].astype(np.uint16)
        self.picture = ((self.picture * (255 - weight) + seen * weight) // 255).astype(np.uint8)
        if self.rng.random() < 0.55:
            self._hold(outline, np.maximum(ink, silhouette), cover)
        return ink, silhouette, cover

    def _hold(self, outline: Points, symbol: np.ndarray, cover: np.ndarray) -> None:
        """Draws one or two hands on the edges of a sheet, unless they cover the symbol."""
        rng, centre = self.rng, outline.mean(axis=0)
        skin = skin_colour(rng)
        for _ in range(int(rng.integers(1, 3))):
            k, share = int(rng.integers(0, 4)), rng.uniform(0.1, 0.9)
            grip = outline[k] * share + outline[(k + 1) % 4] * (1 - share)
            inwards = (centre - grip) / (np.linalg.norm(centre - grip) + 1e-6)
            before = self.picture.copy()
            length = np.ptp(outline, axis=0).max() * rng.uniform(0.08, 0.25)
            length = np.clip(length, 0.015 * self.width, 0.09 * self.width)
            covered = hand(rng, self.picture, grip, inwards, length, skin)
            if cv2.bitwise_and(covered, np.maximum(symbol, self.taken)).any():
                self.picture = before
            else:
                np.maximum(cover, covered, out=cover)

    def _draw_on_board(self, name: str, side: float) -> tuple[np.ndarray, ...]:
        width = max(2, round(side * self.rng.uniform(0.018, 0.085)))
        sketch = by_hand(self.rng, SYMBOLS[name](self.rng), self.rng.uniform(0.1, 1.0))
        points = np.concatenate(sketch.lines())
        scale = (side - width) / np.ptp(points, axis=0).max()
        low, span = points.min(axis=0) * scale, np.ptp(points, axis=0) * scale
        offset = self._place(span + width) + width / 2 - low
        pen = any_pen(self.rng, self.paper, width)
        drawn = sketch.map(lambda p: p * scale + offset)
        ink, silhouette = paint(self.rng, self.picture, drawn, pen)
        cover = cv2.dilate(np.maximum(ink, silhouette), np.ones((9, 9), np.uint8))
        return ink, silhouette, cover


def draw_scene(rng: Rng, width: int = 640, *, empty: float = 0.06) -> Scene:
    """Draws a scene of one to six symbols, some of which may find no room.

    Args:
        rng: the random generator; nothing else is random.
        width: of the picture in pixels; a multiple of 8.
        empty: the share of scenes without a symbol.
    """
    canvas = _Canvas(rng, width)
    if rng.random() < 0.2:
        canvas.become_board()
    count = 0 if rng.random() < empty else int(rng.integers(1, MOST + 1))
    low, high = np.log(SIZES)
    sides = np.sort(np.exp(rng.uniform(low, high, count)))[::-1] * width
    if canvas.paper is None:
        for _ in range(int(rng.integers(0, 3))):
            canvas.add_sheet(width * rng.uniform(0.1, 0.5))
    for side in sides:
        canvas.add_symbol(int(rng.integers(0, len(SYMBOLS))), side)
    if rng.random() < 0.15:
        grip = rng.uniform(0, width, 2)
        canvas.add_hand(grip, direction(rng), rng.uniform(0.03, 0.1) * width)
    return canvas.finish()


def _box(mask: np.ndarray) -> tuple[float, ...]:
    """y0, x0, y1, x1 around what is set."""
    rows, columns = np.flatnonzero((mask > 100).any(1)), np.flatnonzero((mask > 100).any(0))
    if not len(rows):
        return 0.0, 0.0, 0.0, 0.0
    return float(rows[0]), float(columns[0]), float(rows[-1] + 1), float(columns[-1] + 1)
