"""The report of an evaluation: figures for JSON, the printed table, the folder of `evaluate -o`."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.plots import curves_plot
from realtime_lrp.config.provenance import Provenance, figures_json
from realtime_lrp.evaluation import metrics
from realtime_lrp.notebook.figure import pixels_of
from realtime_lrp.relevance.maps.account import flood_advice
from realtime_lrp.system.terminal import in_columns
from realtime_lrp.video.pictures import encode_picture, write_picture

REPORT_FILE = "report.json"

FILES = (REPORT_FILE, "table.tex", "curves.png", "curves.pdf", "examples.png")

LATEX_LETTERS = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", **{letter: f"\\{letter}" for letter in "&%$#_{}"},
})  # fmt: skip


def summary(measurement: metrics.Measurement) -> dict[str, Any]:
    """The figures by their names in the JSON file."""
    photos = measurement.photos
    rows = {row.name: _row(row) for row in measurement.rows}
    pairs: list[dict[str, Any]] = []
    for figure, metric in metrics.METRICS.items():
        values = {row.name: row.values[figure] for row in measurement.rows if figure in row.values}
        if not values:
            continue
        found = metrics.intervals(np.stack([*values.values()], axis=1), photos)
        for name, ends in zip(values, found, strict=True):
            if interval := metrics.rounded(ends):
                rows[name]["intervals"][figure] = interval
        best = metrics.best_of(values, metric.high_is_good)
        for one in metrics.compared(values, [(name, best) for name in values if best], photos):
            behind = {key: one[key] for key in ("difference", "interval")}
            rows[one["first"]]["from_best"][figure] = behind
        pairs += (
            {"figure": figure, **one}
            for one in metrics.compared(values, combinations(values, 2), photos)
        )
    return {
        "network": measurement.network,
        "seed": measurement.seed,
        "pictures": len(measurement.samples),
        "counted": list(measurement.counted),
        "distinct_photos": len({*photos}),
        "object": measurement.object,
        "patches_taken": measurement.patches_taken.tolist(),
        "resamples": metrics.RESAMPLES,
        "metrics": {key: metric.described() for key, metric in metrics.METRICS.items()},
        "rows": [*rows.values()],
        "pairs": pairs,
        "photos": {
            "names": list(measurement.samples),
            "classes": list(measurement.classes),
            "values": {
                row.name: {
                    # JSON has no NaN
                    figure: [None if np.isnan(one) else round(one, 6) for one in values.tolist()]
                    for figure, values in row.values.items()
                }
                for row in measurement.rows
            },
        },
    }


def _row(row: metrics.MeasuredRow) -> dict[str, Any]:
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


def measured_metrics(report: Mapping[str, Any]) -> dict[str, metrics.Metric]:
    """The metrics for which some row has a value, in the order of the columns."""
    return {
        key: metric
        for key, metric in metrics.METRICS.items()
        if any(row.get(key) is not None for row in report["rows"])
    }


def fewer_pictures(report: Mapping[str, Any]) -> list[str]:
    """Which figures have a value for only some pictures, and for how many: ["last: 16"]."""
    found = []
    for key, metric in metrics.METRICS.items():
        counts = {row["n"][key] for row in report["rows"] if key in row["n"]}
        if counts - {report["pictures"]}:
            ends = sorted({min(counts), max(counts)})
            found.append(f"{metric.heading}: {' to '.join(map(str, ends))}")
    return found


def table_lines(report: Mapping[str, Any], absorb_bias: bool | None = None) -> list[str]:
    """The report as text: the table and its columns; advice on floods goes by `absorb_bias`."""
    shown = measured_metrics(report)
    rows = [
        [f"{row['name']} !" if row.get("flooded") else row["name"]]
        + [_cell(row, key, report) for key in shown]
        for row in report["rows"]
    ]
    headings = ["", *(metric.heading for metric in shown.values())]
    title = f"{report['network']}, {pictures_in_words(report)}; the object: {report['object']}"
    explanations = [f"{m.heading:7} {m.label}: {m.meaning}" for m in shown.values()]
    if fewer := fewer_pictures(report):
        explanations.append(f"n       pictures with a value, if fewer than all: {'; '.join(fewer)}")
    photos = report["distinct_photos"]
    _, of = report["counted"]
    if photos >= metrics.LEAST_PHOTOS:
        half = f"half the 95 % interval, {metrics.RESAMPLES} bootstrap resamples of"
        explanations.append(f"±       {half} {resampled(report)}")
    if photos >= metrics.FEWEST_PHOTOS:
        told = "*       the best of a column, and rows that equal it within the 95 % interval"
    else:
        told = f"        fewer than {metrics.FEWEST_PHOTOS} {of}: no row is called the best"
    explanations.append(told)
    flooded = [f"{row['flooded']} of {row['name']}" for row in report["rows"] if row.get("flooded")]
    if flooded:
        advice = flood_advice(absorb_bias)
        explanations.append(
            f"!       maps that explain nothing: relevance grew without limit on its "
            f"way: {', '.join(flooded)}; {advice}"
        )
    return [title, "", *in_columns(headings, rows, gap=1), "", *explanations]


def is_tied(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> bool:
    """Whether a row is the best by a figure, or not distinguishable from the best."""
    behind = row["from_best"].get(key)
    enough = report["distinct_photos"] >= metrics.FEWEST_PHOTOS
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
    folder: Path, measurement: metrics.Measurement, report: Mapping[str, Any], examples: np.ndarray,
    made: Provenance,
) -> None:  # fmt: skip
    """Writes `FILES` into a folder; `report` is the measurement's `summary`."""
    provenance = made.as_json()
    title = f"{report['network']}, {pictures_in_words(report)}"
    (folder / REPORT_FILE).write_text(figures_json(report, made))
    (folder / "table.tex").write_text(latex_table(report))
    curves = curves_plot(title, measurement)
    (folder / "curves.png").write_bytes(encode_picture(".png", pixels_of(curves), provenance))
    metadata = {"CreationDate": None, "Subject": provenance}  # equal plots are equal files
    curves.savefig(folder / "curves.pdf", metadata=metadata)
    write_picture(folder / "examples.png", examples, description=provenance)


