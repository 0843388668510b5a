"""What a worker runs: it makes the film of one recording, with a network that its process keeps.

Must not import TensorFlow before it makes one: the job has no need of it.
"""

import logging
import os
import tempfile
from contextlib import suppress
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from realtime_lrp.commands.video.task import Outcome, Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.system.child import Failed

if TYPE_CHECKING:
    from realtime_lrp.commands.video.overlay import Films

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
"""Environment variables that say how many threads libraries compute with."""

MOST_LINES = 10_000
"""Of the log of a film, after which its earlier ones are left out."""


_kept: dict[str, "Films"] = {}
"""The network of this process, by the settings that it was loaded with."""


def make_film(
    config: Config,
    options: VideoOptions,
    task: Task,
    threads: int,
    cwd: Path,
    temporary: Path | None,
    level: int,
) -> Outcome:
    """Makes a film, and says what was logged at this level and above.

    Relative paths count from `cwd`; temporary folders go into `temporary`, or where the machine has
    them.
    """
    for name in THREADS:  # read when TensorFlow is imported
        os.environ[name] = str(threads)
    with suppress(OSError):  # another machine may lack it
        os.chdir(cwd)
    if temporary:
        tempfile.tempdir = str(temporary)
    ours, lines = logging.getLogger("realtime_lrp"), BufferingHandler(MOST_LINES)
    logging.getLogger().setLevel(level)
    ours.addHandler(lines)
    try:
        outcome = _films(config, options).make(task)
    finally:
        ours.removeHandler(lines)
    outcome.log = [record.getMessage() for record in lines.buffer]
    if isinstance(outcome.error, Exception):
        outcome.error = Failed.by(outcome.error)
    if outcome.report:
        outcome.report = msgspec.structs.replace(outcome.report, thumbnails=[])
    return outcome


def _films(config: Config, options: VideoOptions) -> "Films":
    from realtime_lrp.commands.video.overlay import Films

    wanted = f"{config.model_dump_json()} {options.exact} {options.sidecar}"
    if wanted not in _kept:
        _kept.clear()
        _kept[wanted] = Films(config, options)
    return _kept[wanted]
