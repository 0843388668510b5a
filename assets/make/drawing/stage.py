"""Draws the scene of the demo clip: a living room, and somebody who holds up a sheet.

Pictures are uint8 [h, w, 3] RGB, changed in place unless a function returns one. Coordinates are
those of a picture of 640 x 480 pixels; the caller scales to other sizes.
"""

import cv2
import numpy as np

from drawing.room import cloud
from drawing.strokes import SHIFT, Colour, colour_of, draw_lines, fixed
from drawing.symbols import Points, Rng, arc

BORDER = 80
"""Pixels by which the room is larger than the picture on each side, for a swaying camera."""

SKIN: Colour = (226, 172, 138)
SHIRT: Colour = (74, 112, 134)
HAIR: Colour = (74, 48, 36)
BOOKS: tuple[Colour, ...] = (
    (168, 62, 54), (46, 88, 112), (214, 168, 78), (88, 122, 84), (232, 222, 200), (120, 70, 96),
    (60, 60, 68), (206, 118, 66),
)  # fmt: skip


def area(picture: np.ndarray, points: Points, colour: Colour) -> None:
    """Fills a closed shape with anti-aliased edges."""
    cv2.fillPoly(picture, [fixed(points)], colour, cv2.LINE_AA, SHIFT)


def box(
    picture: np.ndarray, left: float, top: float, right: float, bottom: float, c: Colour
) -> None:
    """Fills an upright rectangle."""
    area(picture, np.array([(left, top), (right, top), (right, bottom), (left, bottom)]), c)


def shaded(colour: Colour, factor: float) -> Colour:
    """The colour made darker (factor below 1) or lighter (above 1)."""
    return colour_of(min(255, c * factor) for c in colour)


def living_room(rng: Rng) -> np.ndarray:
    """Draws a room that is out of focus.

    Returns:
        uint8 [480 + 2 BORDER, 640 + 2 BORDER, 3] RGB.
    """
    height, width = 480 + 2 * BORDER, 640 + 2 * BORDER
    room = np.full((height, width, 3), (206, 196, 178), np.uint8)
    box(room, 0, 500, width, height, (142, 104, 74))
    box(room, 0, 490, width, 504, (236, 230, 220))
    _window(room)
    _shelf(rng, room)
    _sofa(room)
    _plant(rng, room, 350, 470)
    _lamp(room)
    soft = cv2.GaussianBlur(room, (0, 0), 4.0).astype(np.float32)
    fall = np.linspace(1.12, 0.82, width, dtype=np.float32)[:, None]
    texture = cloud(rng, height, width, 6, 0.95, 1.05)[..., None]
    return np.clip(soft * fall * texture, 0, 255).astype(np.uint8)


def _window(room: np.ndarray) -> None:
    box(room, 60, 70, 300, 330, (240, 236, 228))
    for left, right in ((74, 174), (186, 286)):
        for k in range(24):
            top = 84 + k * 9.7
            sky = (176 + 2 * k, 206 + k, 236)
            box(room, left, top, right, top + 10, sky)
        area(room, arc(((left + right) / 2, 330), (70, 60), 180, 360, 20), (112, 146, 98))
    box(room, 40, 50, 92, 420, (196, 122, 96))
    box(room, 272, 50, 322, 420, (186, 114, 90))


def _shelf(rng: Rng, room: np.ndarray) -> None:
    box(room, 540, 60, 780, 470, (126, 86, 58))
    for top in (75, 205, 335):
        box(room, 552, top, 768, top + 118, (84, 58, 42))
        x = 556.0
        while x < 740:
            wide, tall = rng.uniform(12, 26), rng.uniform(70, 108)
            colour = BOOKS[rng.integers(0, len(BOOKS))]
            box(room, x, top + 118 - tall, x + wide, top + 118, colour)
            box(room, x, top + 140 - tall, x + wide, top + 146 - tall, shaded(colour, 0.7))
            x += wide + (rng.uniform(10, 40) if rng.random() < 0.15 else 1)


def _sofa(room: np.ndarray) -> None:
    box(room, 0, 400, 330, 560, (112, 120, 128))
    box(room, 0, 460, 350, 600, (128, 136, 144))
    area(room, arc((120, 440), (62, 50), count=30), (212, 164, 72))
    area(room, arc((220, 446), (56, 46), count=30), (150, 84, 78))


