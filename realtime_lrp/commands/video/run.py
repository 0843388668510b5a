"""`video`: recorded files to overlaid files, every frame in order.

    child process: decode -> batches ----------------> draw, encode, verify
    this process:          explain in batches -> maps --^    -> sidecar, raw maps, summary

`job` goes through the files, `task` knows what is there of each, `films` and `overlay` make it,
`recoding` talks to the child, and `recode` is the child. With --workers and --ray `job` has Ray
(`cluster`) run `worker` for each file; `stored` are files in object stores.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from realtime_lrp.commands.video.job import Job, with_float32
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import OutputError, UsageError
from realtime_lrp.system.atomic import check_output, stale_parts
from realtime_lrp.system.object_store import is_stored, local_path
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for, skipped_in
from realtime_lrp.video.writer import CONTAINERS

MOST_S = 1e7

log = logging.getLogger(__name__)


def run(config: Config, options: VideoOptions) -> Iterator[str]:
    """Overlays each file. Of several, those that fail are named; the rest is done.

    Yields a line for each finished file: its name, how many frames, where it is; none with `json`.
    """
    inputs = [local_path(word) for word in options.inputs]  # they may be file:// addresses
    options = replace(options, inputs=inputs, output=local_path(options.output))
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
        first, *others = refused
        more = f" ({len(others)} more cannot be made either.)" if others else ""
        raise type(first)(f"{first}{more}")
    outputs = [path for task in tasks if not task.uploaded for path in task.outputs.values()]
    for part in stale_parts(outputs):
        log.warning("%s was left by a run that was killed; it can be deleted", part)
    if options.stats:
        check_output(options.stats, overwrite=True)
        _check_own_name(options.stats, tasks)
    chosen = with_float32(config) if options.exact else config
    with Progress(len(tasks), options.json) as progress:
        for line in Job(chosen, options, tasks, progress).run():
            if not options.json:
                yield line


def _tasks(config: Config, options: VideoOptions) -> list[Task]:
    sources = inputs_of(options.inputs, VIDEOS, "video")
    if skipped := skipped_in(options.inputs, VIDEOS):
        log.warning("%s", skipped)
    _check_options(options)
    may_exist = options.overwrite or options.resume
    targets = outputs_for(sources, options.output, ".mp4", tuple(CONTAINERS), may_exist)
    return [Task(config, options, *pair) for pair in zip(sources, targets, strict=True)]


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
