"""Prints a configuration as a file that `load` reads back as the same, and the schema."""

import json
from typing import Any

import yaml

from realtime_lrp.config.keys import COMMAND_KEYS, SECTIONS, describe, names_of
from realtime_lrp.config.loading import DEFAULT, Settings
from realtime_lrp.config.names import Names
from realtime_lrp.config.problems import hide_secrets
from realtime_lrp.config.reading import FLOAT, INTEGER
from realtime_lrp.config.schema import Config, as_setting
from realtime_lrp.errors import masked


def json_schema() -> str:
    """The schema as JSON Schema, draft 7, with the legal names of every key."""
    schema = _in_one_line(Config.model_json_schema())
    for section, kind in SECTIONS.items():
        part = schema["$defs"].pop(kind.__name__)
        for key, value in part["properties"].items():
            value.pop("title", None)  # a nested section has none
            value.get("items", {}).pop("default", None)  # pydantic 2.10 leaves it there
            _add_names(value, names_of(f"{section}.{key}"))
            if f"{section}.{key}" in COMMAND_KEYS:
                notes = {name: value.pop(name) for name in ("default", "description")}
                part["properties"][key] = {"anyOf": [value, {"type": "null"}], **notes}
        del part["title"]
        schema["properties"][section] = part | {"type": ["object", "null"]}
    schema |= {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "realtime_lrp",
        "type": ["object", "null"],
    }
    return json.dumps(schema, indent=1) + "\n"


def _in_one_line(part: Any) -> Any:
    """A part of a schema whose descriptions are no longer wrapped."""
    if isinstance(part, list):
        return [_in_one_line(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: " ".join(value.split()) if key == "description" else _in_one_line(value)
        for key, value in part.items()
    }


def _add_names(value: dict[str, Any], names: Names | None) -> None:
    """Adds legal names to the schema of a key, wherever it takes a text."""
    if names is None or names.open:
        return
    if rules := value.get("additionalProperties"):
        rules["pattern"] = rf"^\s*({'|'.join(names.known())})\s*(\([^()]*\))?\s*$"
    for part in (value, value.get("items", {}), *value.get("anyOf", ())):
        if part.get("type") == "string":
            part["enum"] = names.known()


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1, YAML 1.2 or `load` would not read as text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _number in (INTEGER, FLOAT):
    _Dumper.add_implicit_resolver("a number for load", _number, list("-.0123456789"))


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, None if text.isprintable() else '"'
    ),
)


def as_yaml(settings: Settings) -> str:
    """The configuration as commented YAML that `load` reads; *** hides passwords and queries."""
    lines = ["# realtime_lrp: every setting with its default, unit and legal values.\n"]
    for section, kind in SECTIONS.items():
        lines.append(f"\n{section}:  # {kind.__doc__}\n")
        for key, present in getattr(settings.config, section):
            name = f"{section}.{key}"
            value = as_setting(present)
            shown = _without_secrets(value, name)
            origin = settings.origins.get(name, "")
            # a default that depends on the command must not become a setting of the file
            hidden = "# " if name in COMMAND_KEYS and origin == DEFAULT else ""
            note = f" [from {origin}]" if settings.is_set(name) else f" [{origin}]"
            note = "" if origin in ("", DEFAULT) else note
            if shown != value:
                note += " [*** hides a part of it: write the whole address]"
            text = yaml.dump(
                [shown], Dumper=_Dumper, default_flow_style=True, allow_unicode=True,
                sort_keys=False, width=float("inf"),
            )  # fmt: skip
            in_a_line = text[1 : text.rindex("]")]
            lines.append(f"  {hidden}{key}: {in_a_line}  # {describe(name)}{note}\n")
    return "".join(lines)


def _without_secrets(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return [_without_secrets(one, key) for one in value]
    if isinstance(value, str) and key in ("live.source", "live.sources", "kiosk.clips"):
        return hide_secrets(value)
    return masked(value) if isinstance(value, str) and "://" in value else value
