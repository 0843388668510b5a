"""Which rows an evaluation has: composites, other methods, and what the user has configured."""

from typing import Any

from realtime_lrp.config import Config, names
from realtime_lrp.errors import UsageError, unknown

CONFIGURED = "configured"
"""Name of the row of the user's own composite with rules for particular layers."""


def rows_to_measure(config: Config, only: str | None) -> list[str]:
    """The names of the rows, in the order of the table.

    Args:
      config: has a row of its own where it has rules for particular layers.
      only: names separated by commas, which gives the order; None for all.

    Raises:
      UsageError: there is no such row, or no name is given.
    """
    known = measured_names()
    if config.lrp.layers:
        known.append(CONFIGURED)
    if only is None:
        return known
    stripped = [name.strip() for name in only.split(",")]
    chosen = list(dict.fromkeys(filter(None, stripped)))
    if not chosen:
        raise UsageError(f"--only names no row. Known: {', '.join(known)}.")
    for name in [name for name in chosen if name not in known]:
        if name == CONFIGURED:
            raise UsageError(
                "The row 'configured' is for rules of your own. Give some: --set lrp.layers=..."
            )
        raise unknown("row", name, known, names.panels().aliases)
    return chosen


def measured_names() -> list[str]:
    """The named rows: every composite of LRP, then every other method."""
    methods = [name for name in names.METHODS.known() if name != "lrp"]
    return [*names.COMPOSITES.known(), *methods]


def explainer_settings(config: Config, name: str) -> dict[str, Any]:
    """The arguments of `Explainer` for a row. Named composites have no rules of the user's."""
    if name == CONFIGURED:
        return {"method": "lrp"}
    if name in names.COMPOSITES.known():
        return {"method": "lrp", "composite": name, "layers": {}}
    return {"method": name, "layers": {}}
