"""`video`: recorded files to overlaid files, every frame in order, and what is kept beside them.

    process of its own: decode -> views ------------------> draw, encode, verify
    here:                          explain in batches -> maps --^    -> sidecar, raw maps, summary

A file appears under its name when it and everything beside it is whole.
"""

import functools
import logging
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp import __version__
from realtime_lrp.commands.video.explain import Explained, drawn_of
from realtime_lrp.commands.video.recoding import KEPT_FREE, Job, Recoding, Report, Views
from realtime_lrp.config import Config
from realtime_lrp.engine.colouring import colormap_for
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import Result
from realtime_lrp.engine.wording import best_label, top_scores
from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    OutputError,
    TransferError,
    UsageError,
)
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.companions import Companions, OpenCompanions
from realtime_lrp.results.fingerprint import fingerprint, noted_beside
from realtime_lrp.results.records import map_record
from realtime_lrp.results.summary import Timeline, write_summary
from realtime_lrp.system.atomic import (
    atomic_file,
    check_output,
    stale_parts,
)
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for
from realtime_lrp.video.reader import Span, VideoReader
from realtime_lrp.video.writer import CONTAINERS
from realtime_lrp.view.colormaps import colormap_named
from realtime_lrp.view.overlay import SMOOTHING

THUMBNAILS = 12
BITS_A_PIXEL = 0.2
"""How much of the disk a frame may take; noise at our quality takes more, recordings half of it."""

LEAST_BYTES = 8
"""Of a frame in a recording."""

