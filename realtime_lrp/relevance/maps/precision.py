"""Where a network may compute in half precision; `docs/performance.md` has the correlations.

What rounding does to a map, measured on photos and drawings:

- Rounded weights and activations change the probabilities by a percent and let other entries win in
  max pools. Relevance that z+ distributes keeps its sign; such a map changes little where the input
  layers and the first max pools are not rounded. Elsewhere, and for one class against others, sums
  of both signs nearly cancel, and the rest is another map.
- Epsilon divides by the sum of the forward pass, so both have to be the same. Behind the last
  convolution, where biases take their share, it may follow a rounded network if it is not rounded
  itself.
- Rules of transformers hand down R / z itself, and no rounded z divides it again. So what dense
  layers and attention multiply on the way back may be rounded (0.99997), but not the forward pass:
  for all classes at once the logits nearest 0 decide (0.1), and a stem of convolutions suffers
  (0.998).
- Rounding only what is handed down changes hardly anything, with two exceptions. Near the output,
  where classes or signs cancel, the differences that remain are small against what is rounded. And
  in plain gradients of deep networks, terms of both signs cancel in every layer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.rules.rules import Epsilon, Rule


@dataclass(frozen=True)
class Lowering:
    """What computes in which precision.

    `exact` has the output numbers of what computes in float32, forward and back; with
    `exact_forward` the whole forward pass is float32, and only relevance is handed down in
    `precision`.
    """

    precision: str
    exact: frozenset[int] = frozenset()
    exact_forward: bool = False


def choose_precision(precision: str, plans: Sequence[Plan], fast: str, contrasts: bool) -> Lowering:
    """What computes in which precision.

    "auto" is the fastest lowering that keeps every map, correlation 0.999 or more; `fast` is the
    fastest precision of the device, `contrasts` whether classes count against others.
    """
    if precision != "auto":
        return Lowering(precision)
    first, graph = plans[0], plans[0].graph
    cancels = first.options.keep < 1 or any(plan.method.cancels for plan in plans)
    if fast == "float32" or cancels:
        return Lowering("float32")
    if all(map(_attends, plans)):
        last = graph.last_with_weights(graph.output)
        to_round = {n.output for n in graph.nodes if n.step.multiplies and not n.step.convolves}
        exact = {n.output for n in graph.nodes} - to_round | last
        return Lowering(fast, frozenset(exact), exact_forward=True)
    contrasts |= any(plan.values is not None for plan in plans)  # logits may have both signs
    behind = layers_behind_convolutions(graph)
    epsilon = {number for number in behind if isinstance(first.rules.get(number), Epsilon)}
    if (
        len(plans) == 1
        and not contrasts
        and keeps_sign(first.rules, graph, epsilon.intersection(first.absorbing))
    ):
        return Lowering(fast, frozenset(epsilon))
    exact = layers_behind_convolutions(graph, with_last=True)
    exact |= {n for one in plans for n, rule in one.rules.items() if isinstance(rule, Epsilon)}
    rounded = any(node.step.convolves and node.output not in exact for node in graph.nodes)
    return Lowering(fast, frozenset(exact), True) if rounded else Lowering("float32")


def _attends(plan: Plan) -> bool:
    """Whether a map follows a composite for transformers alone."""
    epsilon = all(isinstance(rule, Epsilon) for rule in plan.rules.values())
    return bool(plan.composite.steps) and not plan.composite.overrides and epsilon


def keeps_sign(
    rules: Mapping[int, Rule], graph: Graph, exempt: Collection[int] = frozenset()
) -> bool:
    """Whether relevance stays positive all the way from the output to the input.

    The rules of the layers with these output numbers are `exempt`.
    """
    nonnegative = graph.nonnegative()
    return (
        bool(rules)
        and graph.output in nonnegative
        and all(
            rules[node.output].keeps_sign or node.output in exempt
            if node.output in rules
            else not node.step.shares or nonnegative.issuperset(node.inputs)
            for node in graph.nodes
        )
    )


def layers_behind_convolutions(graph: Graph, with_last: bool = False) -> set[int]:
    """The output numbers of layers with weights that no convolution follows, but one precedes.

    `with_last`: the last convolutions belong to them.
    """
    convolutions = {node.output for node in graph.nodes if node.step.convolves}
    between = graph.depending_on(convolutions) - graph.leading_to(convolutions)
    return {
        node.output
        for node in graph.nodes
        if isinstance(node.step, Linear)
        and (with_last or not node.step.convolves)
        and node.output in between
    }
