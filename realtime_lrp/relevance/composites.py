"""Composites: which rule for which layer, as tables. Names are zennit's.

A new composite is a row in `COMPOSITES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from realtime_lrp.config.names import COMPOSITES as COMPOSITE_NAMES
from realtime_lrp.errors import UsageError, nearest
from realtime_lrp.relevance.graph import Graph, Node
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.rules import (
    AlphaBeta,
    Epsilon,
    Flat,
    Gamma,
    Place,
    Rule,
    ZBox,
    ZPlus,
    ZPlusInput,
    rule_named,
)

Where = Callable[[Node, Place], bool]
"""(layer with weights, its place) -> whether a row of the table is meant for it."""


def input_layer(node: Node, place: Place) -> bool:
    """A layer with no other layer with weights between it and the model's input."""
    return place.is_input


def convolution(node: Node, place: Place) -> bool:
    """Every kind of convolution."""
    return isinstance(node.step, Linear) and node.step.convolves


def input_convolution(node: Node, place: Place) -> bool:
    """A convolution that is an input layer."""
    return input_layer(node, place) and convolution(node, place)


def any_layer(node: Node, place: Place) -> bool:
    """Every layer with weights."""
    return True


@dataclass(frozen=True)
class Composite:
    """An ordered table of rules for layers with weights; the first row that fits decides.

    Attributes:
      rows: pairs of a condition and a rule. The last row has to fit every layer.
    """

    rows: tuple[tuple[Where, Rule], ...]

    def rule(self, node: Node, place: Place) -> Rule:
        """The rule for a layer.

        Args:
          node: the layer, whose step has weights.
          place: its place in the network.

        Raises:
          UsageError: no row fits.
        """
        for fits, rule in self.rows:
            if fits(node, place):
                return rule
        raise UsageError(f"The composite has no rule for layer {node.layer!r}.", "composite")


EPSILON = ((any_layer, Epsilon()),)
"""What every composite named `epsilon_...` does with dense layers."""

COMPOSITES: dict[str, Composite] = {
    "zplus": Composite(((input_layer, ZPlusInput()), (any_layer, ZPlus()))),
    "epsilon": Composite(EPSILON),
    "epsilon_plus": Composite(((convolution, ZPlus()), *EPSILON)),
    "epsilon_plus_flat": Composite(((input_layer, Flat()), (convolution, ZPlus()), *EPSILON)),
    "epsilon_alpha2_beta1": Composite(((convolution, AlphaBeta(2, 1)), *EPSILON)),
    "epsilon_alpha2_beta1_flat": Composite(
        ((input_layer, Flat()), (convolution, AlphaBeta(2, 1)), *EPSILON)
    ),
    "epsilon_gamma_box": Composite(((input_convolution, ZBox()), (convolution, Gamma()), *EPSILON)),
}

EXCITATION = Composite(((any_layer, ZPlus()),))
"""Excitation backprop (Zhang et al. 2016): z+ everywhere, pixel values included."""


def composite_named(composite: "str | Composite") -> Composite:
    """A composite by name, or itself.

    Raises:
      UsageError: no composite has this name; the message gives the nearest.
    """
    if isinstance(composite, Composite):
        return composite
    COMPOSITE_NAMES.check(composite)
    return COMPOSITES[composite]


def with_layers(composite: Composite, layers: Mapping[str, str | Rule], graph: Graph) -> Composite:
    """A composite with rules of its own for some layers.

    Args:
      composite: what holds for all other layers.
      layers: pattern -> rule, for example {"block1_*": "flat", "Dense": "epsilon(0.01)"}. A pattern
        is a layer's name or type, * stands for any letters. The first that fits decides.
      graph: the network.

    Raises:
      UsageError: there is no such rule, or a pattern decides for no layer with weights.
    """
    weighty = [node for node in graph.nodes if isinstance(node.step, Linear)]
    rows, left = [], list(weighty)
    for pattern, rule in layers.items():
        fits = layer_like(pattern)
        rows.append((lambda node, place, fits=fits: fits(node), _rule(rule)))
        if any(fits(node) for node in left):
            left = [node for node in left if not fits(node)]
        elif any(fits(node) for node in weighty):
            raise UsageError(
                f"The pattern {pattern!r} decides nothing: those before it fit all its layers. "
                "Put it before them.",
                "layers",
            )
        else:
            names = [node.layer for node in weighty]
            close = nearest(pattern, names)
            raise UsageError(
                f"No layer with weights is called {pattern!r}, nor is it the type of one. "
                + (f"Did you mean {close!r}?" if close else f"There are: {', '.join(names)}."),
                "layers",
            )
    return Composite((*rows, *composite.rows))


def _rule(rule: str | Rule) -> Rule:
    return rule if isinstance(rule, Rule) else rule_named(rule)


def layer_like(pattern: str) -> Callable[[Node], bool]:
    """Whether a node belongs to a layer whose name or type fits a pattern, at any of its calls."""

    def fits(node: Node) -> bool:
        every_call = node.layer.split(":")[0]
        return any(fnmatchcase(name, pattern) for name in (node.layer, every_call, node.kind))

    return fits
