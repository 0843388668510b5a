"""Waits for other threads, in real time or in virtual time."""

import itertools
import os
import threading
import time
from math import inf
from pathlib import Path

from realtime_lrp.realtime.capture import Clock

NEVER = threading.Event()


LONG_S = 300.0
"""How long tests wait for what has to come: longer than it takes on the slowest machine."""


def until(condition, timeout_s=LONG_S):
    """Waits until a condition is true, which another thread or process causes; returns it."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
    return value


def busy():
    """How many processes wait for each core, at least 1: multiplies bounds of real time."""
    running = float(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    return max(1.0, running / os.cpu_count(), os.getloadavg()[0] / os.cpu_count())


class SkippingClock(Clock):
    """Real time, and what a test skips of it."""

    _ahead = 0.0

    def now(self):
        return super().now() + self._ahead

    def skip(self, seconds):
        self._ahead += seconds


class VirtualClock(Clock):
    """Time that passes only while all threads wait; one runs at a time, in a fixed order."""

    def __init__(self):
        self._now = 0.0
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting = {}  # Event that wakes a thread -> (event it waits for, time, number)
        self._start = threading.Thread.start

    def now(self):
        return self._now

    def wait(self, event, seconds):
        turn = self._queue(event, seconds)
        self._pass_on()
        turn.wait()
        return event.is_set()

    def sleep(self, seconds):
        self.wait(NEVER, seconds)

    def until(self, condition, timeout_s=60.0):
        """Waits until a condition is true; returns the seconds that it took."""
        begin = self._now
        while not condition():
            assert self._now < begin + timeout_s, "waited in vain"
            self.sleep(0.01)
        return self._now - begin

    def start(self, thread):
        """Starts a thread, which runs when it is its turn."""
        turn, run = self._queue(NEVER, 0.0), thread.run

        def run_in_turn():
            turn.wait()
            run()
            self._pass_on()

        thread.run = run_in_turn
        self._start(thread)

    def _queue(self, event, seconds):
        with self._lock:
            turn = threading.Event()
            self._waiting[turn] = (event, self._now + seconds, next(self._numbers))
            return turn

    def _pass_on(self):
        """Wakes a thread whose event is set, else the one whose time comes first."""
        with self._lock:
            keys = {
                turn: (-inf if event.is_set() else time, number)
                for turn, (event, time, number) in self._waiting.items()
            }
            turn = min(keys, key=keys.get)
            self._now = max(self._now, keys[turn][0])
            del self._waiting[turn]
            turn.set()
