"""Facts about each key of the schema: description, type, legal words, option, and default.

The defaults that depend on the command are here; the schema has those that hold everywhere else.
"""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from realtime_lrp.config.names import Names
from realtime_lrp.config.schema import Config
from realtime_lrp.config.values import OptionName

SECTIONS: dict[str, type[BaseModel]] = {name: type(section) for name, section in Config()}
"""Name -> the class that has its keys."""

FIELDS = {
    f"{section}.{key}": field
    for section, kind in SECTIONS.items()
    for key, field in kind.model_fields.items()
}
"""Key "section.key" -> its field."""

OPTIONS = {
    mark or f"--{key.partition('.')[2].replace('_', '-')}": key
    for key, field in FIELDS.items()
    for mark in field.metadata
    if isinstance(mark, OptionName)
}
"""Option of the command line -> the key that it sets."""


COMMAND_DEFAULTS: dict[str, dict[str, Any]] = {
    **{key: {"lrp.target": "top1"} for key in ("live", "serve", "concepts", "export", "teach")},
    "demo": {"lrp.target": "top1", "model.name": "shapes"},
    "kiosk": {"lrp.target": "top1", "model.name": "shapes", "input.mirror": True},
    "evaluate": {"model.name": "shapes"},
}
"""Command -> key "section.key" -> its default there. `evaluate` on photos has none."""

COMMAND_KEYS = frozenset(key for defaults in COMMAND_DEFAULTS.values() for key in defaults)
"""The keys whose default depends on the command."""


def describe(key: str) -> str:
    """The comment of a key "section.key": its meaning, unit and legal values."""
    return " ".join((FIELDS[key].description or "").split())


def option_type(key: str) -> type:
    """The type of an option: bool, int or float if the key takes nothing else, else str."""
    kinds = set(get_args(FIELDS[key].annotation) or [FIELDS[key].annotation]) - {type(None)}
    return next(iter(kinds)) if kinds in ({bool}, {int}, {float}) else str


def keys_within(schema: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of a schema as people write it, "live" and "live.source", sections included."""
    for name, field in schema.model_fields.items():
        yield prefix + name
        for part in _parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from keys_within(part, f"{prefix}{name}.")


def names_of(key: str) -> Names | None:
    """The names that a key "section.key", or each entry of its list, may be; None: any text."""
    parts = _parts(FIELDS[key].annotation, *FIELDS[key].metadata)
    return next((part for part in parts if isinstance(part, Names)), None)


def legal_values(key: str) -> list[str]:
    """The names that a key may have, for completion, even where other words are legal too."""
    if names := names_of(key):
        return names.known()
    return [part for part in _parts(FIELDS[key].annotation) if isinstance(part, str)]


def _parts(*kinds: Any) -> Iterator[Any]:
    """Everything that types are made of, at any depth: types, marks, words of a `Literal`."""
    for kind in kinds:
        yield kind
        yield from _parts(*get_args(kind))
