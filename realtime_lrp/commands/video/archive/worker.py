"""A worker of a job: a process with an engine of its own, on this machine or another one.

It knows nothing of Ray. It reads recordings, and writes only into a temporary folder of its own.
"""

import errno
import logging
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.commands.video.archive.orders import (
    DiskFailed,
    Explained,
    Facts,
    Loaded,
    Made,
    Order,
    Planned,
    Status,
    Uncut,
)
from realtime_lrp.commands.video.archive.remote import LocalCopies
from realtime_lrp.commands.video.messages import DrawableMap, Parts, Piece, PlanParts, Report
from realtime_lrp.errors import FullDiskError, TransferError
from realtime_lrp.system.atomic import runs
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.temporary import temporary_folders_in

PREFIX = "realtime-lrp-worker-"
"""How the names of workers' temporary folders begin; the number of the process follows."""

ROWS, THUMBNAILS, SUMMARY, MAPS = "rows.jsonl", "thumbnails.npz", "summary.png", "maps"
"""The files that a worker makes besides the film."""

MOST_LINES = 200

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Error numbers that mean that a disk is full or broken."""


def _outcome(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what a method raises instead of raising it: not all exceptions can be sent."""

    @wraps(method)
    def safe(worker: "Worker", *arguments: Any) -> Any:
        worker.begin()
        try:
            return method(worker, *arguments)
        except Exception as error:
            return worker.failed(error)

    return safe


