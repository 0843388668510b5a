"""Generates docs/configuration.md from the schema.

Run `python -m realtime_lrp.config.manual > docs/configuration.md` after a change of the schema.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from realtime_lrp.config.keys import OPTIONS, SECTIONS, describe
from realtime_lrp.config.messages import MAX_LETTERS
from realtime_lrp.config.printing import to_yaml
from realtime_lrp.config.schema import Config
from realtime_lrp.config.values import MAX_PIXELS

_INTRODUCTION = f"""\
# Every setting

This page is generated from the schema (`python -m realtime_lrp.config.manual`).
[config.yaml](../config.yaml) has the same keys, as a file to start from.

```sh
realtime-lrp config > my.yaml                                      # a file to start from
realtime-lrp config --config my.yaml                               # every mistake with its line
realtime-lrp live --config my.yaml --set lrp.keep=0.1 --opacity 1  # all three ways
```

An option wins over `--set`, `--set` over the file, the file over the default. Every command but
`models` and `show` takes `--config` and `--set`; `realtime-lrp COMMAND --help` lists its options.

`realtime-lrp config` prints the effective value of every key and where it came from. A few defaults
depend on the command, as their descriptions say. These keys are printed as comments until somebody
sets them; `null` stands for the default of the command.

Limits are inclusive. Texts have at most {MAX_LETTERS} characters, sizes at most {MAX_PIXELS} pixels
per side. An unknown key or a value outside its limits is an error that names the file and the line.
The exit code is 78 for a file or `--set`, 2 for an option.
"""


def manual() -> str:
    """The text of docs/configuration.md: a table for each section."""
    return _INTRODUCTION + "".join(line for section in SECTIONS for line in _table(section))


def _table(section: str) -> Iterator[str]:
    kind = SECTIONS[section]
    parts = kind.model_json_schema()["properties"]
    options = {key: option for option, key in OPTIONS.items()}
    yield f"\n## {section}\n\n{kind.__doc__}\n\n"
    yield "| key | default | limits | meaning | option |\n|---|---|---|---|---|\n"
    for name, default in getattr(Config(), section):
        key = f"{section}.{name}"
        option = f"`{options[key]}`" if key in options else ""
        cells = (f"`{key}`", f"`{to_yaml(default)}`", _limits(parts[name]), describe(key), option)
        yield f"| {' | '.join(cells)} |\n"


def _limits(value: Mapping[str, Any]) -> str:
    """The limits of a number, or of the number of list entries, from the key's JSON Schema."""
    for part in (value, *value.get("anyOf", ())):
        if "maximum" in part:
            least = part.get("minimum", f"above {part.get('exclusiveMinimum', '')}")
            return f"{least} to {part['maximum']}"
        if "maxItems" in part:
            return f"{part.get('minItems', 0)} to {part['maxItems']} entries"
    return ""


if __name__ == "__main__":
    print(manual(), end="")
