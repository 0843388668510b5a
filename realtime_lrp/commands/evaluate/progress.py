"""Shows how far an evaluation is: a bar in a terminal, elsewhere a line a minute."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PROGRESS_S = 60.0
"""Seconds between lines where there is no terminal."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class EvaluationProgress:
    """Shows the progress over items, of which each may have several parts.

    Args:
      what: one of them is, such as "row".
      items: how many there are.
      parts: how many parts each has.
      further: how many items follow that are not counted in "row 2 of 5".
    """

    def __init__(self, what: str, items: int, parts: int = 1, further: int = 0):
        console = Console(stderr=True)
        self._shown = console.is_terminal
        hidden = not (self._shown and log.isEnabledFor(logging.WARNING))
        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(),
            TextColumn("{task.percentage:.0f} %"), TimeElapsedColumn(),
            console=console, transient=True, disable=hidden,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=(items + further) * parts)
        self._what, self._items, self._parts, self._further = what, items, parts, further
        self._done = self._part = 0
        self._reported = self._begun = time.monotonic()

    def __enter__(self) -> "EvaluationProgress":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def show(self, what: str) -> None:
        """Shows what is done before the first item, or between two."""
        self._bar.update(self._task, description=f"evaluating: {what}")

    def begin(self, name: str) -> None:
        """Begins an item."""
        self._name, self._part = name, 0
        self._bar.update(self._task, description=f"evaluating: {name}")
        self._show()

    def step(self) -> None:
        """A part of the item is done."""
        self._part += 1
        self._show()

    def end(self) -> None:
        """The item is done, however many parts it had."""
        self._done, self._part = self._done + 1, 0

    def _show(self) -> None:
        parts, now = self._done * self._parts + self._part, time.monotonic()
        self._bar.update(self._task, completed=parts)
        if not self._shown and now - self._reported >= PROGRESS_S:
            self._reported = now
            all_parts = (self._items + self._further) * self._parts
            log.warning(
                "evaluating: %s, %.0f %% after %.0f min",
                self._position(), 100 * parts / all_parts, (now - self._begun) / 60,
            )  # fmt: skip

    def _position(self) -> str:
        """Which item it is: "row 2 of 5 (epsilon)"; the name alone of one that is not counted."""
        if self._done >= self._items:
            return self._name
        return f"{self._what} {self._done + 1} of {self._items} ({self._name})"


def with_progress(items: Sequence[T], what: str) -> Iterator[T]:
    """Yields the items and shows how many are done.

    Args:
      items: their text is shown in brackets.
      what: one of them is, such as "row".
    """
    with EvaluationProgress(what, len(items)) as progress:
        for item in items:
            progress.begin(str(item))
            yield item
            progress.end()
