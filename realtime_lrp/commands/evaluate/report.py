"""The table of figures that `evaluate` prints."""

from collections.abc import Mapping
from typing import Any

from realtime_lrp.commands.evaluate.bootstrap import RESAMPLES
from realtime_lrp.commands.evaluate.summary import (
    fewer_pictures,
    measured_metrics,
    pictures_in_words,
    resampled,
)
from realtime_lrp.config.provenance import KEY
from realtime_lrp.relevance.account import FLOOD, flood_advice
from realtime_lrp.system.tables import new_table, rendered


def table_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as plain text: the table and the explanation of its columns."""
    metrics = measured_metrics(report)
    table = new_table("", *(metric.heading for metric in metrics.values()), gap=1)
    for row in report["rows"]:
        name = f"{row['name']} !" if row.get("flooded") else row["name"]
        table.add_row(name, *(_cell(row, key) for key in metrics))
    title = f"{report['network']}, {pictures_in_words(report)}; the object: {report['object']}"
    explanations = [
        f"{m.heading:7} {m.name}, {m.direction} is good: {m.meaning}" for m in metrics.values()
    ]
    if fewer := fewer_pictures(report):
        explanations.append(f"n       pictures with a value, where not all: {'; '.join(fewer)}")
    explanations += [
        f"±       half the 95 % interval, {RESAMPLES} bootstrap resamples of {resampled(report)}",
        "*       the best of a column, and what cannot be told from it on these pictures (95 %)",
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


def _cell(row: Mapping[str, Any], key: str) -> str:
    """A figure with its interval: "0.988±.012*"."""
    if row.get(key) is None:
        return "-"
    text = f"{row[key]:.3f}"
    if interval := row.get("intervals", {}).get(key):
        half = (interval[1] - interval[0]) / 2
        text += f"±{half:.3f}".replace("±0.", "±.")
    behind = row.get("from_best", {}).get(key)
    tied = behind and behind["interval"][0] <= 0 <= behind["interval"][1]
    return text + ("*" if tied else " ")
