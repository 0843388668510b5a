"""The pictures of `evaluate`: photos with the maps of every row, the best and the worst ones."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from realtime_lrp.commands.evaluate.rows import CHANCE, Measurement
from realtime_lrp.config import Config
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.strength import strength
from realtime_lrp.video.region import resize
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import Painter, lay_over
from realtime_lrp.view.sheet import contact_sheet
from realtime_lrp.view.text import broken, draw_lines, text_size, wrapped

TILE = 160
"""Side of a picture on the sheet, in pixels."""

HEADING_ROWS, GAP = 56, 4
"""Pixels above a column for its name, and between its pictures."""

ONE_BAND = 8
"""So many maps of a picture stand side by side; more in two bands."""

CAPTION_ROWS = 340
"""The height of a picture whose letters have the size of a caption."""

CAPTION_LINES = 4
"""A longer caption is cut."""

EXAMPLES = 3
"""How many of the best and of the worst pictures are shown."""

RANKED_BY = "mass"
"""The figure that says which pictures are the best; it rarely ties."""

PICTURE = "picture"
"""The heading above the pictures."""

Captions = Mapping[str, Sequence[str]]
"""Name of a row, or `PICTURE` -> a text for each of its tiles."""


def best_and_worst(measurement: Measurement) -> tuple[list[int], list[int]]:
    """The samples on which the maps are best and worst, by the mean mass accuracy of all rows.

    Returns:
      Numbers of samples, the best one first and the worst one last; at most `EXAMPLES` each.
    """
    rows = [row.values[RANKED_BY] for row in measurement.rows if row.name != CHANCE]
    order = np.argsort(-np.mean(rows, axis=0), kind="stable").tolist()
    return order[:EXAMPLES], order[EXAMPLES:][-EXAMPLES:]


def example_captions(measurement: Measurement, chosen: tuple[list[int], list[int]]) -> Captions:
    """Names the chosen samples, and says of each map how much of it is on the object."""
    samples = [index for part in chosen for index in part]
    kinds = ["best"] * len(chosen[0]) + ["worst"] * len(chosen[1])
    names = [f"{kind}: {measurement.samples[i]}" for kind, i in zip(kinds, samples, strict=True)]
    figures = {
        row.name: [f"{RANKED_BY} {row.values[RANKED_BY][index]:.2f}" for index in samples]
        for row in measurement.rows
        if row.name != CHANCE
    }
    return {PICTURE: names, **figures}


def map_sheet(
    config: Config,
    pictures: np.ndarray,
    maps: Mapping[str, np.ndarray],
    stride: tuple[int, int],
    captions: Captions | None = None,
) -> np.ndarray:
    """Draws pictures with the maps of every row; of many rows composites above, methods below.

    Args:
      config: its colour map and opacity are used.
      pictures: uint8 [N, h, w, 3] RGB.
      maps: name of a row -> float32 [N, h, w].
      stride: the explainer's; see `strength`.
      captions: texts at the bottom of the tiles, or None.

    Returns:
      uint8 [height, width, 3] RGB.
    """
    painter = Painter(False, replace(Look.of(config.overlay), style="heat"), 0.0)
    thumbnails = [resize(picture, (TILE, TILE)) for picture in pictures]
    captions = captions or {}
    columns = {
        name: _column(name, _overlaid(painter, thumbnails, shown, stride), captions)
        for name, shown in maps.items()
    }
    composites = [column for name, column in columns.items() if name in COMPOSITES]
    methods = [column for name, column in columns.items() if name not in COMPOSITES]
    bands = [composites, methods] if len(columns) > ONE_BAND else [[*columns.values()]]
    width = 1 + max(map(len, bands))
    tiles = []
    for band in filter(None, bands):
        blank = np.full_like(band[0], 255)
        tiles += [_column(PICTURE, thumbnails, captions), *band, *[blank] * (width - 1 - len(band))]
    return contact_sheet(tiles, width)


def _overlaid(
    painter: Painter, thumbnails: Sequence[np.ndarray], maps: np.ndarray, stride: tuple[int, int]
) -> list[np.ndarray]:
    inner = (0, 0, maps.shape[2], maps.shape[1])
    compressed = strength(np.maximum(maps[..., None], 0), stride=stride)
    strengths, scales = (tensor.numpy() for tensor in compressed)
    return [
        lay_over(thumbnail, painter(one, scale, (0, 0, TILE, TILE), inner))
        for thumbnail, one, scale in zip(thumbnails, strengths, scales, strict=True)
    ]


def caption_lines(caption: str, width: int, size: int) -> list[str]:
    """A caption in lines of at most `width` pixels; long names break anywhere."""
    lines = [part for line in wrapped(caption, width, size) for part in broken(line, width, size)]
    if len(lines) > CAPTION_LINES:  # names that begin alike differ at their ends
        lines = [*lines[: CAPTION_LINES - 2], "…", lines[-1]]
    return lines


def _column(name: str, tiles: Sequence[np.ndarray], captions: Captions) -> np.ndarray:
    heading = np.zeros((HEADING_ROWS, TILE, 3), np.uint8)
    lines = [line.replace("_ ", "_") for line in textwrap.wrap(name.replace("_", "_ "), 16)]
    draw_lines(heading, lines, (0, 0, TILE, 450), bottom=False)
    tiles = [tile.copy() for tile in tiles]
    for tile, caption in zip(tiles, captions.get(name, ()), strict=False):
        size = text_size(CAPTION_ROWS)
        lines = caption_lines(caption, TILE - size, size)
        draw_lines(tile, lines, (0, TILE - CAPTION_ROWS, TILE, TILE), bottom=True)
    gap = np.full((GAP, TILE, 3), 255, np.uint8)
    return np.concatenate([heading, *(part for tile in tiles for part in (gap, tile))])
