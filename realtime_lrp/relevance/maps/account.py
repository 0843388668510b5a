"""The account of relevance: what started, what reached the pixels, what biases took, what was lost.

LRP has one; that of integrated gradients compares the map's sum with the difference of the scores.
The numbers of other methods mean nothing. Sums are those of a picture.
Must not import TensorFlow: results are drawn and written without it.
"""

from dataclasses import dataclass

import numpy as np

FLOOD = 1e3
"""A layer, or a whole network, that makes the sum of magnitudes larger by more than this factor
computes a map that explains nothing."""

VANISHED = 0.01
"""Where pixels and biases received less than this share of what started, a map shows nothing."""


@dataclass(frozen=True)
class Account:
    """Where the relevance of each picture went: started = reached + biases + lost.

    Attributes:
      started: float32 [B], the relevance at the network's output; for integrated gradients by how
        much the explained scores differ from those of a picture of zeros.
      reached: float32 [B], the sum of the map.
      biases: float32 [B], what biases took.
    """

    started: np.ndarray
    reached: np.ndarray
    biases: np.ndarray

    @property
    def lost(self) -> np.ndarray:
        """float32 [B], what neither the pixels nor biases received; below 0 it was gained."""
        return self.started - self.reached - self.biases

    @property
    def vanished(self) -> np.ndarray:
        """Whether the pixels and biases received less than 1 % of what started: bool [B]."""
        received: np.ndarray = np.abs(self.reached) + np.abs(self.biases)
        return received < VANISHED * np.abs(self.started)


def flood_advice(absorb_bias: bool | None, drowns: bool = False) -> str:
    """What to do where relevance grows without limit on its way back.

    It `drowns` at the start where the probability of each of several classes is divided by its
    logit, which may be nearly 0.
    """
    if drowns:
        return "explain one class (--target top1), or start from the logits (lrp.start: logit)"
    if absorb_bias is False:
        return "leave lrp.absorb_bias at null, or choose another --composite"
    return "choose another --composite, or other rules for its layers (lrp.layers)"


def flood_text(growth: float, layer: str, kind: str, layer_growth: float, advice: str) -> str:
    """Says that a map explains nothing, why, and what to do.

    `growth` is how many times larger the sum of magnitudes became on the whole way, `layer_growth`
    in the layer where it grew most.
    """
    return (
        f"the map explains nothing: relevance grew by a factor of {growth:.1e} on its way, most in "
        f"the layer {layer!r} ({kind}, {layer_growth:.1e}). Expected at most {FLOOD:.0f}: "
        f"{advice}."
    )
