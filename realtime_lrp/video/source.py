"""The interface of live sources.

One thread opens, reads and closes a source; other threads may call `control`.
"""

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Annotated, Literal

import msgspec
import numpy as np

PATIENCE_S = 60.0  # how long what comes over a network may be silent while its rhythm is not known
MOST_SECONDS = 1e9  # limit of a timeline: what claims to last longer has none


class Timeline(msgspec.Struct, frozen=True):
    """The position in a source of files: seconds in a film, the number of the file for pictures."""

    position: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
    length: Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)]
    unit: Literal["seconds", "files"]


Action = Literal["pause", "step", "skip", "seek"]  # see `Source.control`


class Source:
    """Base class of all sources; setting `stop` ends every wait of one.

    Attributes:
      steady: frames come without pauses, so a pause means that the source is lost.
      alive: it is a camera, whose pictures are never exactly the same twice.
      files: how many files it goes through. Such a source can be paused, stepped, skipped and
        sought; any other has 0.
      timeline: where the picture read last stands; None for one file without a length and for
        sources without files.
      described: what it is, in a few words and without secrets.
      patience_s: how long it may be silent before its rhythm is known; 0 if its pictures are
        never far apart.
      on_wait: tells a wait from a hang. A source that is not steady calls this each second while
        it is paused or no frame is due, a steady one when data comes that makes no picture yet.
    """

    steady = False
    alive = False
    files = 0
    timeline: Timeline | None = None
    described = ""
    patience_s = 0.0

    def __init__(self, stop: threading.Event):
        self.stop = stop
        self.on_wait: Callable[[], None] = lambda: None

    def read(self) -> np.ndarray | None:
        """Waits for the next frame, uint8 [H, W, 3] RGB; None if it is lost or told to stop."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases the device or file."""

    def control(self, action: Action, value: float = 0) -> None:
        """Changes what comes next, in a source of files.

        The action "pause" stops giving frames while the value is true, "step" then gives one more,
        "skip" passes files (backwards if negative), and "seek" goes to a position of the timeline,
        with the frame that is shown there.
        """

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class PictureSource(Source):
    """Gives pictures, uint8 [H, W, 3] RGB, that are decoded already, or while they are read."""

    def __init__(self, pictures: Iterable[np.ndarray], stop: threading.Event):
        super().__init__(stop)
        self._pictures = iter(pictures)

    def read(self) -> np.ndarray | None:
        return next(self._pictures, None)

    def close(self) -> None:
        if isinstance(self._pictures, Generator):
            self._pictures.close()
