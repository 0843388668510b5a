"""What `evaluate` shows: its table of figures and its picture of maps."""

import textwrap
from collections.abc import Mapping
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from realtime_lrp.commands.evaluate.bootstrap import RESAMPLES
from realtime_lrp.config import Config
from realtime_lrp.relevance.account import CHOOSE_COMPOSITE, FLOOD
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.strength import strength
from realtime_lrp.video.region import resize
from realtime_lrp.view.overlay import Painter, lay_over
from realtime_lrp.view.sheet import contact_sheet
from realtime_lrp.view.text import draw_lines

PICTURES_SHOWN = 3
TILE = 160
"""Side of a picture on the sheet, in pixels."""

HEADING_ROWS, GAP = 56, 4
"""Pixels above a column for its name, and between its pictures."""

COLUMNS = {
    "pointing": ("point", "share of pictures whose largest relevance is on the object"),
    "mass": ("mass", "share of the relevance that is on the object"),
    "rank": ("rank", "share of the N largest entries on the object, which has N pixels"),
    "deletion": ("delete", "mean probability as patches blur, most relevant first: low is good"),
    "insertion": ("insert", "mean probability as they come back, same order: high is good"),
    "last_layer": ("last", "similarity to the map after the last layer has been randomised"),
    "all_layers": ("all", "... after all layers: near 1, the map ignores what was learnt"),
    "other_class": ("other", "similarity to the next class's map: near 1, it ignores the class"),
}
"""Key in the JSON file -> (heading in the table, explanation below it)."""


def table_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as plain text: the table and the explanation of its columns."""
    table = Table("", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for heading, _ in COLUMNS.values():
        table.add_column(heading, justify="right")
    for row in report["rows"]:
        name = f"{row['name']} !" if row.get("flooded") else row["name"]
        table.add_row(name, *(_cell(row, key) for key in COLUMNS))
    text = StringIO()
    Console(file=text, width=140).print(table)
    rows = [line.rstrip() for line in text.getvalue().splitlines()]
    title = f"{report['network']}, {report['pictures']} pictures; the object: {report['object']}"
    explanations = [f"{heading:7} {meaning}" for heading, meaning in COLUMNS.values()]
    explanations += [
        f"±       half the 95 % interval, bootstrap over the pictures, {RESAMPLES} times",
        "*       the best of a column, and what cannot be told from it on these pictures (95 %)",
    ]
    flooded = [f"{row['flooded']} of {row['name']}" for row in report["rows"] if row.get("flooded")]
    if flooded:
        explanations.append(
            f"!       maps that explain nothing: relevance grew more than {FLOOD:.0f} times on its "
            f"way: {', '.join(flooded)}; {CHOOSE_COMPOSITE}"
        )
    return [title, "", *rows, "", *explanations]


def _cell(row: Mapping[str, Any], key: str) -> str:
    """A figure with its interval: "0.988±.012*"."""
    if row.get(key) is None:
        return "-"
    text = f"{row[key]:.3f}"
    if interval := row.get("intervals", {}).get(key):
        half = (interval[1] - interval[0]) / 2
        text += f"±{half:.3f}".replace("±0.", "±.")
    behind = row.get("from_best", {}).get(key)
    tied = behind and behind["interval"][0] <= 0 <= behind["interval"][1]
    return text + ("*" if tied else " ")


def map_sheet(
    config: Config, pictures: np.ndarray, maps: dict[str, np.ndarray], stride: tuple[int, int]
) -> np.ndarray:
    """Draws the first pictures with the maps of every row: composites above, methods below.

    Args:
      config: its colour map and opacity are used.
      pictures: uint8 [N, h, w, 3] RGB.
      maps: name of a row -> float32 [n, h, w].
      stride: the explainer's; see `strength`.

    Returns:
      uint8 [height, width, 3] RGB.
    """
    painter = Painter(config.overlay.colormap or "fire", config.overlay.opacity, 0.0)
    thumbnails = [resize(picture, (TILE, TILE)) for picture in pictures[:PICTURES_SHOWN]]
    columns = {
        name: _map_column(name, painter, thumbnails, shown, stride) for name, shown in maps.items()
    }
    composites = [column for name, column in columns.items() if name in COMPOSITES]
    methods = [column for name, column in columns.items() if name not in COMPOSITES]
    width = 1 + max(len(composites), len(methods))
    tiles = []
    for band in filter(None, (composites, methods)):
        blank = np.full_like(band[0], 255)
        tiles += [_column("picture", thumbnails), *band, *[blank] * (width - 1 - len(band))]
    return contact_sheet(tiles, width)


def _map_column(
    name: str,
    painter: Painter,
    thumbnails: list[np.ndarray],
    maps: np.ndarray,
    stride: tuple[int, int],
) -> np.ndarray:
    inner = (0, 0, maps.shape[2], maps.shape[1])
    compressed = strength(np.maximum(maps[: len(thumbnails), ..., None], 0), stride=stride)
    strengths, scales = (tensor.numpy() for tensor in compressed)
    tiles = [
        lay_over(thumbnail, painter(one, scale, (0, 0, TILE, TILE), inner))
        for thumbnail, one, scale in zip(thumbnails, strengths, scales, strict=True)
    ]
    return _column(name, tiles)


def _column(name: str, tiles: list[np.ndarray]) -> np.ndarray:
    heading = np.zeros((HEADING_ROWS, TILE, 3), np.uint8)
    lines = textwrap.wrap(name.replace("_", " "), 16)
    draw_lines(heading, lines, (0, 0, TILE, 450), bottom=False)
    gap = np.full((GAP, TILE, 3), 255, np.uint8)
    return np.concatenate([heading, *(part for tile in tiles for part in (gap, tile))])
