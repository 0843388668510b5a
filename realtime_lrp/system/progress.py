"""Shows the progress of long work: bars for a person, lines for a log."""

import logging
import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

LOG_EVERY_S = 60.0  # seconds between two lines in the log
PERIOD_S = 300.0  # the last seconds from which the time left is estimated: a step may take a minute

log = logging.getLogger(__name__)


class Progress:
    """The progress of a batch of files: bars, or, `logged` without a terminal, lines."""

    def __init__(self, files: int, unit: str = "frames", logged: bool = False):
        console = Console(stderr=True)
        shown = console.is_terminal and log.isEnabledFor(logging.WARNING)
        self._logged = logged and not shown
        self._unit = unit
        self._bars = Bars(
            _plain("{task.description}"), BarColumn(), MofNCompleteColumn(),
            _plain("{task.fields[rate]}"), TimeRemainingColumn(), _plain("{task.fields[label]}"),
            console=console, disable=not shown, transient=True, speed_estimate_period=PERIOD_S,
            redirect_stdout=bool(sys.stdout and sys.stdout.isatty()),
        )  # fmt: skip
        self._done = 0
        self._start = 0.0
        self._task: TaskID | None = None
        self._batch: TaskID | None = None
        if files > 1:
            self._batch = self._bars.add_task("all files", total=files, rate="", label="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def begin(self, name: str, frames: int) -> None:
        """Begins a file; `frames` is 0 if their number is not known."""
        self._name = name
        self._frames = frames
        self._begun = self._last_logged = time.monotonic()
        self._task = self._bars.add_task(name, total=frames or None, rate="", label="")

    def step(self, count: int, label: str) -> None:
        """Reports that `count` frames are written; `label` is the answer of the newest one."""
        now = time.monotonic()
        rate = count / max(now - self._begun, 1e-9)
        shown = f"{rate:.1f} {self._unit}/s"
        if self._task is not None:
            self._bars.update(self._task, completed=count, rate=shown, label=label)
        if self._logged and now - self._last_logged >= LOG_EVERY_S:
            self._last_logged = now
            what = f"{count} of {self._frames}" if self._frames else count
            minutes = (now - self._begun) / 60
            left = minutes * (self._frames / count - 1) if count else 0
            more = f", about {left:.0f} min left" if left > 0 else ""
            log.warning("%s: %s %s after %.0f min%s", self._name, what, self._unit, minutes, more)

    def end(self) -> None:
        self._done += 1
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        if self._batch is not None:
            self._bars.update(self._batch, completed=self._done)

    def all_files(self, frames: int) -> None:
        """Reports how many frames the finished files have, where several are made at once."""
        if self._batch is not None:
            self._start = self._start or time.monotonic()
            rate = frames / max(time.monotonic() - self._start, 1e-9)
            self._bars.update(self._batch, rate=f"{rate:.1f} {self._unit}/s")


def _plain(text: str) -> TextColumn:
    return TextColumn(text, markup=False)
