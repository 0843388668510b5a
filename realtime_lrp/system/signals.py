"""How SIGINT, SIGTERM and SIGHUP end the program: as an exception, or as an event.

A handler can only raise an exception, and Python discards exceptions in some places: in `__del__`,
in callbacks of the garbage collector, of weak references and of C libraries. It reports them to
`sys.unraisablehook`. Ours raises the same signal again a moment later, until it takes effect.
Whoever changes this file runs tests/test_signals.py: without this one in twelve runs went on.
"""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
]

AGAIN_S = 0.05  # seconds until a stop that Python discarded is raised again


class _Stops:
    """Raises the exception of a signal, `error`, again where Python `discarded` it."""

    def __init__(self) -> None:
        self.discarded: int | None = None
        self.error: BaseException | None = None
        self._number = 0
        self._report = sys.unraisablehook

    def install(self) -> None:
        """Notices discarded exceptions from now on."""
        self.discarded = self.error = None
        if sys.unraisablehook != self._notice:
            self._report = sys.unraisablehook
            sys.unraisablehook = self._notice

    def stop(self, number: int, frame: FrameType | None = None) -> NoReturn:
        """Raises KeyboardInterrupt for SIGINT, else SystemExit with 128 + number."""
        self.discarded = None
        self._number = number
        self.error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
        raise self.error

    def _notice(self, unraisable: "sys.UnraisableHookArgs") -> None:
        error = unraisable.exc_value
        while error is not None and error is not self.error:
            error = error.__context__  # a `finally` may have raised another one over it
        if error is None:
            self._report(unraisable)
            return
        self.discarded = self._number
        # not threading.Thread: its locks may be held by what the exception was raised in
        _thread.start_new_thread(self._raise_again, (error,))

    def _raise_again(self, error: BaseException) -> None:
        time.sleep(AGAIN_S)
        if self.error is not error:  # another signal has been raised meanwhile
            return
        if hasattr(signal, "pthread_kill"):  # which interrupts what the main thread waits for
            signal.pthread_kill(threading.main_thread().ident or 0, self._number)
        else:
            signal.raise_signal(self._number)


stops = _Stops()


def raise_on_signals() -> None:
    """Makes SIGTERM and SIGHUP raise SystemExit(128 + number), SIGINT raise KeyboardInterrupt."""
    for number in STOPS:
        # `nohup` ignores SIGHUP, shells SIGINT for background jobs: an ignored signal stays so
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stops.stop)
    stops.install()


def ignore_stops() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP do nothing: the work is done, the process ends.

    While the interpreter shuts down it restores the default of every signal that is not ignored,
    and the process would be killed by the signal instead of ending with its exit code.
    """
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stops_unchanged() -> Iterator[None]:
    """Raises the exception of a signal again where a library makes another SystemExit of it."""
    try:
        yield
    except SystemExit as error:
        raise stops.error or error from None


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Lends an event that SIGINT and SIGTERM set; a second signal ends the program at once."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            stops.stop(number)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():  # once stopped there is nothing left to stop
            signal.signal(number, signal.SIG_IGN if stopped.is_set() else handler)
