"""Goes through the recordings: in this process one after the other, or with Ray's workers."""

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from realtime_lrp.commands.video.films import Films, Outcome
from realtime_lrp.commands.video.overlay import notes_of
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config, check_names
from realtime_lrp.errors import Error, InternalError, TemporaryError, TransferError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.failures import Failures
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.progress import Progress

if TYPE_CHECKING:
    from realtime_lrp.commands.video.cluster import Cluster

TICK_S = 0.5
LEAVING_S = 10.0
"""Maximum wait for workers that end because Ray has, in seconds."""

log = logging.getLogger(__name__)


class _Here:
    """This process as the only worker; a film is made when its outcome is asked for."""

    count = 1

    def __init__(self, config: Config, options: VideoOptions, progress: Progress):
        self._films, self._progress = Films(config, options), progress
        self._stats: Stats | None = None

    def begin(self, task: Task) -> Task:
        return task

    def wait(self, calls: list[Task], timeout_s: float) -> list[Task]:
        return calls

    def get(self, task: Task) -> Outcome:
        outcome = self._films.make(task, self._stats, self._progress)
        self._stats = self._stats or outcome.stats
        return outcome

    def close(self) -> None:
        pass


class Job:
    """The recordings of a command, and what became of them; `tasks` are checked."""

    def __init__(
        self, config: Config, options: VideoOptions, tasks: Sequence[Task], progress: Progress
    ):
        self._config, self._options, self._progress = config, options, progress
        self._tasks, self._finished = tasks, 0
        self._failures = Failures(len(tasks), "videos done")
        self._running: dict[Any, Task] = {}
        self._last: Outcome | None = None
        self._stats: Stats | None = None

    def run(self) -> Iterator[str]:
        """Yields a line for each film that is done, as `video.run.run` does."""
        for task in self._tasks:
            if task.done:
                yield self._skipped(task)
        waiting = deque(task for task in self._tasks if not task.done)
        if len(self._tasks) == 1 and waiting:  # before the network is loaded and Ray started
            if waiting[0].refused:
                raise waiting[0].refused
            waiting[0].check_source()
        try:
            if waiting:
                yield from self._make(waiting)
        except (KeyboardInterrupt, TransferError, TemporaryError) as stop:
            self._failures.log_stop(stop, self._finished)
            raise
        self._write_stats()
        self._failures.raise_worst(self._finished)

    def _make(self, waiting: deque[Task]) -> Iterator[str]:
        workers, begin = self._workers(), time.monotonic()
        try:
            while waiting or self._running:
                while waiting and len(self._running) < workers.count:
                    task = waiting.popleft()
                    if self._begun(task):
                        self._running[workers.begin(task)] = task
                if not isinstance(workers, _Here):
                    self._progress.all_files(self._stats.frames_shown if self._stats else 0)
                for call in workers.wait(list(self._running), TICK_S) if self._running else ():
                    task = self._running.pop(call)
                    try:
                        outcome = workers.get(call)
                    except TemporaryError as lost:
                        outcome = Outcome(error=lost)
                    yield from self._ended(task, outcome, begin)
        finally:
            try:
                workers.close()
            finally:
                self._remove_parts()

    def _workers(self) -> "_Here | Cluster":
        if not (self._options.workers or self._options.ray):
            return _Here(self._config, self._options, self._progress)
        from realtime_lrp.commands.video.cluster import Cluster

        check_names(self._config)
        return Cluster(self._config, self._options)

    def _remove_parts(self) -> None:
        """Removes what is left of the films under way, once their workers have ended."""
        deadline = time.monotonic() + LEAVING_S
        while not all([task.remove_parts() for task in self._running.values()]):
            if time.monotonic() > deadline:
                return
            time.sleep(TICK_S / 5)

    def _begun(self, task: Task) -> bool:
        try:
            if task.refused:
                raise task.refused
            task.begin()
        except Error as error:
            self._fail(task, error)
            return False
        return True

    def _ended(self, task: Task, outcome: Outcome, begin: float) -> Iterator[str]:
        for line in outcome.log:
            log.warning("%s", line)
        error = outcome.error
        if isinstance(error, Failed):
            found = error.error()
            if not isinstance(found, Error):
                found = error.noted(InternalError(f"{task.source.name}: {found}"))
            error = found
        if error:
            if outcome.for_all:
                raise error
            self._fail(task, error)
            if isinstance(error, TransferError) and not task.stored:
                raise error  # the disk of the films
            return
        self._count(outcome, begin)
        yield self._done(task, outcome) if outcome.report else self._skipped(task)

    def _skipped(self, task: Task) -> str:
        self._finished += 1
        self._progress.end("skipped", task.source.name, output=task.shown)
        return f"{task.source.name}: finished before -> {task.shown}"

    def _done(self, task: Task, outcome: Outcome) -> str:
        report = outcome.report
        assert report is not None
        self._finished += 1
        notes = notes_of(report)
        for note in notes:
            log.warning("%s: %s", task.source.name, note)
        self._progress.end(
            "done", task.source.name, output=task.shown, frames=report.frames,
            bad_packets=report.bad_packets, notes=notes, beside=task.beside,
        )  # fmt: skip
        return f"{task.source.name}: {report.frames} frames -> {task.shown} ({outcome.computed})"

    def _fail(self, task: Task, error: Exception) -> None:
        code = getattr(error, "exit_code", 70)
        self._progress.end("failed", task.source.name, error=str(error), exit_code=code)
        if len(self._tasks) == 1:
            raise error
        if not isinstance(error, TransferError) or task.stored:
            self._failures.add(task.source, error)

    def _count(self, outcome: Outcome, begin: float) -> None:
        new = outcome.stats
        assert new is not None
        self._last = outcome
        if self._stats is None:
            here = not (self._options.workers or self._options.ray)
            self._stats = new if here else Stats(new.device, new.precision, first_map=begin)
        if new is not self._stats:
            self._stats.frames_captured += new.frames_captured
            self._stats.frames_shown += new.frames_shown
            self._stats.maps += new.maps
            self._stats.map_ms.extend(new.map_ms)
            self._stats.traces = max(self._stats.traces, new.traces)

    def _write_stats(self) -> None:
        path, made = self._options.stats, self._last and self._last.provenance
        if path and self._stats and made:
            self._stats.write(path, live=False, provenance=made)
        elif path:
            log.warning("nothing was done: %s is not written", path)


def with_float32(config: Config) -> Config:
    """The configuration with float32 for `auto`, so that the film says in what it was computed.

    A repeat from the film computes in float32 then, also without the files beside it.
    """
    if config.lrp.precision != "auto":
        return config
    lrp = config.lrp.model_copy(update={"precision": "float32"})
    return config.model_copy(update={"lrp": lrp})
