"""A process that decodes what strangers have made: both sides; `main` is the child's.

A thread that hangs in a driver or a decoder cannot be stopped and keeps its device. A child process
can be killed, and if it crashes, nothing else does. The parent names the function that opens a
file, a device or bytes there, and asks for one picture after the other. Pixels go through shared
memory if there is some, else through the pipe. Who takes over a child with a crafted file can send
wrong pictures and nothing else.
"""

import importlib
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError, Error, UnavailableError
from realtime_lrp.system.child import Channel, Child, Failed, module_command, parent_channel
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.frames import MOST_PIXELS
from realtime_lrp.video.source import Action, Source, Timeline

MOST_LOG_LINES = 1000  # log lines of one child; a hostile one must not fill the disk

log = logging.getLogger(__name__)


class Open(msgspec.Struct, frozen=True, tag=True):
    """Opens a source in place of the last; arguments are JSON, which holds any file name."""

    module: str
    name: str
    arguments: str
    data: bytes
    log_level: int


class Next(msgspec.Struct, frozen=True, tag=True):
    """Asks for the next picture."""


class Control(msgspec.Struct, frozen=True, tag=True):
    """For `Source.control`."""

    action: Action
    value: bool | int | float


Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class Facts(msgspec.Struct, frozen=True, tag=True):
    """The attributes of the source, see `Source`; sent when it is open."""

    described: str
    steady: bool
    alive: bool
    files: int
    patience_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    timeline: Timeline | None = None

    @classmethod
    def of(cls, source: Source) -> "Facts":
        return msgspec.convert(source, cls, from_attributes=True)


class Given(msgspec.Struct, frozen=True, tag=True):
    """A picture, uint8 [H, W, 3] RGB; only its shape is sent if it lies in the shared memory."""

    facts: Facts
    shape: tuple[Side, Side, Literal[3]] | None = None
    picture: np.ndarray | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The source has no further picture."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The source waits on purpose: it is paused, or the next picture is not due."""


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A record for the log."""

    level: int
    text: str


TO_CHILD = Open | Next | Control
FROM_CHILD = Facts | Given | Ended | Alive | Logged | Failed


class PictureProcess:
    """A `child` process that opens sources and gives their pictures.

    A source may wait if `on_wait`, which is called for its signs of life, is given. Where the child
    has ended, or had to be killed, the next `open` starts another one.
    """

    def __init__(
        self,
        log_lines: int = MOST_LOG_LINES,
        variables: Mapping[str, str] | None = None,
        on_wait: Callable[[], None] | None = None,
    ):
        self._memory = SharedPicture.create(MOST_PIXELS * 3)
        self._log_lines = log_lines
        self._variables = variables
        self._on_wait = on_wait
        self._start()

    def _start(self) -> None:
        memory = [self._memory.descriptor] if self._memory else []
        command = module_command("realtime_lrp.video.picture_process", *map(str, memory))
        self.child = Child(command, FROM_CHILD, memory, self._variables, self._aside)

    def open(
        self, opener: Callable[..., Source], arguments: Sequence[Any] = (), data: bytes = b""
    ) -> None:
        """Has the child call `opener(*arguments, stop)`, `data` first; JSON holds the arguments."""
        if self.child.ended:
            self.child.close()
            self._start()
        module = opener.__module__
        name = opener.__qualname__
        self.send(Open(module, name, json.dumps(arguments), data, log.getEffectiveLevel()))

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message; that the child has ended is shown by the next one from there."""
        with suppress(OSError, ValueError):
            self.child.send(message)

    def picture(self, message: Given) -> np.ndarray | None:
        """The picture of a message, uint8 [H, W, 3] RGB; None if it is none."""
        if (picture := message.picture) is not None:
            shaped = picture.ndim == 3 and picture.shape[2] == 3 and picture.size
            return picture if shaped and picture.dtype == np.uint8 else None
        if message.shape and self._memory and self._memory.fits(message.shape):
            return self._memory.read(message.shape)
        return None

    def pictures(self, file: str, hangs_s: float) -> Iterator[np.ndarray]:
        """Yields all pictures of the source that was opened, uint8 [H, W, 3] RGB."""
        self.child.expect(file, Facts, silent_s=hangs_s)
        while True:
            self.send(Next())
            message = self.child.expect(file, Given, Ended, silent_s=hangs_s)
            if isinstance(message, Ended):
                return
            picture = self.picture(message)
            if picture is None:
                raise DamagedInputError(f"{file!r} makes the decoder send an invalid picture.")
            yield picture

    def close(self) -> None:
        self.child.close()
        if self._memory:
            self._memory.close()

    def _aside(self, message: Any) -> bool:
        if isinstance(message, Alive) and self._on_wait:
            self.child.shows_life()
            self._on_wait()
        if isinstance(message, Logged) and self._log_lines > 0:
            self._log_lines -= 1
            log.log(message.level, "%s", message.text)
        return isinstance(message, Alive | Logged)


