"""Draws the summary of a recording: small frames, probabilities and relevance."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.notebook.figure import drawable, new_figure, pixels_of
from realtime_lrp.relevance.maps.targets import tidied
from realtime_lrp.video.pictures import encode_picture

COLUMNS = 4
LABELS = 5  # how many labels get a line: those with the highest probability anywhere

GAP = 20  # usual steps; where more than that, and `GAP_S`, lie between frames, there is a gap
GAP_S = 2.0


class SummaryPlot:
    """Probabilities and relevance of frames, thinned out; of boxes the surest of each class."""

    most = 20_000

    def __init__(self) -> None:
        self._rows: list[tuple[float, dict[str, float], dict[str, float]]] = []
        self._of_boxes = False
        self._step = 1
        self._count = 0

    def add(self, at: float, row: Mapping[str, Any]) -> None:
        """Adds a frame: its position on the axis, and its `map_record`."""
        if self._count % self._step == 0:
            top = {one["label"]: one["probability"] for one in row["top5"]}
            below = {"": row["relevance_sum"]}
            if "boxes" in row:
                self._of_boxes = True
                surest = {one["label"]: one for one in reversed(row["boxes"])}
                top = {label: one["score"] for label, one in surest.items()}
                below = {label: one["inside"] for label, one in surest.items()}
            self._rows.append((at, top, below))
            if len(self._rows) > self.most:
                self._rows = self._rows[::2]
                self._step = 2 * self._step
        self._count += 1

    def draw(self, probabilities: Any, relevance: Any) -> None:
        """Draws into two axes; lines break where there is a gap in time."""
        times, tops, below = zip(*self._rows, strict=True)
        steps = np.abs(np.diff(times))
        usual = np.median(steps) if len(steps) else 0.0
        gaps = steps > max(GAP_S, GAP * usual)
        at = np.array(times, float)
        breaks = np.flatnonzero(gaps) + 1

        def line(axes: Any, values: list[float], **style: Any) -> None:
            shown = np.insert(np.array(values, float), breaks, np.nan)
            axes.plot(np.insert(at, breaks, at[breaks]), shown, **style)

        highest: dict[str, float] = {}
        for top in tops:
            for label, share in top.items():
                highest[label] = max(share, highest.get(label, 0.0))
        for label in sorted(highest, key=lambda name: highest[name], reverse=True)[:LABELS]:
            shares = [top.get(label, np.nan) for top in tops]
            line(probabilities, shares, label=tidied(label), linewidth=1.2)
            if self._of_boxes:
                line(relevance, [one.get(label, np.nan) for one in below], linewidth=1.2)
        largest = max(highest.values(), default=1.0)
        probabilities.set(ylim=(0, min(1.02, 1.1 * largest + 0.02)))
        legend = probabilities.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        relevance.set(xlabel="seconds")
        if self._of_boxes:
            probabilities.set(ylabel="score of the surest box")
            relevance.set(ylabel="relevance inside it", ylim=(0, 1.02))
        else:
            probabilities.set(ylabel="probability")
            relevance.set(ylabel="sum of relevance")
            line(relevance, [one[""] for one in below], color="black", linewidth=1.0)
        for axes in (probabilities, relevance):
            axes.margins(x=0.01)
            axes.grid(alpha=0.3)


def write_summary(
    path: Path, title: str, thumbnails: Sequence[tuple[str, np.ndarray]], timeline: SummaryPlot,
    description: str,
) -> None:  # fmt: skip
    """Writes a PNG: captioned thumbnails, uint8 [h, w, 3] RGB, in rows, below them the timeline."""
    rows = -(-len(thumbnails) // COLUMNS)
    tall = 3.0 * min(1.0, max(p.shape[0] / p.shape[1] for _, p in thumbnails)) + 0.3
    figure = new_figure(13, rows * tall + 4.8, title, dpi=110)
    heights = [max(rows * tall, 0.1), 4.2]
    pictures, lines = figure.subfigures(2, 1, squeeze=False, height_ratios=heights).flat
    for axes in (grid := pictures.subplots(rows, COLUMNS, squeeze=False)).flat:
        axes.axis("off")
    for axes, (caption, picture) in zip(grid.flat, thumbnails, strict=False):
        axes.imshow(picture)
        axes.set_title(drawable(caption), fontsize=9, parse_math=False)
    timeline.draw(*lines.subplots(2, 1, sharex=True))
    path.write_bytes(encode_picture(".png", pixels_of(figure), description))
