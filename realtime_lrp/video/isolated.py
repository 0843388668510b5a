"""A camera in a child process, which can be killed where a thread cannot.

A thread that hangs in a driver can only be left behind: what it holds stays held, the device and
the driver's state in this process, until the driver lets go. So a camera that hung once is read by
a child from then on. The first child helps at once where the device can be opened twice or the
trouble lay in this process; else it gets the device as soon as the thread lets go. From then on a
hang costs a child, and the next one gets the device at once. The way through the pipe takes 1 ms
for a picture of 1280 x 720; a camera that never hangs does not pay it.

The child is sent how the source is opened, pickled. It answers with what the source is (a string,
whenever that changes), its frames, and the exception that ended it. It ends with its parent.
"""

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video.source import Source

CLOSING_S = 1.0

log = logging.getLogger(__name__)


class Isolated(Source):
    """A camera that a child process opens and reads; the child is killed once `stop` is set.

    Args:
      open_source: opens the camera; can be pickled.
      stop: ends every wait.

    Raises:
      Error: the camera cannot be opened.
    """

    steady = alive = True

    def __init__(self, open_source: Callable[[threading.Event], Source], stop: threading.Event):
        super().__init__(stop)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "realtime_lrp.video.isolated"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent to answer
        )
        threading.Thread(target=self._kill_at_the_end, name="child's end", daemon=True).start()
        try:
            _send(self._process.stdin, open_source)
            self.described = self._received()
        except BaseException:
            self.close()
            raise
        log.info("%s is read by the process %d", self.described, self._process.pid)

    def read(self):
        while isinstance(message := self._received(), str):
            self.described = message
        return message

    def close(self):
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # the kernel itself hangs
            self._process.wait(CLOSING_S)
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()

    def _received(self) -> str | np.ndarray:
        try:
            message = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            message = UnavailableError("The process that reads the camera ended.")
        if isinstance(message, Exception):
            raise message
        return message

    def _kill_at_the_end(self) -> None:
        self.stop.wait()
        self._process.kill()


def main() -> None:
    """Opens what the parent says, and sends what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the messages
    open_source = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    with suppress(BrokenPipeError):
        try:
            with open_source(threading.Event()) as source:
                _send_all(source, outgoing)
        except Exception as error:
            _send(outgoing, error)


def _send_all(source: Source, outgoing: Any) -> None:
    described = source.described
    _send(outgoing, described)
    while (picture := source.read()) is not None:
        if source.described != described:
            described = source.described
            _send(outgoing, described)
        _send(outgoing, picture)


def _end_with_the_parent() -> None:
    while os.read(0, 1024):  # not through `sys.stdin`, whose lock would be held at the end
        pass
    os._exit(0)


def _send(outgoing: Any, message: Any) -> None:
    pickle.dump(message, outgoing, pickle.HIGHEST_PROTOCOL)
    outgoing.flush()


if __name__ == "__main__":
    main()
