"""A child process that exchanges messages with its parent.

A child inherits nothing that is open here except its pipes and the files that it is given. It
should end when its standard input closes, which it does when the parent ends.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from realtime_lrp.errors import DamagedInputError, Error, InternalError, UnavailableError
from realtime_lrp.system.channel import Channel, Failed
from realtime_lrp.system.child_command import pipes

CLOSING_S = 1.0
"""Maximum wait for a killed child, in seconds; it is longer only where the kernel itself hangs."""


ENDED_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
"""What the system or a person ends a process with; no library does."""


class Child:
    """A child process and the channel to it; it inherits the descriptors `files`."""

    def __init__(
        self,
        command_line: Sequence[str],
        expected: Any,
        files: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
    ):
        try:
            self._process = subprocess.Popen(
                command_line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent to answer
                pass_fds=tuple(files),
                env={**os.environ, **(variables or {})},  # not C's own, which Qt may be changing
            )
        except OSError as error:
            raise UnavailableError(
                f"A child process cannot be started ({error.strerror}). Close other programs."
            ) from None
        self._pipes = pipes(self._process)
        self._channel = Channel(*self._pipes, expected)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message; any thread may. Raises `OSError` if the child has ended."""
        self._channel.send(message)

    def receive(self) -> Any:
        """Waits for a message; None if the child has ended or sends something else."""
        try:
            return self._channel.receive()
        except (EOFError, OSError, ValueError):
            return None

    @contextmanager
    def killed_after(self, seconds: float) -> Iterator[threading.Event]:
        """Kills it if the context takes longer; lends an event that says so."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def kill(self) -> None:
        """Ends it at once; whoever waits for a message gets None."""
        self._process.kill()

    def close(self) -> None:
        """Kills it, waits for its end, and closes the pipes."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSING_S)
        for stream in self._pipes:
            with suppress(OSError):
                stream.close()

    def death(self) -> str:
        """How it ended, for example "SIGSEGV" or "exit code 1"."""
        try:
            code = self._process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            return "it sent an invalid message"
        if code >= 0:
            return f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"


def parent_channel(expected: Any) -> Channel:
    """The channel to the parent; to be called first in a child process.

    From then on Ctrl-C does nothing, and what a library prints does not get between the messages.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Not `sys.stdin`, whose lock a waiting thread would still hold when the interpreter ends.
    incoming = os.fdopen(os.dup(0), "rb")
    return Channel(incoming, outgoing, expected)


def failure(file: str, failed: Failed) -> Exception:
    """The `Error` or `OSError` for what the child that reads a file reports."""
    error = failed.error()
    if isinstance(error, Error | OSError):
        return error
    if failed.kind == "bug":
        return failed.noted(InternalError(f"{file!r}: unexpected {error}"))
    if failed.kind == "memory":
        return failed.noted(
            UnavailableError(
                f"The memory does not suffice to decode {file!r} ({error}). Close other programs."
            )
        )
    return failed.noted(DamagedInputError(f"{file!r} makes the decoder fail ({error})."))


def death(file: str, ended: str) -> Error:
    """The error for a child that ended without a report, in the words of `Child.death`."""
    if ended in ENDED_FROM_OUTSIDE:
        what_to_do = "Try again."
        if ended == "SIGKILL":  # what Linux sends where the memory runs out
            what_to_do = "The memory may have run out: close other programs and try again."
        return UnavailableError(
            f"The process that decodes {file!r} was killed ({ended}). {what_to_do}"
        )
    if ended.startswith("exit code"):  # whatever it raises is reported
        return InternalError(f"The process that decodes {file!r} ended early ({ended}).")
    return DamagedInputError(f"{file!r} makes the decoder crash ({ended}).")


def hang(file: str, seconds: float) -> Error:
    """The error for a child that was killed because it gave no sign of life."""
    return DamagedInputError(f"{file!r} makes the decoder hang: nothing in {seconds:g} s.")
