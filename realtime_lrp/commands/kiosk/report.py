"""How the exhibit reports its state: messages to systemd, and the health file for the technician.

systemd names a socket in the environment and receives datagrams on it; without that variable
nothing is sent. Its unit is a template, `assets/realtime-lrp.service.in`; change it there.
docs/kiosk.md lists the keys of the health file, which says nothing about visitors.
"""

import json
import logging
import math
import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from realtime_lrp.commands.kiosk.loop import Kiosk
from realtime_lrp.commands.kiosk.settings import write_failure
from realtime_lrp.config import ASSETS, Settings
from realtime_lrp.errors import Error, masked
from realtime_lrp.system.files import atomic_file

TEMPLATE = ASSETS / "realtime-lrp.service.in"

REPORT_S = 5.0
"""Seconds after which the exhibit reports again though its state is the same."""

log = logging.getLogger(__name__)


class Report:
    """Tells the service manager and the health file what the exhibit does.

    `environ` has NOTIFY_SOCKET, where systemd listens, and WATCHDOG_USEC, its timeout. What cannot
    be sent or written now is tried again with the next report; the exhibit goes on.
    """

    def __init__(self, settings: Settings, folder: Path, environ: Mapping[str, str] = os.environ):
        named, runtime = settings.config.kiosk.health, environ.get("RUNTIME_DIRECTORY")
        self._file = Path(named) if named else Path(runtime or folder) / "health.json"
        self._settings, self._failing = settings, False
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        timeout_us = environ.get("WATCHDOG_USEC", "")
        twice_s = int(timeout_us) / 2e6 if timeout_us.isdecimal() else REPORT_S
        self._period_s = min(REPORT_S, twice_s)
        self._reported_at, self._state = -math.inf, ""
        self._warnings = _LastWarning(logging.WARNING)
        logging.getLogger("realtime_lrp").addHandler(self._warnings)

    def drawn(self, kiosk: Kiosk, now: float) -> None:
        """The screen was drawn: reports every few seconds, and when the state changes."""
        if kiosk.described == self._state and now - self._reported_at < self._period_s:
            return
        self._reported_at, self._state = now, kiosk.described
        self.send(f"READY=1\nSTATUS={self._state}\nWATCHDOG=1")
        self.write(self._health(kiosk))

    def ended(self, kiosk: Kiosk) -> None:
        """Reports that the exhibit ends."""
        self.send("STOPPING=1")
        self.write(self._health(kiosk) | {"state": "ended"})
        logging.getLogger("realtime_lrp").removeHandler(self._warnings)

    def send(self, message: str) -> None:
        """Sends a message to systemd, if it has started this process and takes it now."""
        if self._address:
            with suppress(OSError):
                self._socket.sendto(message.encode("utf-8", "replace"), self._address)

    def write(self, facts: Mapping[str, Any]) -> None:
        """Replaces the health file; if that fails, it stays as it is and the log says so once."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._file, overwrite=True) as part:
                part.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            self._failing = False
        except (Error, OSError) as error:
            if not self._failing:
                log.warning(
                    "the health file stays as it is until it can be written again: %s",
                    write_failure(error),
                )
            self._failing = True

    def _health(self, kiosk: Kiosk) -> dict[str, Any]:
        config, last = self._settings.config, self._warnings.last
        source, described = masked(config.live.source), masked(kiosk.camera.described)
        return {
            "state": str(kiosk.state),
            "card": kiosk.card or None,
            "last_warning": last and {"what": last[0], "when": _local_time(last[1])},
            "camera": described if source in described else f"{source}: {described}".rstrip(": "),
            "network": config.model.name,
            "configuration": masked(self._settings.complaint) or "as written",
            "written": _local_time(time.time()),
        }


class _LastWarning(logging.Handler):
    """Keeps the newest warning or error of the log, and when it came."""

    last: tuple[str, float] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.last = masked(record.getMessage()), record.created


def _local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def unit(config_file: Path | None, user: str, program: str) -> str:
    """A systemd unit that runs the exhibit on a computer without a desktop; paths are absolute."""
    command = [program, "kiosk", *(("--config", str(config_file)) if config_file else ())]
    values = {
        "@USER@": _escaped(user),
        "@FOLDER@": _escaped(str(config_file.parent)) if config_file else "/",
        "@COMMAND@": " ".join(map(_quoted, command)),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("@[A-Z]+@", lambda found: values[found[0]], template)


def _escaped(text: str) -> str:
    """A value for a line that systemd takes literally: it expands only the percent sign."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a command line in systemd's quoting."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("$", "$$")):
        word = word.replace(sign, written)
    return f'"{_escaped(word)}"'
