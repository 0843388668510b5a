"""systemd: messages to the service manager, and the unit file that runs the exhibit as a service.

The unit is a template, `assets/realtime-lrp.service.in`; change it there. systemd names a socket in
the environment and receives datagrams on it; without that variable nothing is sent.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from realtime_lrp.config import ASSETS

TEMPLATE = ASSETS / "realtime-lrp.service.in"


class ServiceNotifier:
    """Sends the exhibit's state to systemd. Never raises, never blocks.

    Args:
      environ: the environment variables; NOTIFY_SOCKET and WATCHDOG_USEC are read.

    Attributes:
      managed: whether a service manager listens.
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

    def ready(self, status: str) -> None:
        """Reports that the exhibit is on the screen; sent once.

        Args:
          status: what the exhibit does, in one line.
        """
        if not self._ready:
            self._ready = self._send("READY=1")
            self.status(status)

    def status(self, text: str) -> None:
        """Reports what the exhibit does, in one line; sent only when it changed."""
        text = " ".join(text.splitlines())
        if text != self._status and self._send(f"STATUS={text}"):
            self._status = text

    def alive(self, now: float) -> None:
        """Feeds the watchdog, twice within its timeout.

        Args:
          now: seconds of a monotonic clock.
        """
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
        """Whether the message was sent; if not (the socket is full), the caller tries again."""
        if self.managed:
            with suppress(OSError):
                self._socket.sendto(message.encode("utf-8", "replace"), self._address)
                return True
        return False


def unit(config_file: Path | None, user: str, program: str) -> str:
    """A systemd unit that runs the exhibit on a computer without a desktop.

    Args:
      config_file: absolute path of the configuration, or None.
      user: the account that the exhibit runs under.
      program: absolute path of realtime-lrp.

    Returns:
      The text of a system unit.
    """
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
