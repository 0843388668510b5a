"""Cameras that fail on request: by a script, by their state, by files in a folder."""

import fcntl
import threading
import time
from pathlib import Path

import media
import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video import cameras
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.source import Source

FOREVER_S = 1e5


def linux_cameras(monkeypatch, folder, first, second):
    """Linux' folder of two cameras, the first with another node that carries no pictures."""
    monkeypatch.setattr(cameras, "SYSTEM", folder / "video4linux")
    monkeypatch.setattr(cameras, "LINUX", True)
    for node, (index, name) in enumerate(((0, first), (1, first), (0, second))):
        made = folder / "video4linux" / f"video{node}"
        made.mkdir(parents=True)
        (made / "index").write_text(f"{index}\n")
        (made / "name").write_text(f"{name}\n")


class Scripted(Source):
    """Gives the frames of a script; None means that it is lost, exceptions are raised."""

    def __init__(self, script, stop):
        super().__init__(stop)
        self.script, self.closed = script, False

    def read(self):
        event = self.script.pop(0)
        if isinstance(event, Exception):
            raise event
        return event

    def close(self):
        self.closed = True


class World:
    """The state of a camera: 25 noisy pictures a second, `level` is their darkest value."""

    def __init__(self, clock, **state):
        self.clock, self.opened, self.rng = clock, [], np.random.default_rng(1)
        self.gone = self.garbage = False
        self.blocked = self.stuck = self.frozen = None
        self.level, self.size = 120, (48, 64)
        vars(self).update(state)

    def open(self, stop):
        self.opened.append(self.clock.now())
        if self.stuck:
            self.clock.wait(self.stuck, FOREVER_S)
        if self.gone:
            raise UnavailableError("No camera http://me:secret@host. Plug it in.")
        return Camera(stop, self)


class Camera(Source):
    steady = alive = True
    described = "camera"

    def __init__(self, stop, world):
        super().__init__(stop)
        self.world = world

    def read(self):
        world = self.world
        world.clock.wait(self.stop, 0.04)
        if world.blocked:
            world.clock.wait(world.blocked, FOREVER_S)
            return media.plain((1, 2, 3))  # what a driver returns in the end
        if world.gone:
            return None
        if world.garbage:
            raise ValueError("half a picture")
        if world.frozen is not None:
            return world.frozen
        return world.rng.integers(world.level, world.level + 3, (*world.size, 3), np.uint8)


class Device(Source):
    """Holds a lock while open; a file "hang" in its folder blocks it until there is "go on"."""

    steady = alive = True
    described = "device"

    def __init__(self, folder, stop):
        super().__init__(stop)
        self._folder, self._rng = Path(folder), np.random.default_rng(1)
        self._file = (self._folder / "lock").open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UnavailableError("The device is in use.") from None

    def read(self):
        time.sleep(0.02)
        if (self._folder / "hang").exists():
            (self._folder / "hang").unlink()
            while not (self._folder / "go on").exists():
                time.sleep(0.02)
        self.described = "device, read"
        return self._rng.integers(100, 200, (48, 64, 3), np.uint8)

    def close(self):
        self._file.close()


class Awaited(threading.Event):
    """An event that knows whether somebody has waited for it."""

    def __init__(self):
        super().__init__()
        self.awaited = threading.Event()

    def wait(self, timeout=None):
        self.awaited.set()
        return super().wait(timeout)


class Flag(Source):
    """A camera whose pictures are red on the left, blue on the right, and noisy."""

    alive = steady = True

    def __init__(self, stop):
        super().__init__(stop)
        self._rng = np.random.default_rng(1)

    def read(self):
        if self.stop.wait(0.005):
            return None
        picture = self._rng.integers(60, 70, (48, 64, 3), np.uint8)
        picture[:, :32, 0] = 200
        picture[:, 32:, 2] = 200
        return picture


class Film(Source):
    """A camera: 30 noisy pictures a second of an empty room, or of somebody in it with a circle.

    The file "camera" in its folder says how it behaves: "somebody", "nobody", "lost", "stalled",
    "blocked" (reading never returns), "frozen" or "dark".
    """

    steady = alive = True
    described = "film"

    def __init__(self, folder, stop):
        super().__init__(stop)
        self._file, self._count, self._rng = Path(folder) / "camera", 0, np.random.default_rng(1)
        self._last = None
        if self._behaviour() == "lost":
            raise UnavailableError("The film is not there.")

    def read(self):
        time.sleep(1 / 30)
        behaviour = self._behaviour()
        while behaviour in ("stalled", "blocked"):
            time.sleep(0.05)
            behaviour = "blocked" if behaviour == "blocked" else self._behaviour()
        if behaviour == "lost":
            return None
        if behaviour == "dark":
            return self._rng.integers(0, 2, (120, 160, 3), np.uint8)
        if behaviour != "frozen" or self._last is None:
            self._last = self._picture(behaviour == "somebody")
        return self._last

    def _behaviour(self):
        return self._file.read_text() or "somebody"  # empty while it is being written

    def _picture(self, somebody):
        self._count += 1
        picture = self._rng.integers(100, 112, (120, 160, 3), np.uint8)
        if somebody:
            x = 40 + round(30 * np.sin(self._count / 8))
            picture[20:, x : x + 50] = (180, 60, 60)
            cv2.circle(picture, (x + 25, 70), 24, (240, 240, 240), 6)
        return picture
