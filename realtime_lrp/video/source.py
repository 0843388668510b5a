"""What a live source is.

A source is opened, read and closed by one thread; `pause`, `step` and `skip` are called by others.
"""

import threading

import numpy as np


class Source:
    """Where frames come from; by itself one that can be neither read nor controlled.

    Args:
      stop: ends every wait of the source when it is set.

    Attributes:
      steady: frames come one after the other without pauses.
      alive: a camera looks at the world: no two of its pictures are the same.
      controllable: it can be paused, stepped and skipped.
      described: what it is, in a few words without what may be secret.
    """

    steady = False
    alive = False
    controllable = False
    described = ""

    def __init__(self, stop: threading.Event):
        self.stop = stop

    def read(self) -> np.ndarray | None:
        """The next frame, uint8 [H, W, 3] RGB; None when the source is lost or told to stop.

        It takes as long as the source takes.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Gives the device or file back."""

    def pause(self, paused: bool) -> None:
        """Keeps the next frames back while `paused`, else lets them come again."""

    def step(self) -> None:
        """Lets one further frame come while paused."""

    def skip(self, files: int) -> None:
        """Goes so many files on, or back where it is negative."""

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
