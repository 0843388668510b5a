"""Draws a `Sketch` on a sheet the way a hand with a pen does.

Pictures are uint8 [h, w, 3] RGB, masks uint8 [h, w] of 0 and 255; everything is changed in
place. Points are float [N, 2] in pixels, x to the right, y down.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np

from drawing.symbols import Points, Rng, Sketch, rotated

Colour = tuple[int, int, int]
"""RGB, 0 to 255."""

SHIFT = 4
"""Fractional bits of the fixed-point coordinates that OpenCV gets."""


@dataclass
class Pen:
    """How a symbol is drawn.

    Attributes:
        colour: of the outline.
        width: of all lines, in pixels of the sheet.
        fill: colour of the area, or None for an outline only.
        detail: colour of the lines on top of the area.
        hatched: whether the area is hatched, not filled.
    """

    colour: Colour
    width: int
    fill: Colour | None = None
    detail: Colour = (0, 0, 0)
    hatched: bool = False


def colour_of(values: Iterable[float]) -> Colour:
    """Three values as a colour; fractions are cut off."""
    red, green, blue = (int(value) for value in values)
    return red, green, blue


def fixed(points: Points) -> np.ndarray:
    """Points as int32 with `SHIFT` fractional bits, as OpenCV expects them."""
    return np.round(points * (1 << SHIFT)).astype(np.int32)


def waver(rng: Rng, count: int, knots: int, amplitude: float) -> Points:
    """Smooth random offsets, float [count, 2], with standard deviation `amplitude`."""
    steps = np.linspace(0, knots - 1, count)
    noise = rng.normal(0, amplitude, (2, knots))
    left = np.minimum(steps.astype(int), knots - 2)
    t = steps - left
    blend = t * t * (3 - 2 * t)
    return (noise[:, left] * (1 - blend) + noise[:, left + 1] * blend).T


def by_hand(rng: Rng, sketch: Sketch, wobble: float) -> Sketch:
    """Makes a sketch look drawn by hand: leaning, wavering, not quite closed.

    Args:
        rng: the random generator.
        sketch: in its unit frame.
        wobble: from 0 (drawn with a ruler) to 1 (drawn by a small child).

    Returns:
        A sketch whose outlines are open polylines that nearly close.
    """
    lean = np.eye(2) + rng.normal(0, 0.05, (2, 2))
    angle = np.clip(rng.normal(0, 8), -15, 15)
    shaky = Sketch(
        [_unclosed(rng, p, wobble) for p in sketch.outlines], sketch.inside, sketch.outside
    )
    return shaky.map(lambda p: rotated(_shaken(rng, p, wobble), angle) @ lean)


def _unclosed(rng: Rng, points: Points, wobble: float) -> Points:
    ring = np.concatenate([points, points[:1]])
    step = ring[-1] - ring[-2]
    length = np.hypot(*step) + 1e-6
    beyond = np.clip(rng.normal(0.02, 0.08 * wobble), -0.6 * length, 0.2)
    ring[-1] = ring[-1] + step / length * beyond
    return ring


def _shaken(rng: Rng, points: Points, wobble: float) -> Points:
    corners = points + rng.normal(0, 0.03 * wobble, points.shape) * (len(points) < 16)
    dense = _dense(corners, 0.09)
    knots = max(3, len(dense) // 6)
    drift = waver(rng, len(dense), 3, 0.035 * wobble)
    return dense + waver(rng, len(dense), knots, 0.022 * wobble) + drift


def _dense(points: Points, spacing: float) -> Points:
    lengths = np.hypot(*np.diff(points, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    count = max(4, int(along[-1] / spacing))
    positions = np.unique(np.concatenate([np.linspace(0, along[-1], count), along]))
    return np.stack([np.interp(positions, along, points[:, k]) for k in (0, 1)], axis=1)


def draw_lines(picture: np.ndarray, lines: list[Points], colour: object, width: int) -> None:
    """Draws open polylines with round ends and anti-aliased edges."""
    paths = [fixed(p) for p in lines]
    cv2.polylines(picture, paths, False, colour, width, cv2.LINE_AA, SHIFT)


def _fill(picture: np.ndarray, areas: list[Points], colour: object) -> None:
    for area in areas:
        cv2.fillPoly(picture, [fixed(area)], colour, cv2.LINE_AA, SHIFT)


def paint(rng: Rng, picture: np.ndarray, sketch: Sketch, pen: Pen) -> tuple[np.ndarray, np.ndarray]:
    """Draws the sketch with the pen.

    Args:
        rng: the random generator.
        picture: the sheet, changed in place.
        sketch: in pixels of the sheet.
        pen: how it is drawn.

    Returns:
        mask: the ink of lines and areas.
        silhouette: everything inside the outline.
    """
    ink = np.zeros(picture.shape[:2], np.uint8)
    draw_lines(ink, sketch.lines(), 255, pen.width)
    silhouette = _filled_contours(ink, sketch.outlines)
    if pen.fill is not None and sketch.outlines:
        area = _area(rng, sketch, pen, ink.shape)
        _blend(picture, area, pen.fill)
        np.maximum(ink, area, out=ink)
    draw_lines(picture, [*sketch.outlines, *sketch.outside], pen.colour, pen.width)
    draw_lines(picture, sketch.inside, pen.detail, pen.width)
    return ink, silhouette


def _filled_contours(ink: np.ndarray, outlines: list[Points]) -> np.ndarray:
    filled = ink.copy()
    _fill(filled, outlines, 255)
    contours, _ = cv2.findContours(filled, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return cv2.drawContours(filled, contours, -1, 255, cv2.FILLED)


def _area(rng: Rng, sketch: Sketch, pen: Pen, shape: tuple[int, ...]) -> np.ndarray:
    area = np.zeros(shape, np.uint8)
    _fill(area, sketch.outlines, 255)
    if pen.hatched:
        hatch = np.zeros(shape, np.uint8)
        draw_lines(hatch, [_hatching(rng, sketch, pen.width)], 255, pen.width)
        area = cv2.bitwise_and(area, hatch)
    return area


def _hatching(rng: Rng, sketch: Sketch, width: int) -> Points:
    points = np.concatenate(sketch.outlines)
    centre, reach = points.mean(axis=0), np.ptp(points, axis=0).max() * 0.8
    count = max(6, int(2 * reach / (width * rng.uniform(1.1, 1.7))))
    x = np.linspace(-reach, reach, count)
    y = np.where(np.arange(count) % 2, reach, -reach)
    return centre + rotated(np.stack([x, y], axis=1), rng.uniform(-70, 70))


def _blend(picture: np.ndarray, area: np.ndarray, colour: Colour) -> None:
    weight = area[..., None].astype(np.uint16)
    mixed = picture * (255 - weight) + np.asarray(colour, np.uint16) * weight
    picture[...] = (mixed // 255).astype(np.uint8)
