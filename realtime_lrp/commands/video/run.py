"""`video`: recorded files to overlaid files, every frame in order.

    child process: decode -> batches ----------------> draw, encode, verify
    this process:          explain in batches -> maps --^    -> sidecar, raw maps, summary

`task` decides what is done with each file, `films` and `overlay` do it, `recoding` talks to the
child, and `recode` is the child. With --workers and --ray `job` has Ray (`cluster`) run `worker`
for each file; `stored` are files in object stores.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from realtime_lrp.commands.video.films import (
    Films,
    tell_done,
    tell_failed,
    tell_skipped,
    with_float32,
)
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.errors import Error, OutputError, TransferError, UsageError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.failures import Failures
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.object_store import is_stored, local_path
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for, skipped_in
from realtime_lrp.video.writer import CONTAINERS

MOST_S = 1e7

log = logging.getLogger(__name__)


def run(config: Config, options: VideoOptions) -> Iterator[str]:
    """Overlays each file. Of several, those that fail are named; the rest is done.

    Yields:
      One line for each finished file: its name, how many frames, where the output is; none with
      `json`.

    Raises:
      UsageError: --start and --end make no sense.
      OutputError: an output cannot be made; then nothing is done.
      TransferError: the disk is full; files that were finished before stay.
      Error: a single file failed, or some of several, with the exit code of the worst failure.
    """
    options = _with_paths(options)
    tasks: Sequence[Task]
    if any([is_stored(word) for word in (*options.inputs, options.output)]):
        if not (options.workers or options.ray):
            raise UsageError("s3:// and gs:// need workers. Add --workers N or --ray ADDRESS.")
        from realtime_lrp.commands.video.stored import stored_tasks

        _check_options(options)
        tasks = stored_tasks(config, options)
    else:
        tasks = _tasks(config, options)
    refused = [error for task in tasks if (error := task.refusal())]
    if refused and not (options.resume and len(tasks) > 1):
        raise _with_count(*refused)
    if options.stats:
        check_output(options.stats, overwrite=True)
        _check_own_name(options.stats, tasks)
    chosen = with_float32(config) if options.exact else config
    if options.workers or options.ray:
        from realtime_lrp.commands.video.job import run_job

        yield from run_job(chosen, options, tasks)
        return
    with Progress(len(tasks), options.json) as progress:
        yield from _Batch(chosen, options, progress).run(tasks)


def _with_paths(options: VideoOptions) -> VideoOptions:
    """The options with paths instead of file:// addresses."""
    inputs = [local_path(word) for word in options.inputs]
    return replace(options, inputs=inputs, output=local_path(options.output))


def _tasks(config: Config, options: VideoOptions) -> list[Task]:
    sources = inputs_of(options.inputs, VIDEOS, "video")
    if skipped := skipped_in(options.inputs, VIDEOS):
        log.warning("%s", skipped)
    _check_options(options)
    may_exist = options.overwrite or options.resume
    targets = outputs_for(sources, options.output, ".mp4", tuple(CONTAINERS), may_exist)
    return [Task(config, options, *pair) for pair in zip(sources, targets, strict=True)]


def _with_count(first: Error, *others: Error) -> Error:
    """The first of several errors; its message says how many there are."""
    return type(first)(f"{first} ({len(others)} more cannot be made either.)") if others else first


def _check_own_name(stats: Path, tasks: Sequence[Task]) -> None:
    taken = [path for task in tasks for path in (task.source, *task.outputs.values())]
    if stats.resolve() in [path.resolve() for path in taken]:
        raise OutputError(f"{str(stats)!r} is an input or an output. Choose another for --stats.")


def _check_options(options: VideoOptions) -> None:
    if not all(time is None or time < MOST_S for time in (options.start, options.end)):
        raise UsageError(f"Expected --start and --end below {MOST_S:g} seconds.")
    if options.end is not None and options.end <= (options.start or 0.0):
        raise UsageError(
            f"Expected --end after --start. Received {options.start or 0:g} to {options.end:g}."
        )
    if options.maps and not options.maps.is_dir():
        check_output(options.maps, overwrite=False)  # only the last folder of the path is made


class _Batch:
    """Several files with one engine, which is loaded when it is first needed."""

    def __init__(self, config: Config, options: VideoOptions, progress: Progress):
        self._config, self._options, self._progress = config, options, progress
        self._loaded: tuple[Films, Stats] | None = None

    def run(self, tasks: Sequence[Task]) -> Iterator[str]:
        """Yields a line for each file that is finished."""
        finished, single = 0, len(tasks) == 1
        failures = Failures(len(tasks), "videos done")
        try:
            for task in tasks:
                if not (task.done or task.refused or single):
                    self._films()  # what it raises would be the same for the next file
                try:
                    line = self._process(task, single)
                except Exception as error:
                    tell_failed(self._progress, task.source, error)
                    if single or isinstance(error, TransferError):
                        raise
                    failures.add(task.source, error)
                else:
                    finished += 1
                    if not self._options.json:
                        yield line
        except (KeyboardInterrupt, TransferError) as stop:
            failures.log_stop(stop, finished)
            raise
        self._write_stats()
        failures.raise_worst(finished)

    def _write_stats(self) -> None:
        if self._options.stats and self._loaded:
            films, stats = self._loaded
            stats.traces = films.engine.explainer.traces
            made = provenance_of(films.engine, self._config, "video")
            stats.write(self._options.stats, live=False, provenance=made)
        elif self._options.stats:
            log.warning("nothing was done: %s is not written", self._options.stats)

    def _process(self, task: Task, single: bool) -> str:
        if task.refused:
            raise task.refused
        if task.done:
            return tell_skipped(self._progress, task)
        if single:  # what is no video is refused before the network is loaded
            task.check()
        films, stats = self._films()
        task.note_begun()
        try:
            report = films.make(task, stats, self._progress)
        except BaseException:
            task.note_failed()
            raise
        return tell_done(self._progress, task, report, films.engine.computed)

    def _films(self) -> tuple[Films, Stats]:
        if self._loaded is None:
            films = Films(self._config, self._options)
            self._loaded = films, Stats(films.engine.device, films.engine.precision)
        return self._loaded
