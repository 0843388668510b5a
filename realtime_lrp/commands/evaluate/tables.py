"""Tables of `evaluate` for other programs: LaTeX for a paper, CSV for pandas and R."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.bootstrap import LEVEL, RESAMPLES
from realtime_lrp.commands.evaluate.measured import Measurement
from realtime_lrp.commands.evaluate.metrics import METRICS
from realtime_lrp.commands.evaluate.summary import (
    fewer_pictures,
    measured_metrics,
    pictures_in_words,
    resampled,
)

CSV_COLUMNS = ("photo", "class", "row", "figure", "value")

LATEX_LETTERS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def write_photos_csv(path: Path, measurement: Measurement) -> None:
    """Writes one line for each photo, row and figure; a missing value is an empty cell."""
    pictures = list(zip(measurement.samples, measurement.classes, strict=True))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for row in measurement.rows:
            for figure, values in row.values.items():
                for picture, value in zip(pictures, values, strict=False):
                    cell = "" if np.isnan(value) else f"{value:.6g}"
                    writer.writerow((*picture, row.name, figure, cell))


def latex_table(report: Mapping[str, Any]) -> str:
    """The table for a paper, with the package booktabs: the best of each column is bold.

    Args:
      report: what the JSON file holds.
    """
    *rows, chance = report["rows"]
    shown = [*measured_metrics(report)]
    arrow = {True: r"$\uparrow$", False: r"$\downarrow$"}
    headings = [f"{METRICS[key].heading} {arrow[METRICS[key].high_is_good]}" for key in shown]
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{_caption(report, shown)}}}",
        r"\begin{tabular}{l" + "r" * len(shown) + "}",
        r"\toprule",
        " & ".join(["", *headings]) + r" \\",
        r"\midrule",
        *(_latex_row(row, shown) for row in rows),
        r"\midrule",
        _latex_row(chance, shown),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(report: Mapping[str, Any], shown: Sequence[str]) -> str:
    metrics = "; ".join(f"{METRICS[key].heading}: {_escaped(METRICS[key].name)}" for key in shown)
    fewer = "; ".join(fewer_pictures(report))
    return (
        f"{_escaped(report['network'])}, {pictures_in_words(report)}"
        f"{f' ({fewer})' if fewer else ''}. "
        f"{metrics}. Mean $\\pm$ half the {LEVEL * 100:.0f}\\,\\% bootstrap interval "
        f"({RESAMPLES} resamples of {resampled(report)}). Bold: the best of a column; $^*$: the "
        f"{LEVEL * 100:.0f}\\,\\% interval of its paired difference from the best includes 0."
    )


def _latex_row(row: Mapping[str, Any], shown: Sequence[str]) -> str:
    cells = [rf"\texttt{{{_escaped(row['name'])}}}", *(_latex_cell(row, key) for key in shown)]
    return " & ".join(cells) + r" \\"


def _latex_cell(row: Mapping[str, Any], key: str) -> str:
    if row.get(key) is None:
        return "--"
    text = f"{row[key]:.3f}"
    behind = row.get("from_best", {}).get(key)
    if behind and behind["difference"] == 0:
        text = rf"\textbf{{{text}}}"
    elif behind and behind["interval"][0] <= 0 <= behind["interval"][1]:
        text += "$^*$"
    low, high = row["intervals"][key]
    return text + rf"{{\tiny$\pm${(high - low) / 2:.3f}}}".replace("0.", ".", 1)


def _escaped(text: str) -> str:
    return "".join(LATEX_LETTERS.get(letter, letter) for letter in text)
