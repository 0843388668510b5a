"""A child process that exchanges messages with its parent: it decodes untrusted files and streams.

Messages are plain data of expected types. Whoever takes over a child with a crafted file can send
wrong pictures, but nothing that is executed here. A child inherits nothing that is open here except
its pipes and the files that it is given. `Child` is the parent's side, `serve` the child's.
"""

import importlib
import json
import logging
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np

from realtime_lrp import errors
from realtime_lrp.errors import DamagedInputError, Error, InternalError, UnavailableError

WALL_FACTOR = 12  # times its CPU time that a called function may take: the machine may be busy
MOST_TRACEBACK = 10_000  # characters of a child's traceback that are kept, from its end
MOST_BYTES = 2**31  # bytes of a message: a hostile child must not cost its parent more memory
KINDS = ("uint8", "int8", "float32")  # types of array elements that may be sent
ARRAY = tuple[str, tuple[Annotated[int, msgspec.Meta(ge=0)], ...], bytearray]
"""An array in a message: element type, shape, bytes."""
BUGS = (TypeError, AttributeError, NameError, AssertionError, ImportError)
"""Exceptions that no input should cause."""
CLOSING_S = 1.0  # maximum wait for a killed child, in seconds; the kernel may hang longer
POLL_S = 0.05  # how often a wait for a message checks whether it has to end
ENDED_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")  # no library sends them

log = logging.getLogger(__name__)

_ROOT = str(Path(__file__).parents[2])
_RUN = f"""
import runpy, sys
del sys.argv[0]
sys.path.insert(0, {_ROOT!r})  # the same package as here, even if another one is installed
import realtime_lrp
del sys.path[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module in a child process.

    Unlike `python -m` it imports nothing from the current folder, where somebody may have put a
    file with the name of a module.
    """
    return [sys.executable, "-P", "-c", _RUN, module, *arguments]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The exception that ended the child, with its traceback.

    Its kind is the name of an error in `errors`, "OSError", "memory", "bug" or "other".
    """

    kind: str
    message: str
    errno: int = 0
    traceback: str = ""

    @classmethod
    def by(cls, error: BaseException) -> "Failed":
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, errors.InternalError):  # its message gets its second line again
            return cls("InternalError", errors.first_line(error), 0, trace)
        if isinstance(error, errors.Error):
            return cls(type(error).__name__, str(error), 0, trace)
        if isinstance(error, OSError):
            return cls("OSError", error.strerror or str(error), error.errno or 0, trace)
        memory = "memory" if isinstance(error, MemoryError) else "other"
        kind = "bug" if isinstance(error, BUGS) else memory
        return cls(kind, f"{type(error).__name__}: {error}", 0, trace)

    def error(self) -> Exception:
        """The exception with its traceback; a `RuntimeError` for "memory", "bug" and "other"."""
        if self.kind == "OSError":
            return self.noted(OSError(self.errno, self.message))
        kind: Any = getattr(errors, self.kind, None)
        ours = isinstance(kind, type) and issubclass(kind, errors.Error)
        return self.noted(kind(self.message) if ours else RuntimeError(self.message))

    def of_reading(self, file: str) -> Exception:
        """The `Error` or `OSError` for what the child that reads a file reports."""
        error = self.error()
        if isinstance(error, Error | OSError):
            return error
        told: Error = DamagedInputError(f"{file!r} makes the decoder fail ({error}).")
        if self.kind == "bug":
            told = InternalError(f"{file!r}: unexpected {error}")
        elif self.kind == "memory":
            told = UnavailableError(
                f"The memory does not suffice to decode {file!r} ({error}). Close other programs."
            )
        return self.noted(told)

    def noted(self, error: Exception) -> Exception:
        """Adds the child's traceback to an exception, which Python prints below its own."""
        if self.traceback:
            error.add_note(f"In the child process:\n{self.traceback[-MOST_TRACEBACK:]}")
        return error


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The child works, or waits on purpose; `done` counts what it has finished."""

    done: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)] = 0


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A record for the log."""

    level: int
    text: str


class NamedCall(msgspec.Struct, frozen=True):
    """A function of a module, and its arguments in JSON, which holds any file name."""

    module: str
    name: str
    arguments: str

    @classmethod
    def of(cls, function: Callable[..., Any], *arguments: Any) -> "NamedCall":
        return cls(function.__module__, function.__qualname__, json.dumps(arguments))

    def __call__(self, *further: Any) -> Any:
        function = getattr(importlib.import_module(self.module), self.name)
        return function(*json.loads(self.arguments), *further)


