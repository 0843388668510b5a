"""How SIGINT, SIGTERM and SIGHUP end the program: as an exception, as an event, or a bit later.

A handler can only raise an exception, and Python discards exceptions in some places: in `__del__`,
in callbacks of the garbage collector, of weak references and of C libraries. It reports them to
`sys.unraisablehook`. Ours raises the same signal again a moment later, until it takes effect.
Whoever changes this file runs tests/test_signals.py: without this one in twelve runs went on.
"""

import _thread
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

_NUMBERS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
]

AGAIN_S = 0.05
"""Seconds until a stop that Python discarded is raised again."""

HELD_S = 10.0
"""A stop waits at most so long for a call that must not be interrupted, in seconds."""

MOST_SIGACTION = 1024
"""More bytes than the system's description of a handler has."""

_Result = TypeVar("_Result")


class _Stops:
    """Raises the exception of a signal, again where Python discarded it.

    Attributes:
      error: the exception of the last signal, or None.
      discarded: the signal whose exception was discarded and has not been raised again yet.
    """

    def __init__(self) -> None:
        self.discarded: int | None = None
        self.error: BaseException | None = None
        self._number = 0
        self._report = sys.unraisablehook

    def install(self) -> None:
        """Notices discarded exceptions from now on."""
        self.discarded = self.error = None
        if sys.unraisablehook != self._notice:
            self._report, sys.unraisablehook = sys.unraisablehook, self._notice

    def stop(self, number: int, frame: FrameType | None = None) -> NoReturn:
        """Raises KeyboardInterrupt for SIGINT, else SystemExit with 128 + number."""
        self.discarded, self._number = None, number
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
        if self.error is error:  # no other signal has been raised meanwhile
            _send_to_main_thread(self._number)


_stops = _Stops()


def raise_on_signals() -> None:
    """From now on SIGTERM and SIGHUP raise SystemExit(128 + number), SIGINT KeyboardInterrupt.

    A signal that is ignored stays so: `nohup` ignores SIGHUP, shells SIGINT for background jobs.
    """
    for number in _NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stops.stop)
    _stops.install()


def ignore_stops() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP do nothing: the work is done, the process ends.

    While the interpreter shuts down it restores the default of every signal that is not ignored,
    and the process would be killed by the signal instead of ending with its exit code.
    """
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def discarded_stop() -> int | None:
    """The signal whose exception Python discarded a moment ago, if that was the last word."""
    return _stops.discarded


@contextmanager
def stops_unchanged() -> Iterator[None]:
    """Raises the exception of a signal again where a library makes another SystemExit of it."""
    try:
        yield
    except SystemExit:
        if _stops.error is None:
            raise
        raise _stops.error from None


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Lends an event that SIGINT and SIGTERM set; a second signal ends the program at once."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            _stops.stop(number)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():  # once stopped there is nothing left to stop
            signal.signal(number, signal.SIG_IGN if stopped.is_set() else handler)


class UninterruptedCalls:
    """A thread for calls of libraries that set signal handlers of their own, in C, as Ray does.

    Meanwhile the main thread waits for the signals itself: the system prefers it to threads that
    could get them, too, and no handler runs. They take effect when the call has ended. The thread
    lives until `close`: what it has started may be ended by the system when it ends.

    Attributes:
      busy: a stop took effect before the call had ended.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "uninterrupted")
        self.busy = False

    def __call__(self, function: Callable[[], _Result]) -> _Result:
        """Calls a function; the handlers of SIGINT, SIGTERM and SIGHUP are the same afterwards.

        Only the main thread may call this. After a stop it waits at most `HELD_S` for the function.
        """
        held: list[int] = []
        handlers = {number: signal.getsignal(number) for number in _NUMBERS}
        numbers = [number for number, handler in handlers.items() if handler != signal.SIG_IGN]
        if not hasattr(signal, "sigtimedwait"):  # Windows, macOS
            try:
                return function()
            finally:
                _set_handlers(handlers)
        for number in numbers:
            signal.signal(number, lambda number, frame: held.append(number))
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*numbers, signal.SIGURG])
        try:
            ended = threading.Event()
            call = self._thread.submit(_call, function, _CHandlers(numbers), ended)
            self.busy = True
            self._wait(ended, numbers, held)
            self.busy = not ended.is_set()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _set_handlers(handlers)
        for number in held:
            signal.raise_signal(number)
        return call.result()

    def _wait(self, ended: threading.Event, numbers: list[int], held: list[int]) -> None:
        """Takes signals until the call has ended or hangs; without a break in which one is lost."""
        deadline = threading.TIMEOUT_MAX
        while not ended.is_set() and (left := deadline - time.monotonic()) > 0:
            found = signal.sigtimedwait([*numbers, signal.SIGURG], left)
            if found and found.si_signo != signal.SIGURG:
                held.append(found.si_signo)
                deadline = min(deadline, time.monotonic() + HELD_S)

    def close(self) -> None:
        """Ends the thread once its call has ended."""
        self._thread.shutdown(wait=False)


class _CHandlers:
    """The handlers of signals as the system knows them."""

    def __init__(self, numbers: list[int]) -> None:
        self._set = ctypes.CDLL(None).sigaction
        self._kept = {number: ctypes.create_string_buffer(MOST_SIGACTION) for number in numbers}
        for number, kept in self._kept.items():
            self._set(number, None, kept)

    def restore(self) -> None:
        for number, kept in self._kept.items():
            self._set(number, kept, None)


def _call(function: Callable[[], _Result], handlers: _CHandlers, ended: threading.Event) -> _Result:
    """What runs in the thread, which has inherited that signals are blocked."""
    _in_thread.calls = True
    try:
        return function()
    finally:
        handlers.restore()
        ended.set()
        # wakes the main thread; does nothing there if it does not wait any more
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)


_in_thread = threading.local()


def _unblock_in_child() -> None:
    """What such a call starts would inherit that signals are blocked, and could not be ended."""
    if getattr(_in_thread, "calls", False):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*_NUMBERS, signal.SIGURG])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unblock_in_child)


def _set_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None:  # it was not set from Python
            signal.signal(number, handler)


def _send_to_main_thread(number: int) -> None:
    """Sends a signal so that it interrupts what the main thread waits for."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)
