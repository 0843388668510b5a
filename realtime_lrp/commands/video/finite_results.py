"""The results of a recording's pictures, some of which may fail."""

import logging
from collections.abc import Callable

import numpy as np

from realtime_lrp.commands.video.messages import DrawableMap, PictureBatch
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import Result
from realtime_lrp.engine.wording import answer_line
from realtime_lrp.errors import NotFiniteError
from realtime_lrp.video.region import Region

log = logging.getLogger(__name__)


class FiniteResults:
    """Waits for the results of batches; None for pictures for which the network gives NaN or Inf.

    Args:
      engine: explains the pictures.
      region: of the recording's pictures that the network sees.
      begun: whether pictures before these have had maps.

    Attributes:
      missing: how many pictures have no map.
    """

    def __init__(self, engine: Engine, region: Region, begun: bool = False):
        self._engine, self._region = engine, region
        self.missing, self._any = 0, begun

    def __call__(
        self, batch: PictureBatch, results: Callable[[], list[Result]]
    ) -> list[Result | None]:
        """The results of a batch. Raises `NotFiniteError` if no picture so far has a map."""
        try:
            done: list[Result | None] = [*results()]
        except NotFiniteError as error:
            done = [self._single(picture) for picture in batch.pictures]
            if not (self._any or any(done)):
                raise
            if not self.missing:
                log.warning("%s", error)
            self.missing += done.count(None)
        self._any = True
        return done

    def _single(self, picture: np.ndarray) -> Result | None:
        try:
            (result,) = self._engine.begin_extracted(picture[None], [self._region])()
        except NotFiniteError:
            return None
        return result


def drawable_map(engine: Engine, result: Result | None) -> DrawableMap:
    """What is drawn over a picture; without a result only a line that says so."""
    if result is None:
        return DrawableMap(np.zeros(engine.explainer.input_shape[:2], np.int8), 0.0, "no map")
    return DrawableMap(result.maps[0].strength, result.maps[0].scale, answer_line(engine, result))
