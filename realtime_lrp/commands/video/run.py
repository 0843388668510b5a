"""`video`: recorded files to overlaid files, every frame in order.

    child process: decode -> batches ----------------> draw, encode, verify
    this process:          explain in batches -> maps --^    -> sidecar, raw maps, summary

This file goes through the files, `task` knows what is there of each, `overlay` makes it, `recoding`
is the child and talks to it. With --workers and --ray, `cluster` has Ray make each film.
"""

import logging
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from realtime_lrp import errors
from realtime_lrp.commands.video.task import Outcome, Task, VideoOptions, tasks_of
from realtime_lrp.config import Config, check_names
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.realtime.stats import Stats, write_figures
from realtime_lrp.results.tally import Tally
from realtime_lrp.system.child import Failed
from realtime_lrp.system.files import check_output, stale_parts
from realtime_lrp.system.object_store import is_stored, local_path
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.files import same_file
from realtime_lrp.video.untrusted import read_frames

TICK_S = 0.5
MOST_S = 1e7
LEAVING_S = 10.0  # maximum wait for workers that end because Ray has, in seconds

log = logging.getLogger(__name__)

Outcomes = Generator[tuple[Task, Outcome], None, None]


class VideoRun:
    """The recordings of a command, and what became of them; `tasks` are checked."""

    def __init__(
        self, config: Config, options: VideoOptions, tasks: Sequence[Task], progress: Progress
    ):
        self._config = config
        self._options = options
        self._progress = progress
        self._tasks = tasks
        self._tally = Tally(len(tasks), "videos done")
        self._made: Provenance | None = None
        self._stats: Stats | None = None

    def run(self) -> Iterator[str]:
        for task in self._tasks:
            if task.done:
                yield self._done(task, f"finished before -> {task.shown}")
        waiting = deque(task for task in self._tasks if not task.done)
        if len(self._tasks) == 1 and waiting:  # before the network is loaded and Ray started
            if waiting[0].refused:
                raise waiting[0].refused
            if not waiting[0].recording:
                next(read_frames(waiting[0].source.resolve(), 0, notes=False))
        shared = waiting and (self._options.workers or self._options.ray)
        try:
            with closing(self._by_workers(waiting) if shared else self._here(waiting)) as outcomes:
                for task, outcome in outcomes:
                    yield from self._ended(task, outcome)
        except (KeyboardInterrupt, errors.TransferError, errors.TemporaryError) as stop:
            self._tally.log_stop(stop)
            raise
        if self._options.stats:
            if self._stats and self._made:
                write_figures(self._options.stats, self._stats.as_dict(live=False), self._made)
            else:
                log.warning("nothing was done: %s is not written", self._options.stats)
        self._tally.raise_worst()

    def _here(self, waiting: Iterable[Task]) -> Outcomes:
        from realtime_lrp.commands.video.overlay import Films

        films: Films | None = None
        for task in waiting:
            if self._begun(task):
                films = films or Films(self._config, self._options)
                yield task, films.make(task, self._stats, self._progress)

    def _by_workers(self, waiting: deque[Task]) -> Outcomes:
        """Has Ray's workers make the films, and gives each when it is done."""
        from realtime_lrp.commands.video.cluster import Cluster

        check_names(self._config)
        workers = Cluster(self._config, self._options)
        begin = time.monotonic()
        running: dict[Any, Task] = {}
        try:
            while waiting or running:
                while waiting and len(running) < workers.count:
                    task = waiting.popleft()
                    if self._begun(task):
                        running[workers.begin(task)] = task
                self._progress.all_files(self._stats.frames_shown if self._stats else 0)
                for call in workers.wait(list(running), TICK_S) if running else ():
                    task = running.pop(call)
                    try:
                        outcome = workers.get(call)
                    except errors.TemporaryError as lost:
                        outcome = Outcome(error=lost)
                    if outcome.stats and self._stats is None:  # all workers report the same rates
                        of_one = outcome.stats
                        self._stats = Stats(of_one.device, of_one.precision, first_map=begin)
                        self._stats.maps_in_flight = (of_one.maps_in_flight or 1) * workers.count
                    yield task, outcome
        finally:
            try:
                workers.close()
            finally:  # what is left of films under way, once their workers have ended
                deadline = time.monotonic() + LEAVING_S
                while not all([task.remove_parts() for task in running.values()]):
                    if time.monotonic() > deadline:
                        break
                    time.sleep(TICK_S / 5)

    def _begun(self, task: Task) -> bool:
        try:
            if task.refused:
                raise task.refused
            task.begin()
        except errors.Error as error:
            self._fail(task, error)
            return False
        return True

    def _ended(self, task: Task, outcome: Outcome) -> Iterator[str]:
        for line in outcome.log:
            log.warning("%s", line)
        error = outcome.error
        if isinstance(error, Failed):
            found = error.error()
            if not isinstance(found, errors.Error):
                found = error.noted(errors.InternalError(f"{task.source.name}: {found}"))
            error = found
        if error and outcome.for_all:
            raise error
        if error:
            self._fail(task, error)
        if (report := outcome.report) and (new := outcome.stats):
            self._made = outcome.provenance
            if self._stats is None:
                self._stats = new
            elif new is not self._stats:
                self._stats.frames_captured += new.frames_captured
                self._stats.frames_shown += new.frames_shown
                self._stats.maps += new.maps
                self._stats.map_ms.extend(new.map_ms)
                self._stats.traces = max(self._stats.traces, new.traces)
            for note in report.notes:
                log.warning("%s: %s", task.source.name, note)
            how = f"{report.frames} frames -> {task.shown} ({outcome.computed})"
            yield self._done(task, how)

    def _done(self, task: Task, how: str) -> str:
        self._tally.finished += 1
        self._progress.end()
        return f"{task.source.name}: {how}"

    def _fail(self, task: Task, error: Exception) -> None:
        self._progress.end()
        if isinstance(error, errors.TransferError) and not task.stored:
            raise error  # the disk of the films
        self._tally.failed(task.source, error)


