"""The table of figures that `evaluate` prints, and how its tables are printed."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from realtime_lrp.commands.evaluate.bootstrap import RESAMPLES
from realtime_lrp.commands.evaluate.summary import (
    fewer_pictures,
    measured_metrics,
    pictures_in_words,
    resampled,
)
from realtime_lrp.config.provenance import KEY
from realtime_lrp.relevance.account import FLOOD, flood_advice


def table_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as plain text: the table and the explanation of its columns."""
    metrics = measured_metrics(report)
    table = new_table("", *(metric.heading for metric in metrics.values()))
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
    return [title, "", *printed(table), "", *explanations]


def new_table(first: str, *headings: str) -> Table:
    """An empty table: the first column stands at the left, all others at the right."""
    table = Table(first, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def printed(table: Table) -> list[str]:
    """The lines of a table as plain text."""
    text = StringIO()
    Console(file=text, width=140).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


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
