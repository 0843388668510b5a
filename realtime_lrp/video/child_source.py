"""A source that a child process opens and reads, see `picture_process`."""

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.errors import Error, UnavailableError
from realtime_lrp.system.channel import Failed
from realtime_lrp.video.picture_process import (
    Alive,
    Control,
    Ended,
    Facts,
    Given,
    Next,
    PictureProcess,
)
from realtime_lrp.video.source import Action, Source

POLL_S = 0.2
"""How often the watching thread looks at the child and at `stop`."""

HANGS_S = 5.0
"""A source that is not steady hangs if its child owes a picture and sends nothing for this long.
The largest picture must be decoded within this time; it took 1.2 s on four busy cores."""

log = logging.getLogger(__name__)


class ChildSource(Source):
    """A source in a child process, which is killed once `stop` is set, or if it hangs.

    This class notices a hang only after the first picture of a source that is not steady. `Capture`
    watches the opening, the first picture, and steady sources. The opener, called there as
    `opener(*arguments, stop)`, is of a module that the child can import; JSON holds the arguments.
    """

    def __init__(
        self, opener: Callable[..., Source], arguments: Sequence[Any], stop: threading.Event
    ):
        super().__init__(stop)
        self._process = PictureProcess()
        self._closed = threading.Event()
        self._has_pictures = self._hung = False
        self._waits = itertools.count()
        self._wait: int | None = None  # number of the present wait for a message, if it is timed
        threading.Thread(target=self._watch, name="source's watch", daemon=True).start()
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
        self._has_pictures = True
        return picture

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._process.close()

    def control(self, action: Action, value: float = 0) -> None:
        if action == "loop" and self.timeline:  # at once, though no picture may come for a while
            self.timeline = msgspec.structs.replace(self.timeline, loops=bool(value))
        self._process.send(Control(action, value))

    def _receive(self) -> Facts | Given | Ended:
        while isinstance(message := self._next_message(), Alive):
            pass
        if message is None:
            if self.stop.is_set():
                return Ended()
            if self._hung:
                raise UnavailableError(
                    f"The process that reads {self._name} hung for {HANGS_S:g} seconds "
                    "and was killed."
                )
            raise UnavailableError(
                f"The process that reads {self._name} ended ({self._process.child.death()})."
            )
        if isinstance(message, Failed):
            error = message.error()
            if isinstance(error, Error):
                raise error
            raise UnavailableError(f"Reading {self._name} failed ({error}).")
        return message

    def _next_message(self) -> Any:
        timed = self._has_pictures and not self.steady
        self._wait = next(self._waits) if timed else None
        try:
            return self._process.receive()
        finally:
            self._wait = None

    def _take(self, message: object) -> None:
        if isinstance(message, Facts):
            self.described, self.steady = message.described, message.steady
            self.alive, self.files = message.alive, message.files
            self.timeline = message.timeline

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
                self._process.child.kill()
                return
            before, timed = timed, self._wait
            silent_s = silent_s + POLL_S if timed is not None and timed == before else 0.0
            if silent_s >= HANGS_S:
                self._hung = True
                self._process.child.kill()
                return
