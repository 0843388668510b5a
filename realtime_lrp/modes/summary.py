"""A picture that sums up a recording: small frames, probabilities and relevance over time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 4
LABELS = 5
"""How many labels get a line of their own."""

Figure = Any


class Timeline:
    """The figures of a recording's explained frames; of long ones every other, again and again.

    Attributes:
      most: how many are kept at most.
    """

    most = 20_000

    def __init__(self):
        self._rows: list[tuple[float, dict[str, float], float]] = []
        self._step, self._count = 1, 0

    def add(self, seconds: float, row: Mapping[str, Any]) -> None:
        """Takes what `described` says of a frame."""
        if self._count % self._step == 0:
            top = {one["label"]: one["probability"] for one in row["top5"]}
            self._rows.append((seconds, top, row["relevance_sum"]))
            if len(self._rows) > self.most:
                self._rows, self._step = self._rows[::2], 2 * self._step
        self._count += 1

    def draw(self, probabilities: Figure, relevance: Figure) -> None:
        """Draws into two pairs of axes."""
        times = [seconds for seconds, _, _ in self._rows]
        first = Counter(next(iter(top)) for _, top, _ in self._rows)
        further = Counter(label for _, top, _ in self._rows for label in top)
        labels = [label for label, _ in first.most_common()]
        labels += [label for label, _ in further.most_common() if label not in labels]
        for label in labels[:LABELS]:
            shares = [top.get(label, np.nan) for _, top, _ in self._rows]
            probabilities.plot(times, shares, label=label.replace("_", " "), linewidth=1.2)
        probabilities.set(ylabel="probability", ylim=(0, 1.02))
        probabilities.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        relevance.plot(times, [total for _, _, total in self._rows], "black", linewidth=1.0)
        relevance.set(ylabel="sum of relevance", xlabel="seconds")
        for axes in (probabilities, relevance):
            axes.margins(x=0.01)
            axes.grid(alpha=0.3)


def write_summary(
    path: Path,
    title: str,
    thumbnails: Sequence[tuple[float, np.ndarray]],
    timeline: Timeline,
) -> None:
    """Writes a PNG: up to 12 small frames in rows of 4, below them the timeline.

    Args:
      path: the file.
      title: stands at the top.
      thumbnails: (seconds, uint8 [h, w, 3] RGB), all of one size.
      timeline: of the same recording.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chosen = np.linspace(0, len(thumbnails) - 1, min(12, len(thumbnails))).round().astype(int)
    rows = -(-len(chosen) // COLUMNS)
    height, width = thumbnails[0][1].shape[:2]
    tall = 3.0 * height / width + 0.3
    figure = Figure(figsize=(13, rows * tall + 4.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    pictures, lines = figure.subfigures(2, 1, height_ratios=[max(rows * tall, 0.1), 4.2])
    for axes in (grid := pictures.subplots(rows, COLUMNS, squeeze=False)).flat:
        axes.axis("off")
    for axes, number in zip(grid.flat, chosen, strict=False):
        seconds, picture = thumbnails[number]
        axes.imshow(picture)
        axes.set_title(f"{seconds:.2f} s", fontsize=9)
    timeline.draw(*lines.subplots(2, 1, sharex=True))
    figure.savefig(path, format="png")