def _plant(rng: Rng, room: np.ndarray, x: float, y: float) -> None:
    pot = np.array([(x - 42, y), (x + 42, y), (x + 30, y + 80), (x - 30, y + 80)])
    area(room, pot, (186, 104, 72))
    for angle in np.linspace(-70, 70, 11) + rng.normal(0, 5, 11):
        reach = rng.uniform(110, 190)
        lean = np.deg2rad(angle)
        tip = np.array([x + reach * np.sin(lean), y - reach * np.cos(lean)])
        side = np.array([np.cos(lean), np.sin(lean)]) * 17
        middle = np.add(tip, (x, y)) / 2
        leaf = np.stack([(x, y), middle + side, tip, middle - side])
        area(room, leaf, shaded((74, 122, 70), rng.uniform(0.75, 1.25)))


def _lamp(room: np.ndarray) -> None:
    draw_lines(room, [np.array([(470.0, 200), (470, 520)])], (70, 64, 60), 7)
    shade = np.array([(430, 210), (448, 130), (492, 130), (510, 210)])
    area(room, shade, (255, 232, 178))


def presenter(picture: np.ndarray, lean: float, nod: float) -> None:
    """Draws head and chest of somebody who faces the camera.

    Args:
        picture: uint8 [480, 640, 3], changed in place.
        lean: sideways shift in pixels.
        nod: downward shift of the head in pixels.
    """
    x = 320 + lean
    chest = arc((x, 480), (185, 250), 180, 360, 40)
    area(picture, chest, SHIRT)
    draw_lines(picture, [arc((x, 232), (46, 34), 10, 170, 20)], shaded(SHIRT, 0.7), 7)
    y = 128 + nod
    area(picture, arc((x + lean * 0.2, y - 16), (72, 84), count=50), HAIR)
    neck = np.array([(x - 30, y + 40), (x + 30, y + 40), (x + 40, 246), (x - 40, 246)])
    area(picture, neck, shaded(SKIN, 0.84))
    _head(picture, x + lean * 0.3, y)


def _head(picture: np.ndarray, x: float, y: float) -> None:
    for side in (-1, 1):
        area(picture, arc((x + side * 60, y + 8), (11, 17), count=20), shaded(SKIN, 0.9))
    area(picture, arc((x, y + 4), (60, 76), count=50), SKIN)
    fringe = np.concatenate(
        [arc((x, y - 18), (64, 68), 180, 360, 30), arc((x + 14, y - 42), (48, 20), 0, 180, 15)]
    )
    area(picture, fringe, HAIR)
    for side in (-1, 1):
        eye = (x + side * 24, y)
        area(picture, arc(eye, (10, 6), count=20), (245, 240, 236))
        area(picture, arc(eye, (5, 5.5), count=16), (58, 44, 38))
        brow = arc((eye[0], y - 8), (15, 8), 205, 335, 10)
        draw_lines(picture, [brow], shaded(HAIR, 0.9), 4)
    draw_lines(picture, [arc((x, y + 22), (8, 5), 20, 160, 10)], shaded(SKIN, 0.75), 3)
    draw_lines(picture, [arc((x, y + 36), (21, 12), 20, 160, 14)], (166, 84, 78), 4)


def arms(picture: np.ndarray, grips: Points, lean: float) -> None:
    """Draws arms and hands behind the sheet, from the shoulders to the grips, float [2, 2]."""
    for side, grip in zip((-1, 1), grips, strict=True):
        shoulder = np.array([320 + lean + side * 165, 330.0])
        elbow = np.array([grip[0] + side * 92, max(grip[1] + 110, 440)])
        wrist = grip + (elbow - grip) * 0.32
        draw_lines(picture, [np.stack([shoulder, elbow, wrist])], shaded(SHIRT, 0.85), 66)
        draw_lines(picture, [np.stack([wrist, np.add(grip, (side * 6, 0))])], shaded(SKIN, 0.9), 44)
        for k in range(3):
            root = np.add(grip, (side * 12, 14 * (k - 1)))
            draw_lines(picture, [np.stack([root, root - (side * 22, 0)])], shaded(SKIN, 0.86), 15)


def thumbs(picture: np.ndarray, grips: Points) -> None:
    """Draws the thumbs in front of the sheet, at the grips, float [2, 2]."""
    for side, grip in zip((-1, 1), grips, strict=True):
        root, tip = np.add(grip, (side * 20, 12)), np.add(grip, (-side * 20, -8))
        draw_lines(picture, [np.stack([root, tip])], shaded(SKIN, 0.72), 24)
        draw_lines(picture, [np.stack([root, tip])], SKIN, 20)
        nail = np.add(tip, [(side * 2, 0), (-side * 4, -1.5)])
        draw_lines(picture, [nail], (242, 206, 184), 9)