class Channel:
    """Messages over two byte streams, from any thread; `expected` are tagged `msgspec.Struct`s."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], expected: Any):
        self._incoming = incoming
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(expected, dec_hook=_from_plain)

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message. Raises `OSError` if the other process has ended."""
        try:
            data = msgspec.msgpack.encode(message, enc_hook=_to_plain)
        except UnicodeEncodeError:
            data = msgspec.msgpack.encode(_encodable(message), enc_hook=_to_plain)
        with self._lock:
            self._outgoing.write(len(data).to_bytes(4))
            self._outgoing.write(data)
            self._outgoing.flush()

    def receive(self) -> Any:
        """Waits for a message; raises `EOFError` at the end, `ValueError` for what is none."""
        size = int.from_bytes(self._exactly(4))
        if size > MOST_BYTES:
            raise ValueError(f"Expected at most {MOST_BYTES} bytes. Received {size}.")
        data = self._exactly(size)
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no message of the expected type ({error})") from None

    def _exactly(self, count: int) -> bytes:
        data = self._incoming.read(count)
        if data is None or len(data) < count:
            raise EOFError
        return data

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Sends what is raised to the other process, if that is still there."""
        try:
            yield
        except BaseException as error:
            with suppress(Exception):
                self.send(Failed.by(error))


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        return [value.dtype.name, value.shape, data]
    if isinstance(value, Path):
        return os.fsencode(value)
    raise NotImplementedError(type(value).__name__)


def _encodable(part: Any) -> Any:
    """The message with escapes in texts that UTF-8 cannot hold, for example in file names."""
    if isinstance(part, str):
        return part.encode(errors="backslashreplace").decode()
    if isinstance(part, msgspec.Struct):
        fields = msgspec.structs.asdict(part)
        return msgspec.structs.replace(part, **{k: _encodable(v) for k, v in fields.items()})
    if isinstance(part, list | tuple):
        return [_encodable(one) for one in part]
    return part


def _from_plain(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(os.fsdecode(value))
    if kind is not np.ndarray:
        raise NotImplementedError(kind.__name__)
    name, shape, data = msgspec.convert(value, ARRAY)
    if name not in KINDS:
        raise ValueError(f"an array of {name}")
    return np.frombuffer(data, name).reshape(shape)


class Child:
    """A child process and the channel to it; it inherits the descriptors `files`.

    A thread takes its messages, one ahead. Nobody waits for two kinds: signs of life count only
    where `on_life` is given, which gets what is done, and at most `log_lines` are logged.
    """

    def __init__(
        self,
        command_line: Sequence[str],
        expected: Any,
        files: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
        on_life: Callable[[int], None] | None = None,
        log_lines: int = 0,
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
        incoming = self._process.stdout
        outgoing = self._process.stdin
        assert incoming and outgoing
        self.pid = self._process.pid
        self._pipes = incoming, outgoing
        self._channel = Channel(incoming, outgoing, expected | Failed | Alive | Logged)
        self._on_life = on_life
        self._log_lines = log_lines
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._taken = threading.Semaphore(0)
        self._silent_s = 0.0
        self._closed = False
        self.ended = self.hung = False  # as `receive` has found
        threading.Thread(target=self._listen, name="child", daemon=True).start()

    @property
    def has_sent(self) -> bool:
        return not self._messages.empty()

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message; any thread may. Raises `OSError` if the child has ended."""
        self._channel.send(message)

    def receive(self, silent_s: float = math.inf, stop: threading.Event | None = None) -> Any:
        """Waits for a message; None if the child has ended or sends something else.

        It is killed once `stop` is set, or without a sign of life for `silent_s`. These seconds are
        added up from polls: while the whole machine stands still only one of them counts.
        """
        self._silent_s = 0.0
        while not self.ended:
            with suppress(queue.Empty):
                message = self._messages.get(timeout=POLL_S)
                self._taken.release()
                self.ended = message is None
                return message
            self._silent_s += POLL_S
            self.hung = self.hung or self._silent_s >= silent_s
            if self.hung or (stop and stop.is_set()):
                self._process.kill()  # whoever waits for a message gets None
        return None

    def expect(self, file: str, *types: type, silent_s: float) -> Any:
        """Waits for a message of these types; else raises the error of the reader of `file`."""
        message = self.receive(silent_s)
        if isinstance(message, types):
            return message
        if isinstance(message, Failed):
            raise message.of_reading(file)
        if self.hung:
            raise DamagedInputError(f"{file!r} makes the decoder hang: nothing in {silent_s:g} s.")
        raise _death(file, self.death())

    def _listen(self) -> None:
        try:
            with suppress(EOFError, OSError, ValueError):
                while (message := self._channel.receive()) is not None and not self._closed:
                    if isinstance(message, Alive):
                        if self._on_life:
                            self._silent_s = 0.0
                            self._on_life(message.done)
                    elif isinstance(message, Logged):
                        self._log_lines -= 1
                        if self._log_lines >= 0:
                            log.log(message.level, "%s", message.text)
                    else:
                        self._messages.put(message)
                        self._taken.acquire()
        except BaseException as error:
            self._messages.put(Failed.by(error))
        self._messages.put(None)

    def close(self) -> None:
        """Kills it, waits for its end, and closes the pipes."""
        self._closed = True
        self._process.kill()
        self._taken.release()
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


