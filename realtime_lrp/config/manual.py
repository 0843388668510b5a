"""The reference of every setting, made from the schema.

`python -m realtime_lrp.config.manual > docs/configuration.md` writes it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from realtime_lrp.config.messages import MAX_LETTERS
from realtime_lrp.config.printing import written
from realtime_lrp.config.schema import OPTIONS, SECTIONS, Config, describe
from realtime_lrp.config.values import MAX_PIXELS

_BEFORE = f"""\
# Every setting

Made from the schema: `python -m realtime_lrp.config.manual > docs/configuration.md`.
[config.yaml](../config.yaml) is the same as a file.

```sh
realtime-lrp config > my.yaml                                      # a file to start from
realtime-lrp config --config my.yaml                               # every mistake with its line
realtime-lrp live --config my.yaml --set lrp.keep=0.1 --opacity 1  # all three ways
```

An option wins over `--set`, `--set` over the file, the file over the default. Every command but
`models` takes `--config` and `--set`; `realtime-lrp COMMAND --help` lists the options that it has.

Limits include their ends. Texts have at most {MAX_LETTERS} letters, sizes at most {MAX_PIXELS}
pixels a side. `null` stands for nothing given. A key that is not known, or a value beyond its
limits, is refused with its place: exit code 78 in a file or `--set`, 2 in an option.
"""


def manual() -> str:
    """docs/configuration.md: key, default, limits, meaning with its unit, option."""
    return _BEFORE + "".join(line for section in SECTIONS for line in _table(section))


def _table(section: str) -> Iterator[str]:
    kind = SECTIONS[section]
    parts = kind.model_json_schema()["properties"]
    options = {key: option for option, key in OPTIONS.items()}
    yield f"\n## {section}\n\n{kind.__doc__}\n\n"
    yield "| key | default | limits | meaning | option |\n|---|---|---|---|---|\n"
    for name, default in getattr(Config(), section):
        key = f"{section}.{name}"
        option = f"`{options[key]}`" if key in options else ""
        cells = (f"`{key}`", f"`{written(default)}`", _limits(parts[name]), describe(key), option)
        yield f"| {' | '.join(cells)} |\n"


def _limits(value: Mapping[str, Any]) -> str:
    """The least and the most of a number, or of a list's entries, from its JSON Schema."""
    for part in (value, *value.get("anyOf", ())):
        if "maximum" in part:
            least = part.get("minimum", f"above {part.get('exclusiveMinimum', '')}")
            return f"{least} to {part['maximum']}"
        if "maxItems" in part:
            return f"{part['minItems']} to {part['maxItems']} entries"
    return ""


if __name__ == "__main__":
    print(manual(), end="")
