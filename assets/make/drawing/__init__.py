"""Draws training pictures: somebody holds a hand-drawn symbol up to a camera.

`draw_picture` draws one picture from a random generator; the same state gives the same picture.
Pixels are uint8 [size, size, 3] RGB, masks bool [size, size]. Masks are exact, because the symbol
is drawn into them as well.

Modules: `symbols` (geometry), `strokes` (hand and pen), `sheet` (papers and screens), `room`
(background, people, hands), `camera` (light, lens, sensor, codec). The embedded network was trained
on these pictures: a changed order of random numbers gives other pictures.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from drawing.camera import light_up, photograph
from drawing.room import hand, room, skin_colour
from drawing.sheet import Sheet, other_sheet, symbol_sheet
from drawing.symbols import Points, Rng
from realtime_lrp.models.drawings import CLASSES, NOTHING

OVERSAMPLING = 1.5
"""Pixels of a sheet for each pixel of the picture."""

SIZES = (0.14, 0.77)
"""Longer side of the smallest and largest symbol without its line width; share of the picture."""


@dataclass(frozen=True)
class Picture:
    """One training picture.

    Attributes:
        pixels: uint8 [size, size, 3] RGB.
        mask: bool [size, size], the ink of the symbol: its lines and filled areas.
        silhouette: bool [size, size], everything inside the outline of the symbol.
        label: index into `CLASSES`.
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
        rng: the random generator; nothing else is random.
        label: index into `CLASSES`.
        size: height and width in pixels.
        sizes: the smallest and the largest symbol, see `SIZES`.
    """
    picture = room(rng, size)
    mask, silhouette = np.zeros((2, size, size), np.uint8)
    if label != NOTHING:
        smallest, largest = sizes
        side = size * (smallest + (largest - smallest) * rng.beta(1.5, 1.3))
        sheet = symbol_sheet(rng, CLASSES[label], side * OVERSAMPLING)
        mask, silhouette = _hold(rng, picture, sheet, side)
    elif rng.random() < 0.65:
        side = size * rng.uniform(0.3, 1.3)
        _hold(rng, picture, other_sheet(rng, side * OVERSAMPLING), side)
    elif rng.random() < 0.4:
        centre = rng.uniform(0, size, 2)
        hand(rng, picture, centre, direction(rng), 0.2 * size, skin_colour(rng))
    pixels = photograph(rng, light_up(rng, picture))
    return Picture(pixels, mask > 100, silhouette > 100, label)


def _hold(
    rng: Rng, picture: np.ndarray, sheet: Sheet, side: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draws the sheet in front of the room; returns the symbol's mask and silhouette there."""
    size = len(picture)
    view = _view(rng, sheet, side, size)
    corners = corners_of(sheet)
    seen = _warp(sheet.pixels, view, size)
    cover = np.zeros((size, size), np.uint8)
    outline = cv2.perspectiveTransform(corners[None], view)[0]
    cv2.fillConvexPoly(cover, np.round(outline * 16).astype(np.int32), 255, cv2.LINE_AA, 4)
    weight = cover[..., None].astype(np.uint16)
    picture[...] = (picture * (255 - weight) + seen * weight) // 255
    mask, silhouette = (_warp(m, view, size) for m in (sheet.mask, sheet.silhouette))
    if rng.random() < 0.6:
        hidden = _fingers(rng, picture, outline, silhouette)
        mask[hidden > 0], silhouette[hidden > 0] = 0, 0
    return mask, silhouette


def corners_of(sheet: Sheet) -> Points:
    """The corners of a sheet in its own pixels, a little inside its edge."""
    height, width = sheet.mask.shape
    return np.array([(1, 1), (width - 2, 1), (width - 2, height - 2), (1, height - 2)], np.float32)


def _warp(pixels: np.ndarray, view: np.ndarray, size: int) -> np.ndarray:
    return cv2.warpPerspective(pixels, view, (size, size), flags=cv2.INTER_LINEAR)


def _view(rng: Rng, sheet: Sheet, side: float, size: int) -> np.ndarray:
    """The homography from sheet to picture that shows the whole symbol, `side` pixels long."""
    view = tilted(rng, corners_of(sheet))
    seen = cv2.perspectiveTransform(sheet.extent[None], view)[0]
    scale = side / np.ptp(seen, axis=0).max()
    low, span = seen.min(axis=0) * scale, np.ptp(seen, axis=0) * scale
    if sheet.mask.any():
        corner = 2 + rng.beta(2, 2, 2) * (size - 4 - span)
    else:
        corner = rng.uniform(0, size, 2) - span / 2
    x, y = corner - low
    return np.array([[scale, 0, x], [0, scale, y], [0, 0, 1]]) @ view


def tilted(rng: Rng, corners: Points) -> np.ndarray:
    """The homography of a sheet that is a little rotated and does not quite face the camera."""
    slant = rng.normal(0, 0.05 * np.ptp(corners, axis=0).max(), (4, 2)).astype(np.float32)
    turn = cv2.getRotationMatrix2D((0, 0), np.clip(rng.normal(0, 6), -12, 12), 1)
    return np.vstack([turn, (0, 0, 1)]) @ cv2.getPerspectiveTransform(corners, corners + slant)


def _fingers(rng: Rng, picture: np.ndarray, outline: Points, silhouette: np.ndarray) -> np.ndarray:
    """Draws one or two hands on the edges of the sheet, unless they cover the symbol."""
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


def direction(rng: Rng) -> Points:
    """A random direction in the plane."""
    angle = rng.uniform(0, 2 * np.pi)
    return np.array([np.cos(angle), np.sin(angle)])