def latex_table(report: Mapping[str, Any]) -> str:
    """The table for a paper, with the package booktabs: the best of each column is bold."""
    shown = measured_metrics(report)
    arrow = {True: r"$\uparrow$", False: r"$\downarrow$"}
    headings = [f"{metric.heading} {arrow[metric.high_is_good]}" for metric in shown.values()]
    meanings = "; ".join(f"{metric.heading}: {metric.name}" for metric in shown.values())
    fewer = "; ".join(fewer_pictures(report))
    caption = (
        f"{report['network'].translate(LATEX_LETTERS)}, {pictures_in_words(report)}"
        f"{f' ({fewer})' if fewer else ''}. "
        f"{meanings}. Mean $\\pm$ half the {metrics.LEVEL * 100:.0f}\\,\\% bootstrap interval "
        f"({metrics.RESAMPLES} resamples of {resampled(report)}). Bold: the best of a column; "
        f"$^*$: the {metrics.LEVEL * 100:.0f}\\,\\% interval of its paired difference from the "
        "best includes 0."
    )
    lines = [
        " & ".join(
            [
                rf"\texttt{{{row['name'].translate(LATEX_LETTERS)}}}",
                *(_latex_cell(row, key, report) for key in shown),
            ]
        )
        + r" \\"
        for row in report["rows"]
    ]
    table = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}",
        r"\begin{tabular}{l" + "r" * len(shown) + "}",
        r"\toprule",
        " & ".join(["", *headings]) + r" \\",
        r"\midrule",
        *lines[:-1],
        r"\midrule",
        lines[-1],
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(table) + "\n"


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
