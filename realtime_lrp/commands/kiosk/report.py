"""How the exhibit reports its state: messages to systemd, and the health file for the technician.

systemd names a socket in the environment and receives datagrams on it; without that variable
nothing is sent. Its unit is a template, `assets/realtime-lrp.service.in`; change it there.
docs/kiosk.md lists the keys of the health file, which says nothing about visitors.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from realtime_lrp.commands.kiosk.loop import Kiosk
from realtime_lrp.commands.kiosk.settings import write_failure
from realtime_lrp.config import ASSETS, Settings
from realtime_lrp.errors import Error, masked
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.version import __version__

TEMPLATE = ASSETS / "realtime-lrp.service.in"

HEALTH_S = 5.0
"""Seconds after which the health file is written again though the state is the same."""

log = logging.getLogger(__name__)


class ServiceNotifier:
    """Sends the exhibit's state to systemd, as NOTIFY_SOCKET and WATCHDOG_USEC say.

    It never raises and never blocks: what cannot be sent now is sent again later.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ):
        address = environ.get("NOTIFY_SOCKET", "")
        self.managed = bool(address)
        self._address = "\0" + address[1:] if address.startswith("@") else address
        if self.managed:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        timeout_us = environ.get("WATCHDOG_USEC", "")
        self._watchdog_period_s = int(timeout_us) / 2e6 if timeout_us.isdecimal() else None
        self._watchdog_sent: float | None = None
        self._ready = False
        self._status: str | None = None

    def drawn(self, status: str, now: float) -> None:
        """Reports that the screen was drawn, and in one line what the exhibit does.

        It is ready after the first time. The watchdog is fed twice within its timeout.
        """
        self._ready = self._ready or self._send("READY=1")
        status = " ".join(status.splitlines())
        if status != self._status and self._send(f"STATUS={status}"):
            self._status = status
        if self._watchdog_period_s is None:
            return
        sent = self._watchdog_sent
        due = sent is None or now - sent >= self._watchdog_period_s
        if due and self._send("WATCHDOG=1"):
            self._watchdog_sent = now

    def stopping(self) -> None:
        """Reports that the exhibit ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> bool:
        """Whether the message was sent; the socket may be full."""
        if self.managed:
            with suppress(OSError):
                self._socket.sendto(message.encode("utf-8", "replace"), self._address)
                return True
        return False


class HealthFile:
    """A JSON file that is replaced every few seconds, and when the state changes.

    Its folder is created if missing. If the file cannot be written, the old one stays, the log says
    so once, and the exhibit goes on; the next write is tried as usual.
    """

    def __init__(self, path: Path):
        self._path = path
        self._written_at = 0.0
        self._state: str | None = None
        self._failing = False
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, state: str, now: float, facts: Callable[[], Mapping[str, Any]]) -> None:
        """Writes the facts if that is due."""
        if state == self._state and now - self._written_at < HEALTH_S:
            return
        self._written_at, self._state = now, state
        try:
            with atomic_file(self._path, overwrite=True) as part:
                part.write_text(json.dumps(facts(), indent=2) + "\n", encoding="utf-8")
        except (Error, OSError) as error:
            if not self._failing:
                log.warning(
                    "the health file stays as it is until it can be written again: %s",
                    write_failure(error),
                )
            self._failing = True
        else:
            self._failing = False


def health(kiosk: Kiosk, settings: Settings, ended: bool = False) -> dict[str, Any]:
    """What the health file says."""
    config, engine, opens = settings.config, kiosk.network.engine, kiosk.opens
    source, described = masked(config.live.source), masked(kiosk.camera.described)
    error = None
    if kiosk.last_error:
        text, at = kiosk.last_error
        error = {"what": text, "when": _timestamp(time.monotonic() - at)}
    return {
        "state": "ended" if ended else str(kiosk.state),
        "card": kiosk.card or None,
        "opens": opens and opens.isoformat(timespec="minutes"),
        "last_error": error,
        "camera": described if source in described else f"{source}: {described}".rstrip(": "),
        "network": config.model.name,
        "computes": f"{engine.precision} on {engine.device}" if engine else None,
        "configuration": masked(settings.complaint) or "as written",
        "version": __version__,
        "pid": os.getpid(),
        "written": _timestamp(0.0),
    }


def _timestamp(seconds_ago: float) -> str:
    moment = datetime.fromtimestamp(time.time() - seconds_ago).astimezone()
    return moment.isoformat(timespec="seconds")


def unit(config_file: Path | None, user: str, program: str) -> str:
    """A systemd unit that runs the exhibit on a computer without a desktop; paths are absolute."""
    command = [program, "kiosk", *(("--config", str(config_file)) if config_file else ())]
    values = {
        "@USER@": _escaped(user),
        "@FOLDER@": _escaped(str(config_file.parent)) if config_file else "/",
        "@COMMAND@": " ".join(map(_quoted, command)),
    }
    lines = TEMPLATE.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(_filled(line, values) for line in lines)


def _filled(line: str, values: Mapping[str, str]) -> str:
    """A line of the template; a line holds at most one placeholder."""
    for placeholder, value in values.items():
        if placeholder in line:
            return line.replace(placeholder, value)
    return line


def _escaped(text: str) -> str:
    """A value for a line that systemd takes literally: it expands only the percent sign."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a command line in systemd's quoting."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("$", "$$")):
        word = word.replace(sign, written)
    return f'"{_escaped(word)}"'
