"""What the window shows from the start to the first picture: a card that says what is loading.

Must not import TensorFlow: the relevance thread does, while the card is on the screen.
"""

from pathlib import Path
from threading import Event

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.errors import masked
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.view.exhibit import draw_card
from realtime_lrp.view.window.window import Window

POLL_S = 0.02
"""How often errors, keys and the first frame are looked for."""


class Opening:
    """The time until the first frame.

    Args:
      config: names the source and the network.
      window: shows the card; None waits without one.

    Attributes:
      keys: what was pressed meanwhile, for the viewer.
    """

    def __init__(self, config: Config, window: Window | None):
        self._title = f"Loading {Path(config.model.name).name}"
        self._text = f"Source: {masked(config.live.source)}"
        self.keys: list[str] = []
        self._window = window
        self._shown: tuple[tuple[int, int], str] | None = None
        self.show()

    def show(self, trouble: str = "") -> None:
        """Draws the card where there is none yet, or where it has changed.

        Args:
          trouble: what is wrong with the source, or "".
        """
        if self._window is None or (appearance := (self._window.size, trouble)) == self._shown:
            return
        self._shown = appearance
        canvas = np.zeros((*self._window.size, 3), np.uint8)
        draw_card(canvas, self._title, trouble or self._text)
        self._window.show(canvas)
        self._ended()  # the window draws while it is asked for events

    def wait(self, stopped: Event, capture: Capture, relevance: RelevanceThread) -> bool:
        """Waits for the first frame; returns False if the program is to end.

        Args:
          stopped: set by signals.
          capture: where the frame comes from.
          relevance: loads the network meanwhile.

        Raises:
          Error: the source cannot be opened, or without a window the network cannot be loaded.
        """
        while not capture.frames.count:
            if stopped.wait(POLL_S) or self._ended():
                return False
            capture.check()
            relevance.check(patient=self._window is not None)
            self.show(capture.trouble)
        return not stopped.is_set()

    def _ended(self) -> bool:
        """Whether the user closed the window or pressed q."""
        if self._window is None:
            return False
        self.keys += [event for event in self._window.events() if isinstance(event, str)]
        return "q" in self.keys or self._window.closed
