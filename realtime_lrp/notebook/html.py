"""HTML for notebooks: tables and inline pictures. All text is escaped: labels come from files."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape

SMALL = "font-size:90%;color:gray"  # the style of remarks below a table


def drawable(text: object) -> str:
    """The text with escapes for what cannot be encoded, which file names may hold."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def escaped(text: object) -> str:
    """The text as HTML."""
    return escape(drawable(text))


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table of text; None is an empty cell, an empty head none."""
    titles = f"<thead>{_row(head, 'th')}</thead>\n" if head else ""
    body = "\n".join(_row(row, "td") for row in rows)
    return f"<table>\n{titles}<tbody>\n{body}\n</tbody></table>"


def _row(cells: Sequence[object], tag: str) -> str:
    parts = (
        f'<{tag} style="text-align:left">{"" if cell is None else escaped(cell)}</{tag}>'
        for cell in cells
    )
    return f"<tr>{''.join(parts)}</tr>"


def facts(title: object, values: Mapping[str, object]) -> str:
    """A title, if any, and a table of names and values; a value of None is left out."""
    rows = [(name, value) for name, value in values.items() if value is not None]
    heading = f"<strong>{escaped(title)}</strong>\n" if title else ""
    return heading + table((), rows)


def folded(summary: object, content: str) -> str:
    """HTML that a reader opens with a click."""
    return f"<details><summary>{escaped(summary)}</summary>\n{content}\n</details>"


def remark(text: object) -> str:
    """A line of small text."""
    return f'<div style="{SMALL}">{escaped(text)}</div>'


def picture(png: bytes, description: object) -> str:
    """A PNG as an inline picture; readers hear the description who do not see it."""
    data = base64.b64encode(png).decode("ascii")
    return (
        f'<img src="data:image/png;base64,{data}" alt="{escaped(description)}" '
        'style="max-width:100%">'
    )
