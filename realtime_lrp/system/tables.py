"""Tables as lines of plain text."""

from io import StringIO

from rich.console import Console
from rich.table import Table


def new_table(first: str, *headings: str, gap: int = 2) -> Table:
    """An empty table: the first column stands at the left, all others at the right."""
    table = Table(first, box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def rendered(table: Table, width: int = 140) -> list[str]:
    """The lines of a table, at most `width` characters each; cells are shown as they are."""
    text = StringIO()
    Console(file=text, width=width, markup=False, emoji=False, highlight=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]