HANGS_S = 5.0
"""A source that is not steady hangs if its child owes a picture and sends nothing for this long.
The largest picture must be decoded within this time; it took 1.2 s on four busy cores."""


class ChildSource(Source):
    """A source that a child process opens and reads, killed once `stop` is set or it hangs.

    This class notices a hang only after the first picture of a source that is not steady. `Capture`
    watches the opening, the first picture, and steady sources. The opener, called there as
    `opener(*arguments, stop)`, is of a module that the child can import; JSON holds the arguments.
    """

    def __init__(
        self, opener: Callable[..., Source], arguments: Sequence[Any], stop: threading.Event
    ):
        super().__init__(stop)
        self._process = PictureProcess(on_wait=lambda: self.on_wait())
        self._hangs_s = inf
        self._closed = False
        try:
            self._process.open(opener, arguments)
            self._take(self._receive())
        except BaseException:
            self.close()
            raise
        log.debug("%s is read by process %d", self.described, self._process.child.pid)

    def read(self) -> np.ndarray | None:
        self._process.send(Next())
        message = self._receive()
        if self.stop.is_set() or not isinstance(message, Given):
            return None
        picture = self._process.picture(message)
        if picture is None:
            raise UnavailableError(f"The process that reads {self._name} sent an invalid picture.")
        self._take(message.facts)
        self._hangs_s = inf if self.steady else max(HANGS_S, self.patience_s)
        return picture

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._process.close()

    def control(self, action: Action, value: float = 0) -> None:
        self._process.send(Control(action, value))

    def _receive(self) -> Facts | Given | Ended:
        message = self._process.child.receive(self._hangs_s, self.stop)
        if isinstance(message, Facts | Given | Ended):
            return message
        if self.stop.is_set():
            return Ended()
        if isinstance(message, Failed):
            error = message.error()
            if isinstance(error, Error):
                raise error
            raise UnavailableError(f"Reading {self._name} failed ({error}).")
        how = f"ended ({self._process.child.death()})"
        if self._process.child.hung:
            how = f"hung for {self._hangs_s:g} seconds and was killed"
        raise UnavailableError(f"The process that reads {self._name} {how}.")

    def _take(self, message: object) -> None:
        if isinstance(message, Facts):
            vars(self).update(msgspec.structs.asdict(message))

    @property
    def _name(self) -> str:
        return self.described or "the source"


def main() -> None:
    """Opens what the parent names, one after the other, and reads it until the parent ends."""
    channel = parent_channel(TO_CHILD)
    logging.getLogger("realtime_lrp").addHandler(_ToParent(channel))
    memory = SharedPicture(int(sys.argv[1])) if len(sys.argv) > 1 else None
    reader = ChildReader(channel, memory)
    asked: queue.SimpleQueue[Open | Next] = queue.SimpleQueue()

    def listen() -> None:
        with suppress(Exception):
            while True:
                message = channel.receive()
                if not isinstance(message, Control):
                    asked.put(message)
                elif source := reader.source:
                    source.control(message.action, message.value)
        os._exit(0)  # the parent has gone

    threading.Thread(target=listen, daemon=True).start()
    with suppress(BrokenPipeError):
        while True:
            reader.answer(asked.get())
    os._exit(0)  # a decoder's threads may never end


class ChildReader:
    """Reads one `source` after the other; after its end, or an error, it is closed and None."""

    def __init__(self, channel: Channel, memory: SharedPicture | None):
        self._channel = channel
        self._memory = memory
        self.source: Source | None = None

    def answer(self, message: Open | Next) -> None:
        try:
            if isinstance(message, Open):
                self._close()
                self.source = self._opened(message)
                self._channel.send(Facts.of(self.source))
            elif self.source:
                self._channel.send(self._next(self.source))
        except BrokenPipeError:
            raise
        except Exception as error:
            self._close()
            self._channel.send(Failed.by(error))

    def _opened(self, order: Open) -> Source:
        logging.getLogger("realtime_lrp").setLevel(order.log_level)
        opener = getattr(importlib.import_module(order.module), order.name)
        data = (order.data,) if order.data else ()
        source: Source = opener(*data, *json.loads(order.arguments), threading.Event())
        source.on_wait = lambda: self._channel.send(Alive())
        return source

    def _next(self, source: Source) -> Given | Ended:
        picture = source.read()
        if picture is None:
            self._close()
            return Ended()
        rgb = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        if self._memory and rgb and picture.size and self._memory.fits(picture.shape):
            self._memory.write(picture)
            rows, columns, _ = picture.shape
            return Given(Facts.of(source), (rows, columns, 3))
        return Given(Facts.of(source), picture=picture)

    def _close(self) -> None:
        source = self.source
        self.source = None
        if source:
            source.close()


class _ToParent(logging.Handler):
    def __init__(self, channel: Channel):
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            self._channel.send(Logged(record.levelno, record.getMessage()))


if __name__ == "__main__":
    main()
