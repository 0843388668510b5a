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
started: in float32, and in the faster types."""

ROUNDING = 1e-6
"""A smaller difference is rounding, however little started."""


@dataclass(frozen=True)
class Loss:
    """The layer that loses, or gains, most relevance.

    Attributes:
      layer: its name.
      share: what it loses as a share of the magnitude of what started; below 0 it gains.
    """

    layer: str
    share: float


def has_account(engine: Engine, index: int = 0) -> bool:
    """Whether the sum of a map is a share of the answer: the map follows a whole composite.

    Args:
      engine: computed the map.
      index: of which map: 0 is the first, followed by those of `also`.
    """
    name = (engine.name, *engine.also)[index]
    return engine.config.lrp.keep >= 1 and name in COMPOSITES.known()


def closes(engine: Engine, result: Result, index: int = 0) -> bool:
    """Whether what reached the pixels and biases is what started; True without an account."""
    one = result.maps[index]
    share = TOLERANCE if engine.precision == "float32" else TOLERANCE_FAST
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
    flows = engine.layer_flows(picture, index, result.target)
    most = max(flows, key=lambda flow: abs(flow.lost[0]))
    started = result.maps[index].started_magnitude
    return Loss(most.name, float(most.lost[0]) / started if started else 0.0)