def run(config: Config, options: VideoOptions) -> Iterator[str]:
    """Overlays each file and yields a line for each finished one; names those that fail."""
    inputs = [local_path(word) for word in options.inputs]  # they may be file:// addresses
    options = replace(options, inputs=inputs, output=local_path(options.output))
    stored = [is_stored(word) for word in (*options.inputs, options.output)]
    if any(stored) and not (options.workers or options.ray):
        raise errors.UsageError("s3:// and gs:// need workers. Add --workers N or --ray ADDRESS.")
    begin = options.start or 0.0
    if not (begin < MOST_S and (options.end is None or options.end < MOST_S)):
        raise errors.UsageError(f"Expected --start and --end below {MOST_S:g} seconds.")
    if options.end is not None and options.end <= begin:
        raise errors.UsageError(
            f"Expected --end after --start. Received {begin:g} to {options.end:g}."
        )
    if options.maps and not options.maps.is_dir():
        check_output(options.maps, overwrite=False)  # only the last folder of the path is made
    tasks, refused = tasks_of(config, options)
    if refused and not (options.resume and len(tasks) > 1):
        first, *others = refused
        more = f" ({len(others)} more cannot be made either.)" if others else ""
        raise type(first)(f"{first}{more}")
    outputs = [path for task in tasks for path in task.outputs.values()]
    for part in stale_parts(outputs):
        log.warning("%s was left by a run that was killed; it can be deleted", part)
    if options.stats:
        check_output(options.stats, overwrite=True)
        taken = [path for task in tasks for path in (task.source, *task.outputs.values())]
        if any(same_file(options.stats, path) for path in taken):
            raise errors.OutputError(
                f"{str(options.stats)!r} is an input or an output. Choose another for --stats."
            )
    if options.exact and config.lrp.precision == "auto":
        # the film says so, and a repeat from it computes in float32 without the files beside it
        config = config.changed(lrp={"precision": "float32"})
    with Progress(len(tasks)) as progress:
        yield from VideoRun(config, options, tasks, progress).run()
