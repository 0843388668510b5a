"""The first card: on the screen while TensorFlow is imported, which takes small computers long.

Nothing here imports TensorFlow; `start` does, in a thread, while the main thread keeps the window.
"""

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import Card, captions_of
from realtime_lrp.commands.kiosk.folder import single_instance
from realtime_lrp.config import Config, Settings
from realtime_lrp.errors import Error
from realtime_lrp.system import memory
from realtime_lrp.view.exhibit import BACKGROUND, draw_card
from realtime_lrp.view.window.full_screen import FullScreen

TURN_S = 0.1


def load_behind_a_card(*given: Any) -> tuple[Settings, FullScreen | None]:
    """What `start.load` gives, and the window, if there is to be one.

    Args:
      given: what `config.load` is given.

    Raises:
      Error: what `start.load` raises.
      UnavailableError: there is no display, or the exhibit already runs.
    """
    memory.keep_little()
    with single_instance():  # `start` locks it; here no window comes before the one that is there
        pass
    card = _card(given)
    window = FullScreen() if card else None
    loading = _Loading(given)
    try:
        while loading.goes_on():
            if window and card:
                canvas = np.full((*window.size, 3), BACKGROUND, np.uint8)
                draw_card(canvas, card.title, card.text)
                window.show(canvas)
                window.events()
                window.tend()
        return loading.settings(), window
    except BaseException:
        if window:
            window.close()
        raise


def _card(given: tuple[Any, ...]) -> Card | None:
    """The card that is shown; None where there is no window, or nothing to write on it."""
    try:
        file, sets, options = given
        chosen: Config = config.load(file, sets, options, check=None, command="kiosk").config
        if chosen.live.display == "none":
            return None
        return captions_of(chosen)[0].cards.starting
    except Error:  # `start.load` knows what to do about it
        return None


class _Loading:
    """`start.load` in a thread."""

    def __init__(self, given: tuple[Any, ...]):
        self._given = given
        self._loaded: Future[Settings] = Future()
        self._thread = threading.Thread(target=self._load, name="loading", daemon=True)
        self._thread.start()

    def goes_on(self) -> bool:
        """Whether it is not done after a moment."""
        self._thread.join(TURN_S)
        return self._thread.is_alive()

    def settings(self) -> Settings:
        """The result; raises what the loading raised."""
        return self._loaded.result()

    def _load(self) -> None:
        try:
            from realtime_lrp.commands.kiosk.start import load

            self._loaded.set_result(load(*self._given))
        except BaseException as error:
            self._loaded.set_exception(error)
