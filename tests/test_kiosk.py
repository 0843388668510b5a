"""The exhibit as it is installed: a real process on a real display."""

import itertools
import json
import logging
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from faults.clock import LONG_S, until
from faults.exhibit import Exhibit
from faults.server import MjpegServer
from media import frames_of
from program import opened_window, repeating, screenshot, start, xdotool

from realtime_lrp import config
from realtime_lrp.commands.kiosk.keys import ExitLock, hash_pin, pin_fits
from realtime_lrp.commands.kiosk.start import Heartbeat, unit
from realtime_lrp.commands.kiosk.states import ScreenState, StateMachine
from realtime_lrp.config import ASSETS
from realtime_lrp.config.values import DAYS, parse_hours
from realtime_lrp.video.presence import Presence
from realtime_lrp.view.exhibit import ACCENT, BACKGROUND, KEY_COLOUR, key_boxes
from realtime_lrp.view.window import Mouse


class OpenFiles:
    """Notes, a hundred times a second, the files that a process and its children can write."""

    def __init__(self, pid):
        self._pid, self.files, self._stop = pid, set(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self):
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
        seen = screenshot(display, shot)  # the page is at an edge, the picture fills the rest
        assert (seen[5, -5:] == BACKGROUND).all() or (seen[5, :5] == BACKGROUND).all()
        page = (seen == BACKGROUND).all(-1).mean(axis=0) > 0.2
        assert page.mean() == pytest.approx(0.36, abs=0.02), "the page's share of the width"
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
    assert [name for name in files_in(tmp_path) if is_ours(name)] == [
        "home/.cache/realtime-lrp/precision.json", "home/realtime-lrp/health.json",
        "home/realtime-lrp/kiosk.log", "home/realtime-lrp/running",
    ]  # fmt: skip


def is_ours(file):
    """Not Matplotlib's fonts, what TensorFlow prints (in memory), or the network's own weights."""
    return not (
        "/matplotlib/" in file or "/memfd:" in file or Path(file).name == "model.weights.h5"
    )


def files_in(folder):
    found = (file for file in folder.rglob("*") if file.is_file())
    names = (str(file.relative_to(folder)) for file in found)
    return sorted(name for name in names if not name.endswith(".part"))


OLDEST_S = 3.0  # no picture is shown for longer without a card that says why


class Chaos:
    """Causes faults; notes the seconds of each recovery, standstills and restarts."""

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
                since = (since or time.monotonic()) if not sample["card"] else None
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
        time.sleep(2.5)
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
    assert len(times) == len(chaos.faults) and max(inside) < 12
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


IDLE_S, COUNTDOWN_S = 30.0, 10.0
ATTRACT, ACTIVE, IDLE, CARD, CLOSED = (
    ScreenState.ATTRACT, ScreenState.ACTIVE, ScreenState.IDLE, ScreenState.CARD, ScreenState.CLOSED,
)  # fmt: skip


def machine():
    return StateMachine(IDLE_S, COUNTDOWN_S, now=0.0)


def test_a_visit_goes_through_every_state():
    one, since = machine(), 0.0
    for now, facts, state in (
        (1.0, {"fault": "starting"}, CARD), (2.0, {}, ATTRACT), (50.0, {}, ATTRACT),
        (60.0, {"present": True}, ACTIVE), (65.0, {"present": True}, ACTIVE), (94.9, {}, ACTIVE),
        (95.0, {}, IDLE), (104.9, {}, IDLE), (104.95, {"present": True}, ACTIVE),
        (134.9, {}, ACTIVE), (135.0, {}, IDLE), (144.9, {}, IDLE), (145.0, {}, ATTRACT),
    ):  # fmt: skip
        before = one.state
        facts = {"is_open": True, "fault": "", "present": False, **facts}
        assert one.step(now, **facts) == state, now
        since = now if state != before else since
        if state == IDLE:
            assert one.countdown(now) == pytest.approx(since + COUNTDOWN_S - now)


