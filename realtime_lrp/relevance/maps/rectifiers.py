"""The ReLUs of a network, which guided backprop and deconvnet change."""

from collections.abc import Sequence
from typing import cast

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.steps import Activation
from realtime_lrp.relevance.rules.composites import layer_matcher


def guided_rectifiers(graph: Graph, guided: Sequence[str] | None) -> set[int]:
    """The output numbers of the ReLUs that guided backprop and deconvnet change.

    Args:
      graph: the network.
      guided: patterns of layers; None means all.

    Raises:
      UsageError: a pattern matches no layer with a ReLU, or the network has no ReLU.
    """
    nodes = rectifiers(graph)
    if not nodes:
        raise UsageError(
            "The network has no ReLU: guided_backprop and deconvnet would be its gradient. "
            "Use the method gradient.",
            "method",
        )
    if guided is None:
        return {node.output for node in nodes}
    if isinstance(guided, str) or not guided:
        raise UsageError(f"Expected guided as a list of layers. Received {guided!r}.", "guided")
    chosen: set[int] = set()
    for pattern in guided:
        fitting = {node.output for node in nodes if layer_matcher(pattern)(node)}
        if not fitting:
            names = ", ".join(dict.fromkeys(node.layer for node in nodes))
            raise UsageError(
                f"No layer with a ReLU is called {pattern!r}. There are: {names}.", "guided"
            )
        chosen |= fitting
    return chosen


def rectifiers(graph: Graph) -> list[Node]:
    """The ReLUs of a network."""
    activations = (node for node in graph.nodes if isinstance(node.step, Activation))
    return [node for node in activations if cast(Activation, node.step).rectifies]
