"""What the window shows from the start to the first picture: a card that says what is loading.

Must not import TensorFlow: the relevance thread does, while the card is on the screen.
"""

import time
from pathlib import Path
from threading import Event

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.errors import masked
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.viewer.actions import ESCAPE_NOTICE
from realtime_lrp.realtime.viewer.state import ESCAPE_S
from realtime_lrp.view.exhibit import draw_card
from realtime_lrp.view.window.window import Window

POLL_S = 0.02  # how often errors, keys and the first frame are looked for


class Opening:
    """The time until the first frame. `q` and Esc twice end it; other keys have no effect."""

    def __init__(self, config: Config, window: Window | None):
        names = (Path(one.name).name for one in (config.model, *config.live.also_models))
        self._title = f"Loading {', '.join(names)}"
        self._text = f"Source: {masked(config.live.source)}"
        self._window = window
        self._left, self._escape_until = False, 0.0
        self._shown: tuple[tuple[int, int], str] | None = None
        self.show()

    def show(self, trouble: str = "") -> None:
        """Draws the card where there is none yet, or where it has changed."""
        if self._window is None:
            return
        escape = ESCAPE_NOTICE if time.monotonic() < self._escape_until else ""
        appearance = self._window.size, escape or trouble or self._text
        if appearance == self._shown:
            return
        self._shown = appearance
        canvas = np.zeros((*self._window.size, 3), np.uint8)
        draw_card(canvas, self._title, appearance[1])
        self._window.show(canvas)
        self._ended()  # the window draws while it is asked for events

    def wait(self, stopped: Event, capture: Capture, *threads: RelevanceThread) -> bool:
        """Waits for the first frame; returns False if the program is to end."""
        while not capture.frames.count:
            if stopped.wait(POLL_S) or self._ended():
                return False
            capture.check()
            for thread in threads:
                thread.check(patient=self._window is not None)
            self.show(capture.trouble)
        return not stopped.is_set()

    def _ended(self) -> bool:
        if self._window is None:
            return False
        for event in self._window.events():
            if isinstance(event, str):
                self._press(event)
        return self._left or self._window.closed

    def _press(self, key: str) -> None:
        """Notes a key; the second Esc counts within `ESCAPE_S`, with no other key between."""
        now, escape = time.monotonic(), key == "Escape"
        self._left = self._left or key == "q" or (escape and now < self._escape_until)
        self._escape_until = now + ESCAPE_S if escape else 0.0
