"""Draws what is around the sheet: walls, furniture, textures, people, hands, scribbles.

Pictures are uint8 [h, w, 3] RGB, changed in place unless a function returns one. Random lengths are
shares of the picture's side.
"""

from functools import cache

import cv2
import numpy as np

from drawing.strokes import SHIFT, Colour, colour_of, draw_lines, fixed
from drawing.symbols import Points, Rng, arc, rotated

SKIN = np.array([(255, 219, 190), (232, 184, 148), (198, 140, 105), (141, 92, 62), (84, 54, 40)])
LETTERS = np.array(list("abcdefghijklmnoprstuvwyzABCDEFGHKLMNPRSTUW0123456789"))
FONT = cv2.FontFace("sans")


def any_colour(rng: Rng) -> Colour:
    """A random colour, more often dull than bright."""
    red, green, blue, keep = rng.random(4).tolist()
    grey = (red + green + blue) / 3
    keep = 255 * keep**1.5
    grey *= 255 - keep
    return int(grey + red * keep), int(grey + green * keep), int(grey + blue * keep)


def skin_colour(rng: Rng) -> Colour:
    """A random skin colour."""
    k = rng.integers(0, len(SKIN) - 1)
    return colour_of(SKIN[k] + (SKIN[k + 1] - SKIN[k]) * rng.random())


def cloud(rng: Rng, height: int, width: int, cells: int, low: float, high: float) -> np.ndarray:
    """A smooth random field, float32 [height, width], about `low` to `high`."""
    coarse = rng.random((cells, cells), np.float32) * (high - low) + low
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def room(rng: Rng, size: int) -> np.ndarray:
    """Draws a cluttered room, as a camera would see it without a sheet.

    Returns:
        uint8 [size, size, 3] RGB.
    """
    picture = _wall(rng, size)
    if rng.random() < 0.65:
        _leaves(rng, picture, int(rng.integers(3, 40)))
    if rng.random() < 0.5:
        _furniture(rng, picture)
    if rng.random() < 0.25:
        scribble(rng, picture, any_colour(rng), (0, 0, size, size))
    if rng.random() < 0.25:
        write_letters(rng, picture, any_colour(rng), (0, 0, size, size))
    if rng.random() < 0.45:
        person(rng, picture)
    if rng.random() < 0.6:
        picture = cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.4, 2.5) * size / 128)
    return picture


def _wall(rng: Rng, size: int) -> np.ndarray:
    ends = np.array([any_colour(rng), any_colour(rng)], np.float32)
    ends[1] = ends[0] + (ends[1] - ends[0]) * rng.random() ** 2
    share = cloud(rng, size, size, int(rng.integers(2, 9)), 0, 1)[..., None]
    wall = ends[0] + (ends[1] - ends[0]) * share
    if rng.random() < 0.3:
        wall *= _stripes(rng, size)[..., None]
    if rng.random() < 0.4:
        wall *= cloud(rng, size, size, int(rng.integers(24, 80)), 0.8, 1.2)[..., None]
    return np.clip(wall, 0, 255).astype(np.uint8)


def _stripes(rng: Rng, size: int) -> np.ndarray:
    turn, period = rng.uniform(0, np.pi), rng.uniform(0.03, 0.25) * size
    y, x = np.mgrid[0:size, 0:size].astype(np.float32)
    wave = np.sin((x * np.cos(turn) + y * np.sin(turn)) * (2 * np.pi / period))
    return 1 + rng.uniform(0.05, 0.35) * np.clip(wave * rng.uniform(1, 6), -1, 1)


