"""systemd: messages to a real socket, and the unit as systemd reads it."""

import json
import logging
import os
import re
import shutil
import socket
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.commands.kiosk.start import Heartbeat, unit


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """(address as systemd writes it, the socket that receives)."""
    address = f"@{uuid.uuid4()}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0", 1))
        listening.setblocking(False)
        yield address, listening


def heard(listening):
    messages = []
    while True:
        try:
            messages.append(listening.recv(4096).decode())
        except BlockingIOError:
            return messages


@pytest.fixture
def reports(tmp_path):
    made = []

    def make(environ):
        made.append(Heartbeat(config.load(command="kiosk"), tmp_path, environ))
        return made[-1]

    yield make
    for report in made:
        report.ended(exhibit(""))


def exhibit(described):
    camera = SimpleNamespace(described="")
    return SimpleNamespace(described=described, state=described, card="", camera=camera)


def test_ready_status_and_stopping_are_sent(manager, reports, tmp_path, caplog):
    """At once when the state changes, in the health file too; the newest warning stands there."""
    address, listening = manager
    report, file = reports({"NOTIFY_SOCKET": address}), tmp_path / "health.json"
    report.drawn(exhibit("attract"), 0.0)
    assert heard(listening) == ["READY=1\nSTATUS=attract\nWATCHDOG=1"]
    assert json.loads(file.read_text())["last_warning"] is None
    report.drawn(exhibit("attract"), 4.9)
    assert heard(listening) == []
    logging.getLogger("realtime_lrp.video").warning("no http://me:secret@camera")
    report.drawn(exhibit("card (camera)"), 4.9)
    assert heard(listening) == ["READY=1\nSTATUS=card (camera)\nWATCHDOG=1"]
    assert json.loads(file.read_text())["last_warning"]["what"] == "no http://***@camera"
    report.ended(exhibit("attract"))
    assert heard(listening) == ["STOPPING=1"]
    assert json.loads(file.read_text())["state"] == "ended"


@pytest.mark.parametrize(("timeout_s", "period_s"), [(15, 5.0), (6, 3.0)])
def test_the_watchdog_is_fed_twice_within_its_timeout(manager, reports, timeout_s, period_s):
    """Half a minute of 60 turns a second."""
    address, listening = manager
    watch = {"WATCHDOG_USEC": f"{timeout_s}000000", "WATCHDOG_PID": "1"}
    report, times = reports({"NOTIFY_SOCKET": address, **watch}), []
    for number in range(60 * 30 + 1):
        report.drawn(exhibit("attract"), 1000 + number / 60)
        times += [number / 60] * len(heard(listening))
    assert times == pytest.approx(np.arange(0, 30.1, period_s))


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "/" + 200 * "long", "WATCHDOG_USEC": "often"},
        {"NOTIFY_SOCKET": "vsock:2:1234", "WATCHDOG_USEC": ""},
    ],
)
def test_without_a_manager_nothing_happens(environ, reports):
    """No socket is set, or it is missing."""
    reports(environ).drawn(exhibit("attract"), 1.0)


FILE = Path("/srv/my exhibit/kiosk.yaml")


@pytest.fixture
def settings():
    """Key -> values of the unit."""
    found = {}
    for line in unit(FILE, "museum", "/opt/lrp/bin/realtime-lrp").replace("\\\n", " ").split("\n"):
        if re.match(r"\w+=", line):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_unit_has_what_an_exhibit_needs(settings):
    """And nothing that moves its processes out of the service, or hides the cameras."""
    for key, value in {
        "User": "museum", "Type": "notify", "NotifyAccess": "all", "WatchdogSec": "15",
        "Restart": "always", "RestartPreventExitStatus": "0", "StartLimitIntervalSec": "0",
        "MemorySwapMax": "0", "LimitCORE": "0", "KillMode": "mixed",
        "StateDirectory": "realtime-lrp", "RuntimeDirectory": "realtime-lrp",
        "WorkingDirectory": "/srv/my exhibit", "ProtectSystem": "strict",
    }.items():  # fmt: skip
        assert settings[key] == [value]
    assert not {"PAMName", "PrivateDevices", "ProtectClock", "DevicePolicy"} & {*settings}


def verified(path):
    """What systemd complains about in a unit, except keys that are newer than itself."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("not installed: systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=240
    )
    lines = [line for line in done.stderr.splitlines() if path.name in line]
    young = re.compile(r"Unknown key( name)? '?(RestartSteps|RestartMaxDelaySec)'?")
    return [line for line in lines if not young.search(line)]


@pytest.mark.parametrize("file", [None, FILE, Path('/srv/100% "art" $1/a\\b.yaml')], ids=str)
def test_systemd_reads_the_unit(tmp_path, file):
    path = tmp_path / "realtime-lrp.service"
    path.write_text(unit(file, "museum", "/opt/lrp/bin/realtime-lrp"))
    assert verified(path) == []
    path.write_text(path.read_text().replace("LimitCORE=0", "LimitCODE=0"))
    assert len(verified(path)) == 1


def test_the_exhibit_replaces_the_shell_and_its_exit_code_counts(tmp_path, settings):
    """The unit's command with a fake cage: DISPLAY and arguments arrive."""
    (tmp_path / "cage").write_text('#!/bin/sh\nshift\nDISPLAY=:7 exec "$@"\n')
    (tmp_path / "cage").chmod(0o755)
    ended = launched(tmp_path, settings["ExecStart"][0], 'echo "$DISPLAY $2"; echo $$; exit 75')
    assert ended.stdout.split("\n")[:2] == [":7 --config", str(ended.pid)]
    assert ended.returncode == 75


def launched(folder, command, script):
    """Runs the unit's command as systemd would, with a script as the exhibit."""
    (folder / "realtime-lrp").mkdir()
    (folder / "exhibit").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "exhibit").chmod(0o755)
    shell, words = re.fullmatch(r"/bin/sh -c '(.*)' sh +(.*)", command).groups()
    shell = shell.replace("%t", str(folder)).replace("$$", "$")
    assert words.startswith('"/opt/lrp/bin/realtime-lrp" "kiosk" "--config" "/srv/my exhibit')
    process = subprocess.Popen(
        ["/bin/sh", "-c", shell, "sh", str(folder / "exhibit"), "kiosk", "--config", "x"],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DISPLAY": ""},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # the screen outlives the exhibit until systemd ends it
        process.stdout.close()
    process.stdout = "".join(lines)
    return process
