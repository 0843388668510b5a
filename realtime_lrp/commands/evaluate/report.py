"""The report of an evaluation: figures for JSON, the printed table, the folder of `evaluate -o`.

Every file is made from what was measured; equal measurements give equal files.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.plots import curves_plot, save_plot
from realtime_lrp.config.provenance import Provenance, figures_json
from realtime_lrp.evaluation.metrics import (
    FEWEST_PHOTOS,
    LEAST_PHOTOS,
    LEVEL,
    METRICS,
    RESAMPLES,
    MeasuredRow,
    Measurement,
    Metric,
    best_of,
    compared,
    intervals,
    rounded,
)
from realtime_lrp.relevance.maps.account import flood_advice
from realtime_lrp.system.terminal import new_table, rendered
from realtime_lrp.video.pictures import write_picture

REPORT_FILE = "report.json"

FILES = (REPORT_FILE, "table.tex", "curves.png", "curves.pdf", "examples.png")

LATEX_LETTERS = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", **{letter: f"\\{letter}" for letter in "&%$#_{}"},
})  # fmt: skip


def summary(measurement: Measurement) -> dict[str, Any]:
    """The figures by their names in the JSON file."""
    photos = measurement.photos
    rows = {row.name: _row(row) for row in measurement.rows}
    pairs: list[dict[str, Any]] = []
    for figure, metric in METRICS.items():
        values = {row.name: row.values[figure] for row in measurement.rows if figure in row.values}
        if not values:
            continue
        found = intervals(np.stack([*values.values()], axis=1), photos)
        for name, ends in zip(values, found, strict=True):
            if interval := rounded(ends):
                rows[name]["intervals"][figure] = interval
        best = best_of(values, metric.high_is_good)
        for one in compared(values, [(name, best) for name in values if best], photos):
            behind = {key: one[key] for key in ("difference", "interval")}
            rows[one["first"]]["from_best"][figure] = behind
        pairs += (
            {"figure": figure, **one} for one in compared(values, combinations(values, 2), photos)
        )
    return {
        "network": measurement.network,
        "seed": measurement.seed,
        "pictures": len(measurement.samples),
        "counted": list(measurement.counted),
        "distinct_photos": len({*photos}),
        "object": measurement.object,
        "patches_taken": measurement.patches_taken.tolist(),
        "resamples": RESAMPLES,
        "metrics": {key: metric.described() for key, metric in METRICS.items()},
        "rows": [*rows.values()],
        "pairs": pairs,
        "photos": {
            "names": list(measurement.samples),
            "classes": list(measurement.classes),
            "values": {
                row.name: {figure: _listed(values) for figure, values in row.values.items()}
                for row in measurement.rows
            },
        },
    }


def _row(row: MeasuredRow) -> dict[str, Any]:
    curves = {
        f"{name}_curve": one.mean(axis=1).round(4).tolist() for name, one in row.curves.items()
    }
    means = {figure: _mean(values) for figure, values in row.values.items()}
    counts = {figure: int((~np.isnan(values)).sum()) for figure, values in row.values.items()}
    found = {"name": row.name, **means, **curves, "n": counts, "intervals": {}, "from_best": {}}
    return found | ({"flooded": row.flooded} if "other_class" in means else {})


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if known.size else None


def _listed(values: np.ndarray) -> list[float | None]:
    """The values for JSON, which has no NaN."""
    return [None if np.isnan(value) else round(value, 6) for value in values.tolist()]


def pictures_in_words(report: Mapping[str, Any]) -> str:
    """How many pictures there are, and of how many photos if these are fewer."""
    what, of = report["counted"]
    pictures = report["pictures"]
    photos = report["distinct_photos"]
    return _counted(pictures, what) + (f" of {_counted(photos, of)}" if photos < pictures else "")


def _counted(count: int, what: str) -> str:
    return f"1 {'box' if what == 'boxes' else what[:-1]}" if count == 1 else f"{count} {what}"


def resampled(report: Mapping[str, Any]) -> str:
    """The bootstrap's unit in words."""
    what, of = report["counted"]
    if report["distinct_photos"] < report["pictures"]:
        return f"the {of}, {what} of one together"
    return f"the {what}"


def measured_metrics(report: Mapping[str, Any]) -> dict[str, Metric]:
    """The metrics for which some row has a value, in the order of the columns."""
    return {
        key: metric
        for key, metric in METRICS.items()
        if any(row.get(key) is not None for row in report["rows"])
    }


def fewer_pictures(report: Mapping[str, Any]) -> list[str]:
    """Which figures have a value for only some pictures, and for how many: ["last: 16"]."""
    found = []
    for key, metric in METRICS.items():
        counts = {row["n"][key] for row in report["rows"] if key in row["n"]}
        if counts - {report["pictures"]}:
            ends = sorted({min(counts), max(counts)})
            found.append(f"{metric.heading}: {' to '.join(map(str, ends))}")
    return found


