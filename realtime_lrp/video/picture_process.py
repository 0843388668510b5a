"""A process that decodes what strangers have made: the parent's side. `picture_child` is the child.

A thread that hangs in a driver or a decoder cannot be stopped and keeps its device. A child process
can be killed, and if it crashes, nothing else does. The parent names the function that opens a
file, a device or bytes there, and asks for one picture after the other. Pixels go through shared
memory if there is some, else through the pipe. Who takes over a child with a crafted file can send
wrong pictures and nothing else.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child import Child, death, failure, hang
from realtime_lrp.system.child_command import module_command
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.reader import MOST_PIXELS
from realtime_lrp.video.source import Action, Source, Timeline

MOST_LOG_LINES = 1000
"""Maximum number of log lines from one child; a hostile one must not fill the disk."""

log = logging.getLogger(__name__)


class Open(msgspec.Struct, frozen=True, tag=True):
    """Opens a source; the one before is closed.

    The arguments are in JSON, which also holds file names that are not UTF-8.
    """

    module: str
    name: str
    arguments: str
    data: bytes
    memory: int | None
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
    timeline: Timeline | None = None


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

    It has `ended` once `pictures` has found that, or has killed it; another one is started then.
    """

    def __init__(self, log_lines: int = MOST_LOG_LINES, variables: Mapping[str, str] | None = None):
        self._memory = SharedPicture.create(MOST_PIXELS * 3)
        self._log_lines, self._variables = log_lines, variables
        self._start()

    def _start(self) -> None:
        inherited = [self._memory.descriptor] if self._memory else []
        command = module_command("realtime_lrp.video.picture_child")
        self.child, self.ended = Child(command, FROM_CHILD, inherited, self._variables), False

    def __enter__(self) -> "PictureProcess":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(
        self, opener: Callable[..., Source], arguments: Sequence[Any] = (), data: bytes = b""
    ) -> None:
        """Has the child open a source.

        The opener is called there as `opener(*arguments, stop)`, or with `data` first if there are
        any; it is of a module that the child can import. JSON holds the arguments.
        """
        if self.ended:
            self.child.close()
            self._start()
        memory = self._memory.descriptor if self._memory else None
        module, name = opener.__module__, opener.__qualname__
        level = log.getEffectiveLevel()
        self.send(Open(module, name, json.dumps(arguments), data, memory, level))

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message; that the child has ended is shown by the next one from there."""
        with suppress(OSError, ValueError):
            self.child.send(message)

    def receive(self) -> Any:
        """The next message from the child but those for the log; None if it has ended."""
        while isinstance(message := self.child.receive(), Logged):
            if self._log_lines > 0:
                self._log_lines -= 1
                log.log(message.level, "%s", message.text)
        return message

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
        while True:
            self.send(Next())
            with self.child.killed_after(hangs_s) as late:
                while isinstance(message := self.receive(), Facts | Alive):
                    pass
            if message is None:
                self.ended = True
                raise hang(file, hangs_s) if late.is_set() else death(file, self.child.death())
            if isinstance(message, Failed):
                raise failure(file, message)
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
