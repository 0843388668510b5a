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
from realtime_lrp.errors import Error, NotFiniteError
from realtime_lrp.models.names import begin_hashing
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.companions import Companions, map_record
from realtime_lrp.results.resume import Manifest, state_of, write_manifest
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
        explaining = _Explaining(engine, config, opened, stats, progress)
        with closing(Recoding(job)) as recoding:
            known = recoding.opened
            size = film.source.stat().st_size
            frames = min(known.frames, size // LEAST_BYTES)  # a damaged file may claim any number
            panels = 2 if job.layout in ("side-by-side", "original+map") else 1
            pixels = frames * known.size[0] * known.size[1] * panels
            needed = round(pixels * BITS_A_PIXEL / 8) if frames else size
            check_room(job.film.parent, needed + KEPT_FREE)
            if progress:
                progress.begin(film.source.name, recoding.opened.frames)
            explaining.explain(recoding)
            report = recoding.report
        explaining.record(report.times)  # they got the last map
        stats.frames_captured += report.frames
        stats.frames_shown += report.frames
        if summary := opened.parts.get("summary"):
            captioned = [(f"{seconds:.2f} s", picture) for seconds, picture in report.thumbnails]
            write_summary(
                summary, f"{film.source.name}: {settings}", captioned, explaining.timeline,
                provenance.as_json(),
            )  # fmt: skip
        opened.finish()
        if film.fingerprint:  # all is complete, and nothing has its name yet
            states = {kind: state_of(made) for kind, made in parts.items()}
            try:
                write_manifest(film.target, Manifest(film.fingerprint, states))
            except Error as error:
                log.warning("--resume will not recognise %s: %s", film.target, error)
    return msgspec.structs.replace(report, notes=tuple(explaining.notes(report)))


class _Explaining:
    """Explains what the child process decodes, and writes what is kept of each map beside it."""

    def __init__(
        self,
        engine: Engine,
        config: Config,
        opened: Companions,
        stats: Stats,
        progress: Progress | None,
    ):
        self._engine = engine
        self._opened = opened
        self._stats = stats
        self._progress = progress
        self.timeline = SummaryPlot()
        self._losses = Losses(engine)  # what lost relevance
        self._some_explained = False
        self._missing = 0  # frames without a map
        self._target = config.lrp.target
        self._names = channel_names(engine) if "sidecar" in opened.parts else {}
        self._stride = config.video.stride
        self._recorded = 0  # frames
        self._record: dict[str, Any] = {}

    def explain(self, recoding: Recoding) -> None:
        """Explains frames while the child draws and encodes those before them.

        All are recorded but those after the last explained batch.
        """
        engine = self._engine
        look = look_of(engine)
        aspect = recoding.opened.aspect
        number_boxes = BoxNumbers()
        region = engine.region(recoding.opened.size, aspect)
        begun: deque[tuple[PictureBatch, list[Region], float, Callable[[], list[Result]]]] = deque()
        frames = 0

        def finish_oldest() -> None:
            batch, regions, begin, results = begun.popleft()
            finite = self._finite(batch, regions, results)
            done = [one and number_boxes(one) for one in finite]
            self._stats.map_made(len(done) - done.count(None), time.monotonic() - begin)
            recoding.answer(
                [_drawable(engine, look, *pair) for pair in zip(done, regions, strict=True)]
            )
            self.record(batch.times, batch.pictures, done)
            if self._progress and done[-1]:
                self._progress.step(recoding.written, best_answer(engine, done[-1]))

        for batch in recoding.batches():
            begin = time.monotonic()
            regions = [region] * len(batch.pictures)
            if engine.sight.follows:  # pictures are whole frames
                times = batch.times[-frames % self._stride :: self._stride]
                regions = engine.sight.regions(
                    batch.pictures, aspect=aspect, times=times, source=recoding
                )
                seen = [one.extract(p) for one, p in zip(regions, batch.pictures, strict=True)]
                batch = msgspec.structs.replace(batch, pictures=np.stack(seen))
            frames += len(batch.times)
            begun.append((batch, regions, begin, engine.begin(batch.pictures, regions=regions)))
            while begun and (len(begun) >= engine.in_flight or not recoding.child.has_sent):
                finish_oldest()

    def _finite(
        self, batch: PictureBatch, regions: Sequence[Region], results: Callable[[], list[Result]]
    ) -> list[Result | None]:
        """Waits for results; None for pictures with NaN. NotFiniteError if none has a map."""
        try:
            return [*results()]
        except NotFiniteError as error:
            done: list[Result | None] = []
            for picture, region in zip(batch.pictures, regions, strict=True):
                try:
                    done += self._engine.begin(picture[None], regions=[region])()
                except NotFiniteError:
                    done.append(None)
            if not (self._some_explained or any(done)):
                raise
            if not self._missing:
                log.warning("%s", error)
            return done

    def record(
        self,
        times: Sequence[float],
        pictures: Sequence[np.ndarray] | np.ndarray = (),
        results: Sequence[Result | None] = (),
    ) -> None:
        """Records frames; every stride-th is explained, or has no map, others got a carried one."""
        remaining = iter(zip(pictures, results, strict=True))
        for seconds in times:
            explained = self._recorded % self._stride == 0
            if explained:
                self._record = self._explained(seconds, *next(remaining, (None, None)))
            frame = {"frame": self._recorded, "time": round(seconds, 6), "explained": explained}
            self._opened.write(frame | self._record)
            self._recorded += 1

    def _explained(
        self, seconds: float, picture: np.ndarray | None, result: Result | None
    ) -> dict[str, Any]:
        if picture is None or not result:
            self._missing += 1
            return {"top5": [], "target": self._target, "relevance_sum": None}
        self._some_explained = True
        lost_in = self._losses.add(picture, result)
        if not self._opened.parts:
            return {}
        record = map_record(self._engine, self._target, result, self._names)
        record["lost_in"] = lost_in
        self.timeline.add(seconds, record)
        self._opened.keep(result, record, self._recorded, seconds)
        return record

    def notes(self, report: Report) -> Iterator[str]:
        """What a user should know."""
        yield from dict.fromkeys(report.notes)
        if self._missing:
            yield f"{self._missing} frames have no map: the network computes NaN or Inf for them"
        yield from self._losses.notes
        if report.bad_packets:
            yield f"skipped {report.bad_packets} damaged packets"
        if report.frames < report.expected:
            yield f"ended early: {report.frames} of about {report.expected} frames"
        if report.lost_sound:
            yield f"left out {report.lost_sound} damaged packets of sound"


def _drawable(engine: Engine, look: Look, result: Result | None, region: Region) -> DrawableMap:
    """The map to draw over a picture; without a result only a line that says so."""
    if result is None:
        nothing = np.zeros(engine.explainer.input_shape[:2], np.int8)
        return DrawableMap(Drawn(nothing, 0.0), region.box, "no map")
    notes = passes_note(engine, result), sight_note(result)
    line = "   ".join([best_answer(engine, result), *filter(None, notes)])
    return DrawableMap(drawn_map(result, look), region.box, line, outlines_of(engine, result))


class Films:
    """Makes films one after the other with one network, which is loaded first."""

    def __init__(self, config: Config, options: VideoOptions):
        self._config = config
        moving = not options.exact
        self._engine = engine_for(config, moving=moving, by_channel=options.sidecar)
        channel_names(self._engine)  # wrong names would be wrong for every file
        begin_hashing(self._engine.files)  # not before: loading refuses files that are too large

    def make(
        self, task: Task, stats: Stats | None = None, progress: Progress | None = None
    ) -> Outcome:
        engine = self._engine
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
