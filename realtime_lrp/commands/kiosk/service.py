"""The service manager: what it is told, and the unit that makes a service of the exhibit.

systemd hears datagrams on a socket that it names in the environment; without one nothing is sent.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


class ServiceNotifier:
    """Tells systemd how the exhibit is. Never raises, never blocks.

    Args:
      environ: the environment, NOTIFY_SOCKET and WATCHDOG_USEC of it.

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
        every = environ.get("WATCHDOG_USEC", "")
        self._every_s = int(every) / 2e6 if every.isdecimal() else None
        self._alive_at: float | None = None
        self._ready = False
        self._text: str | None = None

    def ready(self, status: str) -> None:
        """The exhibit is on the screen; told once.

        Args:
          status: what it does, in a line.
        """
        if not self._ready:
            self._ready = self._tell("READY=1")
            self.status(status)

    def status(self, text: str) -> None:
        """What the exhibit does, in a line; told where it changed."""
        text = " ".join(text.splitlines())
        if text != self._text and self._tell(f"STATUS={text}"):
            self._text = text

    def alive(self, now: float) -> None:
        """The exhibit goes on; told twice in the time in which the manager wants to hear of it.

        Args:
          now: seconds of a clock that never goes back.
        """
        if self._every_s is None:
            return
        due = self._alive_at is None or now - self._alive_at >= self._every_s
        if due and self._tell("WATCHDOG=1"):
            self._alive_at = now

    def stopping(self) -> None:
        """The exhibit ends."""
        self._tell("STOPPING=1")

    def _tell(self, message: str) -> bool:
        """Whether it was told; where the manager does not read, it is tried again later."""
        if self.managed:
            with suppress(OSError):
                self._socket.sendto(message.encode("utf-8", "replace"), self._address)
                return True
        return False


def unit(config_file: Path | None, user: str, program: str) -> str:
    """A systemd unit that shows the exhibit on a computer without a desktop.

    Args:
      config_file: the absolute path of the configuration, or None.
      user: the account that it runs under.
      program: the absolute path of realtime-lrp.

    Returns:
      The text of a system unit.
    """
    command = [program, "kiosk", *(("--config", str(config_file)) if config_file else ())]
    return _UNIT.format(
        user=_escaped(user),
        folder=_escaped(str(config_file.parent)) if config_file else "/",
        command=" ".join(map(_quoted, command)),
    )


def _escaped(text: str) -> str:
    """As systemd reads it where it takes a line as it is: a percent sign stands twice."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command as systemd reads it."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("$", "$$")):
        word = word.replace(sign, written)
    return f'"{_escaped(word)}"'


_UNIT = """\
# /etc/systemd/system/realtime-lrp.service: the exhibit from the start of the computer on.
#
# Needs: apt install cage xwayland seatd kbd
# Then:  systemctl daemon-reload && systemctl enable --now realtime-lrp
# Look:  systemctl status realtime-lrp; journalctl -u realtime-lrp

[Unit]
Description=realtime_lrp, the exhibit
# The screen and the keyboard of the first console belong to the exhibit, not to a login.
Conflicts=getty@tty1.service
After=getty@tty1.service plymouth-quit-wait.service
# seatd hands screen, keyboard and mouse to cage. A session of logind (PAMName=) would do so too,
# but it moves all processes out of this service: systemd would not hear them, and no limit below
# would hold for them.
Wants=seatd.service
After=seatd.service
# However often it fails, it is started again.
StartLimitIntervalSec=0

[Service]
User={user}
# Cameras, and the graphics card for computing; seatd lets in who is of group video. Where seatd
# has a group of its own (seat), add it.
SupplementaryGroups=video render
# Names of files in the configuration count from its own folder.
WorkingDirectory={folder}

# The exhibit tells when its first picture is on the screen, what it does, and that it goes on.
Type=notify
NotifyAccess=all
# That is a card; the network is loaded, and its weights are downloaded, while it is shown.
TimeoutStartSec=180
# A render loop that tells nothing for this long is killed, and started again.
WatchdogSec=15
TimeoutStopSec=10
# Only the exhibit is asked to end; cage and its X server are ended once it has.
KillMode=mixed

# cage takes the console that is shown; that may be another one, on which staff have logged in.
ExecStartPre=-+chvt 1
# cage is a screen and nothing else: one program fills it, there is no desktop under it, no Alt-Tab,
# and without -s no way to another console. It tells through the pipe where its X server is (an
# empty line where it ended), then the shell becomes the exhibit. So it is the exhibit's exit code
# that systemd sees: cage 0.1.4 (Debian 12, Ubuntu 22.04) always ends with 0, whatever happened.
ExecStart=/bin/sh -c 'rm -f %t/realtime-lrp/screen; mkfifo %t/realtime-lrp/screen; \\
    {{ cage -- /bin/sh -c "printenv DISPLAY >%t/realtime-lrp/screen; exec sleep infinity"; \\
    echo >%t/realtime-lrp/screen; }} & \\
    read -r DISPLAY <%t/realtime-lrp/screen; export DISPLAY; exec "$$@"' sh \\
    {command}

# Whatever ended it, it comes back; only where staff left it with the key (0), or somebody sent it
# SIGTERM (0 as well), it stays down until systemctl start.
Restart=always
RestartPreventExitStatus=0
# Pauses grow from 2 to 60 s. Needs systemd 254; older ones warn, and always wait 2 s.
RestartSec=2
RestartSteps=6
RestartMaxDelaySec=60

# A leak ends the exhibit, which comes back, instead of the computer.
MemoryMax=75%
# Pictures of visitors get to no disk: not by swapping, not by a crash.
MemorySwapMax=0
LimitCORE=0

# /var/lib/realtime-lrp and /run/realtime-lrp. The second one outlives a restart, so that
# health.json can be read in between.
StateDirectory=realtime-lrp
RuntimeDirectory=realtime-lrp
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=restart

# Nothing can be written but these two folders. A health file elsewhere needs ReadWritePaths=.
ProtectSystem=strict
# The program and the configuration may lie in a home.
ProtectHome=read-only
# The X server's socket lies here, out of the reach of other programs.
PrivateTmp=yes
NoNewPrivileges=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
# Netlink: keyboards that are plugged in are noticed.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
# Left out, for they take away cameras and graphics cards (PrivateDevices, ProtectClock,
# DevicePolicy) or what TensorFlow compiles (MemoryDenyWriteExecute).

# cage's sockets
Environment=XDG_RUNTIME_DIR=%t/realtime-lrp
Environment=LIBSEAT_BACKEND=seatd
# An exhibit without keyboard, mouse and touch screen starts too.
Environment=WLR_LIBINPUT_NO_DEVICES=1
# Keras keeps weights here. It looks for none in a home that it cannot write to; to save the
# download, copy ~/.keras/models to /var/lib/realtime-lrp.
Environment=KERAS_HOME=%S/realtime-lrp
Environment=TF_CPP_MIN_LOG_LEVEL=2

[Install]
# The second one: Raspberry Pi OS Lite and many servers never reach the first.
WantedBy=graphical.target multi-user.target
"""
