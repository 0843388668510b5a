"""The account of relevance: what started, reached the pixels, was taken by biases, was lost.

Only LRP has one, and integrated gradients, whose map's sum is compared with the difference of the
scores. Must not import TensorFlow: results are drawn and written without it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

FLOOD = 1e3
"""A layer, or a whole network, that makes the sum of magnitudes larger by more than this factor
computes a map that explains nothing."""

VANISHED = 0.01  # a map shows nothing if pixels and biases received a smaller share

TINY = 1e-4  # a smaller score counts as 0: its relevance is rounding
ROUNDING = 1e-6  # a smaller difference is rounding, however little started


class State(Enum):
    """How much a map shows of the score that it explains."""

    FULL = "full"
    FAINT = "faint"  # the score is about 0: there is nothing to explain
    VANISHED = "vanished"  # pixels and biases received next to nothing
    FLOODED = "flooded"  # relevance grew so much on its way that the map explains nothing
    ZERO = "zero"  # the map is 0 everywhere


@dataclass(frozen=True)
class Account:
    """The destinations of relevance: started = reached + biases + lost.

    Attributes:
      started: the relevance at the network's output; for integrated gradients the explained
        scores minus the scores of a picture of zeros.
      reached: the sum of the map.
      biases: the relevance that biases took.
      started_magnitude: the sum of magnitudes at the output.
      reached_magnitude: the sum of magnitudes of the map.

    Each is float32 [B], or a number for a single picture.
    """

    started: Any
    reached: Any
    biases: Any
    started_magnitude: Any
    reached_magnitude: Any

    @property
    def lost(self) -> Any:
        """The relevance that neither the pixels nor biases received; below 0 it was gained."""
        return self.started - self.reached - self.biases

    @property
    def vanished(self) -> Any:
        """Whether more than 1 % was lost, and pixels and biases received less than 1 %."""
        least = VANISHED * self.started_magnitude
        return (abs(self.lost) > least) & (self.reached_magnitude + abs(self.biases) < least)

    @property
    def flooded(self) -> Any:
        """Whether relevance grew so much on its way that the map explains nothing."""
        return has_flooded(self.reached_magnitude, self.started_magnitude)

    @property
    def state(self) -> State:
        """How much the map of a single picture shows."""
        if not self.reached_magnitude:
            return State.ZERO
        if self.flooded:
            return State.FLOODED
        if self.started_magnitude < TINY:
            return State.FAINT
        return State.VANISHED if self.vanished else State.FULL

    @property
    def fade(self) -> float:
        """How strongly the map of a single picture is drawn, 0 to 1: less for a score of about 0.

        How little relevance reaches the pixels is no reason: in a trained MobileNetV2 biases take
        all but 5e-6 of the score, and the rest points as well as the map of any method.
        """
        return min(1.0, self.started_magnitude / TINY)

    def closes(self, tolerance: float) -> bool:
        """Whether at most a share `tolerance` of what started is missing from a picture's map."""
        return bool(abs(self.lost) <= max(tolerance * self.started_magnitude, ROUNDING))


def has_flooded(reached_magnitude: Any, started_magnitude: Any) -> Any:
    """Whether relevance grew so much on its way that a map explains nothing."""
    return (reached_magnitude > FLOOD * started_magnitude) & (started_magnitude > 0)


def flood_advice(absorb_bias: bool | None, drowns: bool = False) -> str:
    """Advice where relevance grows without limit on its way back."""
    if drowns:  # each of several probabilities is divided by its logit, which may be nearly 0
        return "explain one class (--target top1), or start from the logits (lrp.start: logit)"
    if absorb_bias is False:
        return "leave lrp.absorb_bias at null, or choose another --composite"
    return "choose another --composite, or other rules for its layers (lrp.layers)"


def flood_text(growth: float, layer: str, kind: str, layer_growth: float, advice: str) -> str:
    """Says that a map explains nothing, why, and what to do; both growths are of magnitudes."""
    return (
        f"the map explains nothing: relevance grew by a factor of {growth:.1e} on its way, most in "
        f"the layer {layer!r} ({kind}, {layer_growth:.1e}). Expected at most {FLOOD:.0f}: "
        f"{advice}."
    )
