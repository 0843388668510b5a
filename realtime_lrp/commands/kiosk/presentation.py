"""Captions, pages and the artist that draws them, matched to the network that is loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.commands.kiosk.captions import Captions
from realtime_lrp.commands.kiosk.lock import ExitLock
from realtime_lrp.commands.kiosk.pages import PageBuilder
from realtime_lrp.commands.kiosk.screen import ClosedCard, ScreenArtist, ScreenContent
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.scaling import MapScaler
from realtime_lrp.system.geometry import Box
from realtime_lrp.view.look import Look
from realtime_lrp.view.scene import ExplainedPicture
from realtime_lrp.view.text import undrawable

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

log = logging.getLogger(__name__)


class Presentation:
    """Draws the exhibit in the captions' languages.

    Args:
      config: the effective configuration.
      captions: those of each language.
      note_error: called with a message about labels that cannot be drawn.

    Attributes:
      pages: builds the pages.
    """

    def __init__(
        self, config: Config, captions: Sequence[Captions], note_error: Callable[[str], None]
    ):
        self._config, self._captions, self._note_error = config, tuple(captions), note_error
        self._engine: Engine | None = None
        self._scale_maps = MapScaler()
        self._prepare(signed=False)

    @property
    def buttons(self) -> dict[str, Box]:
        """Boxes of the buttons on the canvas that was drawn last."""
        return self._artist.buttons

    def use(self, engine: Engine | None) -> None:
        """Chooses colours for an engine's maps, and checks its labels; does so once for each."""
        if engine and engine is not self._engine:
            self._engine = engine
            self._prepare(engine.explainer.signed)
            self._check_labels(engine)

    def scaled_maps(self, explained: ExplainedFrame | None) -> ExplainedPicture | None:
        """The maps of a frame, scaled and averaged with those before it."""
        return self._scale_maps(explained, Look.of(self._config.overlay))

    def draw(
        self,
        size: tuple[int, int],
        content: ScreenContent | ClosedCard | None,
        language: int,
        lock: ExitLock,
        now: float,
    ) -> np.ndarray:
        """The canvas; see `ScreenArtist.draw`. `language` is an index of the captions."""
        return self._artist.draw(size, content, self._captions[language], lock, now)

    def _prepare(self, signed: bool) -> None:
        """Makes what draws maps that can be negative, or cannot."""
        look = Look.of(self._config.overlay)
        self._artist = ScreenArtist(look)
        drawing = self._config.model.name.lower() in EMBEDDED
        self.pages = PageBuilder(self._captions, drawing, look.named(signed), signed)

    def _check_labels(self, engine: Engine) -> None:
        """Reports letters in the network's labels that the fonts lack."""
        letters = dict.fromkeys("".join(engine.network.labels or ()))
        if missing := undrawable("".join(letters)):
            text = f"labels: the fonts have no {' '.join(missing)}; translate them in the captions"
            log.warning("%s", text)
            self._note_error(text)
