"""The pictures of `evaluate`: photos with the maps of every row, the best and the worst ones."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from realtime_lrp.commands.evaluate.plots import DPI, new_figure
from realtime_lrp.commands.evaluate.rows import CHANCE, Measurement
from realtime_lrp.config import Config
from realtime_lrp.notebook.html import drawable
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.results.figure import figure_pixels
from realtime_lrp.video.region import resize
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import Painter, lay_over

TILE = 160
"""Side of a picture on the sheet, in pixels."""

ONE_BAND = 8
"""Up to this many maps of a picture stand side by side; more in two bands."""

LETTERS = 22
"""How many letters fit below a picture in one line."""

EXAMPLES = 3
"""How many of the best and of the worst pictures are shown."""

RANKED_BY = "mass"
"""The figure that says which pictures are the best; it rarely ties."""

PICTURE = "picture"
"""The heading above the pictures."""

Captions = Mapping[str, Sequence[str]]
"""Name of a row, or `PICTURE` -> a text for each of its pictures."""


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
      captions: texts below the pictures, or None.

    Returns:
      uint8 [height, width, 3] RGB.
    """
    painter = Painter(False, replace(Look.of(config.overlay), style="heat"), 0.0)
    thumbnails = [resize(picture, (TILE, TILE)) for picture in pictures]
    methods = [name for name in maps if name not in COMPOSITES] if len(maps) > ONE_BAND else []
    bands = [[name for name in maps if name not in methods], methods]
    width = 1 + max(map(len, bands))
    rows = len(pictures) * len([band for band in bands if band])
    figure = new_figure(1.25 * width, (1.5 if captions else 1.35) * rows, "")
    grid = figure.subplots(rows, width, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    first = 0
    for band in filter(None, bands):
        for column, name in enumerate((PICTURE, *band)):
            shown = thumbnails
            if name != PICTURE:
                shown = _overlaid(painter, thumbnails, maps[name], stride)
            grid[first, column].set_title(name, fontsize=6)
            for number, picture in enumerate(shown):
                axes = grid[first + number, column]
                axes.imshow(picture)
                if captions:
                    text = textwrap.fill(drawable(captions[name][number]), LETTERS)
                    axes.text(0.5, -0.04, text, transform=axes.transAxes, ha="center", va="top",
                              fontsize=6, parse_math=False)  # fmt: skip
        first += len(pictures)
    return figure_pixels(figure, DPI)


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
