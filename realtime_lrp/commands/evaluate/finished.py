"""How `--resume` knows a finished evaluation: by a hash in its report."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from realtime_lrp.commands.evaluate.kept import Facts
from realtime_lrp.config import Config

FINGERPRINT = "fingerprint"
"""The key of the hash in a report."""


def fingerprint_of(facts: Facts, rows: Sequence[str], config: Config) -> str:
    """Hash of everything that an evaluation's files depend on, 32 hexadecimal digits.

    Args:
      facts: what the values of rows depend on.
      rows: the names of the rows that are measured, in their order.
      config: how maps are drawn is taken from it.
    """
    drawing = config.overlay.model_dump(mode="json")
    text = json.dumps([dict(facts), [*rows], drawing], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fingerprint_in(report: Path) -> str | None:
    """The hash in a report; None if the file is missing or is no report."""
    try:
        found = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get(FINGERPRINT) if isinstance(found, dict) else None