MOST_S = 1e7

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What is asked for besides the configuration.

    Attributes:
      inputs: files, folders, globs.
      output: a file, or a folder, which gets MP4 files.
      start: seconds, the first frame's.
      end: seconds, where the last frame lies before; None is the end.
      overwrite: existing outputs may be replaced.
      resume: outputs that were made from the same source with the same settings are kept.
      sidecar: JSON lines beside each output.
      summary: a picture beside each output.
      maps: the folder that gets a folder of raw maps for each output, or None.
      json: progress as JSON lines on stdout.
      stats: where the figures go, or None.
    """

    inputs: Sequence[str]
    output: str
    start: float | None = None
    end: float | None = None
    overwrite: bool = False
    resume: bool = False
    sidecar: bool = False
    summary: bool = False
    maps: Path | None = None
    json: bool = False
    stats: Path | None = None

    @property
    def span(self) -> Span | None:
        """The part of the recordings that is asked for, None for all."""
        if self.start is None and self.end is None:
            return None
        return Span(self.start or 0.0, self.end)


def run(config: Config, request: Request) -> Iterator[str]:
    """Overlays each file; damaged ones among several are left out and named.

    Yields:
      One line for each file, as it is finished: its name, how many frames, where the output is;
      none with `json`.

    Raises:
      DamagedInputError: nothing can be decoded.
      TransferError: the disk is full; files that were finished before stay.
    """
    sources = inputs_of(request.inputs, VIDEOS, "video")
    _check(config, request)
    may_exist = request.overwrite or request.resume
    targets = outputs_for(sources, request.output, ".mp4", tuple(CONTAINERS), may_exist)
    todo = [_Task(config, request, *pair) for pair in zip(sources, targets, strict=True)]
    for task in todo:
        task.check()
    if request.stats:
        check_output(request.stats, overwrite=True)
        _check_own_name(request.stats, todo)
    with Progress(len(todo), request.json) as progress:
        yield from _Batch(config, request, progress).run(todo)


def _check_own_name(stats: Path, todo: Sequence["_Task"]) -> None:
    taken = [path for task in todo for path in (task.source, task.target, *task.beside.paths)]
    if stats.resolve() in [path.resolve() for path in taken]:
        raise OutputError(f"{str(stats)!r} is an input or an output. Choose another for --stats.")


def _is_empty(path: Path) -> bool:
    """Whether there is nothing in a file or a folder, or neither."""
    if path.is_dir():
        return not any(path.iterdir())
    return not (path.is_file() and path.stat().st_size)


def _check(config: Config, request: Request) -> None:
    if not all(time is None or time < MOST_S for time in (request.start, request.end)):
        raise UsageError(f"Expected --start and --end below {MOST_S:g} seconds.")
    if request.end is not None and request.end <= (request.start or 0.0):
        raise UsageError(
            f"Expected --end behind --start. Received {request.start or 0:g} to {request.end:g}."
        )
    if request.maps and not request.maps.is_dir():
        check_output(request.maps, overwrite=False)  # the folder is made in one that is there


class _Task:
    """A source, its target, and what stands beside it.

    Attributes:
      done: `resume` found it finished.
      replace: what is there may be replaced.
    """

    def __init__(self, config: Config, request: Request, source: Path, target: Path):
        self.source, self.target = source, target
        self.beside = Companions.named_after(target, request.sidecar, request.summary, request.maps)
        self.replace, self.done = request.overwrite, False
        self._request = request
        span = {"start": request.start, "end": request.end}
        self._shaping = config, span

    @property
    def _letters(self) -> str:
        """A letter for each path of `beside`."""
        kinds = {"s": self.beside.sidecar, "p": self.beside.summary, "m": self.beside.maps}
        return "".join(letter for letter, one in kinds.items() if one)

    @property
    def note(self) -> str:
        """What the target's comment says of it: its mark, and what is made beside it."""
        return " ".join(filter(None, [self.mark, self._letters]))

    def check(self) -> None:
        """Sees what is there.

        Raises:
          OutputError: something cannot be made, or would have to be replaced.
        """
        outputs = self.target, *self.beside.paths
        for leftover in (part for one in outputs for part in stale_parts(one)):
            log.warning("%s is left of a run that was killed; it can be deleted", leftover)
        if self._request.resume and self.target.is_file():
            self._compare()
        if self.done:
            return
        check_output(self.target, self.replace)
        self.beside.check(self.replace)

    def _compare(self) -> None:
        made = noted_beside(self.target, self.mark)
        if made is not None:
            kinds = zip(self._letters, self.beside.paths, strict=True)
            missing = [one.name for kind, one in kinds if kind not in made or _is_empty(one)]
            self.done, self.replace = not missing, True
            if missing:
                log.warning("%s is made again: no %s", self.target, ", ".join(missing))
        elif not self.replace:
            raise OutputError(
                f"{str(self.target)!r} was made from another source or with other settings. Add "
                "--overwrite to make it again."
            )

    @functools.cached_property
    def mark(self) -> str:
        """The fingerprint of what shapes the target."""
        return fingerprint(self.source, *self._shaping)


class _Batch:
    """One run over several files with one engine, which is loaded when it is first needed."""

    def __init__(self, config: Config, request: Request, progress: Progress):
        self._config, self._request, self._progress = config, request, progress
        self._loaded: tuple[Engine, Stats] | None = None

    def run(self, todo: Sequence[_Task]) -> Iterator[str]:
        """Yields a line for each file that is finished."""
        finished, failed = 0, []
        for task in todo:
            try:
                line = self._finished(task, alone=len(todo) == 1)
            except KeyboardInterrupt:
                log.warning("interrupted: %d of %d files are finished", finished, len(todo))
                raise
            except Error as error:
                self._progress.end("failed", task.source.name, error=str(error))
                if len(todo) == 1 or isinstance(error, TransferError):
                    raise
                failed.append(error)
                log.warning("%s", error)
            else:
                finished += 1
                if not self._request.json:
                    yield line
        if self._request.stats and self._loaded:
            engine, figures = self._loaded
            figures.traces = engine.explainer.traces
            figures.write(self._request.stats, live=False)
        elif self._request.stats:
            log.warning("nothing was done: %s is not written", self._request.stats)
        if len(failed) == len(todo):
            raise DamagedInputError(f"None of the {len(todo)} videos can be decoded.")
        others = [error for error in failed if not isinstance(error, DamagedInputError)]
        if others:
            raise others[0]

    def _finished(self, task: _Task, alone: bool) -> str:
        if not task.done:
            return self._overlaid(task, alone)
        self._progress.end("skipped", task.source.name, output=str(task.target))
        return f"{task.source.name}: finished before -> {task.target}"

    def _overlaid(self, task: _Task, alone: bool) -> str:
        if self._loaded is None:
            if alone:  # what is no video is refused before the network is loaded
                with VideoReader(task.source):
                    pass
            exact = self._request.sidecar or self._request.maps
            engine = Engine(self._config, moving=not exact)
            self._loaded = engine, Stats(engine.device, engine.precision)
        engine, figures = self._loaded
        report = overlay_file(
            engine, self._config, task.source, task.target, task.replace, figures,
            span=self._request.span, note=task.note, progress=self._progress, beside=task.beside,
        )  # fmt: skip
        notes = _notes(report)
        for note in notes:
            log.warning("%s: %s", task.source.name, note)
        self._progress.end(
            "done", task.source.name, output=str(task.target), frames=report.frames,
            bad_packets=report.bad_packets, notes=notes,
            beside=[str(one) for one in task.beside.paths],
        )  # fmt: skip
        return f"{task.source.name}: {report.frames} frames -> {task.target} ({engine.computed})"


