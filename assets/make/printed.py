"""Writes everything that is printed from tables of the program.

`python assets/make/make_assets.py printed` after a change of the schema, of a sentence about a
method, or of a key of the viewer. A test compares each file with what is printed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from realtime_lrp import config
from realtime_lrp.config.keys import SECTIONS
from realtime_lrp.config.names import ABOUT, ABOUT_SOURCES
from realtime_lrp.config.printing import to_yaml
from realtime_lrp.config.values import MAX_LETTERS, MAX_PIXELS
from realtime_lrp.view import keys

HOME = Path(__file__).parents[2]

INTRODUCTION = f"""\
# Every setting

This page is printed from the schema by `python assets/make/make_assets.py printed`.
[config.yaml](../config.yaml) has the same keys, as a file to start from.

```sh
realtime-lrp config > my.yaml                                      # a file to start from
realtime-lrp config --config my.yaml                               # every mistake with its line
realtime-lrp live --config my.yaml --set lrp.keep=0.1 --opacity 1  # all three ways
```

An option wins over `--set`, `--set` over the file, the file over the default. Every command but
`models` and `show` takes `--config` and `--set`. `realtime-lrp config` prints the effective value
of every key and where it came from; a default of `null` may depend on the command.

Behind a key stand its default, its limits, which are inclusive, and its option. Texts have at most
{MAX_LETTERS} characters, sizes at most {MAX_PIXELS} pixels per side. An unknown key or a value
outside its limits is an error that names the file and the line.
"""


def printed() -> dict[str, str]:
    """File in the repository -> its text."""
    schema = "# yaml-language-server: $schema=assets/config.schema.json\n"
    return {
        "config.yaml": schema + config.as_yaml(config.load()),
        "assets/config.schema.json": config.json_schema(),
        "docs/configuration.md": INTRODUCTION + "".join(map(_settings, SECTIONS)),
        "docs/methods.md": _with_table(_page("docs/methods.md"), _sentences()),
        "docs/live.md": _with_table(_with_table(_page("docs/live.md"), keys.table()), _sources()),
    }


def _settings(section: str) -> str:
    """A section of the schema as a list."""
    kind = SECTIONS[section]
    parts = kind.model_json_schema()["properties"]
    options = {key: f"`{option}`" for option, key in config.OPTIONS.items()}
    lines = [f"\n## {section}\n\n{kind.__doc__}\n\n"]
    for name, default in getattr(config.Config(), section):
        key = f"{section}.{name}"
        facts = (f"`{to_yaml(default)}`", _limits(parts[name]), options.get(key, ""))
        lines.append(f"- `{key}` ({', '.join(filter(None, facts))}): {config.describe(key)}\n")
    return "".join(lines)


def _limits(value: Mapping[str, Any]) -> str:
    """The limits of a number, or of the number of list entries, from the key's JSON Schema."""
    for part in (value, *value.get("anyOf", ())):
        if "maximum" in part:
            least = part.get("minimum", f"above {part.get('exclusiveMinimum', '')}")
            return f"{least} to {part['maximum']}"
        if "maxItems" in part:
            return f"{part.get('minItems', 0)} to {part['maxItems']} entries"
    return ""


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