def _leaves(rng: Rng, picture: np.ndarray, count: int) -> None:
    """Draws overlapping shapes of all sizes: their edges have the statistics of photos."""
    size = len(picture)
    reach = size * np.minimum(0.5, 0.03 / rng.uniform(0.02, 1, count) ** 0.8)
    angle = rng.uniform(0, 2 * np.pi, count)
    cos, sin = np.cos(angle) * reach, np.sin(angle) * reach
    turns = np.array([[cos, sin], [-sin, cos]]).transpose(2, 0, 1)
    centres = rng.uniform(0, size, (count, 2))
    for turn, centre, kind in zip(turns, centres, rng.integers(0, 256, count), strict=True):
        shape = _blobs()[kind] @ turn + centre
        cv2.fillPoly(picture, [fixed(shape)], any_colour(rng), cv2.LINE_AA, SHIFT)


@cache
def _blobs() -> list[Points]:
    """256 random closed shapes around the origin, of radius about 1; a third of them are round."""
    rng = np.random.default_rng(0)
    return [_soft(rng) if k % 3 == 0 else _cornered(rng) for k in range(256)]


def _soft(rng: Rng) -> Points:
    wave = rng.normal(0, 0.25, 2)
    t = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    reach = 1 + wave[0] * np.sin(2 * t) + wave[1] * np.cos(3 * t)
    return np.stack([np.cos(t), np.sin(t) * rng.uniform(0.3, 1)], axis=1) * reach[:, None]


def _cornered(rng: Rng) -> Points:
    angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(4, 8))))
    return np.stack([np.cos(angles), np.sin(angles) * rng.uniform(0.15, 1)], axis=1)


def _furniture(rng: Rng, picture: np.ndarray) -> None:
    """Draws straight edges: shelves, frames, door posts, cables."""
    size = len(picture)
    for _ in range(int(rng.integers(1, 7))):
        start = rng.uniform(-0.2, 1.2, 2) * size
        heading = rotated(np.array([[1.0, 0.0]]), 90 * rng.integers(0, 4) + rng.normal(0, 8))[0]
        line = np.stack([start, start + heading * rng.uniform(0.3, 2) * size])
        width = int(max(1, rng.uniform(0.005, 0.08) * size))
        draw_lines(picture, [line], any_colour(rng), width)


def scribble(rng: Rng, picture: np.ndarray, colour: Colour, box: tuple[int, ...]) -> np.ndarray:
    """Draws a meaningless line within `box` (left, top, right, bottom).

    Returns:
        The line, float [N, 2] in pixels.
    """
    left, top, right, bottom = box
    count = int(rng.integers(4, 16))
    corners = rng.uniform((left, top), (right, bottom), (count, 2))
    if rng.random() < 0.4:
        corners = np.cumsum(rng.normal(0, 0.15 * (right - left), (count, 2)), axis=0) + corners[0]
        corners = np.clip(corners, (left, top), (right, bottom))
    positions = np.linspace(0, count - 1, count * 6)
    k = np.minimum(positions.astype(int), count - 2)
    t = (positions - k)[:, None]
    t = t * t * (3 - 2 * t) if rng.random() < 0.6 else t
    line = corners[k] * (1 - t) + corners[k + 1] * t
    draw_lines(picture, [line], colour, int(max(1, rng.uniform(0.006, 0.03) * len(picture))))
    return line


def write_letters(rng: Rng, picture: np.ndarray, colour: Colour, box: tuple[int, ...]) -> None:
    """Draws a few lines of random letters within `box` (left, top, right, bottom)."""
    left, top, right, bottom = box
    height = max(6, int(rng.uniform(0.04, 0.14) * len(picture)))
    y = rng.uniform(top + height, max(top + height + 1, bottom))
    x = rng.uniform(left, left + 0.5 * (right - left))
    for _ in range(int(rng.integers(1, 5))):
        letters = "".join(rng.choice(LETTERS, int(rng.integers(3, 10))))
        if y < bottom:
            cv2.putText(picture, letters, (int(x), int(y)), colour, FONT, height, 500)
        y += 1.3 * height


