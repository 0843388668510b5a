"""Defaults that depend on the command. The schema has those that hold everywhere else.

They are applied once, in `load`; a command gets a configuration in which every value is decided.
`null` in a file stands for the default of the command.
"""

from typing import Any

VIEWER_COMPOSITE = "epsilon_plus_flat"
"""In `evaluate` it cannot be told from zplus in pointing. It takes as long, depends on the class,
which zplus does not, and is steadier from frame to frame than any other composite."""

COMMAND_DEFAULTS: dict[str, dict[str, Any]] = {
    "live": {"lrp.composite": VIEWER_COMPOSITE},
    "serve": {"lrp.composite": VIEWER_COMPOSITE},
    "demo": {"lrp.composite": VIEWER_COMPOSITE, "model.name": "shapes"},
    "kiosk": {
        "lrp.composite": VIEWER_COMPOSITE,
        "model.name": "shapes",
        "lrp.target": "top1",  # the exhibit shows one answer: that one is explained
        "input.mirror": True,
    },
    "evaluate": {"model.name": "shapes"},
    "concepts": {"lrp.composite": VIEWER_COMPOSITE, "lrp.target": "top1"},
}
"""Command -> key "section.key" -> its default there. `evaluate` on photos has none."""

COMMAND_KEYS = frozenset(key for defaults in COMMAND_DEFAULTS.values() for key in defaults)
"""The keys whose default depends on the command."""
