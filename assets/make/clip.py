"""The demo's clips: somebody in a living room holds up one drawing after another, or two at once.

Frames are uint8 [h, w, 3] RGB. All of them are drawn, so it is known exactly where the symbol is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from drawing.room import cloud
from drawing.stage import BORDER, arms, living_room, presenter, thumbs
from drawing.strokes import Colour, Pen, by_hand, draw_lines, paint
from drawing.symbols import SYMBOLS, Points, Rng

from realtime_lrp.models.drawings import CLASSES, NOTHING

OVERSAMPLING = 2
"""Pixels of a sheet for each pixel of the frame that it covers."""

SHEET = (300, 250)
"""Width and height of a sheet held at rest, in pixels of a frame of 640 x 480."""

FOCAL = 900.0
ENTRY = 0.16
"""Share of a sheet's time in which it comes in, and in which it goes out."""

_SHEET_PHASES = np.repeat((0.0, 1.0), 6)
"""1 for each of the twelve phases of motion that belongs to the sheet; 0: camera and person."""


@dataclass(frozen=True)
class Turn:
    """One sheet that is held up.

    Attributes:
        name: of the symbol.
        pen: draws it.
        paper: colour of the sheet.
        ruling: "plain", "lined", "squared" or "screen".
    """

    name: str
    pen: Pen
    paper: Colour
    ruling: str


TURNS = (
    Turn("star", Pen((36, 62, 150), 22), (250, 249, 244), "plain"),
    Turn("heart", Pen((196, 34, 44), 18, (206, 42, 50), (206, 42, 50)), (248, 244, 232), "lined"),
    Turn("house", Pen((30, 30, 34), 18, detail=(30, 30, 34)), (250, 250, 248), "squared"),
    Turn("fish", Pen((255, 196, 60), 20, detail=(255, 196, 60)), (24, 30, 46), "screen"),
)


