"""The folder that `evaluate -o` writes: figures, tables and plots, all of it or nothing.

Every file is made from what was measured; equal measurements give equal files.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.measured import Measurement
from realtime_lrp.commands.evaluate.plots import curves_plot, save_plot, scatter_plot
from realtime_lrp.commands.evaluate.summary import pictures_in_words
from realtime_lrp.commands.evaluate.tables import latex_table, write_photos_csv
from realtime_lrp.errors import OutputError
from realtime_lrp.system.atomic import atomic_folder, check_folder
from realtime_lrp.video.pictures import write_picture

REPORT_FILE = "report.json"

FILES = (
    REPORT_FILE, "photos.csv", "table.tex", "curves.png", "curves.pdf", "scatter.png",
    "scatter.pdf", "examples.png",
)  # fmt: skip


def check_report_folder(folder: Path, overwrite: bool, names: Collection[str] = FILES) -> None:
    """Refuses a folder that cannot be made, before any work is done.

    Args:
      folder: the folder.
      overwrite: whether a folder of our files may be replaced.
      names: the names that our files may have.

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
    """Writes the files of `FILES`.

    Args:
      folder: it appears when all files are complete.
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
