"""The exhibit as it is installed: a real process on a real display."""

import itertools
import json
import os
import signal
import stat
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil
import pytest
from faults.clock import LONG_S, until
from faults.exhibit import Exhibit
from faults.server import MjpegServer
from program import opened_window, repeating, screenshot, start, xdotool

from realtime_lrp.commands.kiosk.keys import hash_pin
from realtime_lrp.view.exhibit import ACCENT, BACKGROUND, KEY_COLOUR


class OpenFiles:
    """Notes, a hundred times a second, the files that a process and its children can write.

    Attributes:
      files: the paths that were seen.
    """

    def __init__(self, pid):
        self._pid, self.files, self._stop = pid, set(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self):
        """Ends; returns the files."""
        self._stop.set()
        self._thread.join()
        return self.files

    def _look(self):
        while not self._stop.wait(0.01):
            for process in self._processes():
                self._look_at(Path(f"/proc/{process}"))

    def _processes(self):
        try:
            return [self._pid, *(one.pid for one in psutil.Process(self._pid).children(True))]
        except psutil.NoSuchProcess:
            return []

    def _look_at(self, process):
        try:
            for link in (process / "fd").iterdir():
                flags = int((process / "fdinfo" / link.name).read_text().split()[3], 8)
                if flags & os.O_ACCMODE and stat.S_ISREG(link.stat().st_mode):
                    self.files.add(os.readlink(link))
        except (OSError, IndexError):  # closed, or ended, meanwhile
            return


@pytest.mark.release
@pytest.mark.gui
def test_the_first_card_is_shown_while_tensorflow_is_imported(display, tmp_path, new_processes):
    """And the window answers: `p` shows the privacy card before there is an engine."""
    shot = tmp_path / "shot.png"
    words = ("kiosk", "--source", "synthetic", "--set", "kiosk.languages=[en]")
    with start(*words, DISPLAY=display, STATE_DIRECTORY=str(tmp_path)) as process:
        until(lambda: (screenshot(display, shot) == ACCENT).all(-1).sum() > 500)
        card = screenshot(display, shot)
        xdotool(display, "key", "p")
        until(lambda: (screenshot(display, shot) != card).mean() > 0.02)
        health = json.loads((tmp_path / "health.json").read_text())
        assert (health["state"], health["card"]) == ("card", "starting")
        process.terminate()
        assert process.wait(300) == 0


@pytest.mark.release
@pytest.mark.gui
def test_visitors_cannot_leave_and_no_picture_is_written(display, tmp_path):
    """Keys, clicks and the window manager do not end it; holding the key and the PIN do, with 0."""
    for name in ("home", "work", "tmp"):
        (tmp_path / name).mkdir()
    environment = {
        "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "DISPLAY": display,
        "XDG_STATE_HOME": str(tmp_path / "home"), "KERAS_HOME": str(Path.home() / ".keras"),
        "XDG_CACHE_HOME": str(tmp_path / "home" / ".cache"),
    }  # fmt: skip
    sets = [f"kiosk.pin={hash_pin('4711')}", "live.folder=."]
    words = [word for one in sets for word in ("--set", one)]
    with (
        MjpegServer() as server,
        start(
            "kiosk", "--source", server.url, *words, cwd=tmp_path / "work", **environment
        ) as process,
    ):
        opened_window(display, process)
        open_files = OpenFiles(process.pid)
        health = tmp_path / "home" / "realtime-lrp" / "health.json"
        shot = tmp_path / "shot.png"
        until(lambda: health.exists() and '"state": "active"' in health.read_text())
        screenshot(display, shot)
        tree = files_in(tmp_path)
        for key in ("Escape", "q", "ctrl+c", "ctrl+q", "ctrl+s", "alt+F4", "F11", "r", "s"):
            xdotool(display, "key", key)
        for button in (1, 2, 3, 4, 4, 5):
            xdotool(display, "mousemove", 400, 300, "click", button)
        xdotool(display, "mousemove", 3, 3, "mousedown", 1, "sleep", 1, "mouseup", 1)
        time.sleep(1.2)
        assert process.poll() is None
        assert_full_screen(screenshot(display, shot))
        assert files_in(tmp_path) == tree

        with repeating(display):
            xdotool(display, "keydown", "q")
            until(lambda: (screenshot(display, shot) == KEY_COLOUR).all(-1).sum() > 10_000)
            xdotool(display, "keyup", "q")
        for digits in ("1234", "4711"):
            assert process.poll() is None
            time.sleep(1.2)
            for digit in digits:
                xdotool(display, "key", digit, "sleep", 0.15)
            xdotool(display, "key", "Return")
        assert process.wait(300) == 0
        written = {Path(file).name.partition(".")[0] for file in open_files.stop() if is_ours(file)}
        assert written <= {"kiosk", "health", "precision", "running"}  # the last one is the lock
        assert "Traceback" not in process.stderr.read()
    shot.unlink()
    left = [name for name in files_in(tmp_path) if is_ours(name)]
    assert left == [
        "home/.cache/realtime-lrp/precision.json",
        "home/realtime-lrp/health.json",
        "home/realtime-lrp/kiosk.log",
        "home/realtime-lrp/running",
    ]


