"""What appears while the mouse moves: buttons, the bar of a film, the outline of the brush.

Geometry and drawing only; what a click does is in `realtime/viewer/pointing.py`.
"""

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, contains
from realtime_lrp.view.hud import DIM, WARNING, draw_bar
from realtime_lrp.view.keys import BUTTONS
from realtime_lrp.view.text import WHITE, draw_text, text_width

LOOPS, LOOPS_NOT = "Loop: on", "Loop: off"

SHIFT = 4  # OpenCV draws circles at this many binary places of a pixel

FILL, EDGE = (38, 38, 44), (120, 120, 130)


@dataclass(frozen=True)
class Progress:
    """What the bar shows."""

    share: float
    position: str
    length: str
    loops: bool


@dataclass(frozen=True)
class Controls:
    """Where the controls stand on the canvas."""

    buttons: Mapping[str, Box]  # action -> its button
    # the part of the bar that stands for the time from start to end; None without a bar
    track: Box | None
    area: Box  # all of them, with the gaps
    letters: int  # the height of letters, in pixels

    def at(self, x: int, y: int) -> str:
        for action, box in self.buttons.items():
            if contains(box, x, y):
                return action
        if self.track and contains(self.track, x, y):
            return "bar"
        return "gap" if contains(self.area, x, y) else ""


@functools.lru_cache(maxsize=8)
def arrange_controls(size: tuple[int, int], letters: int, with_bar: bool) -> Controls:
    """Arranges the controls at the lower edge of a canvas."""
    rows, columns = size
    height, gap = round(2.2 * letters), max(2, letters // 3)
    lines = _lines(columns - 2 * gap, letters, gap)
    y = rows - gap - len(lines) * (height + gap)
    top = y + gap
    boxes: dict[str, Box] = {}
    for line in lines:
        y += gap
        x = (columns - sum(line.values()) - gap * (len(line) - 1)) // 2
        for action, width in line.items():
            boxes[action] = x, y, x + width, y + height
            x += width + gap
        y += height
    track = None
    if with_bar:
        top -= height + gap
        loop, clock = _width(LOOPS_NOT, letters), 5 * letters
        boxes["loop"] = columns - gap - loop, top, columns - gap, top + height
        track = gap + clock, top, columns - 2 * gap - loop - clock, top + height
    return Controls(boxes, track, (0, top - gap, columns, rows), letters)


def draw_controls(
    canvas: np.ndarray,
    controls: Controls,
    progress: Progress | None,
    running: Collection[str],
    pointer: tuple[int, int],
) -> None:
    """Draws the controls in place."""
    labels = {
        one.action: one.undo if one.action in running else one.button for one in BUTTONS.values()
    }
    if progress and controls.track:
        _draw_bar(canvas, controls.track, progress, controls.letters)
        labels |= {"loop": LOOPS if progress.loops else LOOPS_NOT}
    for action, box in controls.buttons.items():
        _draw_button(canvas, box, labels[action], controls.letters, contains(box, *pointer))


def draw_brush(
    canvas: np.ndarray, box: Box, shape: tuple[int, ...], middle: tuple[int, int], radius: int
) -> None:
    """Outlines in place what the brush covers, in white on black."""
    x0, y0, x1, y1 = box
    part, scale = canvas[y0:y1, x0:x1], (x1 - x0) / shape[1]
    x, y = (round(((at + 0.5) * scale - 0.5) * 2**SHIFT) for at in middle)
    r = round((radius + 0.5) * scale * 2**SHIFT)
    for colour, width in (((0, 0, 0), 3), (WHITE, 1)):
        cv2.circle(part, (x, y), r, colour, width, cv2.LINE_AA, SHIFT)


def _lines(room: int, letters: int, gap: int) -> list[dict[str, int]]:
    lines: list[dict[str, int]] = [{}]
    for action, one in BUTTONS.items():
        width = max(_width(text, letters) for text in (one.button, one.undo))
        if lines[-1] and sum(lines[-1].values()) + gap * len(lines[-1]) + width > room:
            lines.append({})
        lines[-1][action] = width
    return lines


def _width(label: str, letters: int) -> int:
    return text_width(label, letters) + round(1.3 * letters)


def _draw_button(canvas: np.ndarray, box: Box, label: str, letters: int, bright: bool) -> None:
    x0, y0, x1, y1 = box
    cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), FILL, -1)
    cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), WARNING if bright else EDGE, 1)
    x = (x0 + x1 - text_width(label, letters)) // 2
    draw_text(canvas, label, (x, (y0 + y1) // 2 + round(0.36 * letters)), letters, WHITE)


def _draw_bar(canvas: np.ndarray, track: Box, progress: Progress, letters: int) -> None:
    x0, y0, x1, y1 = track
    whole = (0, y0, canvas.shape[1], y1)
    cv2.rectangle(canvas, whole[:2], (whole[2] - 1, y1 - 1), FILL, -1)
    middle, half = (y0 + y1) // 2, max(2, letters // 6)
    x = x0 + round((x1 - 1 - x0) * progress.share)
    draw_bar(canvas, (x0, middle - half, x1, middle + half + 1), progress.share)
    cv2.circle(canvas, (x, middle), max(4, letters // 2), WHITE, -1, cv2.LINE_AA)
    base, left = middle + round(0.36 * letters), x0 - letters
    left -= text_width(progress.position, letters)
    draw_text(canvas, progress.position, (left, base), letters, WHITE)
    draw_text(canvas, progress.length, (x1 + letters, base), letters, DIM)