def table_lines(report: Mapping[str, Any], absorb_bias: bool | None = None) -> list[str]:
    """The report as text: the table and its columns; advice on floods goes by `absorb_bias`."""
    metrics = measured_metrics(report)
    table = new_table("", *(metric.heading for metric in metrics.values()), gap=1)
    for row in report["rows"]:
        name = f"{row['name']} !" if row.get("flooded") else row["name"]
        table.add_row(name, *(_cell(row, key, report) for key in metrics))
    title = f"{report['network']}, {pictures_in_words(report)}; the object: {report['object']}"
    explanations = [f"{m.heading:7} {m.label}: {m.meaning}" for m in metrics.values()]
    if fewer := fewer_pictures(report):
        explanations.append(f"n       pictures with a value, where not all: {'; '.join(fewer)}")
    photos = report["distinct_photos"]
    _, of = report["counted"]
    if photos >= LEAST_PHOTOS:
        half = f"half the 95 % interval, {RESAMPLES} bootstrap resamples of {resampled(report)}"
        explanations.append(f"±       {half}")
    explanations.append(
        "*       the best of a column, and rows that equal it within the 95 % interval"
        if photos >= FEWEST_PHOTOS
        else f"        fewer than {FEWEST_PHOTOS} {of}: no row is called the best"
    )
    flooded = [f"{row['flooded']} of {row['name']}" for row in report["rows"] if row.get("flooded")]
    if flooded:
        advice = flood_advice(absorb_bias)
        explanations.append(
            f"!       maps that explain nothing: relevance grew without limit on its "
            f"way: {', '.join(flooded)}; {advice}"
        )
    return [title, "", *rendered(table), "", *explanations]


def is_tied(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> bool:
    """Whether a row is the best by a figure, or not distinguishable from the best."""
    behind = row["from_best"].get(key)
    enough = report["distinct_photos"] >= FEWEST_PHOTOS
    return bool(enough and behind and behind["interval"][0] <= 0 <= behind["interval"][1])


def _cell(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> str:
    """A figure with half of its interval: "0.988±.012"."""
    if row.get(key) is None:
        return "-"
    text = f"{row[key]:.3f}"
    if ends := row["intervals"].get(key):
        text += f"±{(ends[1] - ends[0]) / 2:.3f}".replace("±0.", "±.")
    return text + ("*" if is_tied(row, key, report) else " ")


def write_report(
    folder: Path, measurement: Measurement, report: Mapping[str, Any], examples: np.ndarray,
    made: Provenance,
) -> None:  # fmt: skip
    """Writes `FILES` into a folder; `report` is the measurement's `summary`."""
    provenance = made.as_json()
    title = f"{report['network']}, {pictures_in_words(report)}"
    (folder / REPORT_FILE).write_text(figures_json(report, made))
    (folder / "table.tex").write_text(latex_table(report))
    save_plot(curves_plot(title, measurement), folder / "curves", provenance)
    write_picture(folder / "examples.png", examples, description=provenance)


def latex_table(report: Mapping[str, Any]) -> str:
    """The table for a paper, with the package booktabs: the best of each column is bold."""
    *rows, chance = report["rows"]
    shown = measured_metrics(report)
    arrow = {True: r"$\uparrow$", False: r"$\downarrow$"}
    headings = [f"{metric.heading} {arrow[metric.high_is_good]}" for metric in shown.values()]
    metrics = "; ".join(f"{metric.heading}: {metric.name}" for metric in shown.values())
    fewer = "; ".join(fewer_pictures(report))
    caption = (
        f"{report['network'].translate(LATEX_LETTERS)}, {pictures_in_words(report)}"
        f"{f' ({fewer})' if fewer else ''}. "
        f"{metrics}. Mean $\\pm$ half the {LEVEL * 100:.0f}\\,\\% bootstrap interval "
        f"({RESAMPLES} resamples of {resampled(report)}). Bold: the best of a column; $^*$: the "
        f"{LEVEL * 100:.0f}\\,\\% interval of its paired difference from the best includes 0."
    )
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}",
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


def _latex_row(row: Mapping[str, Any], shown: Iterable[str], report: Mapping[str, Any]) -> str:
    cells = [rf"\texttt{{{row['name'].translate(LATEX_LETTERS)}}}"]
    cells += [_latex_cell(row, key, report) for key in shown]
    return " & ".join(cells) + r" \\"


def _latex_cell(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> str:
    if row.get(key) is None:
        return "--"
    text = f"{row[key]:.3f}"
    if is_tied(row, key, report):
        best = row["from_best"][key]["difference"] == 0
        text = rf"\textbf{{{text}}}" if best else f"{text}$^*$"
    if ends := row["intervals"].get(key):
        text += rf"{{\tiny$\pm${(ends[1] - ends[0]) / 2:.3f}}}".replace("0.", ".", 1)
    return text
