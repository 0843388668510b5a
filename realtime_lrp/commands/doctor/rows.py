"""The rows that checks return, and the table that is printed."""

import re
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
from rich.table import Table

from realtime_lrp.config import Settings
from realtime_lrp.errors import Error, first_line
from realtime_lrp.system.tables import rendered

WIDTH = 100

Mark = Literal["ok", "warning", "missing"]
"""How a check went; "missing" is what the demo or processing files needs, and ends with 69."""


class Row(msgspec.Struct, frozen=True):
    """One line of the report.

    Attributes:
      mark: how the check went.
      name: what was checked.
      found: what was found.
      advice: what to do about it if it is not ok.
    """

    mark: Mark
    name: str
    found: str
    advice: str = ""


Check = Callable[[Settings], Iterable[Row]]
"""Checks one thing; an exception becomes a row as well."""


def failed_row(mark: Mark, name: str, error: Exception, advice: str = "") -> Row:
    """The row of a check that raised; the second sentence of our own errors is the advice."""
    if isinstance(error, Error):
        what, *rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", str(error), maxsplit=1)
        return Row(mark, name, what, " ".join(" ".join(rest).split()) or advice)
    return Row(mark, name, f"failed: {type(error).__name__}: {first_line(error)}", advice)


def table(rows: Iterable[Row]) -> list[str]:
    """The rows as lines of at most `WIDTH` characters, each advice below its finding."""
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(row.mark, row.name, row.found)
        if row.advice:
            grid.add_row("", "", f"-> {row.advice}")
    return rendered(grid, WIDTH)
