"""Training pictures of hand-drawn symbols held up to a camera, drawn by numpy and OpenCV.

`draw_picture` draws one picture from a random generator: the same state gives the same picture.
Pixels are uint8 [size, size, 3] RGB; masks are bool [size, size]. All are exact, as the symbol
is drawn a second time, into its mask.

Modules: `symbols` (geometry), `strokes` (hand and pen), `sheet` (papers and screens), `room`
(background, people, hands), `camera` (light, lens, sensor, codec).
"""

from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.models.drawing.camera import lit, taken
from realtime_lrp.models.drawing.room import hand, room, skin_colour
from realtime_lrp.models.drawing.sheet import Sheet, other_sheet, symbol_sheet
from realtime_lrp.models.drawing.symbols import SYMBOLS, Points, Rng

CLASSES = (*SYMBOLS, "nothing")
"""The names of the classes, in the order of the labels."""

NOTHING = len(CLASSES) - 1
"""The label of a picture without a symbol."""

_FINER = 1.5
SIZES = (0.14, 0.77)
"""Smallest and largest side of a symbol, without its lines' width, as a share of the picture's."""


@dataclass(frozen=True)
class Picture:
    """One training picture.

    Attributes:
        pixels: uint8 [size, size, 3] RGB.
        mask: bool [size, size], the ink of the symbol: its lines and filled areas.
        silhouette: bool [size, size], the symbol with everything inside its outline.
        label: Index into `CLASSES`.
    """

    pixels: np.ndarray
    mask: np.ndarray
    silhouette: np.ndarray
    label: int


def draw_picture(
    rng: Rng, label: int, size: int = 128, sizes: tuple[float, float] = SIZES
) -> Picture:
    """Draws a picture of class `label`.

    Args:
        rng: The only source of chance; its state moves on.
        label: Index into `CLASSES`.
        size: Height and width in pixels.
        sizes: Smallest and largest side of a symbol, as a share of the picture's.

    Returns:
        The picture and where its symbol is.
    """
    picture = room(rng, size)
    mask, silhouette = np.zeros((2, size, size), np.uint8)
    if label != NOTHING:
        smallest, largest = sizes
        side = size * (smallest + (largest - smallest) * rng.beta(1.5, 1.3))
        sheet = symbol_sheet(rng, CLASSES[label], side * _FINER)
        mask, silhouette = _hold(rng, picture, sheet, side)
    elif rng.random() < 0.65:
        side = size * rng.uniform(0.3, 1.3)
        _hold(rng, picture, other_sheet(rng, side * _FINER), side)
    elif rng.random() < 0.4:
        centre = rng.uniform(0, size, 2)
        hand(rng, picture, centre, _direction(rng), 0.2 * size, skin_colour(rng))
    pixels = taken(rng, lit(rng, picture))
    return Picture(pixels, mask > 100, silhouette > 100, label)


def _hold(
    rng: Rng, picture: np.ndarray, sheet: Sheet, side: float
) -> tuple[np.ndarray, np.ndarray]:
    """Puts the sheet before the room; gives the symbol's mask and silhouette in the picture."""
    size = len(picture)
    view = _view(rng, sheet, side, size)
    corners = _corners(sheet)
    laid = _place(sheet.pixels, view, size)
    cover = np.zeros((size, size), np.uint8)
    outline = cv2.perspectiveTransform(corners[None], view)[0]
    cv2.fillConvexPoly(cover, np.round(outline * 16).astype(np.int32), 255, cv2.LINE_AA, 4)
    weight = cover[..., None].astype(np.uint16)
    picture[...] = (picture * (255 - weight) + laid * weight) // 255
    mask, silhouette = (_place(m, view, size) for m in (sheet.mask, sheet.silhouette))
    if rng.random() < 0.6:
        hidden = _fingers(rng, picture, outline, silhouette)
        mask[hidden > 0], silhouette[hidden > 0] = 0, 0
    return mask, silhouette


def _corners(sheet: Sheet) -> Points:
    height, width = sheet.mask.shape
    return np.array([(1, 1), (width - 2, 1), (width - 2, height - 2), (1, height - 2)], np.float32)


def _place(pixels: np.ndarray, view: np.ndarray, size: int) -> np.ndarray:
    return cv2.warpPerspective(pixels, view, (size, size), flags=cv2.INTER_LINEAR)


def _view(rng: Rng, sheet: Sheet, side: float, size: int) -> np.ndarray:
    """The homography from the sheet to the picture: the symbol is `side` long and all in view."""
    view = _tilt(rng, _corners(sheet))
    seen = cv2.perspectiveTransform(sheet.extent[None], view)[0]
    scale = side / np.ptp(seen, axis=0).max()
    low, span = seen.min(axis=0) * scale, np.ptp(seen, axis=0) * scale
    if sheet.mask.any():
        corner = 2 + rng.beta(2, 2, 2) * (size - 4 - span)
    else:
        corner = rng.uniform(0, size, 2) - span / 2
    x, y = corner - low
    return np.array([[scale, 0, x], [0, scale, y], [0, 0, 1]]) @ view


def _tilt(rng: Rng, corners: Points) -> np.ndarray:
    """The homography of a sheet not quite upright and not quite facing the camera."""
    slant = rng.normal(0, 0.05 * np.ptp(corners, axis=0).max(), (4, 2)).astype(np.float32)
    turn = cv2.getRotationMatrix2D((0, 0), np.clip(rng.normal(0, 6), -12, 12), 1)
    return np.vstack([turn, (0, 0, 1)]) @ cv2.getPerspectiveTransform(corners, corners + slant)


def _fingers(rng: Rng, picture: np.ndarray, outline: Points, silhouette: np.ndarray) -> np.ndarray:
    """One or two hands on the edges of the sheet that leave the symbol free."""
    hidden = np.zeros_like(silhouette)
    centre = outline.mean(axis=0)
    skin = skin_colour(rng)
    for _ in range(int(rng.integers(1, 3))):
        k = int(rng.integers(0, 4))
        share = rng.uniform(0.1, 0.9)
        grip = outline[k] * share + outline[(k + 1) % 4] * (1 - share)
        inwards = (centre - grip) / (np.linalg.norm(centre - grip) + 1e-6)
        before = picture.copy()
        length = rng.uniform(0.06, 0.13) * len(picture)
        covered = hand(rng, picture, grip, inwards, length, skin)
        if (cv2.bitwise_and(covered, silhouette) > 0).mean() > 0.002:
            picture[...] = before
        else:
            hidden |= covered
    return hidden


def _direction(rng: Rng) -> Points:
    angle = rng.uniform(0, 2 * np.pi)
    return np.array([np.cos(angle), np.sin(angle)])
