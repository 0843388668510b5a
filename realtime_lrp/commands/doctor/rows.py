"""What the checks tell, and the page that it makes."""

import re
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

from realtime_lrp.config import Settings
from realtime_lrp.errors import Error, first_line

WIDTH = 100

Mark = Literal["ok", "warning", "missing"]
"""What is missing is needed; a warning is about what can be done without."""


class Row(msgspec.Struct, frozen=True):
    """One thing that was looked at.

    Attributes:
      mark: how it is.
      name: what it is.
      found: what there is.
      advice: what to do about it, where it is not ok.
    """

    mark: Mark
    name: str
    found: str
    advice: str = ""


Check = Callable[[Settings], Iterable[Row]]
"""Looks at one thing; what it raises becomes a row as well."""


def failed(mark: Mark, name: str, error: Exception, advice: str = "") -> Row:
    """The row of a check that ended with an exception; our own say themselves what to do."""
    if isinstance(error, Error):
        what, *rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", str(error), maxsplit=1)
        return Row(mark, name, what, " ".join(" ".join(rest).split()) or advice)
    return Row(mark, name, f"failed: {type(error).__name__}: {first_line(error)}", advice)


def page(rows: Iterable[Row]) -> list[str]:
    """The rows as lines of at most `WIDTH` characters, advice below what it is about."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(row.mark, row.name, row.found)
        if row.advice:
            table.add_row("", "", f"-> {row.advice}")
    console = Console(
        file=(text := StringIO()), width=WIDTH, markup=False, emoji=False, highlight=False
    )
    console.print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]
