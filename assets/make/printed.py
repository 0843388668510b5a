"""Writes everything that is printed from tables of the program.

`python assets/make/make_assets.py printed` after a change of the schema, of a sentence about a
method, or of a key of the viewer. A test compares each file with what is printed.
"""

from pathlib import Path

from realtime_lrp import config
from realtime_lrp.config.names import ABOUT, ABOUT_SOURCES
from realtime_lrp.view import keys

HOME = Path(__file__).parents[2]


def printed() -> dict[str, str]:
    """File in the repository -> its text."""
    schema = "# yaml-language-server: $schema=assets/config.schema.json\n"
    return {
        "config.yaml": schema + config.as_yaml(config.load()),
        "assets/config.schema.json": config.json_schema(),
        "docs/methods.md": _with_table(_page("docs/methods.md"), _sentences()),
        "docs/live.md": _with_table(_with_table(_page("docs/live.md"), keys.table()), _sources()),
    }


def _sentences() -> str:
    """What each composite and method shows and what it is weak at, as a table."""
    rows = ["| composite or method | what its map shows; what it is weak at |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {text} |" for name, text in ABOUT.items())]) + "\n"


def _sources() -> str:
    """The named sources, as a table."""
    rows = ["| name of a source | |", "|---|---|"]
    return (
        "\n".join([*rows, *(f"| `{one}` | {text} |" for one, text in ABOUT_SOURCES.items())]) + "\n"
    )


def _page(name: str) -> str:
    return (HOME / name).read_text(encoding="utf-8")


def _with_table(text: str, table: str) -> str:
    """A page's text with the table of the same header replaced."""
    start = text.index(table.split("\n", 1)[0])
    end = text.index("\n\n", start) + 1
    return text[:start] + table + text[end:]


def write(_: Path) -> None:
    """Writes them."""
    for name, text in printed().items():
        (HOME / name).write_text(text, encoding="utf-8")
