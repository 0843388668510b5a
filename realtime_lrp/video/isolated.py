"""A camera in a child process, which can be killed where a thread cannot.

A thread that hangs in a driver can only be left behind: what it holds stays held, the device and
the driver's state in this process, until the driver lets go. So a camera that hung once is read by
a child from then on. The first child helps at once where the device can be opened twice or the
trouble lay in this process; else it gets the device as soon as the thread lets go. From then on a
hang costs a child, and the next one gets the device at once. The way through the pipe takes 1 ms
for a picture of 1280 x 720; a camera that never hangs does not pay it.

The child is told on its command line what opens the source. It answers with what the source is,
whenever that changes, its frames, and the exception that ended it. It ends with its parent.
"""

import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.system import children
from realtime_lrp.system.channel import Channel, Failed
from realtime_lrp.video.source import Source

CLOSING_S = 1.0

log = logging.getLogger(__name__)


class Described(msgspec.Struct, frozen=True, tag=True):
    """What the source is."""

    text: str


class Picture(msgspec.Struct, frozen=True, tag=True):
    """A frame, uint8 [H, W, 3] RGB."""

    picture: np.ndarray


class Isolated(Source):
    """A camera that a child process opens and reads; the child is killed once `stop` is set.

    Args:
      opener: opens the camera, `opener(*words, stop)`; a function or class of a module.
      words: what JSON can hold.
      stop: ends every wait.

    Raises:
      Error: the camera cannot be opened.
    """

    steady = alive = True

    def __init__(
        self,
        opener: Callable[..., Source],
        words: Sequence[str | float | None],
        stop: threading.Event,
    ):
        super().__init__(stop)
        self._process = subprocess.Popen(
            children.command(
                "realtime_lrp.video.isolated",
                opener.__module__,
                opener.__qualname__,
                json.dumps(words),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent to answer
        )
        threading.Thread(target=self._kill_at_the_end, name="child's end", daemon=True).start()
        told = Described | Picture | Failed
        self._incoming, self._outgoing = children.pipes(self._process)
        self._channel = Channel(self._incoming, self._outgoing, told)
        try:
            if isinstance(first := self._received(), Described):
                self.described = first.text
        except BaseException:
            self.close()
            raise
        log.info("%s is read by the process %d", self.described, self._process.pid)

    def read(self) -> np.ndarray:
        while isinstance(message := self._received(), Described):
            self.described = message.text
        return message.picture

    def close(self) -> None:
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # the kernel itself hangs
            self._process.wait(CLOSING_S)
        with suppress(OSError):
            self._outgoing.close()
        self._incoming.close()

    def _received(self) -> Described | Picture:
        try:
            message = self._channel.receive()
        except (EOFError, OSError, ValueError):
            raise UnavailableError("The process that reads the camera ended.") from None
        if isinstance(message, Failed):
            raise message.error()
        return message

    def _kill_at_the_end(self) -> None:
        self.stop.wait()
        self._process.kill()


def main() -> None:
    """Opens what the parent says, and sends what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the messages
    channel = Channel(sys.stdin.buffer, outgoing, Described)
    module, name, words = sys.argv[1:]
    opener = getattr(importlib.import_module(module), name)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    with suppress(BrokenPipeError):
        try:
            with opener(*json.loads(words), threading.Event()) as source:
                _send_all(source, channel)
        except Exception as error:
            channel.send(Failed.by(error))


def _send_all(source: Source, channel: Channel) -> None:
    described = source.described
    channel.send(Described(described))
    while (picture := source.read()) is not None:
        if source.described != described:
            described = source.described
            channel.send(Described(described))
        channel.send(Picture(picture))


def _end_with_the_parent() -> None:
    while os.read(0, 1024):  # not through `sys.stdin`, whose lock would be held at the end
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
