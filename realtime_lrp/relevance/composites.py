"""Composites: which rule for which layer, as tables. Names are zennit's."""

from collections.abc import Callable
from dataclasses import dataclass

from realtime_lrp.errors import unknown
from realtime_lrp.relevance.rules import Place, Rule, ZPlus, ZPlusInput
from realtime_lrp.relevance.steps import Linear

Where = Callable[[str, Linear, Place], bool]
"""(name of the layer, the layer, its place) -> whether a row of the table is meant for it."""


def input_layer(name: str, layer: Linear, place: Place) -> bool:
    """A linear layer with no linear layer between it and the model's input."""
    return place.support is not None


def any_layer(name: str, layer: Linear, place: Place) -> bool:
    """Every linear layer."""
    return True


@dataclass(frozen=True)
class Composite:
    """An ordered table of rules for linear layers; the first row that fits decides.

    Attributes:
      rows: pairs of a condition and a rule. The last row has to fit every layer.
    """

    rows: tuple[tuple[Where, Rule], ...]

    def rule(self, name: str, layer: Linear, place: Place) -> Rule:
        """The rule for this layer."""
        return next(rule for fits, rule in self.rows if fits(name, layer, place))


COMPOSITES: dict[str, Composite] = {
    "zplus": Composite(((input_layer, ZPlusInput()), (any_layer, ZPlus()))),
}

ELSEWHERE = {
    "z_plus": "zplus",
    "zPlus": "zplus",
    "z+": "zplus",
    "lrp.z_plus": "zplus",
    "lrp.z_plus_fast": "zplus",
    "lrp.alpha_1_beta_0_IB": "zplus",
    "alpha_1_beta_0": "zplus",
    "alpha1beta0": "zplus",
}
"""What the origin, iNNvestigate and zennit call them."""


def composite_named(composite: "str | Composite") -> Composite:
    """A composite by name, or itself.

    Raises:
      UsageError: no composite has this name; the message gives the nearest.
    """
    if isinstance(composite, Composite):
        return composite
    if composite not in COMPOSITES:
        raise unknown("composite", composite, COMPOSITES, ELSEWHERE)
    return COMPOSITES[composite]
