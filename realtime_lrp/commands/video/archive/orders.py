"""What the job asks of a worker, and what a worker hands back; all of it travels through Ray."""

from dataclasses import dataclass, field

import msgspec

from realtime_lrp.commands.video.messages import Piece
from realtime_lrp.commands.video.overlay import Making
from realtime_lrp.config import Config
from realtime_lrp.engine.accounting import LostMaps
from realtime_lrp.video.reader import Span


@dataclass(frozen=True)
class Order:
    """A recording and what is made of it.

    Attributes:
      source: its path or address.
      config: how it is made.
      span: the part of it that is wanted, None for all.
      container: the ending of the film's format.
      summary: whether a summary picture is wanted.
      maps: whether raw maps are wanted.
      version: of a recording in an object store, see `StoredFile`; else "".
    """

    source: str
    config: Config
    span: Span | None
    container: str
    summary: bool
    maps: bool
    version: str = ""


class Facts(msgspec.Struct, frozen=True):
    """What is known of a film, or of a part of one, that was made.

    Attributes:
      frames: how many it has.
      making: how it was made.
      computed: precision and device, for example "float32 on CPU".
      bad_packets, expected, lost_sound: as in `Report`.
      notes: what was not kept as it was.
      missing: how many frames have no map.
      losses: the maps of a part that lost relevance.
      scale: the smoothed scale after its last map; None for a whole film.
    """

    frames: int
    making: Making
    computed: str
    bad_packets: int = 0
    expected: int = 0
    lost_sound: int = 0
    notes: tuple[str, ...] = ()
    missing: int = 0
    losses: tuple[LostMaps, ...] = ()
    scale: float | None = None


@dataclass(frozen=True)
class Made:
    """Files that a worker has made in a folder of its own, from where the job fetches them.

    Attributes:
      folder: on the worker's machine.
      files: name, with folders -> size in bytes.
      facts: what is known of them.
      map_ms: milliseconds that each map took.
    """

    folder: str
    files: dict[str, int]
    facts: Facts
    map_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Explained:
    """The maps of a part are computed; they wait on the worker to be drawn.

    Attributes:
      scales: of each map, as `Painter` takes them.
    """

    scales: list[float]


@dataclass(frozen=True)
class Uncut:
    """A recording has to be made in one piece after all.

    Attributes:
      why: in words.
    """

    why: str


@dataclass(frozen=True)
class DiskFailed:
    """A worker cannot write: its disk is full, or broken.

    Attributes:
      why: in words, with its machine and folder.
    """

    why: str


@dataclass(frozen=True)
class Planned:
    """Where a recording is cut.

    Attributes:
      pieces: the parts; none if it is made in one piece.
      frames: about how many frames it has, 0 if unknown.
      last: how long each of the last frames is shown.
    """

    pieces: tuple[Piece, ...]
    frames: int
    last: tuple[int, ...]


@dataclass(frozen=True)
class Loaded:
    """A worker is ready.

    Attributes:
      bytes: the memory that it takes.
      provenance: how films are made, JSON.
      device, precision: where and in which type it computes.
      node: the machine.
      pid: its process number.
    """

    bytes: int
    provenance: str
    device: str
    precision: str
    node: str
    pid: int


@dataclass(frozen=True)
class Status:
    """How far a worker is.

    Attributes:
      frames: how many frames it has explained in all.
      file: what it works at.
      node: the machine.
      log: what it has to say, lines of its log.
    """

    frames: int
    file: str
    node: str = ""
    log: list[str] = field(default_factory=list)
