"""Writes everything that is printed from tables of the program.

`python assets/make/make_assets.py printed` after a change of the schema, of a sentence about a
method, or of a key of the viewer. A test compares each file with what is printed.
"""

from pathlib import Path

from realtime_lrp import config
from realtime_lrp.config.names import ABOUT, ABOUT_RULES, ABOUT_SOURCES
from realtime_lrp.view import keys

HOME = Path(__file__).parents[2]


def printed() -> dict[str, str]:
    """File in the repository -> its text."""
    sentences, rules, sources = map(_table, TABLES)
    schema = "# yaml-language-server: $schema=assets/config.schema.json\n"
    return {
        "config.yaml": schema + config.as_yaml(config.load()),
        "assets/config.schema.json": config.json_schema(),
        "docs/methods.md": _with_tables("docs/methods.md", sentences, rules),
        "docs/live.md": _with_tables("docs/live.md", _keys(), sources),
    }


TABLES = {
    "| composite or method | what its map shows; what it is weak at |": ABOUT,
    "| rule | what an input contributes to an output |": ABOUT_RULES,
    "| name of a source | |": ABOUT_SOURCES,
}
"""Head of a table -> its names, each with what is said of it."""


def _table(head: str) -> str:
    rows = [head, "|---|---|", *(f"| `{name}` | {text} |" for name, text in TABLES[head].items())]
    return "\n".join(rows) + "\n"


def _keys() -> str:
    rows = [f"- `{keys.key_text(one.keys)}`: {one.meaning}" for one in (*keys.KEYED, *keys.CLICKER)]
    rows += [f"- {button}: {meaning}" for button, meaning in keys.MOUSE]
    return "\n".join(rows) + "\n"


def _with_tables(page: str, *tables: str) -> str:
    """The text of a page with the tables of the same heads replaced."""
    text = (HOME / page).read_text(encoding="utf-8")
    for table in tables:
        start = text.index(table.split("\n", 1)[0])
        end = text.index("\n\n", start) + 1
        text = text[:start] + table + text[end:]
    return text


def write(_: Path) -> None:
    """Writes them."""
    for name, text in printed().items():
        (HOME / name).write_text(text, encoding="utf-8")
