"""Composites: which rule each layer follows; rows of `COMPOSITES`. Names are zennit's."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

from realtime_lrp.config.names import COMPOSITES as COMPOSITE_NAMES
from realtime_lrp.errors import UsageError, nearest
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.rules import attention
from realtime_lrp.relevance.rules.attention import BoundStepRule
from realtime_lrp.relevance.rules.rules import (
    AlphaBeta,
    Epsilon,
    Flat,
    Gamma,
    LayerContext,
    Rule,
    ZBox,
    ZPlus,
    ZPlusInput,
    rule_named,
)

Condition = Callable[[Node, LayerContext], bool]  # whether a row applies to a layer with weights


def input_layer(node: Node, context: LayerContext) -> bool:
    """Whether no other layer with weights precedes the layer."""
    return context.is_input


def convolution(node: Node, context: LayerContext) -> bool:
    """Whether the layer is a convolution of any kind."""
    return node.step.convolves


def input_convolution(node: Node, context: LayerContext) -> bool:
    """Whether the layer is a convolution and an input layer."""
    return input_layer(node, context) and convolution(node, context)


def any_layer(node: Node, context: LayerContext) -> bool:
    """True for every layer with weights."""
    return True


@dataclass(frozen=True)
class Composite:
    """An ordered table of rules for layers with weights; the first row that applies decides.

    Attributes:
      rows: pairs of a condition and a rule. The last row has to apply to every layer.
      absorb_bias: whether biases take a share of the relevance in layers that follow `rows`, unless
        the user decides.
      steps: pairs of a kind of step without weights and its rule, see `attention.py`. Any other
        step goes by its own `relevance`. Layers with weights that follow epsilon join in.
      overrides: rows that the user puts before the others; each rule treats biases as its own
        source does, see `Rule.absorbs_bias`.
    """

    rows: tuple[tuple[Condition, Rule], ...]
    absorb_bias: bool = True
    steps: attention.Rows = ()
    overrides: tuple[tuple[Condition, Rule], ...] = ()

    def rule(self, node: Node, context: LayerContext) -> Rule:
        """The rule for the layer of a node, in its context; UsageError where no row applies."""
        for applies, rule in (*self.overrides, *self.rows):
            if applies(node, context):
                return rule
        raise UsageError(f"The composite has no rule for layer {node.layer!r}.", "composite")

    def rules(self, graph: Graph, contexts: Mapping[int, LayerContext]) -> dict[int, Rule]:
        """Output number of each layer with weights of the graph, with its contexts -> its rule."""
        return {
            weight.output: self.rule(weight, contexts[weight.output])
            for weight in graph.with_weights
        }

    def absorbing(
        self, graph: Graph, contexts: Mapping[int, LayerContext], absorb_bias: bool | None = None,
    ) -> frozenset[int]:  # fmt: skip
        """The outputs, by number in `graph`, of layers whose biases take relevance.

        `contexts` has each layer's surroundings by number; `absorb_bias` None: as published.
        """

        def absorbs(node: Node) -> bool:
            context = contexts[node.output]
            own = (rule.absorbs_bias for fits, rule in self.overrides if fits(node, context))
            return next(own, self.absorb_bias) if absorb_bias is None else absorb_bias

        return frozenset(node.output for node in graph.with_weights if absorbs(node))

    def bind_steps(
        self, graph: Graph, rules: Mapping[int, Rule], absorbing: Collection[int],
        absorb_bias: bool | None = None,
    ) -> dict[int, BoundStepRule]:  # fmt: skip
        """The rules of steps for transformers, by output number in the graph.

        `rules` and `absorbing` are what the methods of these names return; `absorb_bias` None means
        as in the composite's source. The softmax of the scores is left out: relevance starts there.
        """
        if not self.steps:
            return {}
        absorb = self.absorb_bias if absorb_bias is None else absorb_bias
        epsilon = {n for n in absorbing if rules[n] == Epsilon(attention.STABILISER)}
        scoring = graph.scoring()
        rows = (*self.steps, *attention.FOLLOWING)
        bound = {}
        for node in graph.nodes:
            row = next((row for row in rows if isinstance(node.step, row[0])), None)
            joins = node.output in epsilon or not isinstance(node.step, Linear)
            if row and joins and node.output not in scoring:
                bound[node.output] = attention.bound(row[1], absorb, row in self.steps)
        return bound


EPSILON = ((any_layer, Epsilon()),)  # dense layers in every composite named `epsilon_...`

TINY_EPSILON = ((any_layer, Epsilon(attention.STABILISER)),)  # composites for transformers

COMPOSITES: dict[str, Composite] = {
    "zplus": Composite(((input_layer, ZPlusInput()), (any_layer, ZPlus())), absorb_bias=False),
    "epsilon": Composite(EPSILON),
    "epsilon_plus": Composite(((convolution, ZPlus()), *EPSILON)),
    "epsilon_plus_flat": Composite(((input_layer, Flat()), (convolution, ZPlus()), *EPSILON)),
    "epsilon_alpha2_beta1": Composite(((convolution, AlphaBeta(2, 1)), *EPSILON)),
    "epsilon_alpha2_beta1_flat": Composite(
        ((input_layer, Flat()), (convolution, AlphaBeta(2, 1)), *EPSILON)
    ),
    "epsilon_gamma_box": Composite(((input_convolution, ZBox()), (convolution, Gamma()), *EPSILON)),
    "attnlrp": Composite(TINY_EPSILON, steps=attention.ATTNLRP),
    "attnlrp_gamma": Composite(
        ((convolution, Gamma(0.25)), (any_layer, Gamma(0.05))), steps=attention.ATTNLRP
    ),
    "cp_lrp": Composite(TINY_EPSILON, steps=attention.CP_LRP),
}

EXCITATION = Composite(((any_layer, ZPlus()),), absorb_bias=False)
"""Excitation backprop (Zhang et al. 2016): z+ everywhere, pixel values included."""


def composite_named(composite: "str | Composite") -> Composite:
    """Looks up a composite by its name; a `Composite` is returned unchanged."""
    if isinstance(composite, Composite):
        return composite
    COMPOSITE_NAMES.check(composite)
    return COMPOSITES[composite]


def with_layers(composite: Composite, layers: Mapping[str, str | Rule], graph: Graph) -> Composite:
    """Adds rules for particular layers to a composite.

    `layers` maps patterns to rules, {"block1_*": "flat", "Dense": "epsilon(0.01)"}. A pattern
    matches a layer's name or type; * stands for any letters. The first match decides. UsageError
    where a pattern matches no layer that is left to decide.
    """
    rows = []
    undecided = graph.with_weights
    for pattern, rule in layers.items():
        matches = partial(_matches, pattern)
        rows.append((matches, rule_named(rule) if isinstance(rule, str) else rule))
        if any(map(matches, undecided)):
            undecided = [node for node in undecided if not matches(node)]
        elif any(map(matches, graph.with_weights)):
            raise UsageError(
                f"The pattern {pattern!r} has no effect: the patterns before it match all its "
                "layers. Put it before them.",
                "layers",
            )
        else:
            names = [node.layer for node in graph.with_weights] or ["none"]
            close = nearest(pattern, names)
            raise UsageError(
                f"No layer with weights is called {pattern!r}, nor is it the type of one. "
                + (f"Did you mean {close!r}?" if close else f"There are: {', '.join(names)}."),
                "layers",
            )
    return replace(composite, overrides=(*rows, *composite.overrides))


def _matches(pattern: str, node: Node, context: LayerContext | None = None) -> bool:
    """Whether a layer matches a pattern: "conv" every call of a layer, "conv:2" its second one."""
    names = node.layer, node.layer.split(":")[0], node.kind
    return any(fnmatchcase(name, pattern) for name in names)
