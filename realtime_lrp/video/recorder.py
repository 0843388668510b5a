"""Records the live view: pictures that come at any time, each at its true time in an H.264 film.

    caller: put -> bounded queue -> thread: encode, write, sync -> NAME.PID.part
                                    at the end: check it, rename it -> NAME

If the process is killed, the film plays up to its last second.
"""

import json
import logging
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TextIO

import msgspec
import numpy as np

from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.errors import Error, OutputError, TransferError, UsageError, first_line
from realtime_lrp.system.atomic import check_output, part_path, publish, refuse_link, stale_parts
from realtime_lrp.video.pictures import fitted
from realtime_lrp.video.writer import CONTAINERS, VideoWriter, verify

log = logging.getLogger(__name__)

KEPT_FREE = 500 * 2**20
"""Bytes of the disk that stay free."""

MOST_BYTES = 60 * 720 * 1280 * 3
"""Of pictures that wait for the encoder: two seconds at 720p."""

QUALITY = 20
NOMINAL_FPS = 30
SECOND = 90_000
"""Units of time in the file for each second."""
LEAST_STEP = SECOND // 1000
"""Minimum time between two frames; Matroska counts milliseconds."""

DRAIN_S = 1.0
"""How long `finish` lets waiting pictures be encoded."""
CLOSING_S = 10.0
"""How long it then waits for the file to be finished."""

_sync = getattr(os, "fdatasync", os.fsync)


class _Put(NamedTuple):
    picture: np.ndarray
    time: float
    row: dict[str, Any] | None


