"""`video --workers N` and `video --ray ADDRESS`: sets up a job, and shows how far it is."""

import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from realtime_lrp.commands.video.archive.cluster import Cluster, Share, share_of
from realtime_lrp.commands.video.archive.filework import FileWork
from realtime_lrp.commands.video.archive.job import Job
from realtime_lrp.commands.video.archive.listing import Listing
from realtime_lrp.commands.video.archive.orders import Loaded, Order
from realtime_lrp.commands.video.archive.remote import StoredFolder
from realtime_lrp.commands.video.archive.results import Listener, SkippedFile
from realtime_lrp.commands.video.archive.stored import StoredListing
from realtime_lrp.commands.video.messages import Report
from realtime_lrp.commands.video.overlay import notes_of
from realtime_lrp.commands.video.recoding import check_video
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config, check_names
from realtime_lrp.config.provenance import read_provenance
from realtime_lrp.errors import Error
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.free_memory import available_bytes, gib
from realtime_lrp.system.object_store import is_stored
from realtime_lrp.system.progress import JobProgress, WorkerShare

CHILDREN_BYTES = 400 << 20
"""Memory that the processes take that decode and encode for one worker, and its batches."""

FEWEST_CORES = 4
"""Without --workers a cluster gets a worker for so many cores, or for each GPU."""

log = logging.getLogger(__name__)


def run_archive(
    config: Config,
    options: VideoOptions,
    tasks: Sequence[Task],
    folder: StoredFolder | None = None,
) -> Iterator[str]:
    """Overlays recordings with several workers; yields as `video.run.run` does.

    Args:
      config: how films are made, with the precision that the first process would choose.
      options: what is asked for.
      tasks: the recordings and their outputs, checked.
      folder: where the outputs go, if that is an object store.

    Raises:
      UnavailableError: Ray or the cluster is not there.
      Error: as `video.run.run`.
    """
    check_names(config)
    if len(tasks) == 1 and not (tasks[0].done or tasks[0].refused or is_stored(tasks[0].address)):
        check_video(tasks[0].source)  # before Ray is started
    listing = _listing(options, tasks, folder)
    with JobProgress(len(tasks), options.json) as progress:
        view = _View(progress)
        for task in tasks:
            if task.done:
                listing.skipped(SkippedFile(task.address, task.outputs, task.fingerprint))
                progress.end("skipped", task.source.name, output=task.film)
                if not options.json:
                    yield f"{task.source.name}: finished before -> {task.film}"
        left = [task for task in tasks if not task.done]
        if left:
            yield from _with_workers(config, options, left, len(tasks), listing, view)
        elif options.stats:
            log.warning("nothing was done: %s is not written", options.stats)
    listing.end(stopped=False)


def _with_workers(
    config: Config,
    options: VideoOptions,
    tasks: Sequence[Task],
    total: int,
    listing: Listener,
    view: "_View",
) -> Iterator[str]:
    works = [_work(number, task, config, options) for number, task in enumerate(tasks)]
    cluster = Cluster(options.ray)
    job = None
    stopped = True
    try:
        workers, share = _workers(cluster, options)
        job = Job(cluster, share, works, total, listing, view.ended, view.show)
        loading = options.exact, options.sidecar
        for work, report in job.run(workers, loading, Fitting(workers, cluster.local)):
            if not options.json:
                yield _line(work, report, job)
        stopped = False
    except Error:
        stopped = False
        raise
    finally:
        try:
            if job:
                job.close(wait=not stopped)
        finally:
            try:
                cluster.close()
            finally:
                if job and job.loaded and sys.exc_info()[0]:
                    listing.end(stopped)
                if job and options.stats:
                    _write_stats(options.stats, job)


def _listing(options: VideoOptions, tasks: Sequence[Task], folder: StoredFolder | None) -> Listener:
    """Table and page of the films in a folder; a single film has neither."""
    if folder:
        done = [task.target.name for task in tasks if task.done]
        return StoredListing(folder, len(tasks), done)
    output = Path(options.output)
    if not output.is_dir():
        return Listener()
    return Listing(output, len(tasks), options.overwrite or options.resume)


