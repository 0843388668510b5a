"""One recording in the hands of a child process, which decodes, draws and encodes it.

A file that makes a decoder crash or hang takes that process with it and nothing else. Only what the
network sees of a picture, and the map that it computes, travels between the two; `recode` is the
child.
"""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.commands.video.messages import (
    FROM_CHILD,
    Answer,
    DrawableMap,
    Job,
    Opened,
    PictureBatch,
    Report,
    Written,
)
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child import Child, death, failure, hang
from realtime_lrp.system.child_command import module_command

STALLED_S = 60.0
"""A child that shows no sign of life for this long is killed."""

POLL_S = 0.5


def child_command() -> list[str]:
    """The command line of the child process."""
    return module_command("realtime_lrp.commands.video.recode")


class Recoding:
    """A job that is under way; leaving the context ends its process.

    A thread listens to the child. Where a write failed there, an `OSError` is raised.

    Attributes:
      opened: what is known of the recording.
      written: how many frames are written so far.
      report: what was done, once `batches` has ended.
    """

    report: Report

    def __init__(self, job: Job):
        self._job, self._source = job, str(job.source)
        self._child = Child(child_command(), FROM_CHILD)
        self._messages: queue.Queue[msgspec.Struct | None] = queue.Queue()
        self._alive = time.monotonic()
        self.written = 0
        threading.Thread(target=self._listen, name="video job", daemon=True).start()
        try:
            self._send(job)
            self.opened = self._receive(Opened)
        except BaseException:
            self._child.close()
            raise

    def __enter__(self) -> "Recoding":
        return self

    def __exit__(self, *exception: object) -> None:
        self._child.close()

    def batches(self) -> Iterator[PictureBatch]:
        """Yields what is to be explained, until the film is finished; each needs an `answer`."""
        shape = (*self._job.size, 3)
        while isinstance(message := self._receive(PictureBatch, Report), PictureBatch):
            pictures = message.pictures
            if pictures.dtype != np.uint8 or pictures.shape[1:] != shape or not len(pictures):
                raise DamagedInputError(
                    f"{self._source!r} makes the decoder send invalid pictures."
                )
            yield message
        self.report = message

    @property
    def waiting(self) -> bool:
        """Whether another batch is there already; if not, the child may wait for an answer."""
        return not self._messages.empty()

    def answer(self, maps: Sequence[DrawableMap]) -> None:
        """Sends the maps of the oldest `PictureBatch` that has none yet."""
        self._send(Answer(tuple(maps)))

    def _send(self, message: Job | Answer) -> None:
        try:
            self._child.send(message)
        except OSError:
            while True:  # raises what the child had to say before it ended
                self._receive(Opened, PictureBatch, Report)

    def _receive(self, *expected: type[msgspec.Struct]) -> Any:
        """Waits for a message of the expected types; raises the error that another one reports."""
        message = self._next()
        if isinstance(message, Failed):
            raise failure(self._source, message)
        if not isinstance(message, expected):
            raise death(self._source, self._child.death())
        return message

    def _next(self) -> msgspec.Struct | None:
        self._alive = time.monotonic()
        while True:
            try:
                return self._messages.get(timeout=POLL_S)
            except queue.Empty:
                if time.monotonic() - self._alive > STALLED_S:
                    raise hang(self._source, STALLED_S) from None

    def _listen(self) -> None:
        message: msgspec.Struct | None = Written(0)
        while not (message is None or isinstance(message, Report | Failed)):
            message = self._child.receive()
            self._alive = time.monotonic()
            if isinstance(message, Written):
                self.written = max(self.written, message.frames)
            else:
                self._messages.put(message)
