"""SIGINT and SIGTERM as an event."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Lends an event that SIGINT and SIGTERM set; the second signal ends the program at once."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise SystemExit(128 + number)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():  # one more has nothing left to stop
            signal.signal(number, signal.SIG_IGN if stopped.is_set() else handler)
