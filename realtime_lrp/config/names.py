"""What a key may be called by name, for shells that complete words."""

import json

from realtime_lrp.config.schema import ASSETS

AMONG_OTHERS = {
    "model.name": ("shapes", "vgg16", "vgg19"),
    "model.weights": ("imagenet", "random"),
    "lrp.target": ("all", "top1", "top5"),
    "live.source": ("synthetic", "screen"),
}
"""Names of keys that take other words as well: files, classes, cameras."""


def legal_values(key: str) -> list[str]:
    """The names that a key "section.key" may have, none where it has no names.

    The schema for editors has them all, also those of methods and composites, which a room owns.
    """
    if key in AMONG_OTHERS:
        return list(AMONG_OTHERS[key])
    schema = json.loads((ASSETS / "config.schema.json").read_text(encoding="utf-8"))
    for name in key.split("."):
        schema = schema.get("properties", {}).get(name, {})
    names: list[str] = []
    for part in (schema, *schema.get("anyOf", ())):
        names += ["true", "false"] if part.get("type") == "boolean" else part.get("enum", [])
        names += [part["const"]] if "const" in part else []
    return names
