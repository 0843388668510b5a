"""What a worker runs: it makes the film of one recording, with a network that its process keeps."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from realtime_lrp.config import Config
from realtime_lrp.system.channel import Failed

if TYPE_CHECKING:
    from realtime_lrp.commands.video.films import Films, Outcome
    from realtime_lrp.commands.video.task import Task, VideoOptions

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
"""Environment variables that say how many threads libraries compute with."""


@dataclass(frozen=True)
class Order:
    """What is asked of a worker.

    Relative paths count from `cwd`; temporary folders go into `folder`, or where the machine has
    them.
    """

    config: Config
    options: "VideoOptions"
    task: "Task"
    cwd: Path
    threads: int
    folder: Path | None
    level: int


_kept: dict[str, "Films"] = {}
"""The network of this process, by the settings that it was loaded with."""


def make_film(order: Order) -> "Outcome":
    """Makes a film."""
    for name in THREADS:  # read when TensorFlow is imported
        os.environ[name] = str(order.threads)
    with suppress(OSError):  # another machine may lack it
        os.chdir(order.cwd)
    if order.folder:
        tempfile.tempdir = str(order.folder)
    with _log_lines(order.level) as lines:
        outcome = _films(order).make(order.task)
    outcome.log = lines
    if isinstance(outcome.error, Exception):
        outcome.error = Failed.by(outcome.error)
    if outcome.report:
        outcome.report = msgspec.structs.replace(outcome.report, thumbnails=[])
    return outcome


def _films(order: Order) -> "Films":
    from realtime_lrp.commands.video.films import Films

    wanted = f"{order.config.model_dump_json()} {order.options.exact} {order.options.sidecar}"
    if wanted not in _kept:
        _kept.clear()
        _kept[wanted] = Films(order.config, order.options)
    return _kept[wanted]


class _Lines(logging.Handler):
    """Keeps lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("realtime_lrp"):
            self.kept.append(record.getMessage())


@contextmanager
def _log_lines(level: int) -> Iterator[list[str]]:
    lines, root = _Lines(), logging.getLogger()
    root.setLevel(level)
    root.addHandler(lines)
    try:
        yield lines.kept
    finally:
        root.removeHandler(lines)
