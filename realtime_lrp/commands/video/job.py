"""`video --workers N` and `video --ray ADDRESS`: each recording is a task of Ray's."""

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from realtime_lrp.commands.video.cluster import RETRIES, Cluster, WorkerLostError
from realtime_lrp.commands.video.films import tell_done, tell_failed, tell_skipped
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.commands.video.worker import Order, Outcome, make_film
from realtime_lrp.config import Config, check_names
from realtime_lrp.config.provenance import read_provenance
from realtime_lrp.errors import Error, InternalError, TemporaryError, TransferError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.failures import Failures
from realtime_lrp.system.progress import Progress

TICK_S = 0.5
LEAVING_S = 10.0
"""Maximum wait for workers that end because Ray has, in seconds."""

log = logging.getLogger(__name__)


def run_job(config: Config, options: VideoOptions, tasks: Sequence[Task]) -> Iterator[str]:
    """Overlays recordings with several workers; yields as `video.run.run` does.

    Args:
      config: how films are made.
      options: what is asked for.
      tasks: the recordings and their outputs, checked.

    Raises:
      UnavailableError: Ray or the cluster is not there.
      Error: as `video.run.run`.
    """
    check_names(config)
    if len(tasks) == 1 and not tasks[0].done:
        tasks[0].check()  # before Ray is started
    with Progress(len(tasks), options.json) as progress:
        for line in (tell_skipped(progress, task) for task in tasks if task.done):
            if not options.json:
                yield line
        left = [task for task in tasks if not task.done]
        if not left:
            if options.stats:
                log.warning("nothing was done: %s is not written", options.stats)
            return
        job = _Job(config, options, left, len(tasks), progress)
        for line in job.run():
            if not options.json:
                yield line


class _Job:
    """The recordings that are left.

    Args:
      config, options: as of `run_job`.
      tasks: the recordings.
      total: how many there are with those that are finished.
      progress: shows what is done.
    """

    def __init__(
        self,
        config: Config,
        options: VideoOptions,
        tasks: Sequence[Task],
        total: int,
        progress: Progress,
    ):
        self._config, self._options, self._progress = config, options, progress
        self._waiting, self._total = deque(tasks), total
        self._finished = total - len(tasks)
        self._failures = Failures(total, "videos done")
        self._running: dict[Any, Task] = {}
        self._stats: Stats | None = None
        self._provenance, self._begin = "", time.monotonic()

    def run(self) -> Iterator[str]:
        """Yields a line for each film that is done."""
        cluster = Cluster(self._options.ray)
        try:
            workers, share = cluster.share(self._options.workers)
            while self._waiting or self._running:
                while self._waiting and len(self._running) < workers:
                    task = self._waiting.popleft()
                    if self._begun(task):
                        order = Order(
                            self._config, self._options, task, Path.cwd(), share.threads,
                            cluster.folder, logging.getLogger().level,
                        )  # fmt: skip
                        self._running[cluster.begin(make_film, share, order)] = task
                self._progress.all_files(self._stats.frames_shown if self._stats else 0)
                for call in cluster.wait(list(self._running), TICK_S) if self._running else ():
                    yield from self._ended(self._running.pop(call), cluster, call)
        except (KeyboardInterrupt, TransferError, TemporaryError) as stop:
            self._failures.log_stop(stop, self._finished)
            raise
        finally:
            try:
                cluster.close()
            finally:
                self._give_up()
                self._write_stats()
        self._failures.raise_worst(self._finished)

    def _give_up(self) -> None:
        """Removes what is left of the films under way, once their workers have ended."""
        for task in self._running.values():
            task.note_failed()
        deadline = time.monotonic() + LEAVING_S
        while not all([task.remove_parts() for task in self._running.values()]):
            if time.monotonic() > deadline:
                return
            time.sleep(TICK_S / 5)

    def _begun(self, task: Task) -> bool:
        try:
            if task.refused:
                raise task.refused
            task.note_begun()
        except TransferError:
            raise
        except Error as error:
            self._fail(task, error)
            return False
        task.replace_companions = True  # else what a lost worker has left ends the next try
        return True

    def _ended(self, task: Task, cluster: Cluster, call: Any) -> Iterator[str]:
        try:
            outcome: Outcome = cluster.get(call)
        except WorkerLostError as error:
            task.note_failed()
            self._fail(
                task,
                TemporaryError(
                    f"{task.source.name} was lost with its worker {1 + RETRIES} times ({error}). "
                    "Look at the memory of the machines, then start again with --resume."
                ),
            )
            return
        for line in outcome.log:
            log.warning("%s", line)
        if outcome.failed:
            task.note_failed()
            problem = outcome.failed.error()
            if not isinstance(problem, Error):
                problem = InternalError(f"{task.source.name}: {problem}")
                outcome.failed.noted(problem)
            if outcome.for_all:
                raise problem
            self._fail(task, problem)
            if isinstance(problem, TransferError) and not task.stored:
                raise problem  # the disk of the films
            return
        self._finished += 1
        self._count(outcome)
        if outcome.report:
            yield tell_done(self._progress, task, outcome.report, outcome.computed)
        else:
            yield tell_skipped(self._progress, task)

    def _fail(self, task: Task, error: Error) -> None:
        tell_failed(self._progress, task.source, error)
        if self._total == 1:
            raise error
        self._failures.add(task.source, error)

    def _count(self, outcome: Outcome) -> None:
        stats = self._stats = self._stats or Stats(outcome.device, outcome.precision)
        frames = outcome.report.frames if outcome.report else 0
        stats.first_map = self._begin
        stats.frames_captured += frames
        stats.frames_shown += frames
        stats.maps += outcome.maps
        stats.map_ms.extend(outcome.map_ms)
        stats.traces = max(stats.traces, outcome.traces)
        self._provenance = outcome.provenance

    def _write_stats(self) -> None:
        path: Path | None = self._options.stats
        provenance = read_provenance(self._provenance) if self._provenance else None
        if path and self._stats and provenance:
            self._stats.write(path, live=False, provenance=provenance)
        elif path:
            log.warning("nothing was done: %s is not written", path)
