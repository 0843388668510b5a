"""Shows how far an evaluation is: a bar in a terminal, else a line now and then."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

PROGRESS_S = 60.0
"""Seconds between lines where there is no terminal."""

log = logging.getLogger(__name__)

T = TypeVar("T")


def with_progress(items: Sequence[T], what: str) -> Iterator[T]:
    """Yields the items and shows how many are done.

    Args:
      items: their text is shown in brackets.
      what: one of them is, such as "row".
    """
    console, reported = Console(stderr=True), time.monotonic()
    if console.is_terminal:
        hidden = not log.isEnabledFor(logging.WARNING)
        yield from track(
            items, f"evaluating: {what}", console=console, transient=True, disable=hidden
        )
        return
    for number, item in enumerate(items, 1):
        if time.monotonic() - reported >= PROGRESS_S:
            reported = time.monotonic()
            log.warning("evaluating: %s %d of %d (%s)", what, number, len(items), item)
        yield item