def test_the_state_always_fits_the_observation(rng):
    one, now, visited, taken = machine(), 0.0, set(), set()
    for _ in range(20_000):
        now += rng.choice([0.03, 1.0, 40.0])
        fault = rng.choice(["", "", "", "camera"])
        is_open, present = rng.random() < 0.9, rng.random() < 0.3
        before = one.state
        state = one.step(now, is_open, fault, present)
        visited.add(state)
        taken.add((before, state))
        assert (state == CLOSED) == (not is_open)
        if fault and is_open:
            assert state == CARD
        if present and is_open and not fault and before != CLOSED:
            assert state == ACTIVE
    assert visited == set(ScreenState)
    guide = (Path(__file__).parents[1] / "docs" / "kiosk.md").read_text()
    drawn = set(re.findall(r"^    (\w+) --> (\w+): ", guide, re.M))
    assert {way for way in taken if way[0] != way[1]} == drawn, "every arrow, and no other"


ROOM = np.kron(np.random.default_rng(5).uniform(40, 200, (6, 8, 3)), np.ones((12, 12, 1)))


def room(rng, light=1.0, person=None):
    """A furnished room with a sensor's noise, and optionally a person."""
    picture = ROOM.copy()
    if person is not None:
        picture[18:72, person : person + 18] = (90, 60, 160)
    picture = picture * light + rng.normal(0, 5, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def looks(presence, pictures, begin=0.0):
    """Whether somebody is present, for pictures that come five times a second."""
    return [presence.look(one, begin + 0.2 * k) for k, one in enumerate(pictures)]


def test_an_empty_room_is_empty(rng):
    light = itertools.chain(
        [1.0] * 300, 1 + 0.3 * np.sin(np.arange(900) / 100), [1.0] * 150, [0.6] * 150
    )
    assert not any(looks(Presence(), [room(rng, one) for one in light]))


def test_a_visitor_is_seen_until_they_leave(rng):
    presence = Presence()
    assert not any(looks(presence, [room(rng) for _ in range(50)]))
    assert not any(looks(presence, [room(rng, person=30), room(rng)], 50.0)), "a single picture"
    there = looks(presence, [room(rng, person=30 + k % 2) for k in range(100)], 100.0)
    assert there.index(True) <= 2 and all(there[2:])
    assert not any(looks(presence, [room(rng) for _ in range(50)], 200.0)[2:])


def test_a_thing_left_behind_becomes_background(rng):
    presence = Presence()
    looks(presence, [room(rng) for _ in range(50)])
    there = looks(presence, [room(rng, person=30) for _ in range(500)], 100.0)
    assert 20 < 0.2 * sum(there) < 60
    assert not any(there[400:])


def test_somebody_with_a_drawing_is_seen():
    presence = Presence()
    pictures = frames_of(ASSETS / "demo.mp4")
    looks(presence, [pictures[0]] * 20)
    there = looks(presence, pictures[10::6], 100.0)
    assert sum(there) > 0.9 * len(there)


def at(day, clock):
    hour, minute = map(int, clock.split(":"))
    return datetime(2026, 3, 2) + timedelta(days=DAYS.index(day), hours=hour, minutes=minute)


def test_days():
    for key, days in {
        "mon": "mon", "tue-fri": "tue wed thu fri", "sat-mon": "mon sat sun",
        "mon, wed": "mon wed", "Mon , THU-Fri": "mon thu fri", "daily": " ".join(DAYS),
    }.items():  # fmt: skip
        opening = parse_hours({key: "10:00-11:00"})
        assert [day for day in DAYS if opening(at(day, "10:30"))] == days.split(), key


def test_times_past_midnight_belong_to_the_day_on_which_they_begin():
    opening = parse_hours({"fri, sun": "18:00-02:00"})
    clocks = ("01:59", "02:00", "17:59", "18:00")
    told = {day: [opening(at(day, clock)) for clock in clocks] for day in DAYS}
    closed, evening, night = [False] * 4, [False, False, False, True], [True, False, False, False]
    assert told == dict.fromkeys(DAYS, closed) | {
        "fri": evening, "sat": night, "sun": evening, "mon": night,
    }  # fmt: skip
    assert parse_hours({"mon": "20:00-24:00"})(at("mon", "23:59"))


def test_what_cannot_be_read_is_explained_in_a_line():
    for written, message in (
        ({"monday": "09:00-10:00"}, "instead of 'monday'"),
        ({"mon": "9-10"}, "instead of '9-10'"),
        ({"mon": "09:00-09:00"}, "instead of '09:00-09:00'"),
        ({"mon": "09:00-10:00, "}, "instead of ''"),
        ({"mon-wed": "09:00-10:00", "tue": "11:00-12:00"}, "tue is there twice"),
    ):
        with pytest.raises(ValueError, match="expected") as refused:
            parse_hours(written)
        assert message in str(refused.value) and "\n" not in str(refused.value)


SIZE = (720, 1280)
PIN = "204713"
HASHED = hash_pin(PIN)
IN_CORNER = Mouse(80, 80, "left")
UP = Mouse(80, 80, "")


class Staff:
    def __init__(self, pin=None):
        self.lock, self.now = ExitLock(pin), 100.0

    def do(self, *events, down=(), after=0.1):
        """Events after some seconds; returns those that are left for the exhibit."""
        self.now += after
        return self.lock.handle(events, down, SIZE, self.now)

    def hold(self, key="q", seconds=5.5, fps=10):
        """A held key: a press, then nothing until it is released."""
        self.do(key, down={key})
        for _ in range(round(seconds * fps)):
            self.do(down={key}, after=1 / fps)
        self.do()

    def rest(self, seconds):
        for _ in range(round(10 * seconds)):
            self.do()

    def touch(self, name):
        x0, y0, x1, y1 = key_boxes(SIZE)[name]
        self.do(Mouse((x0 + x1) // 2, (y0 + y1) // 2, "left"))
        self.do(Mouse((x0 + x1) // 2, (y0 + y1) // 2, ""))

    def enter(self, pin):
        self.do(*pin, "Return")


@pytest.fixture
def asked():
    """Staff in front of the PIN pad, with the key released."""
    staff = Staff(pin=HASHED)
    staff.hold()
    assert staff.lock.asking
    staff.rest(1.5)
    return staff


@pytest.mark.parametrize("fps", [0.5, 3, 30])
def test_a_held_key_opens(fps):
    staff = Staff()
    for _ in range(3):
        staff.hold(seconds=4, fps=fps)
        assert staff.lock.held == 0 and not staff.lock.opened
    staff.do("q", down={"q"})
    staff.do(down={"q"}, after=2.5)
    assert staff.lock.held == pytest.approx(0.5)
    staff.do(down={"q"}, after=2.5)
    assert staff.lock.opened


def test_a_held_corner_opens():
    staff = Staff()
    staff.do(Mouse(85, 85, "left"))
    staff.rest(4.9)
    assert not staff.lock.opened and staff.lock.held == pytest.approx(0.98)
    staff.rest(0.2)
    assert staff.lock.opened
    staff = Staff()
    staff.do(Mouse(87, 85, "left"))
    staff.rest(6)
    assert staff.lock.held == 0 and not staff.lock.opened


def test_events_reach_the_exhibit_unless_the_pad_is_shown():
    staff = Staff(pin=HASHED)
    assert staff.do("q", IN_CORNER, UP, "l") == ["q", IN_CORNER, UP, "l"]
    staff.rest(2)
    staff.hold()
    assert staff.lock.asking
    assert staff.do("l", IN_CORNER, UP) == []
    assert staff.do("Escape") == []
    assert staff.do("l") == ["l"]


def test_the_right_pin_opens(asked):
    asked.do(*PIN[:-1], "9", "BackSpace", PIN[-1])
    assert asked.lock.typed == 6 and not asked.lock.opened
    asked.do("Return")
    assert asked.lock.opened and not asked.lock.asking


def test_the_right_pin_opens_by_touch(asked):
    for name in ("8", "back", *PIN):
        asked.touch(name)
    assert asked.lock.typed == 6
    x0, y0, _, _ = key_boxes(SIZE)["1"]
    asked.do(Mouse(0, 0, "left"), Mouse(x0 + 5, y0 + 5, "left"), Mouse(x0 + 5, y0 + 5, ""))
    assert asked.lock.typed == 6
    asked.touch("enter")
    assert asked.lock.opened


def test_the_pad_goes_away(asked):
    asked.do("1", "2")
    asked.rest(19.8)
    assert asked.lock.asking and asked.lock.typed == 2
    asked.rest(0.3)
    assert not asked.lock.asking and asked.lock.typed == 0
    for leave in (lambda: asked.do("Escape"), lambda: asked.touch("leave")):
        asked.hold()
        asked.rest(1.5)
        asked.do("3")
        leave()
        assert not (asked.lock.asking or asked.lock.opened or asked.lock.typed)


def test_waiting_doubles_up_to_a_quarter_of_an_hour(asked):
    for wait in (60, 120, 240, 480, 900, 900):
        for _ in range(3):
            assert asked.lock.wait_s == 0
            asked.enter("0000")
        assert asked.lock.wait_s in (wait, wait + 1)  # the clock is no exact number
        asked.enter(PIN)
        assert not asked.lock.opened and asked.lock.typed == 0
        asked.rest(wait - 0.5)
        assert asked.lock.wait_s == 1 and not asked.lock.asking
        asked.hold()
        asked.rest(1.5)
    asked.enter(PIN)
    assert asked.lock.opened


def test_a_pin_is_stored_as_a_hash():
    other = hash_pin(PIN)
    assert other != HASHED and PIN not in HASHED
    kind, salt, hashed = HASHED.split(":")
    assert (kind, len(salt), len(hashed)) == ("scrypt", 32, 64)
    assert pin_fits(PIN, HASHED) and pin_fits(PIN, other)
    assert not any(pin_fits(pin, HASHED) for pin in ("204714", "20471", "2047130", ""))
    for pin in ("123", "1234567890123", "12a4", "1234\n", "١٢٣٤"):
        with pytest.raises(ValueError, match="4 to 12 digits"):
            hash_pin(pin)


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
        report.ended(reported(""))


def reported(described):
    camera = SimpleNamespace(rests=True)
    return SimpleNamespace(described=described, state=described, card="", camera=camera)


def test_ready_status_and_stopping_are_sent(manager, reports, tmp_path, caplog):
    address, listening = manager
    report, file = reports({"NOTIFY_SOCKET": address}), tmp_path / "health.json"
    report.drawn(reported("attract"), 0.0)
    assert heard(listening) == ["READY=1\nSTATUS=attract\nWATCHDOG=1"]
    assert json.loads(file.read_text())["last_warning"] is None
    report.drawn(reported("attract"), 4.9)
    assert heard(listening) == []
    logging.getLogger("realtime_lrp.video").warning("no http://me:secret@camera")
    report.drawn(reported("card (camera)"), 4.9)
    assert heard(listening) == ["READY=1\nSTATUS=card (camera)\nWATCHDOG=1"]
    assert json.loads(file.read_text())["last_warning"]["what"] == "no http://***@camera"
    report.ended(reported("attract"))
    assert heard(listening) == ["STOPPING=1"]
    assert json.loads(file.read_text())["state"] == "ended"


@pytest.mark.parametrize(("timeout_s", "period_s"), [(15, 5.0), (6, 3.0)])
def test_the_watchdog_is_fed_twice_within_its_timeout(manager, reports, timeout_s, period_s):
    address, listening = manager
    watch = {"WATCHDOG_USEC": f"{timeout_s}000000", "WATCHDOG_PID": "1"}
    report, times = reports({"NOTIFY_SOCKET": address, **watch}), []
    for number in range(60 * 30 + 1):
        report.drawn(reported("attract"), 1000 + number / 60)
        times += [number / 60] * len(heard(listening))
    assert times == pytest.approx(np.arange(0, 30.1, period_s))


def test_without_a_manager_nothing_happens(reports):
    for environ in (
        {}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "/" + 200 * "long", "WATCHDOG_USEC": "often"},
        {"NOTIFY_SOCKET": "vsock:2:1234", "WATCHDOG_USEC": ""},
    ):  # fmt: skip
        reports(environ).drawn(reported("attract"), 1.0)


FILE = Path("/srv/my exhibit/kiosk.yaml")


@pytest.fixture
def settings():
    found = {}
    for line in unit(FILE, "museum", "/opt/lrp/bin/realtime-lrp").replace("\\\n", " ").split("\n"):
        if re.match(r"\w+=", line):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_unit_has_what_an_exhibit_needs(settings):
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
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # the screen outlives the exhibit until systemd ends it
        process.stdout.close()
    process.stdout = "".join(lines)
    return process