def _death(file: str, ended: str) -> Error:
    """The error for a child that ended without a report, in the words of `Child.death`."""
    if ended in ENDED_FROM_OUTSIDE:
        what_to_do = "Try again."
        if ended == "SIGKILL":  # what Linux sends where the memory runs out
            what_to_do = "The memory may have run out: close other programs and try again."
        return UnavailableError(
            f"The process that decodes {file!r} was killed ({ended}). {what_to_do}"
        )
    if ended.startswith("exit code"):  # of itself it reports; a crafted file may have taken it over
        return DamagedInputError(f"{file!r} makes the decoder end early ({ended}).")
    return DamagedInputError(f"{file!r} makes the decoder crash ({ended}).")


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


def serve(
    channel: Channel,
    answer: Callable[[Any], msgspec.Struct],
    aside: Callable[[Any], bool] = lambda message: False,
    at_end: Callable[[], None] = lambda: None,
) -> None:
    """Answers the parent's messages until the parent ends; then this process ends.

    A thread listens: `aside` gets each message there, and keeps those that are not to wait for
    others. `answer` gets the rest one after the other. `at_end` is called once the parent is gone.
    """
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        with channel.reporting():
            with suppress(EOFError, OSError, ValueError):
                while True:
                    if not aside(message := channel.receive()):
                        asked.put(message)
            at_end()
        os._exit(0)  # a decoder's threads may never end

    threading.Thread(target=listen, daemon=True).start()
    while True:
        with channel.reporting():
            channel.send(answer(asked.get()))


class LimitedCall(msgspec.Struct, frozen=True, tag=True):
    """A call with its limits: seconds, bytes."""

    call: NamedCall
    cpu_s: int
    memory: int


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The function's return value, in JSON."""

    value: str


def call_in_child(
    file: str, function: Callable[..., Any], *arguments: Any, cpu_s: float, memory: int = -1
) -> Any:
    """Calls a function of a module in a child: a file may make it crash, or never end.

    Arguments and return value are plain data. CPU time and address space are limited; -1 is any
    amount. Its errors are raised here. If it crashes or does not end, the error names the `file`.
    """
    child = Child(module_command("realtime_lrp.system.child"), Returned)
    try:
        with suppress(OSError):  # it has ended, which `expect` tells
            child.send(LimitedCall(NamedCall.of(function, *arguments), math.ceil(cpu_s), memory))
        return json.loads(child.expect(file, Returned, silent_s=WALL_FACTOR * cpu_s).value)
    finally:
        child.close()


def _called(order: LimitedCall) -> Returned:
    with suppress(ImportError, ValueError):
        import resource  # not on every system

        # the child ends itself even if its parent is killed
        resource.setrlimit(resource.RLIMIT_CPU, (order.cpu_s, order.cpu_s + 1))
        resource.setrlimit(resource.RLIMIT_AS, (order.memory, order.memory))
    return Returned(json.dumps(order.call()))


if __name__ == "__main__":
    serve(parent_channel(LimitedCall), _called)
