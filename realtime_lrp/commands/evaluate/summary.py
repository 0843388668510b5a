"""The figures of an evaluation: means, intervals and curves as plain data, for JSON and table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate import bootstrap
from realtime_lrp.commands.evaluate.measured import MeasuredRow, Measurement

HIGH_IS_GOOD = {
    "pointing": True, "mass": True, "rank": True, "deletion": False, "insertion": True,
    "last_layer": False, "all_layers": False, "other_class": False,
}  # fmt: skip
"""Figure with an interval -> whether high is good."""


def summary(measurement: Measurement) -> dict[str, Any]:
    """The figures by their names in the JSON file."""
    rows = {row.name: _row(row) for row in measurement.rows}
    _add_intervals(rows, {row.name: row.values for row in measurement.rows})
    return {
        "network": measurement.network,
        "seed": measurement.seed,
        "pictures": len(measurement.samples),
        "object": measurement.object,
        "patches_taken": measurement.patches_taken.tolist(),
        "resamples": bootstrap.RESAMPLES,
        "forgetting": [stage._asdict() for stage in measurement.stages],
        "rows": [*rows.values()],
    }


def _row(row: MeasuredRow) -> dict[str, Any]:
    curves = {
        f"{name}_curve": one.mean(axis=1).round(4).tolist() for name, one in row.curves.items()
    }
    forgetting = [_mean(similarity) for similarity in row.forgetting]
    means = {figure: _mean(values) for figure, values in row.values.items()}
    facts = {"name": row.name, **means, **curves}
    if "other_class" in means:
        facts |= {"forgetting": forgetting, "flooded": row.flooded}
    return facts


def _add_intervals(
    rows: Mapping[str, dict[str, Any]], by_row: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Adds to each row the intervals of its figures, and how far it is behind the best one."""
    for figure, high_is_good in HIGH_IS_GOOD.items():
        values = {name: by_row[name][figure] for name in rows if figure in by_row[name]}
        if not values:
            continue
        found = bootstrap.intervals(np.stack([*values.values()], axis=1))
        behind = bootstrap.differences(values, high_is_good)
        for name, interval in zip(values, found, strict=True):
            if interval:
                rows[name].setdefault("intervals", {})[figure] = _rounded(*interval)
            if name in behind:
                difference, ends = behind[name]
                gap = {"difference": round(difference, 4), "interval": _rounded(*ends)}
                rows[name].setdefault("from_best", {})[figure] = gap


def _mean(values: np.ndarray) -> float | None:
    """The mean of the values that are not NaN, or None if all are."""
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if known.size else None


def _rounded(*ends: float) -> list[float]:
    return [round(end, 4) for end in ends]