def _work(number: int, task: Task, config: Config, options: VideoOptions) -> FileWork:
    order = Order(
        task.address, config, options.span, task.target.suffix.lower(),
        options.summary, options.maps is not None, task.version,
    )  # fmt: skip
    return FileWork(number, task, order, task.size)


def _workers(cluster: Cluster, options: VideoOptions) -> tuple[int, Share]:
    cpus, gpus = cluster.resources()
    workers = options.workers or gpus or max(1, sum(cpus) // FEWEST_CORES)
    return workers, share_of(workers, cpus, gpus)


class Fitting:
    """How many workers there is memory for.

    Args:
      wanted: how many are asked for.
      local: whether all run on this machine; elsewhere Ray looks at each machine's memory.
    """

    def __init__(self, wanted: int, local: bool):
        self._wanted, self._local = wanted, local

    def __call__(self, first: Loaded) -> int:
        if not self._local:
            return self._wanted
        each, free = first.bytes + CHILDREN_BYTES, available_bytes()
        fit = 1 + max(0, free - CHILDREN_BYTES) // each
        if fit < self._wanted:
            log.warning(
                "%d workers are asked for, %d fit: one takes %s, %s are free",
                self._wanted, fit, gib(each), gib(free),
            )  # fmt: skip
        return fit


def _line(work: FileWork, report: Report, job: Job) -> str:
    loaded = job.loaded
    computed = f"{loaded.precision} on {loaded.device}" if loaded else "finished before"
    return f"{work.name}: {report.frames} frames -> {work.task.film} ({computed})"


def _write_stats(path: Path, job: Job) -> None:
    provenance = read_provenance(job.loaded.provenance) if job.loaded else None
    if job.loaded is None or provenance is None:
        log.warning("nothing was done: %s is not written", path)
        return
    stats = Stats(job.loaded.device, job.loaded.precision)
    stats.frames_captured = stats.frames_shown = job.frames
    stats.maps, stats.map_ms, stats.first_map = job.maps, job.map_ms, job.begun
    stats.write(path, live=False, provenance=provenance)


def _bytes_under_way(job: Job) -> float:
    """How much of the recordings that are begun is done, with the parts that workers are at."""
    cut = [work for work in job.under_way if work.plan and work.plan.frames]
    size, rest, frames_left = 0.0, 0.0, 0
    for work in cut:
        frames = work.plan.frames if work.plan else 0
        left = max(0, frames - work.frames_done)
        size += work.size * (1 - left / frames)
        rest += work.size * left / frames
        frames_left += left
    explained = sum(max(0, member.frames - member.made) for member in job.members)
    return size + rest * min(1.0, explained / frames_left if frames_left else 0.0)


class _View:
    """Shows a job in the terminal, or as JSON lines."""

    def __init__(self, progress: JobProgress):
        self._progress = progress
        self._bytes_done = 0.0

    def ended(self, event: str, work: FileWork, result: Any) -> None:
        """A recording is done or has failed."""
        self._bytes_done += work.size
        target = work.task.film
        if event == "failed":
            facts = {"error": str(result), "exit_code": result.exit_code}
        else:
            notes = notes_of(result)
            for note in notes:
                log.warning("%s: %s", work.name, note)
            facts = {
                "output": target, "frames": result.frames, "bad_packets": result.bad_packets,
                "notes": notes, "beside": [str(path) for path in work.task.companions.paths],
            }  # fmt: skip
        self._progress.end(event, work.name, **facts)

    def show(self, job: Job) -> None:
        """The job goes on."""
        done, known = job.parts_done, job.parts_known
        size = self._bytes_done + _bytes_under_way(job)
        total = sum(work.size for work in job.works)
        frames = sum(member.frames for member in job.members)
        shares = [
            WorkerShare(
                member.number, member.loaded.node, member.frames,
                round(member.frames / frames, 3) if frames else 0.0, member.file,
            )
            for member in job.members if member.loaded
        ]  # fmt: skip
        self._progress.show((done, known), size / total if total else 0.0, shares)
