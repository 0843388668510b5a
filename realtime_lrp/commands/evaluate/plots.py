"""Plots of `evaluate`: curves of deletion and insertion, and photos with the maps of every row."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.evaluation.metrics import CHANCE, Measurement, intervals
from realtime_lrp.notebook.figure import drawable, new_figure, pixels_of
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.video.region import resize
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import Drawn, lay_over, paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150

CURVES = {
    "deletion": ("#c1440e", "deletion, low is good"),
    "insertion": ("#1f5fa8", "insertion, high is good"),
}
GREY = "#888888"

TILE = 160  # longer side of a picture on the sheet, in pixels
ACROSS = 8  # maps of a picture side by side; more of them stand in further bands
LETTERS = 22  # that fit below a picture in one line
SHOWN = 3  # pictures on the sheet, and of the best and of the worst among the examples
RANKED_BY = "mass"  # the figure that says which pictures are the best; it rarely ties
PICTURE = "picture"  # the heading above the pictures
Captions = Mapping[str, Sequence[str]]  # name of a row, or `PICTURE` -> a text for each picture


def curves_plot(title: str, measurement: Measurement) -> "Figure":
    """Draws the mean curves of every row with the band of their intervals, over chance's curves."""
    *rows, chance = measurement.rows
    positions = measurement.patches_taken / measurement.patches_taken[-1]
    columns = min(4, len(rows))
    lines = -(-len(rows) // columns)
    figure = new_figure(max(2.4 * columns + 0.6, 6.4), 2.1 * lines + 1.2, title, DPI)
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes in panels.flat[len(rows) :]:
        axes.set_visible(False)
    for number, (row, axes) in enumerate(zip(rows, panels.flat, strict=False)):
        for kind, (colour, label) in CURVES.items():
            axes.plot(positions, chance.curves[kind].mean(axis=1), "--", color=GREY, lw=1)
            curve = row.curves[kind]
            ends = intervals(curve.T, measurement.photos).T
            axes.fill_between(positions, *ends, color=colour, alpha=0.25, lw=0)
            axes.plot(positions, curve.mean(axis=1), color=colour, lw=1.5, label=label)
        axes.set_title(row.name, fontsize=9)
        axes.set_xticks([0, 0.5, 1])
        if number + columns >= len(rows):
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("share of patches changed", fontsize=9)
    for axes in panels[:, 0]:
        axes.set_ylabel("probability", fontsize=9)
    panels[0, 0].plot([], [], "--", color=GREY, label="both in random order")
    named = panels[0, 0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def best_and_worst(measurement: Measurement) -> tuple[list[int], Captions]:
    """The samples with the best and with the worst maps, `SHOWN` each, and their captions."""
    masses = {row.name: row.values[RANKED_BY] for row in measurement.rows if row.name != CHANCE}
    order = np.argsort(-np.mean([*masses.values()], axis=0), kind="stable").tolist()
    best = order[:SHOWN]
    worst = order[SHOWN:][-SHOWN:]
    chosen = [*best, *worst]
    names = [f"best: {measurement.samples[i]}" for i in best]
    names += [f"worst: {measurement.samples[i]}" for i in worst]
    figures = {
        name: [f"{RANKED_BY} {mass[i]:.2f}" for i in chosen] for name, mass in masses.items()
    }
    return chosen, {PICTURE: names, **figures}


def map_sheet(
    config: Config, pictures: np.ndarray, maps: Mapping[str, np.ndarray], stride: tuple[int, int],
    captions: Captions | None = None,
) -> np.ndarray:  # fmt: skip
    """Draws pictures, uint8 [N, h, w, 3] RGB, with the maps of every row, float32 [N, h, w]."""
    look = replace(Look.of(config.overlay), style="heat")
    share = TILE / max(pictures.shape[1:3])
    size = round(share * pictures.shape[1]), round(share * pictures.shape[2])
    thumbnails = [resize(picture, size) for picture in pictures]
    names = [*maps]
    bands = [names[first : first + ACROSS] for first in range(0, len(names), ACROSS)]
    width = 1 + len(bands[0])
    rows = len(pictures) * len(bands)
    figure = new_figure(1.25 * width, (1.5 if captions else 1.35) * rows, dpi=DPI)
    grid = figure.subplots(rows, width, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for band_number, band in enumerate(bands):
        first = band_number * len(pictures)
        for column, name in enumerate((PICTURE, *band)):
            plain = name == PICTURE
            shown = thumbnails if plain else _overlaid(look, thumbnails, maps[name], stride)
            grid[first, column].set_title(name, fontsize=6)
            for number, picture in enumerate(shown):
                axes = grid[first + number, column]
                axes.imshow(picture)
                if captions:
                    text = textwrap.fill(drawable(captions[name][number]), LETTERS)
                    axes.text(0.5, -0.04, text, transform=axes.transAxes, ha="center", va="top",
                              fontsize=6, parse_math=False)  # fmt: skip
    return pixels_of(figure)


def _overlaid(
    look: Look, thumbnails: Sequence[np.ndarray], maps: np.ndarray, stride: tuple[int, int]
) -> list[np.ndarray]:
    strengths, scales = strength(np.maximum(maps[..., None], 0), stride=stride)
    drawn = map(Drawn, strengths.numpy(), scales.numpy())
    return [
        lay_over(one, paint(one, [shown], look, (0, 0, *one.shape[1::-1])).overlays[0])
        for one, shown in zip(thumbnails, drawn, strict=True)
    ]
