"""The regions of a segmentation as they are drawn and named.

Must not import TensorFlow: the live view opens its window before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.engine.result import Result, Segments
from realtime_lrp.system.geometry import Box
from realtime_lrp.video.libraries import cv2
from realtime_lrp.view.painting import COLOURS, PALE, Outline

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

LEAST = 0.01  # smaller regions, as a share of the picture, get no outline
FINE = 240  # answers with fewer rows or columns are enlarged before their edges are smoothed
POINT = 0.012  # radius of the circle around a single place, as a share of the picture


def class_name(engine: Engine, index: int) -> str:
    """The name of a class as people read it; -1 stands for all others together."""
    return "the others" if index < 0 else engine.label(index)


def area_list(engine: Engine, segments: Segments) -> list[tuple[str, float]]:
    """Each class with the share of the picture that it covers, the largest first."""
    return [(engine.label(index), area) for index, area in segments.areas()]


def why(engine: Engine, segments: Segments) -> str:
    """The explained class in words: why: “cat”, not “background”, here."""
    other = class_name(engine, segments.other)
    other = other if segments.other < 0 else f"“{other}”"
    against = f", not {other}" if segments.contrast else ""
    return f"why: “{class_name(engine, segments.label)}”{against}, here"


def colour_of_class(engine: Engine, index: int) -> tuple[int, int, int]:
    """The colour in which regions of a class are drawn, RGB."""
    return PALE if index == engine.explainer.background else COLOURS[index % len(COLOURS)]


def region_outlines(
    engine: Engine,
    result: Result,
    segments: Segments,
    name: Callable[[str], str],
    inside: str,
) -> tuple[Outline, ...]:
    """The outlines of regions with names, which `name` may translate, the explained one first."""

    def named(index: int, area: float) -> str:
        return f"{name(engine.label(index))} {100 * area:.0f} %"

    own = segments.region.astype(np.uint8)
    single = own.sum() == 1
    below = "" if single else inside.replace("{share}", f"{100 * segments.inside:.0f} %")
    above = name(engine.label(segments.label)) if single else named(segments.label, segments.area)
    drawn = _outline(result, own, colour_of_class(engine, segments.label), single)
    outlines = [drawn._replace(above=above, below=below)]
    for index, mask, area in _regions(segments):
        whole = not single and segments.region[mask > 0].any()
        if index != engine.explainer.background and not whole:
            drawn = _outline(result, mask, colour_of_class(engine, index))
            outlines.append(drawn._replace(above=named(index, area), strong=False))
    return tuple(outlines)


def _regions(segments: Segments) -> Iterator[tuple[int, np.ndarray, float]]:
    """The class, mask (uint8 [h, w]) and area of each connected region that is large enough."""
    for index, area in segments.areas():
        if area < LEAST:
            return
        for mask, count in _connected(segments.classes == index):
            if count >= LEAST * mask.size:
                yield index, mask, count / mask.size


def _connected(same: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """The connected parts of a mask, bool [h, w], with their sizes, the largest first."""
    _, numbers, figures, _ = cv2.connectedComponentsWithStats(same.astype(np.uint8), connectivity=4)
    counts = figures[1:, cv2.CC_STAT_AREA]
    order = np.argsort(-counts, kind="stable")
    return [((numbers == n + 1).astype(np.uint8), int(counts[n])) for n in order]


def row_column(
    segments: Segments, seen: Box, shape: Sequence[int], at: tuple[float, float]
) -> tuple[int, int]:
    """The row and column at x, y in shares of a picture of a shape, which shows what is `seen`."""
    x0, y0, x1, y1 = seen
    rows, columns = segments.classes.shape
    row = int((at[1] * shape[0] - y0) / (y1 - y0) * rows)
    column = int((at[0] * shape[1] - x0) / (x1 - x0) * columns)
    return min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)


def place_of(
    segments: Segments, seen: Box, shape: Sequence[int], row: int, column: int
) -> tuple[float, float]:
    """The middle of a row and column, x and y, as `row_column` takes it."""
    x0, y0, x1, y1 = seen
    rows, columns = segments.classes.shape
    x = x0 + (column + 0.5) * (x1 - x0) / columns
    y = y0 + (row + 0.5) * (y1 - y0) / rows
    return x / shape[1], y / shape[0]


def inmost_place(segments: Segments, index: int) -> tuple[int, int] | None:
    """The row and column deepest inside the largest region of a class; None without a region."""
    for mask, _ in _connected(segments.classes == index):
        depth = cv2.distanceTransform(mask, cv2.DIST_L2, 3)
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        return int(row), int(column)
    return None


def _outline(
    result: Result, mask: np.ndarray, colour: tuple[int, int, int], point: bool = False
) -> Outline:
    """The outline of a mask of places, uint8 [h, w]; of a single one a circle around it."""
    x0, y0, x1, y1 = result.region.box
    rows, columns = mask.shape
    if point:
        ((row, column),) = np.argwhere(mask)
        angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
        radius = max(POINT * max(rows, columns), 0.5)
        x, y = column + 0.5 + radius * np.cos(angles), row + 0.5 + radius * np.sin(angles)
        lines = [np.stack([x, y], -1)]
    else:
        factor = max(1, -(-FINE // min(rows, columns)))
        fine = np.kron(mask, np.ones((factor, factor), np.uint8))
        found, _ = cv2.findContours(np.pad(fine, 1), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
        smooth = (cv2.approxPolyDP(line, 1.0, True)[:, 0] for line in found)
        lines = [(line - 0.5) / factor for line in smooth if len(line) > 2]
    scale = np.array([(x1 - x0) / columns, (y1 - y0) / rows])
    placed = [line * scale + (x0, y0) for line in lines]
    every = np.concatenate(placed) if placed else np.array([[x0, y0], [x1, y1]])
    low, high = every.min(0).tolist(), every.max(0).tolist()
    drawn = tuple(tuple(map(tuple, np.round(line, 1).tolist())) for line in placed)
    return Outline((*low, *high), "", "", colour, drawn)
