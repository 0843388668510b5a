"""A process that decodes what strangers have made: both sides; `main` is the child's.

A thread that hangs in a driver or a decoder cannot be stopped and keeps its device. A child process
can be killed, and if it crashes, nothing else does. The parent names the function that opens a
file, a device or bytes there, and asks for one picture after the other. Pixels go through shared
memory if there is some, else through the pipe.
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError, Error, UnavailableError
from realtime_lrp.system.child import (
    Alive,
    Channel,
    Child,
    Failed,
    Logged,
    NamedCall,
    module_command,
    parent_channel,
    serve,
)
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.frames import MOST_PIXELS
from realtime_lrp.video.source import Action, PictureSource, Source, Timeline

MOST_LOG_LINES = 1000  # log lines of one child; a hostile one must not fill the disk

log = logging.getLogger(__name__)


class Open(msgspec.Struct, frozen=True, tag=True):
    """Opens a source in place of the last; `data` is its first argument if there is some."""

    call: NamedCall
    data: bytes
    log_level: int


class Next(msgspec.Struct, frozen=True, tag=True):
    """Asks for the next picture."""


class Control(msgspec.Struct, frozen=True, tag=True):
    """For `Source.control`."""

    action: Action
    value: bool | int | float


Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class Facts(msgspec.Struct, frozen=True):
    """The attributes of a source, see `Source`."""

    described: str
    steady: bool
    alive: bool
    files: int
    patience_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    timeline: Timeline | None = None


class Given(msgspec.Struct, frozen=True, tag=True):
    """A source was opened, gives a picture, or, without one, has ended."""

    facts: Facts
    shape: tuple[Side, Side, Literal[3]] | None = None  # the picture's in the shared memory
    picture: np.ndarray | None = None  # uint8 [H, W, 3] RGB


class PictureProcess:
    """A `child` process that opens sources and gives their pictures.

    A source may wait if `on_wait`, which is called for its signs of life, is given. Where the child
    has ended, or had to be killed, the next `open` starts another one.
    """

    def __init__(
        self,
        log_lines: int = MOST_LOG_LINES,
        variables: Mapping[str, str] | None = None,
        on_wait: Callable[[int], None] | None = None,
    ):
        self._memory = SharedPicture.create(MOST_PIXELS * 3)
        self._further = variables, on_wait, log_lines
        self._start()

    def _start(self) -> None:
        memory = [self._memory.descriptor] if self._memory else []
        command = module_command("realtime_lrp.video.picture_process", *map(str, memory))
        self.child = Child(command, Given, memory, *self._further)

    def open(
        self,
        opener: Callable[..., Source | Iterable[np.ndarray]],
        arguments: Sequence[Any] = (),
        data: bytes = b"",
    ) -> None:
        """Has the child call `opener(*arguments, stop)`, `data` first; JSON holds the arguments."""
        if self.child.ended:
            self.child.close()
            self._start()
        self.send(Open(NamedCall.of(opener, *arguments), data, log.getEffectiveLevel()))

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message; that the child has ended is shown by the next one from there."""
        with suppress(OSError, ValueError):
            self.child.send(message)

    def picture(self, name: str, message: Given) -> np.ndarray | None:
        """The picture of a message, uint8 [H, W, 3] RGB; None at the end of the source."""
        if message.shape and self._memory and self._memory.fits(message.shape):
            return self._memory.read(message.shape)
        picture = message.picture
        if picture is None and not message.shape:
            return None
        if picture is None or picture.dtype != np.uint8 or not _is_rgb(picture.shape):
            raise DamagedInputError(f"{name!r} makes the decoder send an invalid picture.")
        return picture

    def pictures(self, file: str, hangs_s: float) -> Iterator[np.ndarray]:
        """Yields all pictures of the source that was opened, uint8 [H, W, 3] RGB."""
        self.child.expect(file, Given, silent_s=hangs_s)
        while True:
            self.send(Next())
            message = self.child.expect(file, Given, silent_s=hangs_s)
            if (picture := self.picture(file, message)) is None:
                return
            yield picture

    def close(self) -> None:
        self.child.close()
        if self._memory:
            self._memory.close()


def _is_rgb(shape: Sequence[int]) -> bool:
    return len(shape) == 3 and shape[2] == 3 and 0 not in shape


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
        self._process = PictureProcess(on_wait=lambda _: self.on_wait())
        self._hangs_s = inf
        self._closed = False
        try:
            self._process.open(opener, arguments)
            self._receive()
        except BaseException:
            self.close()
            raise
        log.debug("%s is read by process %d", self.described, self._process.child.pid)

    def read(self) -> np.ndarray | None:
        self._process.send(Next())
        message = self._receive()
        if message is None:
            return None
        self._hangs_s = inf if self.steady else max(HANGS_S, self.patience_s)
        return self._process.picture(self._name, message)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._process.close()

    def control(self, action: Action, value: float = 0) -> None:
        self._process.send(Control(action, value))

    def _receive(self) -> Given | None:
        """Takes over the facts of the next message; None if told to stop."""
        message = self._process.child.receive(self._hangs_s, self.stop)
        if self.stop.is_set():
            return None
        if isinstance(message, Given):
            vars(self).update(msgspec.structs.asdict(message.facts))
            return message
        if isinstance(message, Failed):
            error = message.error()
            if isinstance(error, Error):
                raise error
            raise UnavailableError(f"Reading {self._name} failed ({error}).")
        how = f"ended ({self._process.child.death()})"
        if self._process.child.hung:
            how = f"hung for {self._hangs_s:g} seconds and was killed"
        raise UnavailableError(f"The process that reads {self._name} {how}.")

    @property
    def _name(self) -> str:
        return self.described or "the source"


class ChildReader:
    """The child's side: reads one source after the other."""

    def __init__(self, channel: Channel, memory: SharedPicture | None):
        self._channel = channel
        self._memory = memory
        self._source: Source | None = None

    def control(self, message: Open | Next | Control) -> bool:
        if isinstance(message, Control) and self._source:
            self._source.control(message.action, message.value)
        return isinstance(message, Control)

    def answer(self, message: Open | Next) -> Given:
        picture = None
        if isinstance(message, Open):
            self._open(message)
        elif self._source:
            picture = self._source.read()
        facts = msgspec.convert(self._source, Facts, from_attributes=True)
        if picture is None:
            return Given(facts)
        if self._memory and _is_rgb(picture.shape) and self._memory.fits(picture.shape):
            self._memory.write(picture)
            rows, columns, _ = picture.shape
            return Given(facts, (rows, columns, 3))
        return Given(facts, picture=picture)

    def _open(self, order: Open) -> None:
        if self._source:
            self._source.close()
            self._source = None
        logging.getLogger("realtime_lrp").setLevel(order.log_level)
        data = [order.data] if order.data else []
        stop = threading.Event()
        opened = order.call(*data, stop)
        self._source = opened if isinstance(opened, Source) else PictureSource(opened, stop)
        self._source.on_wait = lambda: self._channel.send(Alive())


class _ToParent(logging.Handler):
    def __init__(self, channel: Channel):
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            self._channel.send(Logged(record.levelno, record.getMessage()))


def main() -> None:
    """The child: opens what the parent names, and reads it until the parent ends."""
    channel = parent_channel(Open | Next | Control)
    logging.getLogger("realtime_lrp").addHandler(_ToParent(channel))
    memory = SharedPicture(int(sys.argv[1])) if len(sys.argv) > 1 else None
    reader = ChildReader(channel, memory)
    serve(channel, reader.answer, reader.control)


if __name__ == "__main__":
    main()
