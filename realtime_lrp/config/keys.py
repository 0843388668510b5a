"""What is known about each key of the schema: its description, type, legal words and option.

An option of the command line that sets a key gets a row in `OPTIONS`.
"""

from collections.abc import Collection, Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from realtime_lrp.config.names import (
    AUTO,
    COLORMAPS,
    COMPOSITES,
    KEYS,
    METHODS,
    MODELS,
    RULES,
    SOURCES,
    panels,
)
from realtime_lrp.config.schema import Config

SECTIONS: dict[str, type[BaseModel]] = {name: type(section) for name, section in Config()}
"""Name -> the class that has its keys."""

_FIELDS = {
    f"{section}.{key}": field
    for section, kind in SECTIONS.items()
    for key, field in kind.model_fields.items()
}

OPTIONS = {
    "--model": "model.name",
    "--weights": "model.weights",
    "--labels": "model.labels",
    "--preprocess": "model.preprocess",
    "--size": "model.size",
    "--output-activation": "model.output_activation",
    "--also-model": "live.also_models",
    "--method": "lrp.method",
    "--composite": "lrp.composite",
    "--target": "lrp.target",
    "--pool": "lrp.pool",
    "--precision": "lrp.precision",
    "--mirror": "input.mirror",
    "--map": "overlay.map",
    "--colormap": "overlay.colormap",
    "--opacity": "overlay.opacity",
    "--follow": "overlay.follow",
    "--layout": "video.layout",
    "--stride": "video.stride",
    "--batch": "video.batch",
    "--codec": "video.codec",
    "--quality": "video.quality",
    "--audio": "video.audio",
    "--source": "live.source",
    "--display": "live.display",
    "--concepts": "live.concepts",
    "--host": "serve.host",
    "--port": "serve.port",
    "--token-file": "serve.token_file",
    "--https": "serve.https",
    "--cert": "serve.cert",
    "--key": "serve.key",
    "--gallery": "concepts.gallery",
    "--names": "concepts.names",
}
"""Command line options that set a key."""


def describe(key: str) -> str:
    """The comment of a key "section.key": its meaning, unit and legal values."""
    return " ".join((_FIELDS[key].description or "").split())


def option_type(key: str) -> type:
    """The type of an option: bool, int or float if the key takes nothing else, else str."""
    kinds = set(get_args(_FIELDS[key].annotation) or [_FIELDS[key].annotation]) - {type(None)}
    return next(iter(kinds)) if kinds in ({bool}, {int}, {float}) else str


def choices(key: str) -> list[str]:
    """The words of a key with fixed choices, true and false included; empty for other keys."""
    return list(_choices(_FIELDS[key].annotation))


def _choices(kind: Any) -> Iterator[str]:
    if kind is bool:
        yield from ("true", "false")
    elif get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _choices(one)


def field_of(key: str) -> FieldInfo | None:
    """The field of a key "section.key", or None if there is no such key."""
    return _FIELDS.get(key)


def legal_keys() -> list[str]:
    """Every key as "section.key", in the order of the file."""
    return list(_FIELDS)


def keys_within(schema: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of a schema as people write it, "live" and "live.source", sections included."""
    for name, field in schema.model_fields.items():
        key = prefix + (field.alias or name)
        yield key
        for part in _models_in(field.annotation):
            yield from keys_within(part, f"{key}.")


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models_in(part)


def names_of_keys() -> dict[str, Collection[str]]:
    """Keys "section.key" whose names are listed here -> their legal names."""
    return {
        "lrp.method": METHODS.known(),
        "lrp.composite": [AUTO, *COMPOSITES.known()],
        "lrp.layers": RULES.known(),
        "overlay.colormap": COLORMAPS.known(),
        "live.panels": panels().known(),
        "kiosk.exit_key": KEYS.known(),
    }


def legal_values(key: str) -> list[str]:
    """The names that a key "section.key" may have, for shell completion; empty where it has none.

    Keys that also take other words (files, classes, cameras) have their names listed here.
    """
    among_others = {
        "model.name": MODELS.known(),
        "live.also_models": MODELS.known(),
        "model.weights": ["imagenet", "random"],
        "lrp.target": ["all", "top1", "top5"],
        "live.source": SOURCES.known(),
    }
    if key not in legal_keys() or key == "lrp.layers":
        return []
    names = names_of_keys()
    return list(among_others.get(key) or names.get(key) or choices(key))
