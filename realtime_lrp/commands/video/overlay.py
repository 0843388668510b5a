"""Makes films with one network, in the process of the command or in a worker's.

What the child process decodes is explained here, and what is asked for besides the film is kept.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from realtime_lrp.commands.video.recoding import (
    DrawableMap,
    Opened,
    PictureBatch,
    Recoding,
    RecodingOrder,
    Report,
)
from realtime_lrp.commands.video.task import Film, Outcome, Task, VideoOptions, at_hand
from realtime_lrp.config import Config
from realtime_lrp.engine.boxes import BoxNumbers, drawn_map, look_of, outlines_of
from realtime_lrp.engine.gallery import channel_names, concept_settings
from realtime_lrp.engine.opening import engine_for
from realtime_lrp.engine.result import Result
from realtime_lrp.engine.wording import Losses, best_answer, passes_note, sight_note
from realtime_lrp.errors import NotFiniteError
from realtime_lrp.models.names import begin_hashing
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.companions import Companions, map_record
from realtime_lrp.results.summary import SummaryPlot, write_summary
from realtime_lrp.system.files import KEPT_FREE, atomic_file, check_room
from realtime_lrp.system.program import __version__
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.region import Region
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import Drawn

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

log = logging.getLogger(__name__)

BITS_A_PIXEL = 0.2  # estimate of a film's size. Recordings take half of it, noise takes more.
LEAST_BYTES = 8  # fewest bytes that a frame takes in a recording


def overlay_file(
    engine: Engine, config: Config, film: Film, stats: Stats, progress: Progress | None = None
) -> Report:
    """Makes a film, which appears last; the report's notes are what a user should know."""
    lrp = config.lrp
    provenance = engine.provenance(config, "video")
    words = [engine.network.name, lrp.method, engine.composite if lrp.method == "lrp" else ""]
    settings = ", ".join([*filter(None, words), f"target {lrp.target}"])
    with ExitStack() as stack:
        part = stack.enter_context(atomic_file(film.target, film.replace))
        replace_companions = film.replace or film.replace_companions
        opened = Companions(film.companions, stack, replace_companions)
        opened.describe(provenance, concept_settings(engine))
        parts = {"film": part, **opened.parts}
        job = RecodingOrder(
            source=film.source.resolve(), parts=tuple(parts.values()), span=film.span,
            container=film.target.suffix.lower(), comment=f"realtime_lrp {__version__}, {settings}",
            provenance=provenance.as_json(),
            size=engine.explainer.input_shape[:2],
            batch=config.video.batch or (8 if engine.device == "CPU" else 16),
            look=look_of(engine),
            fit=engine.fit, region=engine.sight.fixed, follows=engine.sight.follows,
            mirror=config.input.mirror,
            sound=config.video.audio == "copy", layout=config.video.layout,
            stride=config.video.stride, codec=config.video.codec, quality=config.video.quality,
        )  # fmt: skip
        records = Records(engine, config, opened)
        with closing(Recoding(job)) as recoding:
            _check_room(job, recoding.opened)
            if progress:
                progress.begin(film.source.name, recoding.opened.frames)
            _explain(engine, recoding, stats, records, progress)
            report = recoding.report
        records.add(report.times)  # they got the last map
        stats.frames_captured += report.frames
        stats.frames_shown += report.frames
        if summary := opened.parts.get("summary"):
            captioned = [(f"{seconds:.2f} s", picture) for seconds, picture in report.thumbnails]
            write_summary(
                summary, f"{film.source.name}: {settings}", captioned, records.timeline,
                provenance.as_json(),
            )  # fmt: skip
        opened.finish()
        film.note_complete(parts)
    return msgspec.structs.replace(report, notes=tuple(_notes(report, records)))


def _explain(
    engine: Engine, recoding: Recoding, stats: Stats, records: Records, progress: Progress | None
) -> None:
    """Explains what the child process decodes, while that draws and encodes.

    `records` gets every frame but those after the last explained batch.
    """
    look = look_of(engine)
    aspect = recoding.opened.aspect
    number_boxes = BoxNumbers()
    region = engine.region(recoding.opened.size, aspect)
    begun: deque[tuple[PictureBatch, list[Region], float, Callable[[], list[Result]]]] = deque()
    frames = 0

    def finish_oldest() -> None:
        batch, regions, begin, results = begun.popleft()
        finite = _finite(engine, regions, batch, results, records)
        done = [one and number_boxes(one) for one in finite]
        stats.map_made(len(done) - done.count(None), time.monotonic() - begin)
        recoding.answer(
            [_drawable(engine, look, *pair) for pair in zip(done, regions, strict=True)]
        )
        records.add(batch.times, batch.pictures, done)
        if progress and done[-1]:
            progress.step(recoding.written, best_answer(engine, done[-1]))

    for batch in recoding.batches():
        begin = time.monotonic()
        regions = [region] * len(batch.pictures)
        if engine.sight.follows:  # pictures are whole frames
            first = -frames % records.stride
            times = batch.times[first :: records.stride]
            regions = engine.sight.regions(
                batch.pictures, aspect=aspect, times=times, source=recoding
            )
            seen = [one.extract(p) for one, p in zip(regions, batch.pictures, strict=True)]
            batch = msgspec.structs.replace(batch, pictures=np.stack(seen))
        frames += len(batch.times)
        begun.append((batch, regions, begin, engine.begin(batch.pictures, regions=regions)))
        while begun and (len(begun) >= engine.in_flight or not recoding.waiting):
            finish_oldest()