def _notes(report: Report) -> list[str]:
    notes = list(dict.fromkeys(report.notes))
    if report.bad_packets:
        notes.append(f"skipped {report.bad_packets} damaged packets")
    if report.holes:
        count = len(report.holes)
        parts = f"{count} damaged part{'s' if count > 1 else ''}"
        notes.append(f"skipped {parts}, {sum(report.holes):.2f} s in all")
    if report.frames < report.claimed:
        notes.append(f"ended early: {report.frames} of about {report.claimed} frames")
    if report.lost_sound:
        notes.append(f"left out {report.lost_sound} damaged packets of sound")
    return notes


def overlay_file(
    engine: Engine,
    config: Config,
    source: Path,
    target: Path,
    overwrite: bool,
    figures: Stats,
    *,
    span: Span | None = None,
    note: str = "",
    progress: Progress | None = None,
    beside: Companions = Companions(),  # noqa: B008 # frozen
) -> Report:
    """Overlays one file.

    Args:
      engine: what explains.
      config: how relevance is drawn, how the file is written.
      source: a video file.
      target: .mp4, .mov or .mkv.
      overwrite: whether it and what is made beside it may be replaced.
      figures: counts what is done.
      span: the part of the recording, None for all.
      note: goes into the target's comment, behind what the settings were.
      progress: is told of the frames.
      beside: what is made besides.

    Raises:
      DamagedInputError: it cannot be decoded, or makes the decoder crash or hang.
      OutputError: a file cannot be made.
      TransferError: the disk is full.
    """
    lrp = config.lrp
    words = [f"realtime_lrp {__version__}", engine.network.name, lrp.method]
    words += [engine.composite] if lrp.method == "lrp" else []
    comment = ", ".join(filter(None, [*words, f"target {lrp.target}", note]))
    with ExitStack() as stack:
        part = stack.enter_context(atomic_file(target, overwrite))
        opened = beside.open(stack, overwrite)
        kept = _Kept(engine, config, opened)
        report = _recoded(
            engine, figures, kept, progress,
            Job(
                source=source.resolve(), part=part, parts=(part, *opened.parts),
                container=target.suffix.lower(), note=comment, span=span,
                thumbnails=THUMBNAILS, size=engine.explainer.input_shape[:2],
                batch=_batch_of(config, engine), smoothing=SMOOTHING,
                colormap=colormap_named(colormap_for(engine)), opacity=config.overlay.opacity,
                fit=config.input.fit, mirror=config.input.mirror,
                sound=config.video.audio == "copy", layout=config.video.layout,
                stride=config.video.stride, codec=config.video.codec,
                quality=config.video.quality,
            ),
        )  # fmt: skip
        kept.rest(report.times)
        if opened.summary:
            title = f"{source.name}: {', '.join(words[1:])}, target {lrp.target}"
            captioned = [(f"{seconds:.2f} s", picture) for seconds, picture in report.thumbnails]
            write_summary(opened.summary, title, captioned, kept.timeline, 2 * THUMBNAILS)
    return report


