"""One recording in the hands of a child process, which decodes, draws and encodes it.

A file that makes a decoder crash or hang takes that process with it and nothing else. Only what the
network sees of a picture, and the map that it computes, travels between the two, in the messages
below; `recode` is the child.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.child import Child, Failed, module_command
from realtime_lrp.video.reader import Span
from realtime_lrp.view.boxes import Outline
from realtime_lrp.view.look import Look

STALLED_S = 60.0  # a child that shows no sign of life for this long is killed

Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class Job(msgspec.Struct, frozen=True, tag=True):
    """What is done with a recording.

    The film is the first of the unfinished `parts`, all of which the child removes if the parent is
    gone. Every stride-th frame is explained, its map is carried along to the others. `size` is
    (rows, columns) of the network's input. The look names no colour map but has it.
    """

    source: Path
    parts: tuple[Path, ...]
    container: str
    comment: str
    provenance: str
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
    look: Look

    @property
    def film(self) -> Path:
        return self.parts[0]


class DrawableMap(msgspec.Struct, frozen=True):
    """What is drawn over a picture: `strength` and `scale` as in `Painter`, a line, and boxes."""

    strength: np.ndarray
    scale: float
    line: str
    outlines: tuple[Outline, ...] = ()


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The maps of the pictures of a `PictureBatch`, in their order."""

    maps: tuple[DrawableMap, ...]


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The first frame was decoded: (rows, columns) upright, about how many frames or 0."""

    size: tuple[Side, Side]
    frames: Count


class PictureBatch(msgspec.Struct, frozen=True, tag=True):
    """Pictures that the network is to explain.

    The pictures, uint8 [n, rows, columns, 3] RGB, are the extracted region of every stride-th
    frame; the times, in seconds, are those of all frames since the last message of this kind.
    """

    pictures: np.ndarray
    times: tuple[float, ...]


class Written(msgspec.Struct, frozen=True, tag=True):
    """This many frames are written; also shows that the child is alive."""

    frames: Count


class Report(msgspec.Struct, frozen=True, tag=True):
    """The film is finished.

    Of a source that ended early `expected` says about how many frames it should have; else 0.
    `times` are those of the frames after the last `PictureBatch`, thumbnails (seconds, uint8 [h, w,
    3] RGB).
    """

    frames: Count
    expected: Count
    times: tuple[float, ...]
    bad_packets: Count
    lost_sound: Count
    notes: tuple[str, ...] = ()
    thumbnails: list[tuple[float, np.ndarray]] = []


TO_CHILD = Job | Answer
FROM_CHILD = Opened | PictureBatch | Written | Report | Failed


def child_command() -> list[str]:
    """The command line of the child process."""
    return module_command("realtime_lrp.commands.video.recode")


class Recoding:
    """A job that is under way; leaving the context ends its process.

    Where a write failed there, an `OSError` is raised. `opened` is what is known of the recording,
    `written` how many frames are written so far, `report` what was done, once `batches` has ended.
    """

    report: Report

    def __init__(self, job: Job):
        self._job, self._source = job, str(job.source)
        self.written = 0
        self._child = Child(child_command(), FROM_CHILD, aside=self._aside)
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
        return self._child.has_sent

    def answer(self, maps: Sequence[DrawableMap]) -> None:
        """Sends the maps of the oldest `PictureBatch` that has none yet."""
        self._send(Answer(tuple(maps)))

    def _send(self, message: Job | Answer) -> None:
        try:
            self._child.send(message)
        except OSError:
            while True:  # raises what the child had to say before it ended
                self._receive(Opened, PictureBatch, Report)

    def _receive(self, *types: type[msgspec.Struct]) -> Any:
        return self._child.expect(self._source, *types, silent_s=STALLED_S)

    def _aside(self, message: Any) -> bool:
        if isinstance(message, Written):
            self.written = max(self.written, message.frames)
            self._child.shows_life()
        return isinstance(message, Written)
