"""Makes films with one engine, in the process of the command or in a worker's."""

import logging
from pathlib import Path

from realtime_lrp.commands.video.messages import Report
from realtime_lrp.commands.video.overlay import Film, notes_of, overlay_file
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.gallery import channel_names
from realtime_lrp.engine.hashes import begin_hashing
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.progress import Progress

log = logging.getLogger(__name__)


class Films:
    """Makes films one after the other.

    Args:
      config: how they are made, see `with_float32`.
      options: what is asked for.

    Attributes:
      engine: explains the pictures.

    Raises:
      Error: the network cannot be loaded; it is the same for every film.
    """

    def __init__(self, config: Config, options: VideoOptions):
        self._config, self._options = config, options
        self.engine = Engine(config, moving=not options.exact, by_channel=options.sidecar)
        channel_names(self.engine)  # wrong names would be wrong for every file
        begin_hashing(self.engine.files)  # not before: loading refuses files that are too large

    def make(self, task: Task, stats: Stats, progress: Progress | None = None) -> Report:
        """Makes the film of a recording, with all that is wanted beside it.

        Args:
          task: the recording.
          stats: counts what is done.
          progress: shows how many frames are done.

        Raises:
          Error: it cannot be made.
        """
        film = Film(
            task.target, task.replace, task.companions, task.replace_companions,
            before_publishing=task.note_finished,
        )  # fmt: skip
        return overlay_file(
            self.engine, self._config, task.source, film, stats,
            span=self._options.span, progress=progress,
        )  # fmt: skip


def with_float32(config: Config) -> Config:
    """The configuration with float32 for `auto`, so that the film says in what it was computed.

    A repeat from the film computes in float32 then, also without the files beside it.
    """
    if config.lrp.precision != "auto":
        return config
    lrp = config.lrp.model_copy(update={"precision": "float32"})
    return config.model_copy(update={"lrp": lrp})


def tell_skipped(progress: Progress, task: Task) -> str:
    """Reports a film that an earlier run has finished; gives the line for a person."""
    progress.end("skipped", task.source.name, output=task.film)
    return f"{task.source.name}: finished before -> {task.film}"


def tell_done(progress: Progress, task: Task, report: Report, computed: str) -> str:
    """Reports a film that is done; gives the line for a person."""
    notes = notes_of(report)
    for note in notes:
        log.warning("%s: %s", task.source.name, note)
    progress.end(
        "done", task.source.name, output=task.film, frames=report.frames,
        bad_packets=report.bad_packets, notes=notes, beside=task.beside,
    )  # fmt: skip
    return f"{task.source.name}: {report.frames} frames -> {task.film} ({computed})"


def tell_failed(progress: Progress, source: Path, error: Exception) -> None:
    """Reports a recording that has no film."""
    progress.end("failed", source.name, error=str(error), exit_code=getattr(error, "exit_code", 70))
