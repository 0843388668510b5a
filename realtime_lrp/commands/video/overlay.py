"""Overlays one recording: explains what the child process decodes, and keeps what is asked for."""

import logging
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from realtime_lrp.commands.video.messages import (
    KEPT_FREE,
    DrawableMap,
    Job,
    PictureBatch,
    Report,
)
from realtime_lrp.commands.video.recoding import Recoding
from realtime_lrp.config import Config
from realtime_lrp.engine.accounting import Losses
from realtime_lrp.engine.colouring import look_of
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.gallery import channel_names, concept_settings
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.engine.result import Result
from realtime_lrp.engine.wording import answer_line, best_label, top_scores
from realtime_lrp.errors import FullDiskError, NotFiniteError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.companions import Companions, OpenCompanions
from realtime_lrp.results.records import map_record
from realtime_lrp.results.summary import Timeline, write_summary
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.version import __version__
from realtime_lrp.video.reader import Span
from realtime_lrp.video.region import Region
from realtime_lrp.view.overlay import SMOOTHING

log = logging.getLogger(__name__)

THUMBNAILS = 12
BITS_A_PIXEL = 0.2
"""Estimate of a film's size. Recordings take half of it, noise takes more."""

LEAST_BYTES = 8
"""Fewest bytes that a frame takes in a recording."""


@dataclass(frozen=True)
class Film:
    """What is written for one recording.

    Attributes:
      path: .mp4, .mov or .mkv.
      replace: an existing film may be replaced.
      companions: what is made beside it.
      replace_companions: so may what is beside it, even if the film may not.
      before_publishing: called with the complete film's temporary path, once everything beside it
        is in place and before it gets its name.
    """

    path: Path
    replace: bool = False
    companions: Companions = Companions()  # noqa: RUF009 # frozen
    replace_companions: bool = False
    before_publishing: Callable[[Path], None] | None = None


def overlay_file(
    engine: Engine,
    config: Config,
    source: Path,
    film: Film,
    stats: Stats,
    *,
    span: Span | None = None,
    progress: "Steps | None" = None,
) -> Report:
    """Overlays one file.

    What is made beside the film appears first, the film last.

    Args:
      engine: explains the pictures.
      config: how relevance is drawn, how the film is written.
      source: a video file.
      film: what is written, and where.
      stats: counts what is done.
      span: the part of the recording, None for all.
      progress: shows how many frames are done.

    Raises:
      DamagedInputError: it cannot be decoded, or makes the decoder crash or hang.
      OutputError: a file cannot be made.
      FullDiskError: the disk is full.
    """
    made = Making.of(engine, config, source)
    with ExitStack() as stack:
        publishing = atomic_file(film.path, film.replace, film.before_publishing)
        part = stack.enter_context(publishing)
        opened = film.companions.open(stack, film.replace or film.replace_companions)
        opened.describe(provenance_of(engine, config, "video"), concept_settings(engine))
        records = Records(engine, config, opened)
        unfinished = (part, *opened.parts)
        job = job_of(engine, config, source, made, film.path.suffix, unfinished, span)
        report = recode(engine, stats, records, progress, job)
        records.add_rest(report.times)
        report = msgspec.structs.replace(report, notes=(*report.notes, *records.losses.notes))
        if opened.summary:
            summarise(opened.summary, made, report.thumbnails, records.timeline)
    return report


class Making(msgspec.Struct, frozen=True):
    """How a film is made, in the words that go into its files.

    Attributes:
      comment: the film's comment.
      description: its description: the provenance as JSON.
      title: of the summary.
    """

    comment: str
    description: str
    title: str

    @classmethod
    def of(cls, engine: Engine, config: Config, source: Path) -> "Making":
        """How an engine makes the film of a source."""
        lrp = config.lrp
        composite = [engine.composite] if lrp.method == "lrp" else []
        words = [engine.network.name, lrp.method, *composite]
        settings = ", ".join([*filter(None, words), f"target {lrp.target}"])
        description = provenance_of(engine, config, "video").as_json()
        return cls(
            f"realtime_lrp {__version__}, {settings}", description, f"{source.name}: {settings}"
        )