def is_ours(file):
    """Whether a file is one of ours.

    Others are Matplotlib's list of fonts, what TensorFlow prints (kept in memory while it is
    imported) and the network's own weights.
    """
    return not (
        "/matplotlib/" in file or "/memfd:" in file or Path(file).name == "model.weights.h5"
    )


def files_in(folder):
    """All files in a folder, sorted, except those being written."""
    found = (file for file in folder.rglob("*") if file.is_file())
    names = (str(file.relative_to(folder)) for file in found)
    return sorted(name for name in names if not name.endswith(".part"))


def assert_full_screen(shot):
    """Asserts that the page is at the right edge of the screen and the picture fills the rest."""
    assert (shot[5, -5:] == BACKGROUND).all() or (shot[5, :5] == BACKGROUND).all()
    page = (shot == BACKGROUND).all(-1).mean(axis=0) > 0.2
    assert page.mean() == pytest.approx(0.36, abs=0.02), "the page's share of the width"


SECONDS_OF_STANDSTILL = 2.5
OLDEST_S = 3.0  # no picture is shown for longer without a card that says why

RECOVERED_S = 12.0  # every fault is over so much later, at most


class Chaos:
    """Causes one fault after the other and records what happens.

    Attributes:
      recoveries: seconds from the end of a fault until the exhibit shows pictures again.
      stopped: when the process, or this machine, stood still, from and to.
      restarts: how often the process ended with 75 and was started again.
    """

    def __init__(self, exhibit, display, rng):
        self.exhibit, self.display, self.rng = exhibit, display, rng
        self.recoveries, self.stopped, self.restarts = defaultdict(list), [], 0
        self._pulse = threading.Thread(target=self._note_standstills, daemon=True)
        self._pulse.start()
        self.faults = {
            **{name: self._camera for name in ("lost", "stalled", "blocked", "frozen", "dark")},
            **{name: self._thread for name in ("relevance", "capture", "reader")},
            "standstill": self._stand_still, "clock": self._jump, "full disk": self._fill_disk,
            "window": self._hide_window,
        }  # fmt: skip

    def _note_standstills(self):
        """Notes when not even this thread got the processor: bounds hold for what runs."""
        while self.exhibit.process.poll() in (None, 75):
            begin = time.monotonic()
            time.sleep(0.05)
            if (end := time.monotonic()) - begin > 0.5:
                self.stopped.append((begin, end + 0.5))

    def each_once(self):
        """Each fault in random order."""
        for name in self.rng.permutation(list(self.faults)):
            self._one(name)

    def _one(self, name):
        self.exhibit.camera("somebody" if self.rng.random() < 0.7 else "nobody")
        before = self.restarts
        self.faults[name](name)
        took = self._recovered()
        self.recoveries[name if self.restarts == before else "restart"].append(took)

    def _recovered(self):
        """Waits until no card is shown for a while; returns the seconds that this took."""
        begin, since, seen = time.monotonic(), None, len(self.exhibit.samples)
        while since is None or time.monotonic() - since < 0.7:
            self._restart()
            for sample in self.exhibit.samples[seen:]:
                seen += 1
                fine = not sample["card"]
                since = (since or time.monotonic()) if fine else None
            assert time.monotonic() - begin < LONG_S, self.exhibit.stderr()[-2000:]
            time.sleep(0.02)
        return since - begin

    def _restart(self):
        """Restarts the process after exit code 75, as the service manager would."""
        code = self.exhibit.process.poll()
        if code is not None:
            assert code == 75, f"exit code {code}: {self.exhibit.stderr()[-2000:]}"
            self.restarts += 1
            seen, last = len(self.exhibit.samples), self.exhibit.samples[-1]["now"]
            self.exhibit.start()
            until(lambda: len(self.exhibit.samples) > seen)
            self.stopped.append((last, self.exhibit.samples[-1]["now"] + 0.5))

    def _camera(self, name):
        back = self.rng.choice(["somebody", "nobody"])
        self.exhibit.camera(name)
        if name in ("frozen", "dark"):
            self.exhibit.until(lambda s: s["card"] == name)
        else:
            begin = time.monotonic()
            self.exhibit.until(lambda s: s["card"] == "camera")
            told = time.monotonic()
            assert told - begin < OLDEST_S or self.still(begin, told), name
        self.exhibit.camera(back)

    def _thread(self, name):
        self.exhibit.say("kill", name)
        time.sleep(0.3)

    def _stand_still(self, name):
        begin = time.monotonic()
        self.exhibit.signal(signal.SIGSTOP)
        time.sleep(SECONDS_OF_STANDSTILL)
        self.exhibit.signal(signal.SIGCONT)
        self.stopped.append((begin, time.monotonic() + 0.5))

    def _jump(self, name):
        self.exhibit.say("jump", 9 * 3600)
        self.exhibit.until_state("closed")
        self.exhibit.say("jump", -9 * 3600)

    def _fill_disk(self, name):
        self.exhibit.disk_full(True)
        time.sleep(1.5)
        self.exhibit.disk_full(False)

    def _hide_window(self, name):
        found = xdotool(self.display, "search", "--class", "^realtime_lrp$").splitlines()
        xdotool(self.display, "windowminimize", found[-1])

    @property
    def awake(self):
        """The samples that were taken while the process was not stopped."""
        return [s for s in self.exhibit.samples if not self.still(s["now"], s["now"])]

    def assert_held(self):
        """Asserts: no old picture without a card, no late drawing, no traceback."""
        assert all(s["age"] is None or s["card"] or s["age"] <= OLDEST_S for s in self.awake)
        assert max(s["drawn"] for s in self.awake) <= OLDEST_S
        stderr = self.exhibit.stderr()
        assert "Traceback" not in stderr, stderr[-3000:]

    def judge(self):
        """How long each recovery took, and the gaps between drawings."""
        moments = [s["now"] for s in self.exhibit.samples]
        gaps = [b - a for a, b in itertools.pairwise(moments) if not self.still(a, b)]
        return np.concatenate(list(self.recoveries.values())), gaps

    def still(self, begin, end):
        """Whether the process was stopped at some time between two moments."""
        return any(begin <= until and end >= since for since, until in self.stopped)


