"""One recording in the hands of a child process, which decodes, draws and encodes it.

A file that makes a decoder crash or hang takes that process with it and nothing else. Only what the
network sees of a picture, and the map that it computes, travels between the two; `recode` is the
child.
"""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from realtime_lrp.commands.video.messages import (
    FROM_CHILD,
    TO_CHILD,
    Answer,
    DrawableMap,
    Job,
    Opened,
    PictureBatch,
    Probe,
    Readable,
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

_Message = TypeVar("_Message", bound=msgspec.Struct)


def child_command() -> list[str]:
    """The command line of the child process."""
    return module_command("realtime_lrp.commands.video.recode")


def check_video(source: Path) -> None:
    """Refuses a file that is no video; a child process opens it.

    Raises:
      Error: it is no video, or there is no such file.
    """
    child = _RecodeChild(source)
    try:
        child.send(Probe(source.resolve()))
        child.receive(Readable)
    finally:
        child.close()


class Recoding:
    """A job that is under way; leaving the context ends its process.

    Attributes:
      opened: what is known of the recording.

    Raises:
      Error: the source cannot be read, the part cannot be written.
      OSError: writing the part failed; whoever knows the final name makes an `Error` of it.
    """

    def __init__(self, job: Job):
        self._job = job
        self._child = _RecodeChild(job.source)
        self._report: Report | None = None
        try:
            self._child.send(job)
            self.opened = self._child.receive(Opened)
        except BaseException:
            self._child.close()
            raise

    def __enter__(self) -> "Recoding":
        return self

    def __exit__(self, *exception: object) -> None:
        self._child.close()

    def batches(self) -> Iterator[PictureBatch]:
        """Yields what is to be explained, until the film is finished; each needs an `answer`."""
        while self._report is None:
            message = self._child.receive(PictureBatch, Report)
            if isinstance(message, Report):
                self._report = message
            elif isinstance(message, PictureBatch):
                yield self._checked(message)

    @property
    def report(self) -> Report:
        """What was done, once `batches` has ended."""
        if self._report is None:
            raise ValueError("The film is not finished yet.")
        return self._report

    @property
    def written(self) -> int:
        """How many frames are written so far."""
        return self._report.frames if self._report else self._child.written

    @property
    def waiting(self) -> bool:
        """Whether another batch is there already; if not, the child may wait for an answer."""
        return self._child.waiting

    def answer(self, maps: Sequence[DrawableMap]) -> None:
        """Sends the maps of the oldest `PictureBatch` that has none yet."""
        self._child.send(Answer(tuple(maps)))

    def _checked(self, batch: PictureBatch) -> PictureBatch:
        pictures = batch.pictures
        shape = (*self._job.size, 3)
        if pictures.dtype != np.uint8 or pictures.shape[1:] != shape or not len(pictures):
            raise DamagedInputError(
                f"{str(self._job.source)!r} makes the decoder send invalid pictures."
            )
        return batch


class _RecodeChild:
    """The child process, with a thread that listens to it.

    Args:
      source: the file that it reads, for messages.

    Attributes:
      written: how many frames are written so far.
    """

    def __init__(self, source: Path):
        self._source = source
        self._child = Child(child_command(), FROM_CHILD)
        self._messages: queue.Queue[msgspec.Struct | None] = queue.Queue()
        self._alive = time.monotonic()
        self.written = 0
        threading.Thread(target=self._listen, name="video job", daemon=True).start()

    @property
    def waiting(self) -> bool:
        return not self._messages.empty()

    def send(self, message: TO_CHILD) -> None:
        try:
            self._child.send(message)
        except OSError:
            while True:  # raises what the child had to say before it ended
                self.receive(Readable, Opened, PictureBatch, Report)

    def receive(self, *expected: type[_Message]) -> _Message:
        """Waits for a message of the expected types; raises the error that another one reports."""
        message = self._next()
        if isinstance(message, Failed):
            raise failure(str(self._source), message)
        if not isinstance(message, expected):
            raise death(str(self._source), self._child.death())
        return message

    def close(self) -> None:
        self._child.close()

    def _next(self) -> msgspec.Struct | None:
        self._alive = time.monotonic()
        while True:
            try:
                return self._messages.get(timeout=POLL_S)
            except queue.Empty:
                if time.monotonic() - self._alive > STALLED_S:
                    raise hang(str(self._source), STALLED_S) from None

    def _listen(self) -> None:
        while True:
            message = self._child.receive()
            self._alive = time.monotonic()
            if isinstance(message, Written):
                self.written = max(self.written, message.frames)
                continue
            self._messages.put(message)
            if message is None or isinstance(message, Readable | Report | Failed):
                return
