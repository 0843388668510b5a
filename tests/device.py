"""A camera that one opener has at a time, and whose driver hangs when told."""

import fcntl
import time

import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video.source import Source


class Device(Source):
    """50 noisy pictures a second, as long as its folder does not say otherwise.

    A file "hang" lets the next reading hang, once, until there is a file "go on"; who opens it
    holds the file "lock".
    """

    steady = alive = True
    described = "device"

    def __init__(self, folder, stop):
        super().__init__(stop)
        self._folder, self._rng = folder, np.random.default_rng(1)
        self._file = (folder / "lock").open("a")
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