def summarise(
    path: Path, made: Making, thumbnails: Sequence[tuple[float, np.ndarray]], timeline: Timeline
) -> None:
    """Writes the summary picture of a recording.

    Args:
      path: the file.
      made: how the film was made.
      thumbnails: (seconds, uint8 [h, w, 3] RGB).
      timeline: of the explained frames.
    """
    captioned = [(f"{seconds:.2f} s", picture) for seconds, picture in thumbnails]
    write_summary(path, made.title, captioned, timeline, made.description, 2 * THUMBNAILS)


def job_of(
    engine: Engine,
    config: Config,
    source: Path,
    made: Making,
    container: str,
    unfinished: tuple[Path, ...],
    span: Span | None,
) -> Job:
    """What the child process is told to do with a recording; the first `unfinished` is the film."""
    return Job(
        source=source.resolve(), part=unfinished[0], parts=unfinished,
        container=container.lower(), comment=made.comment, provenance=made.description, span=span,
        thumbnails=THUMBNAILS, size=engine.explainer.input_shape[:2],
        batch=_batch(config, engine), smoothing=SMOOTHING,
        look=replace(look_of(engine), colormap=look_of(engine).colours(engine.explainer.signed)),
        fit=config.input.fit, mirror=config.input.mirror,
        sound=config.video.audio == "copy", layout=config.video.layout,
        stride=config.video.stride, codec=config.video.codec, quality=config.video.quality,
    )  # fmt: skip


class Steps(Protocol):
    """Is told how many frames of a film are written."""

    def begin(self, name: str, frames: int) -> None:
        """A film of about so many frames begins."""

    def step(self, count: int, label: str) -> None:
        """So many of its frames are written; `label` is the answer of the newest one."""


def recode(
    engine: Engine,
    stats: Stats,
    records: "Records",
    progress: Steps | None,
    job: Job,
) -> Report:
    """Explains what the child process decodes, while that draws and encodes.

    Args:
      engine: explains the pictures.
      stats: counts what is done.
      records: gets every frame but those after the last explained batch.
      progress: shows how many frames are done.
      job: what the child does.
    """
    with Recoding(job) as recoding:
        opened = recoding.opened
        _check_room(job, opened.size, opened.frames)
        if progress:
            progress.begin(job.source.name, opened.frames)
        region = engine.region(opened.size)
        finite = _FiniteResults(engine, region)
        begun: deque[tuple[PictureBatch, float, Callable[[], list[Result]]]] = deque()

        def finish_oldest() -> None:
            batch, begin, results = begun.popleft()
            done = finite(batch, results)
            stats.map_made(len(done) - done.count(None), time.monotonic() - begin)
            recoding.answer([_drawable(engine, result) for result in done])
            records.add(batch, done)
            if progress and done[-1]:
                progress.step(recoding.written, best_label(top_scores(engine, done[-1].scores, 1)))

        for batch in recoding.batches():
            regions = [region] * len(batch.pictures)
            begin = time.monotonic()
            begun.append((batch, begin, engine.begin_extracted(batch.pictures, regions)))
            while begun and (len(begun) >= engine.in_flight or not recoding.waiting):
                finish_oldest()
        report = recoding.report
    if finite.missing:
        missing = f"{finite.missing} frames have no map: the network computes NaN or Inf for them"
        notes = *report.notes, missing
        report = msgspec.structs.replace(report, notes=notes)
    stats.frames_captured += report.frames
    stats.frames_shown += report.frames
    return report


def notes_of(report: Report) -> list[str]:
    """What a user should know of a film that was made."""
    notes = list(dict.fromkeys(report.notes))
    if report.bad_packets:
        notes.append(f"skipped {report.bad_packets} damaged packets")
    if report.frames < report.expected:
        notes.append(f"ended early: {report.frames} of about {report.expected} frames")
    if report.lost_sound:
        notes.append(f"left out {report.lost_sound} damaged packets of sound")
    return notes


def _batch(config: Config, engine: Engine) -> int:
    batch = config.video.batch
    return (16 if engine.in_flight > 1 else 8) if batch == "auto" else batch