class Worker:
    """Does what a job asks for; each method but `status` and `read` takes a while.

    Args:
      threads: how many threads it may compute with, 0 for all.
      level: of the log.
      base: where its temporary folder goes; None is the usual place of the machine.
    """

    def __init__(self, threads: int, level: int = logging.WARNING, base: str | None = None):
        for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
            if threads:
                os.environ[name] = str(threads)
            else:
                os.environ.pop(name, None)
        self._log = _Lines()
        logging.getLogger().addHandler(self._log)
        logging.getLogger().setLevel(level)
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
        self._copies = LocalCopies(self._folder)
        self._count, self._lock = 0, threading.Lock()
        self._making = threading.local()
        self._engine: Any = None
        self._explained: dict[str, _Strengths] = {}
        self._steps = _Counter()

    @_outcome
    def load(self, order: Order, exact: bool, by_channel: bool) -> Loaded | Failed:
        """Loads the network and computes a first map, so that its memory is known.

        Args:
          order: any of the job.
          exact: whether maps are kept as data.
          by_channel: whether the relevance in each channel of a layer is computed, too.
        """
        import psutil

        from realtime_lrp.engine.engine import Engine
        from realtime_lrp.engine.gallery import channel_names
        from realtime_lrp.engine.hashes import begin_hashing
        from realtime_lrp.engine.provenance import provenance_of

        with temporary_folders_in(self._folder):  # removed with it, however this process ends
            engine = Engine(order.config, moving=not exact, by_channel=by_channel)
            if by_channel:
                channel_names(engine)  # wrong names would be wrong for every file
        self._engine = engine
        begin_hashing(engine.files)
        rows, columns = engine.explainer.input_shape[:2]
        batch = np.zeros((8, rows, columns, 3), np.uint8)
        with suppress(Exception):  # a network may give NaN for black
            engine.begin_extracted(batch, [engine.region((rows, columns))] * len(batch))()
        return Loaded(
            psutil.Process().memory_info().rss,
            provenance_of(engine, order.config, "video").as_json(),
            engine.device, engine.precision, socket.gethostname(), os.getpid(),
        )  # fmt: skip

    @_outcome
    def plan(self, order: Order, seconds: float, unit: int, thumbnails: int) -> Planned | Failed:
        """Finds where a recording is cut."""
        from realtime_lrp.commands.video.recoding import ask

        request = PlanParts(self._local(order), order.span, seconds, unit, thumbnails)
        parts = ask(request.source, request, Parts)
        return Planned(parts.parts, parts.frames, parts.last)

    @_outcome
    def whole(self, order: Order) -> Made | Failed:
        """Makes a film in one piece."""
        from realtime_lrp.commands.video.overlay import Film, Making, overlay_file
        from realtime_lrp.results.companions import Companions

        folder, stats = self._new_folder(), self._stats()
        source = self._local(order)
        companions = Companions(
            folder / ROWS,
            folder / SUMMARY if order.summary else None,
            folder / MAPS if order.maps else None,
        )
        self._steps.begin(source.name, 0)
        film = Film(folder / f"film{order.container}", companions=companions)
        report = overlay_file(
            self._engine, order.config, source, film, stats, span=order.span, progress=self._steps
        )
        self._steps.end(report.frames)
        making = Making.of(self._engine, order.config, source)
        return self._made(folder, report, making, list(stats.map_ms), None)

    @_outcome
    def explain(self, order: Order, piece: Piece) -> Explained | Uncut | Failed:
        """Computes the maps of a part; `draw` draws them."""
        from realtime_lrp.commands.video.overlay import (
            Making,
            Records,
            job_of,
            missing_note,
            recode,
        )
        from realtime_lrp.engine.gallery import concept_settings
        from realtime_lrp.engine.provenance import provenance_of
        from realtime_lrp.results.companions import Companions

        engine, config, source = self._engine, order.config, self._local(order)
        folder, stats = self._new_folder(), self._stats()
        companions = Companions(folder / ROWS, None, folder / MAPS if order.maps else None)
        making = Making.of(engine, config, source)
        self._steps.begin(f"{source.name}, part {piece.number + 1}", len(piece.pts))
        strengths = _Strengths(folder, stats)
        with ExitStack() as stack:
            stack.enter_context(strengths)
            before = piece.first // config.video.stride
            opened = companions.open(stack, replace=False, maps_before=before)
            opened.describe(provenance_of(engine, config, "video"), concept_settings(engine))
            if piece.number and opened.lines:  # only the first line of a sidecar has it
                opened.lines.provenance = None
            records = Records(engine, config, opened, piece.first)
            unfinished = (folder / "film", strengths.path, *opened.parts)
            job = job_of(engine, config, source, making, ".mp4", unfinished, order.span)
            job = _for(job, piece, draw=False)
            report = recode(engine, stats, records, self._steps, job, strengths.add)
            records.add_rest(report.times)
        self._steps.end(report.frames)
        missing = strengths.count_missing()
        if why := _why_not_cut(report, piece, missing > 0 and order.maps):
            shutil.rmtree(folder, ignore_errors=True)
            return Uncut(why)
        said = [note for note in report.notes if note != missing_note(missing)]
        strengths.notes, strengths.missing = tuple(said), missing
        strengths.losses = records.losses.counts
        self._explained[_key(order, piece)] = strengths
        return Explained(strengths.scales)

    @_outcome
    def draw(self, order: Order, piece: Piece, after: float) -> Made | Uncut | Failed:
        """Draws and encodes a part that was explained here.

        Args:
          order: what is made.
          piece: the part, with the scale before its first map.
          after: the scale after its last map.
        """
        from realtime_lrp.commands.video.overlay import Making, job_of
        from realtime_lrp.commands.video.recoding import Recoding
        from realtime_lrp.system.atomic import atomic_file

        strengths = self._explained.pop(_key(order, piece))
        folder = self._making.folder = strengths.path.parent
        source = self._local(order)
        making = Making.of(self._engine, order.config, source)
        container = ".mp4" if order.container == ".mkv" else order.container
        with atomic_file(folder / f"film{container}") as part:
            unfinished = (part, strengths.path)
            job = job_of(
                self._engine, order.config, source, making, container, unfinished, order.span
            )
            job = _for(job, piece, draw=True)
            maps = strengths.maps()
            with Recoding(job) as recoding:
                for batch in recoding.batches():
                    recoding.answer([next(maps) for _ in batch.pictures])
                report = recoding.report
        strengths.path.unlink()
        if report.frames != len(piece.pts):
            return Uncut(f"{report.frames} of {len(piece.pts)} frames were decoded")
        notes = (*strengths.notes, *report.notes)
        made = self._made(folder, report, making, list(strengths.stats.map_ms), after)
        facts = _changed(
            made.facts, notes=notes, missing=strengths.missing, losses=strengths.losses
        )
        return Made(made.folder, made.files, facts, made.map_ms)

    def begin(self) -> None:
        """Begins a call in this thread: what earlier ones have made stays."""
        self._making.folder = None

    def failed(self, error: Exception) -> Failed | DiskFailed:
        """What the job hears of an error; removes what the call has made by then."""
        if self._making.folder:
            shutil.rmtree(self._making.folder, ignore_errors=True)
        cause = error.__cause__ if isinstance(error, TransferError) else error
        if isinstance(error, FullDiskError) or getattr(cause, "errno", None) in DISK_ERRORS:
            where = f"{str(self._folder)!r} on {socket.gethostname()}"
            return DiskFailed(f"writing to {where} failed: {error}")
        failed = Failed.by(error)
        message = self._copies.with_addresses(failed.message)
        return msgspec.structs.replace(failed, message=message)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Bytes of a file that was made here."""
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def drop(self, folder: str) -> None:
        """Removes what was made here and fetched."""
        shutil.rmtree(folder, ignore_errors=True)

    def status(self) -> Status:
        """How far it is."""
        return Status(self._steps.frames, self._steps.name, socket.gethostname(), self._log.take())

    def close(self) -> None:
        """Removes its temporary folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _local(self, order: Order) -> Path:
        return self._copies.path(order.source, order.version)

    def _new_folder(self) -> Path:
        with self._lock:
            self._count += 1
            folder = self._folder / str(self._count)
        self._making.folder = folder
        folder.mkdir()
        return folder

    def _stats(self) -> Any:
        from realtime_lrp.realtime.stats import Stats

        return Stats(self._engine.device, self._engine.precision)

    def _made(
        self, folder: Path, report: Report, making: Any, map_ms: list[float], scale: float | None
    ) -> Made:
        pictures = {f"picture{n}": picture for n, (_, picture) in enumerate(report.thumbnails)}
        seconds = np.array([at for at, _ in report.thumbnails])
        np.savez(folder / THUMBNAILS, seconds=seconds, **pictures)  # type: ignore[arg-type]
        files = {
            str(path.relative_to(folder)): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        facts = Facts(
            report.frames, making, self._engine.computed, report.bad_packets, report.expected,
            report.lost_sound, tuple(report.notes), scale=scale,
        )  # fmt: skip
        return Made(str(folder), files, facts, map_ms)


def _changed(facts: Facts, **changes: Any) -> Facts:
    return msgspec.structs.replace(facts, **changes)


def _for(job: Any, piece: Piece, draw: bool) -> Any:
    """A job for a part: without sound, which is copied when the parts are joined."""
    return msgspec.structs.replace(job, piece=piece, draw=draw, sound=False)


def _key(order: Order, piece: Piece) -> str:
    return f"{order.source}:{piece.number}"


def _why_not_cut(report: Report, piece: Piece, maps_missing: bool) -> str:
    """Why a part is not what the whole recording would have there; "" if it is."""
    if maps_missing:  # the maps after them lie in other files then
        return "some frames have no map"
    if report.depends:
        return "it is interlaced"
    if report.bad_packets:
        return "it is damaged"
    if report.frames != len(piece.pts):
        return f"a part has {report.frames} frames instead of {len(piece.pts)}"
    return ""


class _Strengths:
    """The maps of a part as they are drawn, in a file until the scale before them is known.

    Args:
      folder: where the file goes.
      stats: of the part.
    """

    def __init__(self, folder: Path, stats: Any):
        self.path, self.stats = folder / "strengths", stats
        self.scales: list[float] = []
        self.notes: tuple[str, ...] = ()
        self.missing = 0
        self.losses: tuple[Any, ...] = ()
        self._lines: list[str] = []
        self._shape: tuple[int, ...] = ()

    def __enter__(self) -> "_Strengths":
        self._file = self.path.open("wb")
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def add(self, drawn: DrawableMap) -> None:
        """Appends a map."""
        self.scales.append(drawn.scale)
        self._lines.append(drawn.line)
        self._shape = drawn.strength.shape
        self._file.write(np.ascontiguousarray(drawn.strength).data)

    def count_missing(self) -> int:
        """How many frames have no map."""
        return self._lines.count("no map")

    def maps(self) -> Any:
        """Yields the maps in order."""
        size = int(np.prod(self._shape))
        with self.path.open("rb") as file:
            for scale, line in zip(self.scales, self._lines, strict=True):
                strength = np.frombuffer(file.read(size), np.int8).reshape(self._shape)
                yield DrawableMap(strength, scale, line)


class _Counter:
    """Counts the frames that this worker has explained."""

    def __init__(self) -> None:
        self.frames, self.name = 0, ""
        self._before = 0

    def begin(self, name: str, frames: int) -> None:
        self.name, self._before = name, self.frames

    def step(self, count: int, label: str) -> None:
        self.frames = self._before + count

    def end(self, frames: int) -> None:
        self.frames, self._before = self._before + frames, self._before + frames


class _Lines(logging.Handler):
    """Keeps lines of the log until the job asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("realtime_lrp") and len(self._kept) < MOST_LINES:
            self._kept.append(record.getMessage())

    def take(self) -> list[str]:
        kept, self._kept = self._kept, []
        return kept


def _remove_abandoned() -> None:
    """Removes the folders of workers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number = folder.name.removeprefix(PREFIX).split("-")[0]
        if not runs(number):
            shutil.rmtree(folder, ignore_errors=True)
