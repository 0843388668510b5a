"""The parent's side of a source that a child process opens and reads; `read_source` is the child.

A thread that hangs in a driver or a decoder cannot be stopped and keeps its device. A child process
can be killed, and if it crashes, nothing else does. It sends a picture when it is asked for one:
the pixels go through shared memory if there is some, else through the pipe.
"""

import itertools
import json
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from realtime_lrp.errors import Error, UnavailableError
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child import Child
from realtime_lrp.system.child_command import module_command
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.reader import MOST_PIXELS
from realtime_lrp.video.source import Source, Timeline

MOST_LOG_LINES = 1000
"""Maximum number of log lines from one child; a hostile one must not fill the disk."""

POLL_S = 0.2
"""How often the watching thread looks at the child and at `stop`."""

ALIVE_S = 1.0
"""How often the child of a source that waits on purpose sends `Alive`."""

HANGS_S = 5.0
"""A source that is not steady hangs if its child owes a picture and sends nothing for this long.
The largest picture must be decoded within this time; it took 1.2 s on four busy cores."""

log = logging.getLogger(__name__)


class Open(msgspec.Struct, frozen=True, tag=True):
    """The first message to the child: what opens the source.

    Attributes:
      module, name: of the opener, a function or class.
      arguments: its arguments except `stop`, in JSON, which also holds file names that are not
        UTF-8.
      memory: descriptor of the `SharedPicture`, None if there is none.
      log_level: minimum level of the log records that are sent.
    """

    module: str
    name: str
    arguments: str
    memory: int | None
    log_level: int


class Next(msgspec.Struct, frozen=True, tag=True):
    """Asks for the next picture."""


class Pause(msgspec.Struct, frozen=True, tag=True):
    """`Source.pause`."""

    paused: bool


class Step(msgspec.Struct, frozen=True, tag=True):
    """`Source.step`."""


class Skip(msgspec.Struct, frozen=True, tag=True):
    """`Source.skip`."""

    files: int


Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class Seek(msgspec.Struct, frozen=True, tag=True):
    """`Source.seek`."""

    position: float


class Loop(msgspec.Struct, frozen=True, tag=True):
    """`Source.loop`."""

    on: bool


class Facts(msgspec.Struct, frozen=True, tag=True):
    """The attributes of the source, see `Source`; sent first, and again when one changes."""

    described: str
    steady: bool
    alive: bool
    files: int


class Shared(msgspec.Struct, frozen=True, tag=True):
    """A picture of this shape lies in the shared memory."""

    shape: tuple[Side, Side, Literal[3]]
    timeline: Timeline | None = None