def _check_room(job: Job, size: tuple[int, int], frames: int) -> None:
    """Refuses to begin a film that will not fit on the disk."""
    panels = 2 if job.layout in ("side-by-side", "original+map") else 1
    source_size = job.source.stat().st_size
    frames = min(frames, source_size // LEAST_BYTES)  # a damaged file may claim any number
    pixels = frames * size[0] * size[1] * panels
    needed = round(pixels * BITS_A_PIXEL / 8) if frames else source_size
    free = shutil.disk_usage(job.part.parent).free
    if free < needed + KEPT_FREE:
        raise FullDiskError(
            f"About {needed + KEPT_FREE >> 20} MiB are needed in {str(job.part.parent)!r}, "
            f"{free >> 20} MiB are free. Make room, or choose another folder."
        )


class Records:
    """Writes what is kept of each map besides its picture.

    Args:
      engine: computes the maps.
      config: the target, and which frames are explained.
      opened: where it is written.

    Attributes:
      timeline: for the summary.
      losses: the maps that lost relevance.
    """

    def __init__(self, engine: Engine, config: Config, opened: OpenCompanions) -> None:
        self._opened = opened
        self.timeline = Timeline()
        self.losses = Losses(engine)
        self._engine, self._target = engine, config.lrp.target
        self._names = channel_names(engine) if opened.lines else {}
        self._stride, self._frame = config.video.stride, 0
        self._record: dict[str, Any] = {}

    def add(self, batch: PictureBatch, results: Sequence[Result | None]) -> None:
        """Adds frames: explained ones, ones without a map, and those that got a carried map."""
        remaining = iter(zip(batch.pictures, results, strict=True))
        for seconds in batch.times:
            self._add_frame(seconds, remaining)

    def add_rest(self, times: Sequence[float]) -> None:
        """Adds the last frames, which got the last map."""
        for seconds in times:
            self._add_frame(seconds, iter(()))

    def _add_frame(
        self, seconds: float, results: Iterator[tuple[np.ndarray, Result | None]]
    ) -> None:
        explained = self._frame % self._stride == 0
        picture, result = next(results, (None, None)) if explained else (None, None)
        lost_in = None
        if picture is not None and result:
            lost_in = self.losses.add(picture, result)
        if not self._opened.wanted:
            self._frame += 1
            return
        if explained:
            self._record = {"top5": [], "target": self._target, "relevance_sum": None}
            if result:
                self._record = map_record(self._engine, self._target, result, self._names)
                self._record["lost_in"] = lost_in
                self.timeline.add(seconds, self._record)
                self._opened.keep(result, self._frame, seconds)
        frame = {"frame": self._frame, "time": round(seconds, 6), "explained": explained}
        self._opened.write(frame | self._record)
        self._frame += 1


class _FiniteResults:
    """Waits for the results of batches; None for pictures for which the network gives NaN or Inf.

    Args:
      engine: explains the pictures.
      region: of the recording's pictures that the network sees.

    Attributes:
      missing: how many pictures have no map.
    """

    def __init__(self, engine: Engine, region: Region):
        self._engine, self._region = engine, region
        self.missing, self._any = 0, False

    def __call__(
        self, batch: PictureBatch, results: Callable[[], list[Result]]
    ) -> list[Result | None]:
        """The results of a batch. Raises `NotFiniteError` if no picture so far has a map."""
        try:
            done: list[Result | None] = [*results()]
        except NotFiniteError as error:
            done = [self._single(picture) for picture in batch.pictures]
            if not (self._any or any(done)):
                raise
            if not self.missing:
                log.warning("%s", error)
            self.missing += done.count(None)
        self._any = True
        return done

    def _single(self, picture: np.ndarray) -> Result | None:
        try:
            (result,) = self._engine.begin_extracted(picture[None], [self._region])()
        except NotFiniteError:
            return None
        return result


def _drawable(engine: Engine, result: Result | None) -> DrawableMap:
    """What is drawn over a picture; without a result only a line that says so."""
    if result is None:
        return DrawableMap(np.zeros(engine.explainer.input_shape[:2], np.int8), 0.0, "no map")
    return DrawableMap(result.maps[0].strength, result.maps[0].scale, answer_line(engine, result))
