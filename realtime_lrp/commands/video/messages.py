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
      piece: which frames of the recording, where it is made in parts; None for all.
      draw: whether the film is written; else the maps are only asked for, and `part` is not made.
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
    piece: "Piece | None" = None
    draw: bool = True


class Piece(msgspec.Struct, frozen=True):
    """A part of a recording that is made alone and joined with the others later.

    Attributes:
      number: of the part, from 0.
      first: the number of its first frame, a multiple of `Job.stride`.
      pts: when each of its frames is shown, in units of the film's time base.
      between: the range of times in the stream of the recording, the second one excluded.
      thumbnail_step: a small picture is kept of each frame whose number is a multiple of it.
      scale: what `Painter` has after the maps before the first frame; None before any.
    """

    number: int
    first: int
    pts: tuple[int, ...]
    between: tuple[int, int]
    thumbnail_step: int = 1
    scale: float | None = None


class PlanParts(msgspec.Struct, frozen=True, tag=True):
    """Asks for the parts of a recording; answered with `Parts`.

    Attributes:
      source: the recording.
      span: the part of it that is wanted, None for all.
      seconds: about how long a part lasts.
      unit: each part begins with a multiple of so many frames.
      thumbnails: as in `Job`.
    """

    source: Path
    span: Span | None
    seconds: float
    unit: int
    thumbnails: int


class Join(msgspec.Struct, frozen=True, tag=True):
    """Asks to join parts to a film; answered with `Report`.

    Attributes:
      source, part, container, comment, provenance, span, sound, codec: as in `Job`.
      films: of the parts, in order.
      pts: when each frame is shown, in units of the film's time base.
      last: how long each of the last frames is shown.
    """

    source: Path
    part: Path
    container: str
    comment: str
    provenance: str
    span: Span | None
    sound: bool
    codec: str
    films: tuple[Path, ...]
    pts: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def parts(self) -> tuple[Path, ...]:
        """All unfinished files."""
        return (self.part,)


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


class Parts(msgspec.Struct, frozen=True, tag=True):
    """The parts of a recording; none if it has to be made in one piece.

    Attributes:
      parts: in order.
      frames: about how many frames there are, 0 if unknown.
      last: how long each of the last frames is shown, in units of the film's time base.
    """

    parts: tuple[Piece, ...]
    frames: Count
    last: tuple[int, ...] = ()


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
      depends: whether frames depend on those around them, as in interlaced recordings.
    """

    frames: Count
    expected: Count
    times: tuple[float, ...]
    bad_packets: Count
    lost_sound: Count
    notes: tuple[str, ...] = ()
    thumbnails: list[tuple[float, np.ndarray]] = []
    depends: bool = False


TO_CHILD = Probe | Job | Answer | PlanParts | Join
FROM_CHILD = Readable | Parts | Opened | PictureBatch | Written | Report | Failed
