"""The health file: how the exhibit is, for the technician. Nothing in it is about visitors."""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from realtime_lrp.errors import Error, first_line
from realtime_lrp.system.atomic import atomic_file

PERIOD_S = 5.0

log = logging.getLogger(__name__)


class Health:
    """Replaces a JSON file as a whole, every few seconds and when the state changes.

    Its folder is made where there is none. A file that cannot be written stays as it was, which is
    told once, and is tried again: the exhibit goes on.

    Args:
      path: the file.
    """

    def __init__(self, path: Path):
        self._path = path
        self._written_at: float | None = None
        self._state: object = None
        self._failing = False
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)

    def due(self, state: object, now: float) -> bool:
        """Whether it has to be written."""
        if self._written_at is None or state != self._state:
            return True
        return now - self._written_at >= PERIOD_S

    def write(self, facts: Mapping[str, Any], state: object, now: float) -> None:
        """Writes the facts; `state` is what it is written at once for when it changes."""
        self._written_at, self._state = now, state
        try:
            with atomic_file(self._path, overwrite=True) as part:
                part.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        except (Error, OSError) as error:
            if not self._failing:
                log.warning(
                    "the health file is not replaced until it can be written again: %s",
                    why_not_written(error),
                )
            self._failing = True
        else:
            self._failing = False


def why_not_written(error: Exception) -> str:
    """The reason alone: `atomic_file` also says that nothing is left, but the file before is."""
    cause = error.__cause__ or error
    return (isinstance(cause, OSError) and cause.strerror) or first_line(cause)
