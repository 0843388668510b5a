"""What `evaluate` shows: its table and its picture."""

import textwrap
from collections.abc import Mapping
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from realtime_lrp.config import Config
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.strength import strength
from realtime_lrp.video.region import resize
from realtime_lrp.view.overlay import Painter, lay_over
from realtime_lrp.view.sheet import contact_sheet
from realtime_lrp.view.text import draw_lines

SHOWN = 3  # pictures in --picture
TILE = 160  # their side there

COLUMNS = {
    "pointing": ("point", "the largest entry is on the object: share of pictures"),
    "mass": ("mass", "share of the relevance that is on the object"),
    "rank": ("rank", "of as many largest entries as the object has pixels, the share on it"),
    "deletion": ("delete", "probability left while patches blur, most relevant first: low is good"),
    "insertion": ("insert", "probability while they come back, most relevant first: high is good"),
    "last_layer": ("last", "likeness to the map of a network whose last layer has forgotten"),
    "all_layers": ("all", "... whose layers have all forgotten: 1 is a map that shows no learning"),
    "other_class": ("other", "likeness to the map of the next class: 1 is a map that names none"),
}
"""Figure of a row -> (head of its column, what it is)."""


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report as a table and its explanation, plain text."""
    table = Table("", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for head, _ in COLUMNS.values():
        table.add_column(head, justify="right")
    for row in report["rows"]:
        figures = [row.get(name) for name in COLUMNS]
        table.add_row(row["name"], *("-" if f is None else f"{f:.3f}" for f in figures))
    text = StringIO()
    Console(file=text, width=120).print(table)
    rows = [line.rstrip() for line in text.getvalue().splitlines()]
    first = f"{report['network']}, {report['pictures']} pictures; the object: {report['object']}"
    return [first, "", *rows, "", *(f"{head:7} {what}" for head, what in COLUMNS.values())]


def sheet(config: Config, pictures: np.ndarray, maps: dict[str, np.ndarray]) -> np.ndarray:
    """The first pictures and every row's maps over them; composites above, methods below."""
    painter = Painter(config.overlay.colormap or "fire", config.overlay.opacity, 0.0)
    views = [resize(picture, (TILE, TILE)) for picture in pictures[:SHOWN]]
    columns = {}
    for name, shown in maps.items():
        inner = (0, 0, shown.shape[2], shown.shape[1])
        drawn = strength(np.maximum(shown[:SHOWN, ..., None], 0))
        rows = zip(*(part.numpy() for part in drawn), strict=True)
        overlays = [painter(one, scale, (0, 0, TILE, TILE), inner) for one, scale in rows]
        tiles = [lay_over(view, overlay) for view, overlay in zip(views, overlays, strict=True)]
        columns[name] = _column(name, tiles)
    composites = [columns[name] for name in columns if name in COMPOSITES]
    methods = [columns[name] for name in columns if name not in COMPOSITES]
    width = 1 + max(len(composites), len(methods))
    tiles = []
    for band in filter(None, (composites, methods)):
        blank = np.full_like(band[0], 255)
        tiles += [_column("picture", views), *band, *[blank] * (width - 1 - len(band))]
    return contact_sheet(tiles, width)


def _column(name: str, tiles: list[np.ndarray]) -> np.ndarray:
    head = np.zeros((56, TILE, 3), np.uint8)
    draw_lines(head, textwrap.wrap(name.replace("_", " "), 16), (0, 0, TILE, 450), bottom=False)
    gap = np.full((4, TILE, 3), 255, np.uint8)
    return np.concatenate([head, *(part for tile in tiles for part in (gap, tile))])
