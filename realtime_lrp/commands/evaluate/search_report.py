"""What `evaluate --search` prints and writes: the verdict, and settings to copy."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from realtime_lrp.commands.evaluate import bootstrap
from realtime_lrp.commands.evaluate.rows import Values, photo_of
from realtime_lrp.commands.evaluate.search_space import Candidate

GAIN = "gain"
"""The criterion: insertion - deletion."""

FOUND = "found"
"""Name of the row of what the search found."""

CRITERION = (
    "gain = insertion - deletion, the mean over pictures of the area under the insertion curve "
    "less the area under the deletion curve"
)

FIGURES = (GAIN, "insertion", "deletion")

REPORT_FILE, SETTINGS_FILE = "search.json", "settings.yaml"
SEARCH_FILES = (REPORT_FILE, SETTINGS_FILE)
"""What `evaluate --search -o` writes into its folder."""


def search_report(
    found: Candidate,
    tried: Sequence[tuple[Candidate, Mapping[int, float]]],
    searched: Sequence[str],
    reported: Sequence[str],
    rows: Mapping[str, Values],
    shared: Mapping[str, Any],
) -> dict[str, Any]:
    """The result as plain data, for JSON.

    Args:
      found: the best candidate.
      tried: the candidates, and number of pictures -> gain of each.
      searched: the names of the pictures that it was made on.
      reported: the names of those that `rows` were measured on.
      rows: of what was found and of the defaults; empty where the search was interrupted.
      shared: the other settings of the section `lrp` that all candidates were measured with.
    """
    photos = [photo_of(name) for name in reported]
    return {
        "criterion": CRITERION,
        "found": {"name": found.name, "lrp": {**shared, **found.settings()}},
        "searched_on": list(searched),
        "reported_on": list(reported),
        "candidates": [
            {
                "name": one.name,
                "lrp": one.settings(),
                "gain_by_pictures": {count: round(gain, 4) for count, gain in gains.items()},
            }
            for one, gains in tried
        ],
        "rows": [_row(name, values, photos) for name, values in rows.items()],
        "differences": [
            _difference(name, rows[FOUND][GAIN] - values[GAIN], photos)
            for name, values in rows.items()
            if name != FOUND
        ],
    }


def _row(name: str, values: Values, photos: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "n": len(values[GAIN]),
        **{figure: round(float(values[figure].mean()), 4) for figure in FIGURES},
        "intervals": {figure: _interval(values[figure], photos) for figure in FIGURES},
        "values": {figure: values[figure].round(6).tolist() for figure in FIGURES},
    }


def _difference(name: str, values: np.ndarray, photos: Sequence[str]) -> dict[str, Any]:
    """How far what was found is ahead of a row on the same pictures."""
    return {
        "figure": GAIN,
        "to": name,
        "n": len(values),
        "photos": len({*photos}),
        "difference": round(float(values.mean()), 4),
        "interval": _interval(values, photos),
    }


def _interval(values: np.ndarray, photos: Sequence[str]) -> list[float]:
    (interval,) = bootstrap.intervals(values[:, None], photos)
    return [round(end, 4) for end in interval or ()]


def search_lines(report: Mapping[str, Any], best: Candidate) -> list[str]:
    """The result as plain text: the figures, whether the defaults are beaten, the settings."""
    measured = sum(bool(tried["gain_by_pictures"]) for tried in report["candidates"])
    lines = [
        f"{measured} of {len(report['candidates'])} candidates measured on "
        f"{len(report['searched_on'])} pictures; {CRITERION}",
        f"found: {best}",
    ]
    if report["rows"]:
        lines += ["", *_table(report), "", *_verdicts(report)]
    return [*lines, "", *settings_yaml(report).splitlines()]


def _table(report: Mapping[str, Any]) -> list[str]:
    lines = [f"{'on ' + str(len(report['reported_on'])) + ' other pictures':26}"]
    lines[0] += "".join(f"{figure:>15}" for figure in FIGURES)
    for row in report["rows"]:
        cells = []
        for figure in FIGURES:
            low, high = row["intervals"][figure]
            cells.append(f"{row[figure]:.3f}±{(high - low) / 2:.3f}".replace("±0.", "±."))
        lines.append(f"{row['name']:26}" + "".join(f"{cell:>15}" for cell in cells))
    return lines


def _verdicts(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for difference in report["differences"]:
        low, high = difference["interval"]
        if report["found"]["name"] == difference["to"]:
            verdict = f"found is {difference['to']} itself"
        elif difference["photos"] < bootstrap.FEWEST:
            verdict = (
                f"too few photos to compare found with {difference['to']}: {difference['photos']}, "
                f"expected {bootstrap.FEWEST} or more"
            )
        elif low > 0:
            verdict = f"found beats {difference['to']}"
        elif high < 0:
            verdict = f"found is worse than {difference['to']}: keep that"
        else:
            verdict = f"found cannot be told from {difference['to']}"
        lines.append(
            f"{verdict}: gain {difference['difference']:+.4f} "
            f"(95 % interval {low:+.4f} to {high:+.4f}, {difference['n']} pictures of "
            f"{difference['photos']} photos)"
        )
    return lines


def settings_yaml(report: Mapping[str, Any]) -> str:
    """The settings that were found, as a file for `--config`."""
    text: str = yaml.safe_dump({"lrp": report["found"]["lrp"]}, sort_keys=False, width=1000)
    return f"# found by realtime-lrp evaluate --search; use with --config\n{text}"


def write_search(folder: Path, report: Mapping[str, Any]) -> None:
    """Writes the `SEARCH_FILES` into a folder that exists."""
    (folder / REPORT_FILE).write_text(json.dumps(report, indent=1) + "\n")
    (folder / SETTINGS_FILE).write_text(settings_yaml(report))
