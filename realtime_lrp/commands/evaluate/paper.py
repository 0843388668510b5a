"""The folder that `evaluate -o` writes: figures, tables and plots, all of it or nothing.

Every file is made from what was measured; equal measurements give equal files.
"""

import csv
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.bootstrap import LEVEL, RESAMPLES
from realtime_lrp.commands.evaluate.metrics import METRICS
from realtime_lrp.commands.evaluate.plots import curves_plot, save_plot, scatter_plot
from realtime_lrp.commands.evaluate.report import (
    fewer_pictures,
    is_tied,
    measured_metrics,
    pictures_in_words,
    resampled,
)
from realtime_lrp.commands.evaluate.rows import Measurement
from realtime_lrp.errors import OutputError
from realtime_lrp.system.atomic import atomic_folder, check_folder
from realtime_lrp.video.pictures import write_picture

REPORT_FILE = "report.json"

FILES = (
    REPORT_FILE, "photos.csv", "table.tex", "curves.png", "curves.pdf", "scatter.png",
    "scatter.pdf", "examples.png",
)  # fmt: skip

CSV_COLUMNS = ("photo", "class", "row", "figure", "value")

LATEX_LETTERS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def check_report_folder(folder: Path, overwrite: bool, names: Collection[str] = FILES) -> None:
    """Refuses a folder that cannot be made, before any work is done.

    A folder with other files than `names` is not replaced either.

    Raises:
      OutputError: it exists, holds files of somebody else, or there is no folder to make it in.
    """
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"There is no folder {str(parent)!r} to make {folder.name!r} in.")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"The folder {str(parent)!r} is not writable.")
    check_folder(folder, overwrite, names)


def write_report_folder(
    folder: Path,
    measurement: Measurement,
    report: Mapping[str, Any],
    examples: np.ndarray,
    provenance: str,
    overwrite: bool,
) -> None:
    """Writes the files of `FILES`; the folder appears when all are complete.

    Args:
      folder: its path.
      measurement: what was measured.
      report: its `summary`.
      examples: uint8 [H, W, 3] RGB, maps of the best and the worst pictures.
      provenance: how all of it was made, JSON.
      overwrite: whether a folder of these files is replaced.

    Raises:
      OutputError: the folder cannot be made.
      TransferError: a write failed.
    """
    title = f"{report['network']}, {pictures_in_words(report)}"
    with atomic_folder(folder, overwrite, FILES) as part:
        (part / REPORT_FILE).write_text(json.dumps(report, indent=1) + "\n")
        write_photos_csv(part / "photos.csv", measurement)
        (part / "table.tex").write_text(latex_table(report))
        save_plot(curves_plot(title, measurement), part / "curves", provenance)
        save_plot(scatter_plot(title, report["rows"]), part / "scatter", provenance)
        write_picture(part / "examples.png", examples, description=provenance)


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
    """The table for a paper, with the package booktabs: the best of each column is bold."""
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
        *(_latex_row(row, shown, report) for row in rows),
        r"\midrule",
        _latex_row(chance, shown, report),
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


def _latex_row(row: Mapping[str, Any], shown: Sequence[str], report: Mapping[str, Any]) -> str:
    cells = [rf"\texttt{{{_escaped(row['name'])}}}"]
    cells += [_latex_cell(row, key, report) for key in shown]
    return " & ".join(cells) + r" \\"


def _latex_cell(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> str:
    if row.get(key) is None:
        return "--"
    text = f"{row[key]:.3f}"
    if is_tied(row, key, report):
        best = row["from_best"][key]["difference"] == 0
        text = rf"\textbf{{{text}}}" if best else f"{text}$^*$"
    low, high = row["intervals"][key]
    return text + rf"{{\tiny$\pm${(high - low) / 2:.3f}}}".replace("0.", ".", 1)


def _escaped(text: str) -> str:
    return "".join(LATEX_LETTERS.get(letter, letter) for letter in text)
