"""Draws what is held up to the camera: a sheet of paper or a screen, with a symbol or without.

Pictures are uint8 [h, w, 3] RGB, masks uint8 [h, w] of 0 and 255.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from drawing.room import any_colour, cloud, scribble, write_letters
from drawing.strokes import (
    Colour,
    Pen,
    by_hand,
    colour_of,
    draw_lines,
    paint,
)
from drawing.symbols import SYMBOLS, Points, Rng, Sketch

INKS: tuple[Colour, ...] = (
    (15, 15, 20), (20, 20, 25), (40, 40, 45), (25, 35, 130), (30, 60, 180), (190, 25, 30),
    (215, 50, 45), (20, 110, 50), (40, 150, 70), (120, 40, 140), (230, 120, 20), (110, 65, 30),
    (220, 60, 140), (0, 130, 150),
)  # fmt: skip


@dataclass
class Sheet:
    """A sheet seen straight on.

    Attributes:
        pixels: uint8 [h, w, 3] RGB.
        mask: uint8 [h, w], the ink of the symbol.
        silhouette: uint8 [h, w], everything inside the outline of the symbol.
        extent: float [N, 2], points around the symbol, or around an empty sheet, in pixels.
    """

    pixels: np.ndarray
    mask: np.ndarray
    silhouette: np.ndarray
    extent: Points


def symbol_sheet(rng: Rng, name: str, side: float) -> Sheet:
    """Draws a sheet with the symbol `name`, whose longer side has `side` pixels."""
    width = max(2, round(side * rng.uniform(0.018, 0.085)))
    sketch = _sized(by_hand(rng, SYMBOLS[name](rng), rng.uniform(0.1, 1.0)), side - width)
    points = np.concatenate(sketch.lines())
    span = np.ptp(points, axis=0) + width
    margins = rng.uniform(0.08, 0.75, 4) * side if rng.random() < 0.8 else np.full(4, 0.9 * side)
    shape = np.ceil(span + margins[:2] + margins[2:]).astype(int)
    pixels, paper = blank(rng, int(shape[1]), int(shape[0]))
    offset = margins[:2] + width / 2 - points.min(axis=0)
    sketch = sketch.map(lambda p: p + offset)
    _draw_on_margin(rng, pixels, paper, margins, shape)
    pen = any_pen(rng, paper, width)
    mask, silhouette = paint(rng, pixels, sketch, pen)
    middle = offset + points.min(axis=0) + np.ptp(points, axis=0) / 2
    extent = middle + (points + offset - middle) * (1 + width / np.ptp(points, axis=0).max())
    return Sheet(pixels, mask, silhouette, extent)


def _sized(sketch: Sketch, side: float) -> Sketch:
    points = np.concatenate(sketch.lines())
    scale = side / np.ptp(points, axis=0).max()
    return sketch.map(lambda p: p * scale)


def other_sheet(rng: Rng, side: float) -> Sheet:
    """Draws a sheet without a symbol: empty, or with letters or scribbles."""
    height, width = (int(side * f) for f in rng.uniform(0.7, 1.5, 2))
    pixels, paper = blank(rng, height, width)
    kind = rng.random()
    box = (int(0.1 * width), int(0.1 * height), int(0.9 * width), int(0.9 * height))
    if kind < 0.4:
        for _ in range(int(rng.integers(1, 4))):
            scribble(rng, pixels, ink_on(rng, paper), box)
    if 0.3 < kind < 0.7:
        write_letters(rng, pixels, ink_on(rng, paper), box)
    nothing = np.zeros((height, width), np.uint8)
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    return Sheet(pixels, nothing, nothing, corners)


def _draw_on_margin(
    rng: Rng, pixels: np.ndarray, paper: Colour, margins: np.ndarray, shape: np.ndarray
) -> None:
    """Draws letters or scribbles on a margin of the sheet, away from the symbol."""
    if rng.random() > 0.3:
        return
    width, height = (int(n) for n in shape)
    left, top, right, bottom = (int(m) for m in margins)
    strips = [(0, 0, left, height), (0, 0, width, top)]
    strips += [(width - right, 0, width, height), (0, height - bottom, width, height)]
    strip = strips[rng.integers(0, 4)]
    view = pixels[strip[1] : strip[3], strip[0] : strip[2]]
    if min(view.shape[:2]) < 8:
        return
    note = np.ascontiguousarray(view)
    draw = write_letters if rng.random() < 0.5 else scribble
    draw(rng, note, ink_on(rng, paper), (1, 1, note.shape[1] - 1, note.shape[0] - 1))
    view[...] = note


def luminance(colour: Colour) -> float:
    """Brightness of an RGB colour, 0 to 255."""
    return float(np.dot(colour, (0.299, 0.587, 0.114)))


def ink_on(rng: Rng, paper: Colour) -> Colour:
    """A random colour that is readable on `paper`."""
    for _ in range(8):
        if luminance(paper) > 110 and rng.random() < 0.85:
            ink = INKS[rng.integers(0, len(INKS))]
        else:
            ink = any_colour(rng)
        if abs(luminance(ink) - luminance(paper)) > 70:
            return ink
    return (10, 10, 15) if luminance(paper) > 110 else (245, 245, 240)


def any_pen(rng: Rng, paper: Colour, width: int) -> Pen:
    """A random pen of `width` pixels for `paper`: for outlines, filled or hatched areas."""
    ink = ink_on(rng, paper)
    kind = rng.random()
    if kind < 0.6:
        return Pen(ink, width, detail=ink)
    if kind < 0.8:
        return Pen(ink, width, ink, paper)
    fill = ink_on(rng, paper)
    far = abs(luminance(fill) - luminance(ink)) > 40
    detail = ink if far else paper
    return Pen(ink, width, fill, detail, hatched=bool(rng.random() < 0.5))


def blank(rng: Rng, height: int, width: int) -> tuple[np.ndarray, Colour]:
    """Draws an empty sheet or screen; also returns the colour of its writing area."""
    return _screen(rng, height, width) if rng.random() < 0.22 else _paper(rng, height, width)


def _paper(rng: Rng, height: int, width: int) -> tuple[np.ndarray, Colour]:
    if rng.random() < 0.65:
        colour = colour_of(rng.integers(205, 256) - rng.integers(0, 18, 3))
    elif rng.random() < 0.75:
        colour = colour_of(rng.integers(130, 256, 3))
    else:
        colour = any_colour(rng)
    pixels = np.full((height, width, 3), colour, np.uint8)
    if rng.random() < 0.3:
        _ruled(rng, pixels, colour)
    if rng.random() < 0.5:
        folds = cloud(rng, height, width, int(rng.integers(3, 12)), 0.9, 1.06)
        pixels = np.clip(pixels * folds[..., None], 0, 255).astype(np.uint8)
    return pixels, colour


def _ruled(rng: Rng, pixels: np.ndarray, paper: Colour) -> None:
    height, width = pixels.shape[:2]
    step = rng.uniform(0.05, 0.13) * min(height, width) + 3
    towards = np.array([(90, 120, 190), (140, 140, 140), (220, 120, 120)][rng.integers(0, 3)])
    colour = colour_of(np.asarray(paper) * 0.45 + towards * 0.55)
    rows = [np.array([(0.0, y), (width, y)]) for y in np.arange(step, height, step)]
    if rng.random() < 0.5:
        rows += [np.array([(x, 0.0), (x, height)]) for x in np.arange(step, width, step)]
    draw_lines(pixels, rows, colour, 1)


def _screen(rng: Rng, height: int, width: int) -> tuple[np.ndarray, Colour]:
    dark = rng.random() < 0.5
    colour = colour_of(rng.integers(0, 45, 3) if dark else rng.integers(215, 256, 3))
    frame = colour_of(np.full(3, rng.integers(5, 60)))
    pixels = np.full((height, width, 3), frame, np.uint8)
    edge = max(1, int(rng.uniform(0.02, 0.07) * min(height, width)))
    pixels[edge:-edge, edge:-edge] = colour
    if rng.random() < 0.5:
        bar = int(rng.uniform(0.03, 0.08) * height)
        pixels[edge : edge + bar, edge:-edge] = any_colour(rng)
    if rng.random() < 0.3:
        ramp = np.linspace(0, rng.uniform(0, 60), width)[:, None]
        pixels[...] = cv2.add(pixels, np.broadcast_to(ramp, pixels.shape).astype(np.uint8))
    return pixels, colour