def _recoded(
    engine: Engine,
    figures: Stats,
    kept: "_Kept",
    progress: Progress | None,
    job: Job,
) -> Report:
    with Recoding(job) as recoding:
        opened = recoding.opened
        _check_room(job, opened.size, opened.frames)
        if progress:
            progress.begin(job.source.name, opened.frames)
        region = engine.region(opened.size)
        explained = Explained(engine, region)
        begun: deque[tuple[Views, float, Callable[[], list[Result]]]] = deque()

        def finish() -> None:
            views, begin, results = begun.popleft()
            done = explained(views, results)
            figures.map_made(len(done) - done.count(None), time.monotonic() - begin)
            recoding.answer([drawn_of(engine, one) for one in done])
            kept.take(views, done)
            if progress and done[-1]:
                progress.step(recoding.written, best_label(top_scores(engine, done[-1].scores, 1)))

        for views in recoding.views():
            regions = [region] * len(views.pictures)
            begin = time.monotonic()
            begun.append((views, begin, engine.begin_views(views.pictures, regions)))
            while begun and (len(begun) >= engine.in_flight or not recoding.waiting):
                finish()
        report = recoding.report
    if explained.missing:
        note = f"{explained.missing} frames have no map: the network computes NaN or Inf for them"
        report = msgspec.structs.replace(report, notes=(*report.notes, note))
    figures.frames_captured += report.frames
    figures.frames_shown += report.frames
    return report


def _batch_of(config: Config, engine: Engine) -> int:
    batch = config.video.batch
    return (16 if engine.in_flight > 1 else 8) if batch == "auto" else batch


def _check_room(job: Job, size: tuple[int, int], frames: int) -> None:
    """Refuses to begin what will not fit on the disk."""
    panels = 2 if job.layout in ("side-by-side", "original+map") else 1
    held = job.source.stat().st_size
    frames = min(frames, held // LEAST_BYTES)  # a damaged file may claim any number
    needed = round(frames * size[0] * size[1] * panels * BITS_A_PIXEL / 8) if frames else held
    free = shutil.disk_usage(job.part.parent).free
    if free < needed + KEPT_FREE:
        raise TransferError(
            f"About {needed + KEPT_FREE >> 20} MiB are needed in {str(job.part.parent)!r}, "
            f"{free >> 20} MiB are free. Make room, or choose another folder."
        )


class _Kept:
    """What is kept of each map besides its picture."""

    def __init__(self, engine: Engine, config: Config, opened: OpenCompanions) -> None:
        self._opened = opened
        self.timeline = Timeline()
        self._engine, self._target = engine, config.lrp.target
        self._stride, self._frame = config.video.stride, 0
        self._row: dict[str, Any] = {}

    def take(self, views: Views, results: Sequence[Result | None]) -> None:
        """Takes explained frames, those that have no map, and those between that got their maps."""
        newest = iter(results)
        for seconds in views.times:
            self._frame_at(seconds, newest)

    def rest(self, times: Sequence[float]) -> None:
        """Takes the last frames, which got the last map."""
        for seconds in times:
            self._frame_at(seconds, iter(()))

    def _frame_at(self, seconds: float, newest: Iterator[Result | None]) -> None:
        if not self._opened.wanted:
            return
        explained = self._frame % self._stride == 0
        if explained:
            result = next(newest)
            self._row = {"top5": [], "target": self._target, "relevance_sum": None}
            if result:
                self._row = map_record(self._engine, self._target, result)
                self.timeline.add(seconds, self._row)
                self._opened.keep(result, self._frame, seconds)
        self._opened.write(
            {"frame": self._frame, "time": round(seconds, 6), "explained": explained} | self._row
        )
        self._frame += 1
