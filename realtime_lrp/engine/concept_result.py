"""What is asked for and returned about the channels of a layer.

Must not import TensorFlow: what draws or writes this needs none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

TOP = 4
"""How many channels are shown."""

NOTHING = 0.01
"""A picture has nothing of a channel whose map has less of the largest map's relevance."""

NO_SHARES = np.zeros(0, np.float32)


def shares_of(relevance: np.ndarray) -> np.ndarray:
    """The relevance of channels [..., channels], divided by the sum of magnitudes of all: -1 to 1.

    Shares compare between pictures; where no channel has relevance, they are 0.
    """
    magnitudes = np.abs(relevance).sum(-1, keepdims=True)
    return relevance / np.where(magnitudes > 0, magnitudes, 1)


@dataclass(frozen=True)
class ConceptRequest:
    """Which channels are wanted.

    Attributes:
      layer: the layer's name; "" is `Engine.concept_layer`.
      channel: a channel that is wanted even if it is none of the largest; or None.
    """

    layer: str = ""
    channel: int | None = None


@dataclass(frozen=True, eq=False)
class ConceptMap:
    """A channel of a layer, and its map of one picture.

    Attributes:
      channel: its number.
      relevance_at_layer: the relevance in the channel at the layer's output.
      share: see `shares_of`.
      strength: int8 [h, w] or [h, w, C], as of `ResultMap`, scaled by itself.
      scale: the relevance that is drawn at full strength.
      total: the sum of the raw map.
      magnitude: the sum of its magnitudes.
    """

    channel: int
    relevance_at_layer: float
    share: float
    strength: np.ndarray
    scale: float
    total: float
    magnitude: float
    _fetch: Callable[[], np.ndarray]

    @property
    def without_map(self) -> bool:
        """Whether at most a tenth of the relevance reaches the pixels; biases take the rest."""
        return self.magnitude < 0.1 * abs(self.relevance_at_layer)

    @property
    def relevance(self) -> np.ndarray:
        """The raw map, float32 [h, w, C]; copied from the device at each access."""
        return self._fetch()


@dataclass(frozen=True, eq=False)
class ConceptResult:
    """The channels of a layer with the largest shares of the relevance of one picture.

    Attributes:
      layer: the layer's name, "" where the network has none to choose.
      maps: `TOP` channels, the largest share first by magnitude; fewer where the layer has fewer,
        none with a problem. A channel that was asked for is among them.
      by_channel: float32 [channels], the shares of all channels, as of `ConceptMap`.
      problem: why there are none, as a sentence for people, or "".
    """

    layer: str
    maps: tuple[ConceptMap, ...] = ()
    by_channel: np.ndarray = field(default_factory=lambda: NO_SHARES)
    problem: str = ""

    @property
    def scale(self) -> float:
        """The relevance that all maps are drawn at full strength with, so that they compare."""
        return max((one.scale for one in self.maps), default=0.0)

    def of(self, channel: int | None) -> ConceptMap | None:
        """The map of a channel, or None."""
        return next((one for one in self.maps if one.channel == channel), None)

    def lacks(self, one: ConceptMap) -> bool:
        """Whether the picture has nothing of a channel: under half a percent, and hardly a map."""
        most = max((other.magnitude for other in self.maps), default=0.0)
        return abs(one.share) < 0.005 and one.magnitude <= NOTHING * most
