"""Which maps stay the same in half precision; `docs/performance.md` has the measured correlations.

Relevance that z+ distributes keeps its sign: rounding changes such a map by parts in a thousand.
Behind the last convolution, epsilon is as good where biases take their share. Its denominator is
then the layer's own output, which is only small where the relevance that arrives is small as well.
Elsewhere sums of both signs nearly cancel, and what rounding leaves of them may be another map.
"""

from collections.abc import Mapping

from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.rules import Epsilon, Rule


def survives_rounding(rules: Mapping[int, Rule], graph: Graph, absorb_bias: bool) -> bool:
    """Whether a map of classes, not of one class against others, is the same in half precision.

    Args:
      rules: the rule of each layer with weights, by output number; empty where a method has none.
      graph: the canonised network.
      absorb_bias: whether biases take a share of the relevance.
    """
    if not rules:
        return False
    nonnegative = graph.nonnegative()
    head = _layers_behind_convolutions(graph) if absorb_bias else set()
    return graph.output in nonnegative and all(
        rules[node.output].keeps_sign
        or (node.output in head and isinstance(rules[node.output], Epsilon))
        if node.output in rules
        else not node.step.shares or nonnegative.issuperset(node.inputs)
        for node in graph.nodes
    )


def _layers_behind_convolutions(graph: Graph) -> set[int]:
    """The output numbers of layers with weights that no convolution follows, but one precedes."""
    before: set[int] = set()  # tensors that depend on a convolution
    followed: set[int] = set()  # tensors that a convolution depends on
    for node in graph.nodes:
        if _convolves(node.step) or not before.isdisjoint(node.inputs):
            before.add(node.output)
    for node in reversed(graph.nodes):
        if _convolves(node.step) or node.output in followed:
            followed.update(node.inputs)
    return {
        node.output
        for node in graph.nodes
        if isinstance(node.step, Linear)
        and not _convolves(node.step)
        and node.output in before - followed
    }


def _convolves(step: object) -> bool:
    return isinstance(step, Linear) and step.convolves