def render_clip(
    seed: int = 8, size: tuple[int, int] = (640, 480), fps: float = 30, seconds: float = 10
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Draws the clip.

    Args:
        seed: the same seed gives the same clip.
        size: width and height in pixels, 4 : 3 for an undistorted picture.
        fps: frames per second.
        seconds: length of the clip.

    Yields:
        frame: uint8 [height, width, 3] RGB.
        silhouette: bool [height, width], the visible part of the symbol with its inside.
        label: index into `CLASSES`; "nothing" while less than 0.9 of the symbol is visible.
    """
    rng = np.random.default_rng(seed)
    room = living_room(rng)
    sheets = [_draw_sheet(rng, turn) for turn in TURNS]
    sway = rng.uniform(0, 2 * np.pi, 12)
    count = round(fps * seconds)
    for k in range(count):
        position = k / count * len(TURNS)
        turn = min(int(position), len(TURNS) - 1)
        phases = sway + turn * _SHEET_PHASES
        frame, mask = _frame(room, sheets[turn], phases, k / fps, position - turn)
        seen = (mask > 127).sum() / _whole(sheets[turn], phases, k / fps)
        frame = _photograph(rng, frame)
        label = CLASSES.index(TURNS[turn].name) if seen > 0.9 else NOTHING
        yield _resized(frame, size), _resized(mask, size) > 127, label


HELD = (
    (Turn("star", Pen((36, 62, 150), 22), (250, 249, 244), "plain"),
     Turn("cup", Pen((30, 30, 34), 18), (250, 250, 248), "squared")),
    (Turn("heart", Pen((196, 34, 44), 20), (248, 244, 232), "lined"),
     Turn("fish", Pen((255, 196, 60), 20, detail=(255, 196, 60)), (24, 30, 46), "screen")),
)  # fmt: skip
"""The sheets in both hands, one pair after the other."""

PINNED = (
    (Turn("house", Pen((40, 110, 60), 20), (252, 250, 240), "plain"), (0.5, 180, 190)),
    (Turn("moon", Pen((120, 60, 130), 20), (250, 246, 250), "plain"), (0.42, 622, 210)),
)
"""Sheets on the wall: their size and where their middle is in the room."""

IN_HAND = (0.62, (-180, 22), (180, 22))
"""Size of the sheets in both hands, and where they are held, from where a single one would be."""


def render_scenes(seed: int = 8, fps: float = 30, seconds: float = 6) -> Iterator[np.ndarray]:
    """Draws the clip of several sheets at once: two are held up, two hang on the wall."""
    rng = np.random.default_rng(seed)
    room = living_room(rng)
    for turn, (scale, *middle) in PINNED:
        outline = (_corners() / OVERSAMPLING - np.array(SHEET) / 2) * scale + middle
        _lay(room, _draw_sheet(rng, turn), _view(outline))
    pairs = [[_draw_sheet(rng, turn) for turn in pair] for pair in HELD]
    sway = rng.uniform(0, 2 * np.pi, (2, 12))
    sway[1, :6] = sway[0, :6]  # one camera and one person, two hands
    count = round(fps * seconds)
    for k in range(count):
        position = k / count * len(pairs)
        pair = pairs[int(position)]
        yield _photograph(rng, _two_held(room, pair, sway, k / fps, position % 1))


def _two_held(
    room: np.ndarray, sheets: list[tuple[np.ndarray, np.ndarray]], sway: np.ndarray, time: float,
    share: float,
) -> np.ndarray:  # fmt: skip
    """One frame, as `_frame`."""
    scale, *places = IN_HAND
    lowered = _lowered(share)
    outlines = [
        (_outline(time, phases, 0) - (320, 318)) * scale + np.add(place, (320, 318 + lowered))
        for phases, place in zip(sway, places, strict=True)
    ]
    lean, nod = _posture(time, sway[0])
    frame = _panned(room, time, sway[0])
    presenter(frame, lean, nod)
    edges = outlines[0][[3, 0]], outlines[1][[2, 1]]  # the outer ones, from below
    grips = np.array([0.7 * low + 0.3 * high for low, high in edges])
    arms(frame, grips, lean)
    for sheet, outline in zip(sheets, outlines, strict=True):
        _cast_shadow(frame, outline)
        _lay(frame, sheet, _view(outline))
    thumbs(frame, grips)
    return frame


def _resized(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    if picture.shape[1::-1] == tuple(size):
        return picture
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA)


def _draw_sheet(rng: Rng, turn: Turn) -> tuple[np.ndarray, np.ndarray]:
    """The sheet seen from the front, and the silhouette of its symbol."""
    width, height = (OVERSAMPLING * n for n in SHEET)
    pixels = np.full((height, width, 3), turn.paper, np.uint8)
    _rule(pixels, turn)
    sketch = by_hand(rng, SYMBOLS[turn.name](rng), 0.45)
    points = np.concatenate(sketch.lines())
    scale = 0.68 * height / np.ptp(points, axis=0).max()
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    sketch = sketch.map(lambda p: (p - middle) * scale + (width / 2, height / 2))
    _, silhouette = paint(rng, pixels, sketch, turn.pen)
    folds = cloud(rng, height, width, 5, 0.965, 1.02)[..., None]
    pixels = np.clip(pixels * folds, 0, 255).astype(np.uint8)
    return cv2.GaussianBlur(pixels, (0, 0), 0.6 * OVERSAMPLING), silhouette


def _rule(pixels: np.ndarray, turn: Turn) -> None:
    height, width = pixels.shape[:2]
    if turn.ruling == "screen":
        cv2.rectangle(pixels, (0, 0), (width - 1, height - 1), (14, 14, 16), 15 * OVERSAMPLING)
    if turn.ruling in ("lined", "squared"):
        step = 22 if turn.ruling == "lined" else 13
        rows = [
            np.array([(0.0, y), (width, y)])
            for y in range(step * OVERSAMPLING, height, step * OVERSAMPLING)
        ]
        draw_lines(pixels, rows, (176, 196, 222), OVERSAMPLING)
    if turn.ruling == "squared":
        lines = [
            np.array([(x, 0.0), (x, height)])
            for x in range(step * OVERSAMPLING, width, step * OVERSAMPLING)
        ]
        draw_lines(pixels, lines, (176, 196, 222), OVERSAMPLING)


def _eased(t: float) -> float:
    t = min(1.0, max(0.0, t))
    return t * t * (3 - 2 * t)


def _frame(
    room: np.ndarray,
    sheet: tuple[np.ndarray, np.ndarray],
    sway: np.ndarray,
    time: float,
    share: float,
) -> tuple[np.ndarray, np.ndarray]:
    """One frame at `time` seconds, `share` (0..1) of the way through the turn of the sheet."""
    lean, nod = _posture(time, sway)
    frame = _panned(room, time, sway)
    presenter(frame, lean, nod)
    outline = _outline(time, sway, _lowered(share))
    grips = outline[[3, 2]] * 0.7 + outline[[0, 1]] * 0.3
    arms(frame, grips, lean)
    _cast_shadow(frame, outline)
    mask = _lay(frame, sheet, _view(outline))
    thumbs(frame, grips)
    return frame, mask


def _lowered(share: float) -> float:
    """How far sheets are below where they are held, in pixels."""
    return 330 * (1 - _eased(share / ENTRY) * _eased((1 - share) / ENTRY))


def _posture(time: float, sway: np.ndarray) -> tuple[float, float]:
    """How far the presenter leans and nods."""
    return 9 * np.sin(0.9 * time + sway[0]), 3 * np.sin(2.1 * time + sway[1])


def _view(outline: Points) -> np.ndarray:
    """The homography from a sheet to its four corners in a picture."""
    return cv2.getPerspectiveTransform(_corners(), outline.astype(np.float32))


def _panned(room: np.ndarray, time: float, sway: np.ndarray) -> np.ndarray:
    """The part of the room that the hand-held camera sees."""
    x = BORDER + 42 * np.sin(0.55 * time + sway[2]) + 6 * np.sin(2.3 * time + sway[3])
    y = BORDER + 20 * np.sin(0.7 * time + sway[4]) + 4 * np.sin(2.9 * time + sway[5])
    shift = np.array([[1, 0, -x], [0, 1, -y]])
    return cv2.warpAffine(room, shift, (640, 480), flags=cv2.INTER_LINEAR)


def _corners() -> Points:
    width, height = (OVERSAMPLING * n - 1 for n in SHEET)
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)


def _outline(time: float, sway: np.ndarray, lowered: float) -> Points:
    """The four corners of the sheet in the frame, float [4, 2]."""
    yaw = 0.3 * np.sin(1.1 * time + sway[6])
    pitch = 0.16 * np.sin(0.8 * time + sway[7])
    roll = 0.12 * np.sin(0.95 * time + sway[8])
    flat = (_corners() / (2 * OVERSAMPLING) - np.array(SHEET) / 4) * 2
    space = np.column_stack([flat, np.zeros(4)]) @ _rotation(yaw, pitch, roll).T
    depth = FOCAL * (1 + 0.1 * np.sin(0.75 * time + sway[9]))
    at = (
        320 + 34 * np.sin(0.8 * time + sway[10]),
        318 + 16 * np.sin(1.25 * time + sway[11]) + lowered,
    )
    return space[:, :2] * (FOCAL / (depth + space[:, 2:])) + at


def _rotation(yaw: float, pitch: float, roll: float) -> np.ndarray:
    turns = np.eye(3)
    for axis, angle in ((1, yaw), (0, pitch), (2, roll)):
        vector = np.zeros(3)
        vector[axis] = angle
        turns = turns @ cv2.Rodrigues(vector)[0]
    return turns


def _whole(sheet: tuple[np.ndarray, np.ndarray], sway: np.ndarray, time: float) -> float:
    """Area that the whole silhouette would have in the frame, in pixels."""
    outline = _outline(time, sway, 0).astype(np.float32)
    scale = cv2.contourArea(outline) / cv2.contourArea(_corners())
    return (sheet[1] > 127).sum() * scale


def _cast_shadow(frame: np.ndarray, outline: Points) -> None:
    shade = np.zeros(frame.shape[:2], np.uint8)
    cv2.fillConvexPoly(shade, np.round(np.add(outline, (10, 14))).astype(np.int32), 90)
    soft = cv2.GaussianBlur(shade, (0, 0), 9)[..., None].astype(np.uint16)
    frame[...] = (frame * (255 - soft) // 255).astype(np.uint8)


def _lay(frame: np.ndarray, sheet: tuple[np.ndarray, np.ndarray], view: np.ndarray) -> np.ndarray:
    """Draws the sheet into the frame; returns the silhouette of the symbol, uint8 [h, w]."""
    size = frame.shape[1::-1]
    cover = np.full(sheet[1].shape, 255, np.uint8)
    pixels, weight, mask = (
        cv2.warpPerspective(layer, view, size, flags=cv2.INTER_LINEAR)
        for layer in (sheet[0], cover, sheet[1])
    )
    weight = weight[..., None].astype(np.uint16)
    frame[...] = ((frame * (255 - weight) + pixels * np.uint16(255)) // 255).clip(0, 255)
    return mask


def _photograph(rng: Rng, frame: np.ndarray) -> np.ndarray:
    """The frame with light from a window on the left and the noise of a sensor."""
    light = np.linspace(1.05, 0.93, frame.shape[1], dtype=np.float32)[:, None]
    grain = rng.normal(0, 1.5, (*frame.shape[:2], 1)).astype(np.float32)
    return np.clip(frame * light + grain, 0, 255).astype(np.uint8)
