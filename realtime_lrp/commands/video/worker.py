"""What a worker runs: it makes the film of one recording, with a network that its process keeps."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from realtime_lrp.commands.video.messages import Report
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.temporary import temporary_folders_in

if TYPE_CHECKING:
    from realtime_lrp.commands.video.films import Films

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
"""Environment variables that say how many threads libraries compute with."""


@dataclass(frozen=True)
class Order:
    """What is asked of a worker.

    Attributes:
      config: how films are made.
      options: what is asked for.
      task: the recording.
      cwd: the folder that relative paths count from.
      threads: how many threads it may compute with.
      folder: where temporary folders go; None for the usual place of the machine.
      level: of the log.
    """

    config: Config
    options: VideoOptions
    task: Task
    cwd: Path
    threads: int
    folder: Path | None
    level: int


@dataclass(frozen=True)
class Outcome:
    """What became of a recording.

    Attributes:
      report: of the film; None if there is none, or a worker that was lost has finished it.
      failed: why there is no film, or None.
      for_all: it is the same for every recording: the network cannot be loaded.
      computed: precision and device, for example "float32 on CPU".
      device, precision: the same.
      provenance: how films are made, JSON.
      maps, map_ms, traces: see `Stats`.
      log: what is to be logged.
    """

    report: Report | None = None
    failed: Failed | None = None
    for_all: bool = False
    computed: str = ""
    device: str = ""
    precision: str = ""
    provenance: str = ""
    maps: int = 0
    map_ms: list[float] = field(default_factory=list)
    traces: int = 0
    log: list[str] = field(default_factory=list)


_kept: dict[str, "Films"] = {}
"""The network of this process, by the settings that it was loaded with."""


def make_film(order: Order) -> Outcome:
    """Makes a film. Returns what it raises, too: not every exception can be sent."""
    for name in THREADS:  # read when TensorFlow is imported
        os.environ[name] = str(order.threads)
    with suppress(OSError):  # another machine may lack it
        os.chdir(order.cwd)
    inside = temporary_folders_in(order.folder) if order.folder else nullcontext()
    with _lines(order.level) as lines, inside:
        try:
            films = _films(order)
        except Exception as error:
            return Outcome(failed=Failed.by(error), for_all=True, log=lines)
        try:
            return _made(films, order, lines)
        except Exception as error:
            return Outcome(failed=Failed.by(error), log=lines)


def _films(order: Order) -> "Films":
    from realtime_lrp.commands.video.films import Films

    wanted = f"{order.config.model_dump_json()} {order.options.exact} {order.options.sidecar}"
    if wanted not in _kept:
        _kept.clear()
        _kept[wanted] = Films(order.config, order.options)
    return _kept[wanted]


def _made(films: "Films", order: Order, lines: list[str]) -> Outcome:
    from realtime_lrp.engine.provenance import provenance_of
    from realtime_lrp.realtime.stats import Stats

    engine = films.engine
    stats = Stats(engine.device, engine.precision)
    with order.task.at_hand() as task:
        done = task.made_by_lost_worker()
        report = None if done else films.make(task, stats)
    return Outcome(
        msgspec.structs.replace(report, thumbnails=[]) if report else None,
        computed=engine.computed, device=engine.device, precision=engine.precision,
        provenance=provenance_of(engine, order.config, "video").as_json(),
        maps=stats.maps, map_ms=list(stats.map_ms), traces=engine.explainer.traces, log=lines,
    )  # fmt: skip


class _Lines(logging.Handler):
    """Keeps lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("realtime_lrp"):
            self.kept.append(record.getMessage())


@contextmanager
def _lines(level: int) -> Iterator[list[str]]:
    """Collects what is logged."""
    lines, root = _Lines(), logging.getLogger()
    root.setLevel(level)
    root.addHandler(lines)
    try:
        yield lines.kept
    finally:
        root.removeHandler(lines)
