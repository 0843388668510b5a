"""The messages between `recoding`, in this process, and `recode`, in the child process."""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from realtime_lrp.system.channel import Failed
from realtime_lrp.video.reader import Span
from realtime_lrp.view.look import Look

Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class Job(msgspec.Struct, frozen=True, tag=True):
    """What is done with a recording.

    The child removes all unfinished `parts`, of which the film is the first, if the parent is gone.
    Every stride-th frame is explained, its map is carried along to the others. `size` is (rows,
    columns) of the network's input. The look names no colour map but has it. At least `thumbnails`
    small pictures come back.
    """

    source: Path
    part: Path
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
    smoothing: float
    thumbnails: int = 0


class DrawableMap(msgspec.Struct, frozen=True):
    """What is drawn over a picture: `strength` and `scale` as in `Painter`, and a line of text."""

    strength: np.ndarray
    scale: float
    line: str


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