class Recorder:
    """Records pictures as they are shown; a context that finishes the file.

    The film has `size`, (rows, columns); pictures of other proportions get black borders. The
    thread of the recorder asks once for the provenance, which may take its time. `trouble` says in
    one line why recording stopped; "" while it goes on. `dropped` pictures were too many for the
    encoder.
    """

    def __init__(
        self,
        target: Path,
        size: tuple[int, int],
        overwrite: bool = False,
        provenance: Callable[[], Provenance | None] | None = None,
    ):
        self._provenance = provenance
        self._files = _Files(target, overwrite)
        self._size = size
        self.frames, self.seconds, self.dropped = 0, 0.0, 0
        self.trouble = ""
        self._failure: Error | None = None
        self._changed = threading.Condition()
        self._waiting: deque[_Put] = deque()
        self._bytes, self._taking = 0, True
        self._until = float("inf")
        self._zero, self._last, self._next_key = 0.0, 0, 0
        self._finished = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with suppress(*[Error] if kind else []):
            self.finish()

    def put(self, picture: np.ndarray, time: float, row: dict[str, Any] | None = None) -> None:
        """Records a picture uint8 [H, W, 3] RGB; never waits, and leaves it out if too many wait.

        The time is that of `time.monotonic()`; the row is written after the frame's number and
        time.
        """
        with self._changed:
            if not self._taking:
                return
            if self._bytes + picture.nbytes > MOST_BYTES:
                self.dropped += 1
                return
            self._waiting.append(_Put(picture.copy(), time, row))
            self._bytes += picture.nbytes
            self._changed.notify()

    def finish(self) -> list[str]:
        """Ends the recording, and gives lines for the user; a second call does nothing.

        Raises OutputError if another process has made the target meanwhile, TransferError if the
        film is not complete; the message says what is left of it.
        """
        if self._finished:
            return []
        self._finished = True
        with self._changed:
            self._taking, self._until = False, monotonic() + DRAIN_S
            self._changed.notify()
        self._thread.join(DRAIN_S + CLOSING_S)
        if self._thread.is_alive():
            raise TransferError(
                f"The disk does not answer. {self._files.part.name!r} holds what was recorded."
            )
        if self._failure:
            raise self._failure
        return self._summary()

    def _summary(self) -> list[str]:
        if not self.frames:
            return [f"no picture came: {self._files.target} is not written"]
        lines = [f"{self.frames} frames, {self.seconds:.1f} s -> {self._files.target}"]
        if self.dropped:
            are = "picture is" if self.dropped == 1 else "pictures are"
            lines.append(f"{self.dropped} {are} left out: they came too fast")
        return lines + ([self.trouble] if self.trouble else [])

    def _run(self) -> None:
        try:
            why = self._record()
        except Exception as error:
            why = _reason(error)
        with self._changed:
            self._taking = False
            left, self._waiting = self._waiting, deque()
        left.clear()
        self._end(why)

    def _record(self) -> str:
        """Writes pictures until the end; returns what ended it early, or ""."""
        pictures = self._pictures()
        first = next(pictures, None)
        if first is None:
            return ""
        self._zero = first.time
        made = self._provenance() if self._provenance else None
        if made and first.row is not None:
            first = first._replace(row={**first.row, KEY: msgspec.to_builtins(made)})
        with VideoWriter(
            self._files.part, self._files.container, Fraction(NOMINAL_FPS), Fraction(1, SECOND),
            quality=QUALITY, description=made.as_json() if made else "", live=True,
        ) as writer:  # fmt: skip
            for put in chain([first], pictures):
                # A key frame flushes everything before it to the file.
                if self._write(writer, put) and (shortage := self._files.sync()):
                    return shortage
        return ""

    def _pictures(self) -> Iterator[_Put]:
        """Yields the pictures; those that still wait `DRAIN_S` after the end are left out."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self._taking)
                if not self._waiting or monotonic() > self._until:
                    self.dropped += len(self._waiting)
                    return
                put = self._waiting.popleft()
                self._bytes -= put.picture.nbytes
            yield put

    def _write(self, writer: VideoWriter, put: _Put) -> bool:
        """Writes a frame; returns whether it is a key frame, of which there is one a second."""
        pts = round((put.time - self._zero) * SECOND)
        step = pts - self._last if self.frames else SECOND // NOMINAL_FPS
        if step < LEAST_STEP:
            with self._changed:
                self.dropped += 1
            return False
        key, shown = pts >= self._next_key, min(step, SECOND)
        writer.write(fitted(put.picture, self._size), pts, shown, key=key)
        if key:
            self._next_key = pts + SECOND
        self._last, self.seconds = pts, (pts + shown) / SECOND
        self.frames += 1
        if put.row is not None:
            self._files.write_row(
                {"frame": self.frames - 1, "time": round(pts / SECOND, 6), **put.row}
            )
        return key

    def _end(self, why: str) -> None:
        """Gives the film its name if it is complete, and reports what went wrong."""
        kind: type[Error] = TransferError
        kept, complete = "nothing is kept", False
        try:
            if complete := self._files.put_in_place(self.frames, self._last / SECOND):
                kept = f"kept as {self._files.target.name}"
        except Exception as error:
            why, kept = why or _reason(error), f"kept as {self._files.part.name}"
            kind = OutputError if isinstance(error, OutputError) else TransferError
        if not why:
            return
        trouble = f"recording stopped: {why}; {kept}"
        self._failure = None if complete else kind(trouble)
        self.trouble = trouble
        log.warning("%s", trouble)


class _Files:
    """The film and its sidecar on the disk, as parts until they are complete."""

    def __init__(self, target: Path, overwrite: bool):
        check_film(target, overwrite)
        self.container = target.suffix.lower()
        self.target = target.resolve()
        self.part = part_path(self.target)
        self._sidecar = self.target.with_suffix(".jsonl")
        self._overwrite = overwrite
        self._lines: TextIO | None = None
        for one in (self.target, self._sidecar):
            _report_stale_parts(one)
        if shortage := self.shortage():
            raise TransferError(
                f"Nothing is recorded into {str(self.target.parent)!r}: {shortage}. "
                f"{KEPT_FREE >> 20} MiB are left free; make room or choose another folder."
            )

    def shortage(self) -> str:
        """A text that says that the disk is full; "" while it has room."""
        free = shutil.disk_usage(self.target.parent).free
        return f"the disk is full ({free >> 20} MiB free)" if free < KEPT_FREE else ""

    def write_row(self, row: dict[str, Any]) -> None:
        if self._lines is None:
            part = part_path(self._sidecar)
            self._lines = part.open("x", encoding="utf-8", errors="backslashreplace")
        self._lines.write(json.dumps(row, ensure_ascii=False) + "\n")

    def sync(self) -> str:
        """Makes sure that everything written is on the disk; returns what `shortage` returns."""
        if self._lines:
            self._lines.flush()
        with self.part.open("r+b") as written:
            _sync(written.fileno())
        return self.shortage()

    def put_in_place(self, frames: int, last: float) -> bool:
        """Gives the parts their final names, and says whether there is a film.

        The last of its frames is shown at `last` seconds.
        """
        if self._lines:
            self._lines.close()
        if not frames:
            self.part.unlink(missing_ok=True)
            return False
        verify(self.part, frames, last)
        targets = [self.target, *([self._sidecar] if self._lines else [])]
        for path in targets:
            check_output(path, self._overwrite)
        for path in targets:
            publish(part_path(path), path, self._overwrite)
        return True


def check_film(target: Path, overwrite: bool) -> None:
    """Refuses a film that could not be recorded."""
    if target.suffix.lower() not in CONTAINERS:
        known = ", ".join(CONTAINERS)
        raise UsageError(f"{str(target)!r} has no known ending. Expected one of {known}.")
    check_output(target, overwrite)
    refuse_link(target.with_suffix(".jsonl"))
    check_output(target.with_suffix(".jsonl"), overwrite)


def _report_stale_parts(target: Path) -> None:
    for part in stale_parts([target]):
        log.warning("%s was left by a run that was killed; rename it to keep it", part)
    if part_path(target).exists():
        raise OutputError(
            f"{str(part_path(target))!r} was left by an earlier recording. Rename or delete it."
        )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or first_line(error)