def _finite(
    engine: Engine, regions: Sequence[Region], batch: PictureBatch,
    results: Callable[[], list[Result]], records: Records,
) -> list[Result | None]:  # fmt: skip
    """Waits for results; None for pictures with NaN. Raises NotFiniteError if none has a map."""
    try:
        return [*results()]
    except NotFiniteError as error:
        done: list[Result | None] = []
        for picture, region in zip(batch.pictures, regions, strict=True):
            try:
                done += engine.begin(picture[None], regions=[region])()
            except NotFiniteError:
                done.append(None)
        if not (records.explained or any(done)):
            raise
        if not records.missing:
            log.warning("%s", error)
        return done


def _notes(report: Report, records: Records) -> Iterator[str]:
    yield from dict.fromkeys(report.notes)
    if records.missing:
        yield f"{records.missing} frames have no map: the network computes NaN or Inf for them"
    yield from records.losses.notes
    if report.bad_packets:
        yield f"skipped {report.bad_packets} damaged packets"
    if report.frames < report.expected:
        yield f"ended early: {report.frames} of about {report.expected} frames"
    if report.lost_sound:
        yield f"left out {report.lost_sound} damaged packets of sound"


def _check_room(job: RecodingOrder, opened: Opened) -> None:
    panels = 2 if job.layout in ("side-by-side", "original+map") else 1
    source_size = job.source.stat().st_size
    # a damaged file may claim any number
    frames = min(opened.frames, source_size // LEAST_BYTES)
    pixels = frames * opened.size[0] * opened.size[1] * panels
    needed = round(pixels * BITS_A_PIXEL / 8) if frames else source_size
    check_room(job.film.parent, needed + KEPT_FREE)


class Records:
    """Writes what is kept of each map besides its picture.

    `losses` names what lost relevance; some frames are `explained`, some are `missing` a map.
    """

    def __init__(self, engine: Engine, config: Config, opened: Companions) -> None:
        self._opened = opened
        self.timeline = SummaryPlot()
        self.losses = Losses(engine)
        self.explained = self.missing = 0
        self._engine = engine
        self._target = config.lrp.target
        self._names = channel_names(engine) if "sidecar" in opened.parts else {}
        self.stride = config.video.stride
        self._frame = 0
        self._record: dict[str, Any] = {}

    def add(
        self,
        times: Sequence[float],
        pictures: Sequence[np.ndarray] | np.ndarray = (),
        results: Sequence[Result | None] = (),
    ) -> None:
        """Adds frames; every stride-th is explained, or has no map, others got a carried one."""
        remaining = iter(zip(pictures, results, strict=True))
        for seconds in times:
            explained = self._frame % self.stride == 0
            if explained:
                self._record = self._explained(seconds, *next(remaining, (None, None)))
            frame = {"frame": self._frame, "time": round(seconds, 6), "explained": explained}
            self._opened.write(frame | self._record)
            self._frame += 1

    def _explained(
        self, seconds: float, picture: np.ndarray | None, result: Result | None
    ) -> dict[str, Any]:
        if picture is None or not result:
            self.missing += 1
            return {"top5": [], "target": self._target, "relevance_sum": None}
        self.explained += 1
        lost_in = self.losses.add(picture, result)
        if not self._opened.parts:
            return {}
        record = map_record(self._engine, self._target, result, self._names)
        record["lost_in"] = lost_in
        self.timeline.add(seconds, record)
        self._opened.keep(result, record, self._frame, seconds)
        return record


def _drawable(engine: Engine, look: Look, result: Result | None, region: Region) -> DrawableMap:
    """The map to draw over a picture; without a result only a line that says so."""
    if result is None:
        nothing = np.zeros(engine.explainer.input_shape[:2], np.int8)
        return DrawableMap(Drawn(nothing, 0.0), region.box, "no map")
    notes = passes_note(engine, result), sight_note(result)
    line = "   ".join([best_answer(engine, result), *filter(None, notes)])
    boxes = outlines_of(engine, result)
    return DrawableMap(drawn_map(result, look), region.box, line, boxes)


class Films:
    """Makes films one after the other; the network is loaded for the first."""

    def __init__(self, config: Config, options: VideoOptions):
        self._config = config
        self._options = options
        self._loaded: Engine | None = None

    def make(
        self, task: Task, stats: Stats | None = None, progress: Progress | None = None
    ) -> Outcome:
        try:
            engine = self._engine()
        except Exception as error:
            return Outcome(error=error, for_all=True)
        stats = stats or Stats(engine.device, engine.precision)
        try:
            with at_hand(task) as film:
                film.take_over()
                report = overlay_file(engine, self._config, film, stats, progress)
        except Exception as error:
            return Outcome(error=error)
        stats.note_engine(engine)
        made = engine.provenance(self._config, "video")
        return Outcome(report, computed=engine.computed, stats=stats, provenance=made)

    def _engine(self) -> Engine:
        if self._loaded is None:
            options = self._options
            engine = engine_for(self._config, moving=not options.exact, by_channel=options.sidecar)
            channel_names(engine)  # wrong names would be wrong for every file
            begin_hashing(engine.files)  # not before: loading refuses files that are too large
            self._loaded = engine
        return self._loaded
