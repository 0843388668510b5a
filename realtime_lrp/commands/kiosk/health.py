"""The health file: the exhibit's state as JSON, for the technician; nothing about visitors.

docs/kiosk.md lists its keys.
"""

import json
import logging
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from realtime_lrp.commands.kiosk.loop import Kiosk
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, first_line, masked
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.version import __version__

PERIOD_S = 5.0

log = logging.getLogger(__name__)


class HealthFile:
    """Replaces a JSON file every few seconds, and when the state changes.

    Its folder is created if missing. If the file cannot be written, the old one stays, the log says
    so once, and the exhibit goes on; the next write is tried as usual.

    Args:
      path: the file.
    """

    def __init__(self, path: Path):
        self._path = path
        self._written_at: float | None = None
        self._state = ""
        self._failing = False
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)

    def is_due(self, state: str, now: float) -> bool:
        """Whether the file has to be written."""
        if self._written_at is None or state != self._state:
            return True
        return now - self._written_at >= PERIOD_S

    def write(self, facts: Mapping[str, Any], state: str, now: float) -> None:
        """Writes the facts; a later `state` that differs from this one is written at once."""
        self._written_at, self._state = now, state
        try:
            with atomic_file(self._path, overwrite=True) as part:
                part.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        except (Error, OSError) as error:
            if not self._failing:
                log.warning(
                    "the health file stays as it is until it can be written again: %s",
                    write_failure(error),
                )
            self._failing = True
        else:
            self._failing = False


class HealthReport:
    """Collects what the health file says.

    Args:
      path: the health file.
      config: the effective configuration.
      complaint: what is wrong with the configuration that should have been used, or "".
    """

    def __init__(self, path: Path, config: Config, complaint: str):
        self._file, self._config, self._complaint = HealthFile(path), config, complaint

    def write(self, kiosk: Kiosk, ended: bool = False) -> None:
        """Writes the file if it is due."""
        now, state = time.monotonic(), "ended" if ended else kiosk.described
        if self._file.is_due(state, now):
            facts = self._facts(kiosk, now)
            self._file.write({**facts, "state": "ended"} if ended else facts, state, now)

    def _facts(self, kiosk: Kiosk, now: float) -> dict[str, Any]:
        config, engine, opens = self._config, kiosk.network.engine, kiosk.opens
        error = None
        if kiosk.last_error:
            text, at = kiosk.last_error
            error = {"what": text, "when": _timestamp(now - at)}
        return {
            "state": str(kiosk.state),
            "card": kiosk.card or None,
            "opens": opens and opens.isoformat(timespec="minutes"),
            "last_error": error,
            "camera": camera_text(masked(config.live.source), masked(kiosk.camera.described)),
            "network": config.model.name,
            "computes": f"{engine.precision} on {engine.device}" if engine else None,
            "configuration": masked(self._complaint) or "as written",
            "version": __version__,
            "pid": os.getpid(),
            "written": _timestamp(0.0),
        }


def camera_text(source: str, described: str) -> str:
    """What the camera is, or what is wrong with it; names the source once.

    Args:
      source: the source of the configuration: a camera, a URL, a file, ...
      described: `SourcePart.described`; it often names the source, files without their folder.
    """
    name = re.escape(Path(source).name or source)
    if re.search(rf"(?<![\w.]){name}(?![\w.]*\w)", described):
        return described
    return source if source.startswith(described) else f"{source}: {described}"


def write_failure(error: Exception) -> str:
    """Why an atomic write failed, without its remark that nothing is left: the old file is."""
    cause = error.__cause__ or error
    return (isinstance(cause, OSError) and cause.strerror) or first_line(cause)


def _timestamp(seconds_ago: float) -> str:
    moment = datetime.fromtimestamp(time.time() - seconds_ago).astimezone()
    return moment.isoformat(timespec="seconds")