def person(rng: Rng, picture: np.ndarray) -> None:
    """Draws a head on shoulders, about as far away as somebody in front of a camera."""
    size = len(picture)
    head = rng.uniform(0.07, 0.24) * size
    x, y = rng.uniform(0.1, 0.9) * size, rng.uniform(0.1, 0.6) * size
    skin, hair = skin_colour(rng), colour_of(0.6 * c for c in any_colour(rng))
    body = arc((x, y + head * 4.2), (head * rng.uniform(2, 2.8), head * 2.8), 180, 360, 20)
    body = np.concatenate([body, [[body[-1, 0], size * 1.5], [body[0, 0], size * 1.5]]])
    cv2.fillPoly(picture, [fixed(body)], any_colour(rng), cv2.LINE_AA, SHIFT)
    neck = np.array([(x, y), (x, y + head * 1.6)])
    draw_lines(picture, [neck], colour_of(0.85 * c for c in skin), int(head) + 1)
    _ellipse(picture, (x, y - 0.2 * head), (head * 1.05, head * 1.25), hair)
    _ellipse(picture, (x, y + 0.1 * head), (head * 0.85, head * 1.1), skin)
    _face(rng, picture, x, y, head, colour_of(0.45 * c for c in skin))


def _face(rng: Rng, picture: np.ndarray, x: float, y: float, head: float, dark: Colour) -> None:
    turn = rng.normal(0, 0.15) * head
    line = max(1, int(head * 0.08))
    for side in (-1, 1):
        eye = (x + turn + side * 0.35 * head, y)
        _ellipse(picture, eye, (head * 0.14, head * 0.07), dark)
        brow = np.array(
            [(eye[0] - 0.2 * head, y - 0.2 * head), (eye[0] + 0.2 * head, y - 0.22 * head)]
        )
        draw_lines(picture, [brow], dark, line)
    nose = np.array([(x + turn, y + 0.1 * head), (x + 1.4 * turn, y + 0.4 * head)])
    draw_lines(picture, [nose], colour_of(1.5 * c for c in dark), line)
    mouth = arc((x + turn, y + 0.55 * head), (0.3 * head, rng.uniform(0, 0.15) * head), 0, 180, 8)
    draw_lines(picture, [mouth], (150, 70, 70), line)


def _ellipse(
    picture: np.ndarray, centre: tuple[float, float], radii: tuple[float, float], colour: Colour
) -> None:
    cv2.fillPoly(picture, [fixed(arc(centre, radii, count=25))], colour, cv2.LINE_AA, SHIFT)


def hand(
    rng: Rng, picture: np.ndarray, grip: Points, inwards: Points, length: float, skin: Colour
) -> np.ndarray:
    """Draws a thumb or fingers that hold the sheet at `grip`, and the arm behind them.

    Args:
        rng: the random generator.
        picture: changed in place.
        grip: float [2], where the edge of the sheet is held, in pixels.
        inwards: float [2], the unit vector from there towards the middle of the sheet.
        length: of a finger, in pixels.
        skin: RGB colour.

    Returns:
        uint8 [h, w], 255 where the hand covers the picture.
    """
    covered = np.zeros(picture.shape[:2], np.uint8)
    width = int(max(2, length * rng.uniform(0.4, 0.55)))
    across = np.array([-inwards[1], inwards[0]])
    count = int(rng.integers(1, 5))
    for k in range(count):
        root = grip + across * width * 1.05 * (k - (count - 1) / 2) - inwards * length * 1.3
        tip = root + inwards * length * (1.3 + rng.uniform(0.25, 0.9))
        line = np.stack([root, tip]) + rng.normal(0, 0.04 * length, (2, 2))
        draw_lines(covered, [line], 255, width)
        shade = rng.uniform(0.86, 1.0)
        draw_lines(picture, [line], colour_of(0.7 * c for c in skin), width)
        shaded = colour_of(shade * c for c in skin)
        draw_lines(picture, [line], shaded, max(1, int(width * 0.8)))
    arm = np.stack([grip - inwards * length * 1.4, grip - inwards * length * 9 + (0, 4 * length)])
    draw_lines(picture, [arm], skin, int(width * 2.2))
    draw_lines(covered, [arm], 255, int(width * 2.2))
    return covered
