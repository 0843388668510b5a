"""The exhibit in a child process, its camera in another one; a file says how the camera behaves."""

import ctypes
import functools
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from faults.cameras import Film
from faults.clock import LONG_S

TESTS = Path(__file__).parents[1]


class Exhibit:
    """The exhibit, with the `samples` and the (time, message) pairs that its process sends."""

    def __init__(self, folder, *words, display):
        self.folder, self.samples, self.notified, self._words = Path(folder), [], [], words
        self._stderr = (self.folder / "stderr").open("w+")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.folder / "notify"))
        self._environment = {
            **os.environ, "PYTHONPATH": str(TESTS), "NOTIFY_SOCKET": str(self.folder / "notify"),
            "WATCHDOG_USEC": "2000000", "STATE_DIRECTORY": str(self.folder / "state"),
            "RUNTIME_DIRECTORY": str(self.folder / "run"), "DISPLAY": display,
        }  # fmt: skip
        (self.folder / "run").mkdir()
        self.camera("nobody")
        threading.Thread(target=self._listen, daemon=True).start()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from faults import exhibit; exhibit.main()", self.folder,
             *self._words], env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._stderr, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=[self.process.stdout], daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for pid in [self.process.pid, *self._children()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self._socket.close()
        self._stderr.close()

    def camera(self, behaviour):
        (self.folder / "camera.new").write_text(behaviour)
        (self.folder / "camera.new").rename(self.folder / "camera")

    def say(self, *words):
        """Sends a command: "kill NAME" of a thread, or "jump SECONDS" of the wall clock."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)

    def disk_full(self, full):
        """Keeps files from growing, or lets them grow again."""
        limit = 0 if full else resource.RLIM_INFINITY
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def until(self, condition):
        """Waits for a sample that fulfils a condition; returns the seconds that it took."""
        begin, seen = time.monotonic(), len(self.samples)
        while time.monotonic() - begin < LONG_S:
            for sample in self.samples[seen:]:
                seen += 1
                if condition(sample):
                    return time.monotonic() - begin
            assert self.process.poll() is None, self.stderr()
            time.sleep(0.02)
        raise AssertionError(f"waited in vain; last: {self.samples[-1:]}\n{self.stderr()}")

    def until_state(self, state):
        return self.until(lambda s: (s["state"], s["card"]) == (state, ""))

    def stderr(self):
        return (self.folder / "stderr").read_text()

    def _children(self):
        try:
            return [child.pid for child in psutil.Process(self.process.pid).children(True)]
        except psutil.NoSuchProcess:
            return []

    def _read(self, stdout):
        for line in stdout:
            self.samples.append(json.loads(line))

    def _listen(self):
        while True:
            try:
                message = self._socket.recv(4096).decode()
            except OSError:
                return
            self.notified.append((time.monotonic(), message))


def main():
    """The child process: runs the exhibit, obeys stdin, prints samples on stdout."""
    from realtime_lrp.system import machine

    machine.limit_kept_memory()
    from realtime_lrp.commands.kiosk import pages, settings, start
    from realtime_lrp.commands.kiosk.loop import Exhibit
    from realtime_lrp.errors import Error
    from realtime_lrp.system.program import set_verbosity
    from realtime_lrp.video.picture_process import ChildSource

    folder, words = Path(sys.argv[1]), sys.argv[2:]
    wall = Wall()
    pages.ANSWER_S, pages.CONCEPT_S, pages.REST_S = 1.5, 2.0, 30.0  # shown more often

    class Watched(Exhibit):
        sampled = -1.0

        def step(self):
            drawn = super().step()
            now = time.monotonic()
            if now - self.sampled >= 0.1:
                self.sampled = now
                print(json.dumps(sample_of(self, now)), flush=True)
            return drawn

    start.Exhibit = Watched
    threading.Thread(target=obey, args=[wall], daemon=True).start()
    set_verbosity(0, False)
    try:
        chosen = settings.load(None, tuple(words))
        film = functools.partial(ChildSource, Film, [str(folder)])
        start.start(chosen, None, None, open_camera=film, wall_clock=wall)
    except Error as error:
        print(error, file=sys.stderr)
        os._exit(error.exit_code)
    os._exit(0)


def sample_of(kiosk, now):
    live = kiosk._shown_source == "camera" and kiosk._shown
    return {
        "now": now, "state": kiosk.state, "card": kiosk.card,
        "age": now - kiosk._shown.time if live else None, "drawn": now - kiosk._drawn_at,
        "threads": threading.active_count(), "files": psutil.Process().num_fds(),
    }  # fmt: skip


class Wall:
    """The wall clock: noon of a Monday at first."""

    def __init__(self):
        self._ahead = datetime(2026, 11, 23, 12) - datetime.now()

    def __call__(self):
        return datetime.now() + self._ahead

    def jump(self, seconds):
        self._ahead += timedelta(seconds=seconds)


def obey(wall):
    for line in sys.stdin:
        what, _, of = line.strip().partition(" ")
        if what == "jump":
            wall.jump(float(of))
        elif what == "kill":
            for thread in threading.enumerate():
                if thread.name == of:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
                    )
