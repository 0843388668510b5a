"""Draws the summary of a recording or a folder: small frames, probabilities and relevance."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.results.figure import figure_png

COLUMNS = 4
LABELS = 5
"""How many labels get a line: those with the highest probability anywhere."""

GAP, GAP_S = 20, 2.0
"""Frames are apart by a gap if more than `GAP` times the usual step and `GAP_S` lie between."""

Figure = Any
_Row = tuple[float, dict[str, float], float]
"""Position on the axis, probability of each label, sum of relevance."""


@dataclass(frozen=True)
class Curves:
    """What a timeline draws. All lists are of one length; in gaps and where it is unknown is NaN.

    Attributes:
      positions: on the horizontal axis.
      unit: its label.
      probabilities: of the labels with the highest probability anywhere, highest first.
      relevance: the sum of relevance.
    """

    positions: list[float]
    unit: str
    probabilities: dict[str, list[float]]
    relevance: list[float]


class Timeline:
    """Probabilities and relevance of explained frames, thinned out if there are too many.

    Args:
      unit: label of the horizontal axis.
      style: "-" joins successive frames by a line, "o" draws a dot for each.

    Attributes:
      most: maximum number of frames.
    """

    most = 20_000

    def __init__(self, unit: str = "seconds", style: str = "-"):
        self._unit, self._style = unit, style
        self._rows: list[_Row] = []
        self._step, self._count = 1, 0

    def add(self, at: float, row: Mapping[str, Any]) -> None:
        """Adds a frame: its position on the axis, and its `map_record`."""
        if self._count % self._step == 0:
            top = {one["label"]: one["probability"] for one in row["top5"]}
            self._rows.append((at, top, row["relevance_sum"]))
            if len(self._rows) > self.most:
                self._rows, self._step = self._rows[::2], 2 * self._step
        self._count += 1

    def curves(self) -> Curves:
        """What is drawn of the frames so far."""
        positions, rows, unit = self._positions()
        highest: dict[str, float] = {}
        for _, top, _ in self._rows:
            for label, share in top.items():
                highest[label] = max(share, highest.get(label, 0.0))
        chosen = sorted(highest, key=lambda name: highest[name], reverse=True)[:LABELS]
        probabilities = {
            label: [row[1].get(label, np.nan) if row else np.nan for row in rows]
            for label in chosen
        }
        return Curves(positions, unit, probabilities, [row[2] if row else np.nan for row in rows])

    def draw(self, probabilities: Figure, relevance: Figure) -> None:
        """Draws into two axes."""
        curves = self.curves()
        for label, shares in curves.probabilities.items():
            probabilities.plot(
                curves.positions, shares, self._style, label=label.replace("_", " "), linewidth=1.2
            )
        largest = float(np.nanmax(next(iter(curves.probabilities.values()))))
        probabilities.set(ylabel="probability", ylim=(0, min(1.02, 1.1 * largest + 0.02)))
        legend = probabilities.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        relevance.plot(
            curves.positions, curves.relevance, self._style, color="black", linewidth=1.0
        )
        relevance.set(ylabel="sum of relevance", xlabel=curves.unit)
        for axes in (probabilities, relevance):
            axes.margins(x=0.01)
            axes.grid(alpha=0.3)
            if self._style == "o":
                axes.xaxis.get_major_locator().set_params(integer=True)

    def _positions(self) -> tuple[list[float], list[_Row | None], str]:
        """Where each row is drawn, with None in every gap in time; and the label of the axis.

        If most of the axis would be gaps, the rows are drawn side by side instead.
        """
        times = [row[0] for row in self._rows]
        steps = np.abs(np.diff(times))
        usual = np.median(steps) if len(steps) else 0.0
        gaps = steps > max(GAP_S, GAP * usual)
        if self._style == "o" or not gaps.any():
            return times, list(self._rows), self._unit
        at, unit = times, self._unit
        if steps[gaps].sum() > steps.sum() / 2:
            at = [float(number * self._step) for number in range(len(times))]
            first = int(gaps.argmax())
            jumps = f"{gaps.sum()} gaps, the first" if gaps.sum() > 1 else "a gap"
            where = f"{times[first]:.2f} to {times[first + 1]:.2f} {self._unit}"
            unit = f"explained frames ({jumps} from {where})"
        positions: list[float] = []
        rows: list[_Row | None] = []
        for number, row in enumerate(self._rows):
            if number and gaps[number - 1]:
                positions.append(at[number])
                rows.append(None)
            positions.append(at[number])
            rows.append(row)
        return positions, rows, unit


def write_summary(
    path: Path,
    title: str,
    thumbnails: Sequence[tuple[str, np.ndarray]],
    timeline: Timeline,
    description: str,
    most: int = 12,
) -> None:
    """Writes a PNG: small pictures in rows of `COLUMNS`, below them the timeline.

    Args:
      path: the file.
      title: the text at the top.
      thumbnails: (caption, uint8 [h, w, 3] RGB).
      timeline: of the same pictures.
      description: kept in the file, see `write_picture`.
      most: maximum number of thumbnails; more are thinned out evenly.
    """
    from matplotlib.figure import Figure

    chosen = np.linspace(0, len(thumbnails) - 1, min(most, len(thumbnails))).round().astype(int)
    rows = -(-len(chosen) // COLUMNS)
    tall = 3.0 * min(1.0, max(p.shape[0] / p.shape[1] for _, p in thumbnails)) + 0.3
    figure = Figure(figsize=(13, rows * tall + 4.8), dpi=110, layout="constrained")
    figure.suptitle(_drawable(title), parse_math=False)
    heights = [max(rows * tall, 0.1), 4.2]
    pictures, lines = figure.subfigures(2, 1, squeeze=False, height_ratios=heights).flat
    for axes in (grid := pictures.subplots(rows, COLUMNS, squeeze=False)).flat:
        axes.axis("off")
    for axes, number in zip(grid.flat, chosen, strict=False):
        caption, picture = thumbnails[number]
        axes.imshow(picture)
        axes.set_title(_drawable(caption), fontsize=9, parse_math=False)
    timeline.draw(*lines.subplots(2, 1, sharex=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font lacks
        path.write_bytes(figure_png(figure, description))


def _drawable(text: str) -> str:
    """The text with escapes for what cannot be drawn, which file names may hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
