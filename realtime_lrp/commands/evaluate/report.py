"""The report of an evaluation: figures as plain data for JSON, and the table that is printed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate import bootstrap
from realtime_lrp.commands.evaluate.bootstrap import FEWEST, RESAMPLES
from realtime_lrp.commands.evaluate.metrics import METRICS, Metric, described
from realtime_lrp.commands.evaluate.rows import MeasuredRow, Measurement, Values
from realtime_lrp.config.provenance import KEY
from realtime_lrp.relevance.maps.account import FLOOD, flood_advice
from realtime_lrp.system.tables import new_table, rendered


def summary(measurement: Measurement) -> dict[str, Any]:
    """The figures by their names in the JSON file."""
    rows = {row.name: _row(row) for row in measurement.rows}
    values = {row.name: row.values for row in measurement.rows}
    _add_intervals(rows, values, measurement.photos)
    return {
        "network": measurement.network,
        "seed": measurement.seed,
        "pictures": len(measurement.samples),
        "distinct_photos": len({*measurement.photos}),
        "object": measurement.object,
        "patches_taken": measurement.patches_taken.tolist(),
        "resamples": RESAMPLES,
        "forgetting": [stage._asdict() for stage in measurement.stages],
        "metrics": described(),
        "rows": [*rows.values()],
        "pairs": _pairs(values, measurement.photos),
        "photos": {
            "names": list(measurement.samples),
            "classes": list(measurement.classes),
            "values": {name: _listed(figures) for name, figures in values.items()},
        },
    }


def pictures_in_words(report: Mapping[str, Any]) -> str:
    """How many pictures there are, and of how many photos if these are fewer."""
    pictures, photos = report["pictures"], report["distinct_photos"]
    return f"{pictures} pictures" + (f" of {photos} photos" if photos < pictures else "")


def resampled(report: Mapping[str, Any]) -> str:
    """What the bootstrap draws."""
    if report["distinct_photos"] < report["pictures"]:
        return "the photos, pictures of one photo together"
    return "the pictures"


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


def _row(row: MeasuredRow) -> dict[str, Any]:
    curves = {
        f"{name}_curve": one.mean(axis=1).round(4).tolist() for name, one in row.curves.items()
    }
    forgetting = [_mean(similarity) for similarity in row.forgetting]
    means = {figure: _mean(values) for figure, values in row.values.items()}
    counts = {figure: int((~np.isnan(values)).sum()) for figure, values in row.values.items()}
    facts = {"name": row.name, **means, **curves, "n": counts}
    if "other_class" in means:
        facts |= {"forgetting": forgetting, "flooded": row.flooded}
    return facts


def _add_intervals(
    rows: Mapping[str, dict[str, Any]], by_row: Mapping[str, Values], photos: Sequence[str]
) -> None:
    """Adds to each row the intervals of its figures, and how far it is behind the best one."""
    for figure, metric in METRICS.items():
        values = _of_figure(by_row, figure)
        if not values:
            continue
        found = bootstrap.intervals(np.stack([*values.values()], axis=1), photos)
        behind = bootstrap.differences(values, metric.high_is_good, photos)
        for name, interval in zip(values, found, strict=True):
            if interval:
                rows[name].setdefault("intervals", {})[figure] = _rounded(*interval)
            if name in behind:
                difference, ends = behind[name]
                gap = {"difference": round(difference, 4), "interval": _rounded(*ends)}
                rows[name].setdefault("from_best", {})[figure] = gap


def _pairs(by_row: Mapping[str, Values], photos: Sequence[str]) -> list[dict[str, Any]]:
    """Every pair of rows, compared on the same pictures, figure by figure."""
    return [
        {
            "figure": figure,
            "first": pair.first,
            "second": pair.second,
            "n": pair.n,
            "difference": round(pair.mean, 4),
            "interval": _rounded(*pair.interval),
        }
        for figure in METRICS
        for pair in bootstrap.pairwise(_of_figure(by_row, figure), photos)
    ]


def _of_figure(by_row: Mapping[str, Values], figure: str) -> Values:
    return {name: values[figure] for name, values in by_row.items() if figure in values}


def _listed(values: Values) -> dict[str, list[float | None]]:
    """The values for JSON, which has no NaN."""
    return {
        figure: [None if np.isnan(value) else round(float(value), 6) for value in column]
        for figure, column in values.items()
    }


def _mean(values: np.ndarray) -> float | None:
    """The mean of the values that are not NaN, or None if all are."""
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if known.size else None


def _rounded(*ends: float) -> list[float]:
    return [round(end, 4) for end in ends]


def table_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as plain text: the table and the explanation of its columns."""
    metrics = measured_metrics(report)
    table = new_table("", *(metric.heading for metric in metrics.values()), gap=1)
    for row in report["rows"]:
        name = f"{row['name']} !" if row.get("flooded") else row["name"]
        table.add_row(name, *(_cell(row, key, report) for key in metrics))
    title = f"{report['network']}, {pictures_in_words(report)}; the object: {report['object']}"
    explanations = [
        f"{m.heading:7} {m.name}, {m.direction} is good: {m.meaning}" for m in metrics.values()
    ]
    if fewer := fewer_pictures(report):
        explanations.append(f"n       pictures with a value, where not all: {'; '.join(fewer)}")
    explanations += [
        f"±       half the 95 % interval, {RESAMPLES} bootstrap resamples of {resampled(report)}",
        "*       the best of a column, and what cannot be told from it on these pictures (95 %)"
        if report["distinct_photos"] >= FEWEST
        else f"        fewer than {FEWEST} photos: which row is the best cannot be said",
    ]
    flooded = [f"{row['flooded']} of {row['name']}" for row in report["rows"] if row.get("flooded")]
    if flooded:
        settings = report.get(KEY, {}).get("settings", {})
        advice = flood_advice(settings.get("lrp.absorb_bias"))
        explanations.append(
            f"!       maps that explain nothing: relevance grew more than {FLOOD:.0f} times on its "
            f"way: {', '.join(flooded)}; {advice}"
        )
    return [title, "", *rendered(table), "", *explanations]


def is_tied(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> bool:
    """Whether a row is the best by a figure or cannot be told from the best."""
    behind = row.get("from_best", {}).get(key)
    enough = report["distinct_photos"] >= FEWEST
    return bool(enough and behind and behind["interval"][0] <= 0 <= behind["interval"][1])


def _cell(row: Mapping[str, Any], key: str, report: Mapping[str, Any]) -> str:
    """A figure with its interval: "0.988±.012*"."""
    if row.get(key) is None:
        return "-"
    text = f"{row[key]:.3f}"
    if interval := row.get("intervals", {}).get(key):
        half = (interval[1] - interval[0]) / 2
        text += f"±{half:.3f}".replace("±0.", "±.")
    return text + ("*" if is_tied(row, key, report) else " ")
