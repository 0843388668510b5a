"""The exhibit while things fail: it never ends, never stays dark, and always recovers.

A minute of faults, with `-m release`. Prints how long recovery takes.
"""

import itertools
import signal
import threading
import time
from collections import defaultdict

import numpy as np
import psutil
import pytest
from faults.clock import LONG_S, until
from faults.exhibit import Exhibit
from program import screenshot, xdotool

SECONDS_OF_STANDSTILL = 2.5
OLDEST_S = 3.0
"""No picture is shown for longer without a card that says why."""

RECOVERED_S = 12.0
"""Every fault is over so much later, at most."""


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
            "standstill": self._stand_still,
            "clock": self._jump,
            "full disk": self._fill_disk,
            "window": self._hide_window,
        }

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
        """Sets the clock to the night, and back."""
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
