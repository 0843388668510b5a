"""Whether the account of a map closes: what reached the pixels and biases is what started.

Must not import TensorFlow: files of results are written without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from realtime_lrp.config.names import COMPOSITES

if TYPE_CHECKING:
    import numpy as np

    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

TOLERANCE, TOLERANCE_FAST = 0.01, 0.05
"""How much relevance may be missing before that is marked, as a share of the magnitude of what
started: of LRP in float32; and in the faster types, and of integrated gradients."""

ROUNDING = 1e-6
"""A smaller difference is rounding, however little started."""


@dataclass(frozen=True)
class Loss:
    """Where most relevance is lost, or gained.

    Attributes:
      layer: the name of the layer; None for integrated gradients, which need more samples.
      share: what is lost as a share of the magnitude of what started; below 0 it is gained.
    """

    layer: str | None
    share: float

    @property
    def where(self) -> str:
        """The layer, or the path of integrated gradients, in words."""
        return f"layer {self.layer!r}" if self.layer else "path, for which lrp.samples is too low"


def has_account(engine: Engine, index: int = 0) -> bool:
    """Whether the sum of a map is a share of what started: of a whole composite.

    Integrated gradients add up to the difference between the scores and those of the baseline.

    Args:
      engine: computed the map.
      index: of which map: 0 is the first, followed by those of `also`.
    """
    name = (engine.name, *engine.also)[index]
    known = name in COMPOSITES.known() or engine.explainer.differences[index]
    return known and engine.config.lrp.keep >= 1


def closes(engine: Engine, result: Result, index: int = 0) -> bool:
    """Whether what reached the pixels and biases is what started; True without an account."""
    one = result.maps[index]
    exact = engine.precision == "float32" and not engine.explainer.differences[index]
    share = TOLERANCE if exact else TOLERANCE_FAST
    return not has_account(engine, index) or abs(one.lost) <= max(
        share * one.started_magnitude, ROUNDING
    )


def find_loss(engine: Engine, picture: np.ndarray, result: Result, index: int = 0) -> Loss:
    """Looks for the layer that loses most relevance; this costs as much as a map.

    Args:
      engine: computed the map.
      picture: uint8 [h, w, 3], what the network saw.
      result: the maps of the picture.
      index: of which map.
    """
    started = result.maps[index].started_magnitude
    if engine.explainer.differences[index]:
        return Loss(None, result.maps[index].lost / started if started else 0.0)
    flows = engine.layer_flows(picture, index, result.target)
    most = max(flows, key=lambda flow: abs(flow.lost[0]))
    return Loss(most.name, float(most.lost[0]) / started if started else 0.0)
