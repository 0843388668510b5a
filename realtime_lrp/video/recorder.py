"""Records the live view: pictures that come at any time, each at its true time in an H.264 film.

    caller: put -> bounded queue -> thread: encode, write, sync -> NAME.PID.part
                                    at the end: check it, rename it -> NAME

If the process is killed, the film plays up to its last second.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, TextIO

import msgspec
import numpy as np

from realtime_lrp import errors
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.system import files
from realtime_lrp.video.region import region_of
from realtime_lrp.video.writer import CONTAINERS, VideoWriter, verify

log = logging.getLogger(__name__)

KEPT_FREE = 500 * 2**20  # bytes of the disk that stay free
MOST_BYTES = 60 * 720 * 1280 * 3  # pictures that wait for the encoder: two seconds at 720p

QUALITY = 20
NOMINAL_FPS = 30
SECOND = 90_000  # units of time in the file for each second
LEAST_STEP = SECOND // 1000  # minimum time between two frames; Matroska counts milliseconds
DRAIN_S = 1.0  # how long `finish` lets waiting pictures be encoded
CLOSING_S = 10.0  # how long it then waits for the file to be finished

_sync = getattr(os, "fdatasync", os.fsync)


class _Put(NamedTuple):
    picture: np.ndarray
    time: float
    row: dict[str, Any] | None


class Recorder:
    """Records the shown pictures; a context that finishes the file.

    The film has `size`, (rows, columns); pictures of other proportions get black borders. The
    thread of the recorder asks once for the provenance, which may take its time.
    """

    def __init__(
        self,
        target: Path,
        size: tuple[int, int],
        overwrite: bool = False,
        provenance: Callable[[], Provenance | None] | None = None,
    ):
        check_film(target, overwrite)
        self._target = target.resolve()
        self._overwrite = overwrite
        self._sidecar = self._target.with_suffix(".jsonl")
        self._part = files.part_path(self._target)
        for part in files.stale_parts([self._target, self._sidecar]):
            log.warning("%s was left by a run that was killed; rename it to keep it", part)
        for part in (self._part, files.part_path(self._sidecar)):
            if part.exists():
                raise errors.OutputError(
                    f"{str(part)!r} was left by an earlier recording. Rename or delete it."
                )
        files.check_room(self._target.parent, KEPT_FREE)
        self._size = size
        self._provenance = provenance
        self.frames = 0
        self.seconds = 0.0
        self._refused = self._left_out = 0  # counted by the caller, and by the thread
        self.trouble = ""  # why recording stopped, in one line; "" while it goes on
        self._failure: errors.Error | None = None
        self._waiting: SimpleQueue[_Put | None] = SimpleQueue()
        self._ended = threading.Event()
        self._finished = False
        self._until = float("inf")
        self._zero = 0.0
        self._last = 0
        self._next_key = 0
        self._lines: TextIO | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with suppress(*[errors.Error] if kind else []):
            self.finish()

    @property
    def dropped(self) -> int:
        """How many pictures were too many for the encoder."""
        return self._refused + self._left_out

    def put(self, picture: np.ndarray, time: float, row: dict[str, Any] | None = None) -> None:
        """Records uint8 [H, W, 3] RGB at a `time.monotonic()`; leaves it out rather than wait."""
        if self._ended.is_set():
            return
        if (self._waiting.qsize() + 1) * picture.nbytes > MOST_BYTES:
            self._refused += 1
            return
        self._waiting.put(_Put(picture.copy(), time, row))

    def finish(self) -> list[str]:
        """Ends the recording, and gives lines for the user; a second call does nothing.

        Raises OutputError if another process has made the target meanwhile, TransferError if the
        film is not complete.
        """
        if self._finished:
            return []
        self._finished = True
        self._until = monotonic() + DRAIN_S
        self._ended.set()
        self._waiting.put(None)
        self._thread.join(DRAIN_S + CLOSING_S)
        if self._thread.is_alive():
            raise errors.TransferError(
                f"The disk does not answer. {self._part.name!r} holds what was recorded."
            )
        if self._failure:
            raise self._failure
        if not self.frames:
            return [f"no picture came: {self._target} is not written"]
        lines = [f"{self.frames} frames, {self.seconds:.1f} s -> {self._target}"]
        if self.dropped:
            are = "picture is" if self.dropped == 1 else "pictures are"
            lines.append(f"{self.dropped} {are} left out: they came too fast")
        return lines + ([self.trouble] if self.trouble else [])

    def _run(self) -> None:
        why = ""
        try:
            self._record()
        except Exception as error:
            why = _reason(error)
        self._ended.set()
        self._waiting = SimpleQueue()  # what still waits is not needed
        failure: type[errors.Error] | None = None if self.frames else errors.TransferError
        kept = f"kept as {self._target.name}" if self.frames else "nothing is kept"
        try:
            self._put_in_place()
        except Exception as error:
            why = why or _reason(error)
            kept = f"kept as {self._part.name}"
            failure = (
                errors.OutputError
                if isinstance(error, errors.OutputError)
                else errors.TransferError
            )
        if why:
            self.trouble = f"recording stopped: {why}; {kept}"
            self._failure = failure(self.trouble) if failure else None
            log.warning("%s", self.trouble)

    def _record(self) -> None:
        """Writes pictures until the end; raises what ends it early."""
        pictures = self._pictures()
        first = next(pictures, None)
        if first is None:
            return
        self._zero = first.time
        made = self._provenance() if self._provenance else None
        if made and first.row is not None:
            first = first._replace(row={**first.row, KEY: msgspec.to_builtins(made)})
        with VideoWriter(
            self._part, self._target.suffix.lower(), Fraction(NOMINAL_FPS), Fraction(1, SECOND),
            quality=QUALITY, description=made.as_json() if made else "", live=True,
        ) as writer:  # fmt: skip
            for put in chain([first], pictures):
                if not self._write(writer, put):
                    continue
                if self._lines:
                    self._lines.flush()
                with self._part.open("r+b") as written:  # a key frame flushes what is before it
                    _sync(written.fileno())
                files.check_room(self._target.parent, KEPT_FREE)

    def _pictures(self) -> Iterator[_Put]:
        """Yields the pictures; those that still wait `DRAIN_S` after the end are left out."""
        while (put := self._waiting.get()) is not None:
            if monotonic() > self._until:
                self._left_out += 1
            else:
                yield put

    def _write(self, writer: VideoWriter, put: _Put) -> bool:
        """Writes a frame; returns whether it is a key frame (one a second)."""
        pts = round((put.time - self._zero) * SECOND)
        step = pts - self._last if self.frames else SECOND // NOMINAL_FPS
        if step < LEAST_STEP:
            self._left_out += 1
            return False
        key = pts >= self._next_key
        shown = min(step, SECOND)
        picture = put.picture
        if (size := picture.shape[:2]) != self._size:
            picture = region_of(size, self._size, "letterbox").extract(picture, border=0)
        writer.write(picture, pts, shown, key=key)
        if key:
            self._next_key = pts + SECOND
        self._last = pts
        self.seconds = (pts + shown) / SECOND
        self.frames += 1
        if put.row is not None:
            if self._lines is None:
                part = files.part_path(self._sidecar)
                self._lines = part.open("x", encoding="utf-8", errors="backslashreplace")
            row = {"frame": self.frames - 1, "time": round(pts / SECOND, 6), **put.row}
            self._lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        return key

    def _put_in_place(self) -> None:
        if self._lines:
            self._lines.close()
        if not self.frames:
            self._part.unlink(missing_ok=True)
            return
        verify(self._part, self.frames, self._last / SECOND)
        targets = [self._target, *([self._sidecar] if self._lines else [])]
        for path in targets:
            files.check_output(path, self._overwrite)
        for path in targets:
            files.publish(files.part_path(path), path, self._overwrite)


def check_film(target: Path, overwrite: bool) -> None:
    """Refuses a film that could not be recorded."""
    if target.suffix.lower() not in CONTAINERS:
        known = ", ".join(CONTAINERS)
        raise errors.UsageError(f"{str(target)!r} has no known ending. Expected one of {known}.")
    files.check_output(target, overwrite)
    files.refuse_link(target.with_suffix(".jsonl"))
    files.check_output(target.with_suffix(".jsonl"), overwrite)


def _reason(error: Exception) -> str:
    if isinstance(error, errors.FullDiskError):
        return "the disk is full"
    return getattr(error, "strerror", None) or errors.first_line(error)
