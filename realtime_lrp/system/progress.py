"""Shows the progress of long work: bars for a person, JSON lines for a script, lines for a log."""

import json
import logging
import sys
import time
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from realtime_lrp.errors import TransferError

EVERY_S = 1.0
"""Minimum time between two JSON lines of one file."""

LOG_EVERY_S = 60.0
"""Seconds between two lines in the log."""

log = logging.getLogger(__name__)


class Progress:
    """Shows the progress of a batch of files; leaving the context removes the bars.

    These are on stderr, if it is a terminal; if not, a `logged` one has a line a minute in the log.
    `as_json` gives JSON lines on stdout instead. The `unit` is what is counted in a file.
    """

    def __init__(
        self, files: int, as_json: bool = False, unit: str = "frames", logged: bool = False
    ):
        console = Console(stderr=True)
        shown = not as_json and console.is_terminal and log.isEnabledFor(logging.WARNING)
        self._logged = logged and not shown
        self._json, self._unit = as_json, unit
        self._bars = Bars(
            _plain("{task.description}"), BarColumn(), MofNCompleteColumn(),
            _plain("{task.fields[rate]}"), TimeRemainingColumn(), _plain("{task.fields[label]}"),
            console=console, disable=not shown, transient=True,
            redirect_stdout=bool(sys.stdout and sys.stdout.isatty()),
        )  # fmt: skip
        self._files, self._done = files, 0
        self._start = self._printed = 0.0
        self._batch = None
        if files > 1:
            self._batch = self._bars.add_task("all files", total=files, rate="", label="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def begin(self, name: str, frames: int) -> None:
        """Begins a file; `frames` is 0 if their number is not known."""
        self._name, self._frames = name, frames
        self._begun = self._last_logged = time.monotonic()
        self._printed = 0.0
        self._task = self._bars.add_task(name, total=frames or None, rate="", label="")

    def step(self, count: int, label: str) -> None:
        """Reports that `count` frames are written; `label` is the answer of the newest one."""
        now = time.monotonic()
        rate = count / max(now - self._begun, 1e-9)
        shown = f"{rate:.1f} {self._unit}/s"
        self._bars.update(self._task, completed=count, rate=shown, label=label)
        if self._logged and now - self._last_logged >= LOG_EVERY_S:
            self._last_logged = now
            what = f"{count} of {self._frames}" if self._frames else count
            minutes = (now - self._begun) / 60
            log.warning("%s: %s %s after %.0f min", self._name, what, self._unit, minutes)
        if self._is_due(now):
            left = (self._frames - count) / rate if self._frames and count else None
            self._print(
                "progress", frames=count, total=self._frames or None, fps=round(rate, 2),
                seconds_left=None if left is None else round(max(left, 0.0), 1), label=label,
            )  # fmt: skip

    def end(self, event: str, name: str, **facts: Any) -> None:
        """Ends a file: `event` is "done", "skipped" or "failed"; `facts` go into the JSON line."""
        self._done += 1
        self._name = name
        if hasattr(self, "_task"):
            self._bars.remove_task(self._task)
            del self._task
        if self._batch is not None:
            self._bars.update(self._batch, completed=self._done)
        if self._json:
            self._print(event, **facts)

    def all_files(self, frames: int) -> None:
        """Reports how many frames the finished files have, where several are made at once."""
        now = time.monotonic()
        self._start = self._start or now
        rate = frames / max(now - self._start, 1e-9)
        if self._batch is not None:
            self._bars.update(self._batch, rate=f"{rate:.1f} {self._unit}/s")
        if self._is_due(now):
            done = {"files_done": self._done, "files": self._files}
            self._print_row({"event": "progress", **done, "fps": round(rate, 2)})

    def _is_due(self, now: float) -> bool:
        """Whether a JSON line of progress is to be printed now."""
        due = self._json and now - self._printed >= EVERY_S
        self._printed = now if due else self._printed
        return due

    def _print(self, event: str, **facts: Any) -> None:
        number = min(self._done + (event == "progress"), self._files)
        facts |= {"file_number": number, "files": self._files}
        self._print_row({"event": event, "file": self._name, **facts})

    def _print_row(self, row: dict[str, Any]) -> None:
        try:
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise TransferError("The progress cannot be written: the pipe was closed.") from None


def _plain(text: str) -> TextColumn:
    return TextColumn(text, markup=False)