@pytest.fixture
def exhibit(display, tmp_path):
    """A running exhibit, full screen, open from 8 to 20, at noon and without visitors."""
    hours = 'kiosk.hours={daily: "08:00-20:00"}'
    words = ("kiosk.idle_seconds=3", "kiosk.countdown_seconds=1", hours)
    with Exhibit(tmp_path, *words, display=display) as started:
        started.until_state("attract")
        yield started


@pytest.mark.release
@pytest.mark.gui
def test_a_minute_of_faults(exhibit, display, rng, capsys):
    """Each fault once: no old picture without a card, no end of the process, no leak."""
    before = exhibit.samples[-1]
    a_night(exhibit, display)
    chaos = Chaos(exhibit, display, rng)
    chaos.each_once()
    exhibit.camera("nobody")
    exhibit.until_state("attract")
    exhibit.until(lambda s: s["threads"] <= before["threads"] and s["files"] <= before["files"] + 1)
    times, gaps = chaos.judge()
    with capsys.disabled():
        for name, took in sorted(chaos.recoveries.items()):
            print(f"{name}: recovered after {max(took):.1f} s at most")
    chaos.assert_held()
    inside = [took for name, all_ in chaos.recoveries.items() if name != "restart" for took in all_]
    assert len(times) == len(chaos.faults) and max(inside) < RECOVERED_S
    assert chaos.restarts == 2 and max(gaps) < OLDEST_S, "the relevance thread and the supervisor"
    assert_served(exhibit, chaos)
    exhibit.signal(signal.SIGTERM)
    assert exhibit.process.wait(60) == 0
    until(lambda: exhibit.notified[-1][1] == "STOPPING=1")


def a_night(exhibit, display):
    """A visit with all its states, the evening with a black screen and no camera, the morning."""
    exhibit.camera("somebody")
    exhibit.until_state("active")
    children = psutil.Process(exhibit.process.pid).children()
    camera = [child for child in children if child.name() != "systemd-inhibit"]
    exhibit.camera("nobody")
    exhibit.until_state("idle")
    exhibit.until_state("attract")
    exhibit.say("jump", 9 * 3600)
    exhibit.until_state("closed")
    assert psutil.wait_procs(camera, timeout=60)[1] == []
    shot = exhibit.folder / "shot.png"
    until(lambda: screenshot(display, shot).max() == 0)
    exhibit.say("jump", 12 * 3600)
    exhibit.until_state("attract")
    until(lambda: screenshot(display, shot).max() > 200)
    exhibit.say("jump", 3 * 3600)


def assert_served(exhibit, chaos):
    """Asserts: ready with each report, a watchdog ping about every second, each state as status."""
    texts = [text.split("\n") for _, text in exhibit.notified]
    assert all({"READY=1", "WATCHDOG=1"} < {*one} for one in texts if one != ["STOPPING=1"])
    times = [at for at, text in exhibit.notified if "WATCHDOG=1" in text]
    gaps = [b - a for a, b in itertools.pairwise(times) if not chaos.still(a, b)]
    assert np.mean(gaps) > 0.5, "each change of the state is one report more"
    assert max(gaps) < OLDEST_S, "one that is late shortens the next gap"
    told = {one.removeprefix("STATUS=") for text in texts for one in text if "STATUS=" in one}
    assert {"attract", "active", "idle", "closed", "card (camera)"} <= told