class Sent(msgspec.Struct, frozen=True, tag=True):
    """A picture, uint8 [H, W, 3] RGB."""

    picture: np.ndarray
    timeline: Timeline | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The source has no further picture."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The source waits on purpose: it is paused, or the next picture is not due."""


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A record for the log."""

    level: int
    text: str


TO_CHILD = Open | Next | Pause | Step | Skip | Seek | Loop
FROM_CHILD = Facts | Shared | Sent | Ended | Alive | Logged | Failed


class ChildSource(Source):
    """A source in a child process, which is killed once `stop` is set, or if it hangs.

    This class notices a hang only after the first picture of a source that is not steady. `Capture`
    watches the opening, the first picture, and steady sources.

    Args:
      opener: opens the source, `opener(*arguments, stop)`; a function or class of a module that the
        child can import.
      arguments: of the opener, anything that JSON can hold.
      stop: ends every wait.

    Raises:
      Error: the source cannot be opened.
    """

    def __init__(
        self, opener: Callable[..., Source], arguments: Sequence[Any], stop: threading.Event
    ):
        super().__init__(stop)
        self._memory = SharedPicture.create(MOST_PIXELS * 3)
        inherited = [self._memory.descriptor] if self._memory else []
        command = module_command("realtime_lrp.video.read_source")
        self._child = Child(command, FROM_CHILD, inherited)
        self._closed = threading.Event()
        self._log_lines = 0
        self._has_pictures = self._hung = False
        self._waits = itertools.count()
        self._wait: int | None = None  # number of the present wait for a message, if it is timed
        threading.Thread(target=self._watch, name="source's watch", daemon=True).start()
        try:
            self._send(
                Open(
                    opener.__module__,
                    opener.__qualname__,
                    json.dumps(arguments),
                    self._memory.descriptor if self._memory else None,
                    log.getEffectiveLevel(),
                )
            )
            self._take_facts(self._receive())
        except BaseException:
            self.close()
            raise
        log.debug("%s is read by process %d", self.described, self._child.pid)

    def read(self) -> np.ndarray | None:
        self._send(Next())
        while True:
            message = self._receive()
            if isinstance(message, Ended) or self.stop.is_set():
                return None
            if not isinstance(message, Facts):
                picture, self.timeline = self._picture(message), message.timeline
                self._has_pictures = True
                return picture
            self._take_facts(message)

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._child.close()
            if self._memory:
                self._memory.close()

    def pause(self, paused: bool) -> None:
        self._send(Pause(paused))

    def step(self) -> None:
        self._send(Step())

    def skip(self, files: int) -> None:
        self._send(Skip(files))

    def seek(self, position: float) -> None:
        self._send(Seek(position))

    def loop(self, on: bool) -> None:
        if self.timeline:  # at once, though no picture may come for a while
            self.timeline = msgspec.structs.replace(self.timeline, loops=on)
        self._send(Loop(on))

    def _send(self, message: msgspec.Struct) -> None:
        with suppress(OSError, ValueError):  # the child has ended; `_receive` reports it
            self._child.send(message)

    def _receive(self) -> Facts | Shared | Sent | Ended:
        while isinstance(message := self._next_message(), Logged | Alive):
            if isinstance(message, Logged):
                self._log(message)
        if message is None:
            if self.stop.is_set():
                return Ended()
            if self._hung:
                raise UnavailableError(
                    f"The process that reads {self._name} hung for {HANGS_S:g} seconds "
                    "and was killed."
                )
            raise UnavailableError(
                f"The process that reads {self._name} ended ({self._child.death()})."
            )
        if isinstance(message, Failed):
            raise self._as_ours(message.error())
        return message

    def _next_message(self) -> Any:
        timed = self._has_pictures and not self.steady
        self._wait = next(self._waits) if timed else None
        try:
            return self._child.receive()
        finally:
            self._wait = None

    def _log(self, message: Logged) -> None:
        self._log_lines += 1
        if self._log_lines <= MOST_LOG_LINES:
            log.log(message.level, "%s", message.text)

    def _as_ours(self, error: Exception) -> Error:
        if isinstance(error, Error):
            return error
        return UnavailableError(f"Reading {self._name} failed ({error}).")

    def _picture(self, message: Shared | Sent) -> np.ndarray:
        if isinstance(message, Sent):
            picture = message.picture
            if picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8:
                return picture
        elif self._memory and self._memory.fits(message.shape):
            return self._memory.read(message.shape)
        raise UnavailableError(f"The process that reads {self._name} sent an invalid picture.")

    def _take_facts(self, message: Any) -> None:
        if isinstance(message, Facts):
            self.described, self.steady = message.described, message.steady
            self.alive, self.files = message.alive, message.files

    @property
    def _name(self) -> str:
        return self.described or "the source"

    def _watch(self) -> None:
        """Kills the child once `stop` is set, or when one wait for a message takes too long.

        Adds up its own polls instead of reading a clock: while this process or the whole machine
        stands still, at most one poll counts, and the reading thread can catch up before the next.
        """
        timed, silent_s = None, 0.0
        while not self._closed.is_set():
            if self.stop.wait(POLL_S):
                self._child.kill()
                return
            before, timed = timed, self._wait
            silent_s = silent_s + POLL_S if timed is not None and timed == before else 0.0
            if silent_s >= HANGS_S:
                self._hung = True
                self._child.kill()
                return
