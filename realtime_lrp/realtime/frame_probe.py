"""Probes the maps of one explained frame after the other; what it finds is in `faithfulness`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.realtime.faithfulness import Probe, ProbeResult

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result


@dataclass(frozen=True)
class _Series:
    """A probe, and which pictures its means are of."""

    engine: Engine
    class_: int
    mask: np.ndarray | None
    probe: Probe

    def continues(self, engine: Engine, class_: int, mask: np.ndarray | None) -> bool:
        """Whether its means go on. Each stroke of the brush makes a new mask."""
        return self.engine is engine and self.class_ == class_ and self.mask is mask


class FrameProbe:
    """Probes maps; starts anew where the engine, the class or the patches change.

    Attributes:
      series: the probe that goes on, or None.
    """

    def __init__(self) -> None:
        self.series: _Series | None = None

    def __call__(
        self,
        engine: Engine,
        picture: np.ndarray,
        result: Result,
        target: str | int,
        mask: np.ndarray | None,
        frozen: bool,
    ) -> ProbeResult:
        """Probes a map.

        Args:
          engine: explained the picture.
          picture: uint8 [H, W, 3] RGB, with the painted patches.
          result: its maps.
          target: what is explained.
          mask: the painted patches, bool [H, W], or None.
          frozen: whether the frame stands still; then its means are its own.
        """
        first = str(engine.explainer.canonical(target)).split(" - ")[0]
        class_ = int(first) if first.isdecimal() else int(np.argmax(result.scores))
        strength = result.maps[0].strength.astype(np.float32)
        series = self.series
        if frozen or not (series and series.continues(engine, class_, mask)):
            series = self.series = _Series(engine, class_, mask, Probe())
        return series.probe(
            result.region.extract(picture),
            strength if strength.ndim == 2 else strength.sum(-1),
            class_,
            float(result.scores[class_]),
            engine.scores,
        )
