"""Defaults that depend on the command. The schema has those that hold everywhere else.

They are applied once, in `load`; a command gets a configuration in which every value is decided.
`null` in a file stands for the default of the command.
"""

from typing import Any

COMPOSITE, VIEWER_COMPOSITE, ATTENTION_COMPOSITE = "zplus", "epsilon_plus_flat", "attnlrp_gamma"
"""What `lrp.composite: auto` is: elsewhere, in viewers, and everywhere for networks with attention.

In `evaluate` the second cannot be told from the first in pointing. It takes as long, depends on the
class, which the first does not, and is steadier from frame to frame than any other composite. The
third points best of what depends on the class, on the one transformer that was measured."""

COMMAND_DEFAULTS: dict[str, dict[str, Any]] = {
    "live": {"lrp.target": "top1"},
    "serve": {"lrp.target": "top1"},
    "demo": {"lrp.target": "top1", "model.name": "shapes"},
    "kiosk": {"lrp.target": "top1", "model.name": "shapes", "input.mirror": True},
    "evaluate": {"model.name": "shapes"},
    "concepts": {"lrp.target": "top1"},
    "teach": {"lrp.target": "top1"},
}
"""Command -> key "section.key" -> its default there. `evaluate` on photos has none."""

COMMAND_KEYS = frozenset(key for defaults in COMMAND_DEFAULTS.values() for key in defaults)
"""The keys whose default depends on the command."""
