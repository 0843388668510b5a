"""What a worker runs: it makes the film of one recording, with a network that its process keeps."""

import logging
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from realtime_lrp.config import Config
from realtime_lrp.system.channel import Failed

if TYPE_CHECKING:
    from realtime_lrp.commands.video.overlay import Films, Outcome
    from realtime_lrp.commands.video.task import Task, VideoOptions

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
"""Environment variables that say how many threads libraries compute with."""

MOST_LINES = 10_000
"""Of the log of a film, after which its earlier ones are left out."""


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
    ours, lines = logging.getLogger("realtime_lrp"), BufferingHandler(MOST_LINES)
    logging.getLogger().setLevel(order.level)
    ours.addHandler(lines)
    try:
        outcome = _films(order).make(order.task)
    finally:
        ours.removeHandler(lines)
    outcome.log = [record.getMessage() for record in lines.buffer]
    if isinstance(outcome.error, Exception):
        outcome.error = Failed.by(outcome.error)
    if outcome.report:
        outcome.report = msgspec.structs.replace(outcome.report, thumbnails=[])
    return outcome


def _films(order: Order) -> "Films":
    from realtime_lrp.commands.video.overlay import Films

    wanted = f"{order.config.model_dump_json()} {order.options.exact} {order.options.sidecar}"
    if wanted not in _kept:
        _kept.clear()
        _kept[wanted] = Films(order.config, order.options)
    return _kept[wanted]
