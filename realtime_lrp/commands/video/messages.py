"""The messages between `recoding`, in this process, and `recode`, in the child process."""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from realtime_lrp.system.channel import Failed
from realtime_lrp.video.reader import Span
from realtime_lrp.view.look import Look

KEPT_FREE = 64 * 2**20
"""Bytes of the disk that stay free."""

Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class Probe(msgspec.Struct, frozen=True, tag=True):
    """Asks whether a file is a video; answered with `Readable`."""

    source: Path


class Job(msgspec.Struct, frozen=True, tag=True):
    """What is done with a recording.

    Attributes:
      source: the file that is read.
      part: the file that is written; the parent gives it its final name.
      parts: all unfinished files; the child removes them if the parent is gone.
      container: ".mp4", ".mov" or ".mkv".
      comment: goes into the film's metadata.
      provenance: how the film is made, JSON; the film's description.
      span: the part of the recording, None for all of it.
      stride: every stride-th frame is explained, its map is carried along to the others.
      batch: maximum number of pictures that are explained together.
      layout: as `lay_out` takes it.
      codec, quality: as `VideoWriter` takes them.
      sound: whether it is kept.
      size: (rows, columns) of the network's input.
      fit: the region that the network sees, as `region_of` takes it.
      mirror: left and right are swapped.
      look, smoothing: as `Painter` takes them; the look names no colour map but has it.
      thumbnails: minimum number of small pictures of the result, 0 for none.
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


class Readable(msgspec.Struct, frozen=True, tag=True):
    """The file is a video."""


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The first frame was decoded.

    Attributes:
      size: (rows, columns) of the pictures, upright.
      frames: about how many there will be, 0 if the file does not say.
    """

    size: tuple[Side, Side]
    frames: Count


class PictureBatch(msgspec.Struct, frozen=True, tag=True):
    """Pictures that the network is to explain.

    Attributes:
      pictures: uint8 [n, rows, columns, 3] RGB, the extracted region of every stride-th frame.
      times: seconds, of all frames that were decoded since the last message of this kind.
    """

    pictures: np.ndarray
    times: tuple[float, ...]


class Written(msgspec.Struct, frozen=True, tag=True):
    """This many frames are written; also shows that the child is alive."""

    frames: Count


class Report(msgspec.Struct, frozen=True, tag=True):
    """The film is finished.

    Attributes:
      frames: how many it has.
      expected: about how many it should have if the source ended early; else 0.
      times: of the frames after the last `PictureBatch`.
      bad_packets: how many of the source could not be decoded.
      lost_sound: how many packets of sound could not be copied.
      notes: what was not kept as it was.
      thumbnails: (seconds, uint8 [h, w, 3] RGB), evenly spaced.
    """

    frames: Count
    expected: Count
    times: tuple[float, ...]
    bad_packets: Count
    lost_sound: Count
    notes: tuple[str, ...] = ()
    thumbnails: list[tuple[float, np.ndarray]] = []


TO_CHILD = Probe | Job | Answer
FROM_CHILD = Readable | Opened | PictureBatch | Written | Report | Failed
