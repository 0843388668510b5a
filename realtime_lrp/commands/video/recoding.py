"""One recording in the hands of a process of its own, which decodes, draws and encodes it.

A file that makes a decoder crash or hang takes that process with it and nothing else. Only what the
network sees of a picture and what it makes of it travels between the two; `recode` is the
other side.
"""

import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system import children
from realtime_lrp.system.channel import Channel, Failed
from realtime_lrp.video.reader import Span
from realtime_lrp.view.colormaps import Colormap

STALLED_S = 60.0
"""After so long without a sign of life the process is given up."""


KEPT_FREE = 64 * 2**20
"""Bytes of the disk that are never used up."""


class Job(msgspec.Struct, frozen=True, tag=True):
    """What is done with a recording.

    Attributes:
      source: the file that is read.
      part: the file that is written; its place is taken care of by who gives the job.
      parts: all that is unfinished, and goes if who gave the job is gone.
      container: ".mp4", ".mov" or ".mkv".
      note: goes into the file's metadata as a comment.
      span: the part of the recording, None for all of it.
      stride: every so many-th frame is explained, its map carried along to the others.
      batch: how many pictures are explained together at most.
      layout: as `laid_out` takes it.
      codec, quality: as `VideoWriter` takes them.
      sound: whether it is kept.
      size: (rows, columns) that the network reads.
      fit: the region that it sees, as `region_of` takes it.
      mirror: left and right are swapped.
      colormap, opacity, smoothing: as `Painter` takes them.
      thumbnails: how many small pictures of the result are wanted at least, 0 for none.
    """

    source: Path
    part: Path
    parts: tuple[Path, ...]
    container: str
    note: str
    span: Span | None
    stride: int
    batch: int
    layout: str
    codec: str
    quality: int | None
    sound: bool
    size: tuple[int, int]
    fit: str
    mirror: bool
    colormap: Colormap
    opacity: float
    smoothing: float
    thumbnails: int = 0


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The first frame was decoded.

    Attributes:
      size: (rows, columns) of the pictures, upright.
      frames: about how many there will be, 0 where the file does not say.
    """

    size: tuple[int, int]
    frames: int


class Views(msgspec.Struct, frozen=True, tag=True):
    """What the network is to explain.

    Attributes:
      pictures: uint8 [n, rows, columns, 3] RGB, of every `stride`-th frame.
      times: seconds, of every frame that was decoded since the last of these messages.
    """

    pictures: np.ndarray
    times: tuple[float, ...]


class Map(msgspec.Struct, frozen=True):
    """What is drawn over a picture: `strength` and `scale` as in `Painter`, and its best label."""

    strength: np.ndarray
    scale: float
    line: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """What is drawn over the pictures of a `Views`, in their order."""

    maps: tuple[Map, ...]


class Written(msgspec.Struct, frozen=True, tag=True):
    """So many frames are written; also a sign of life."""

    frames: int


class Report(msgspec.Struct, frozen=True, tag=True):
    """The file is whole.

    Attributes:
      frames: how many it has.
      claimed: where it ended early, about how many it should be; else 0.
      times: of the frames that no `Views` told of.
      bad_packets: how many of the source could not be decoded.
      lost_sound: how many packets of sound could not be taken over.
      notes: what was not kept as it was.
      thumbnails: (seconds, uint8 [h, w, 3] RGB), evenly spaced.
      holes: how many seconds each damaged part of the source is long in which nothing can be read.
    """

    frames: int
    claimed: int
    times: tuple[float, ...]
    bad_packets: int
    lost_sound: int
    notes: tuple[str, ...] = ()
    thumbnails: list[tuple[float, np.ndarray]] = []
    holes: tuple[float, ...] = ()


ASKED = Job | Answer
"""What the process is sent."""

TOLD = Opened | Views | Written | Report | Failed
"""What it sends."""


_Message = TypeVar("_Message", bound=msgspec.Struct)


class Recoding:
    """A job under way; a context that ends its process.

    Attributes:
      opened: what is known of the recording.
      written: how many frames are written so far.

    Raises:
      Error: the source cannot be read, the part cannot be written.
      OSError: the same, for who knows the final name.
    """

    def __init__(self, job: Job):
        self._source = job.source
        self._process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us to answer
        )
        self._pipes = children.pipes(self._process)
        self._channel = Channel(*self._pipes, TOLD)
        self._messages: queue.Queue[Opened | Views | Report | Failed | None] = queue.Queue()
        self._alive = time.monotonic()
        self.written = 0
        self._report: Report | None = None
        threading.Thread(target=self._listen, name="video job", daemon=True).start()
        try:
            self._send(job)
            self.opened = self._next(Opened)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> "Recoding":
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def views(self) -> Iterator[Views]:
        """Yields what is to be explained, until the file is whole; each needs an `answer`."""
        while self._report is None:
            message = self._next(Views, Report)
            if isinstance(message, Views):
                yield message
            elif isinstance(message, Report):
                self._report, self.written = message, message.frames

    @property
    def report(self) -> Report:
        """What was done, once `views` has ended."""
        if self._report is None:
            raise ValueError("The file is not whole yet.")
        return self._report

    @property
    def waiting(self) -> bool:
        """Whether more `views` are there already; else they may wait for an answer."""
        return not self._messages.empty()

    def answer(self, maps: Sequence[Map]) -> None:
        """Sends the maps of the oldest `Views` that has none yet."""
        self._send(Answer(tuple(maps)))

    def _send(self, message: ASKED) -> None:
        try:
            self._channel.send(message)
        except OSError:
            while True:  # what the process had to say before it went
                self._next(Opened, Views, Report)

    def _next(self, *expected: type[_Message]) -> _Message:
        self._alive = time.monotonic()
        while True:
            try:
                message = self._messages.get(timeout=0.5)
                break
            except queue.Empty:
                if time.monotonic() - self._alive > STALLED_S:
                    raise DamagedInputError(
                        f"{str(self._source)!r} makes the decoder hang: nothing in {STALLED_S:g} s."
                    ) from None
        if isinstance(message, Failed):
            raise message.error()
        if not isinstance(message, expected):
            raise DamagedInputError(
                f"{str(self._source)!r} makes the decoder crash ({self._death()})."
            )
        return message

    def _death(self) -> str:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it says what nobody understands"
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def _listen(self) -> None:
        while True:
            try:
                message = self._channel.receive()
            except (EOFError, OSError, ValueError):
                message = None
            self._alive = time.monotonic()
            if isinstance(message, Written):
                self.written = max(self.written, message.frames)
                continue
            self._messages.put(message)
            if message is None or isinstance(message, Report | Failed):
                return

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in self._pipes:
            with suppress(OSError):
                stream.close()


def command() -> list[str]:
    """The words that start the process."""
    return children.command("realtime_lrp.commands.video.recode")
