"""The interface of live sources.

One thread opens, reads and closes a source; other threads may call `pause`, `step` and `skip`.
"""

import threading
from collections.abc import Callable

import numpy as np


class Source:
    """Base class of all sources; it can be neither read nor controlled itself.

    Args:
      stop: ends every wait of the source when it is set.

    Attributes:
      steady: frames come without pauses, so a pause means that the source is lost.
      alive: it is a camera, whose pictures are never exactly the same twice.
      files: how many files it goes through; a source of files can be paused, stepped and skipped,
        any other has 0.
      described: what it is, in a few words and without secrets.
      on_wait: a source that is not steady calls this at least once a second while it waits on
        purpose, because it is paused or the next frame is not due. Who reads it in another process
        can then tell a wait from a hang.
    """

    steady = False
    alive = False
    files = 0
    described = ""

    def __init__(self, stop: threading.Event):
        self.stop = stop
        self.on_wait: Callable[[], None] = lambda: None

    def read(self) -> np.ndarray | None:
        """Waits for the next frame.

        Returns:
          uint8 [H, W, 3] RGB; None if the source is lost or was told to stop.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Releases the device or file."""

    def pause(self, paused: bool) -> None:
        """Stops giving frames while `paused`, else goes on."""

    def step(self) -> None:
        """Gives one more frame while paused."""

    def skip(self, files: int) -> None:
        """Skips this many files; backwards if negative."""

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
