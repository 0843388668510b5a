"""Which layers have channels that are concepts, and the checks of what a user asks for."""

from collections.abc import Mapping, Sequence

import numpy as np

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.layer_contexts import reachable
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.methods import METHODS, Explain
from realtime_lrp.relevance.steps import Add, Concatenate


def concept_layers(graph: Graph, shapes: Mapping[int, Sequence[int]]) -> tuple[str, ...]:
    """What `Explainer.concept_layers` returns.

    Args:
      graph: the network.
      shapes: number of a tensor -> its shape for one picture, with the batch.
    """
    scores, classes = _scores(graph), graph.last_with_weights(graph.output)
    reached, outputs = reachable(graph), graph.outputs()
    found = {
        node.layer: None
        for node in graph.nodes
        if isinstance(node.step, Linear | Add | Concatenate)
        and len(shapes[node.output]) == 4
        and node.output in reached - classes
        and outputs[node.layer] not in scores
    }
    return tuple(found)


def concept_number(graph: Graph, explain: Explain, layer: str) -> int:
    """The number of the output of a layer whose channels can be concepts.

    Raises:
      UsageError: the method is not LRP, there is no such layer, or its channels are none.
    """
    if explain.method is not METHODS["lrp"]:
        raise UsageError(
            "Concepts are defined for layer-wise relevance propagation only. Build the "
            'Explainer with method="lrp".',
            "method",
        )
    if not isinstance(layer, str):
        raise UsageError(f"Expected the name of a layer. Received {layer!r:.80}.", "layer")
    scores, numbers, reached = _scores(graph), graph.outputs(), reachable(graph)
    usable = [name for name, one in numbers.items() if one in reached and one not in scores]
    if layer not in numbers:
        raise unknown("layer", layer, usable)
    if numbers[layer] in scores:
        raise UsageError(
            f"The layer {layer!r} computes the scores, which are classes and no concepts. "
            f"Choose a layer before it: {', '.join(usable[-3:])}.",
            "layer",
        )
    if numbers[layer] not in reached:
        raise not_reached(layer)
    return numbers[layer]


def _scores(graph: Graph) -> set[int]:
    """The numbers of the scores, and of what is made of them."""
    scores = graph.scoring()
    return scores | {node.output for one in scores for node in graph.behind(one)}


def not_reached(layer: str) -> UsageError:
    """The error for a layer whose output gets no relevance."""
    return UsageError(
        f"No relevance reaches the layer {layer!r}: the scores do not depend on it, a gate or "
        "attention weights come out of it, or another layer of the conditions passes it by. "
        "Choose another layer.",
        "layer",
    )


def checked_top(top: int, layer: str, known: int) -> int:
    """The number of channels.

    Raises:
      UsageError: it is no whole number from 1 to the number of the layer's channels.
    """
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= known:
        raise UsageError(
            f"Expected top as a whole number from 1 to {known}, the channels of {layer!r}. "
            f"Received {top!r:.80}.",
            "top",
        )
    return int(top)


def checked_channels(channels: Sequence[int], layer: str, known: int) -> np.ndarray:
    """The channels as int32 [K].

    Raises:
      UsageError: they are no sequence of channels of the layer.
    """
    try:
        numbers = np.asarray(channels)
        fits = numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    except ValueError:  # sequences of several lengths
        fits = False
    if not fits or numbers.min() < 0 or numbers.max() >= known:
        raise UsageError(
            f"Expected a list of channels of the layer {layer!r}, each from 0 to {known - 1}. "
            f"Received {channels!r:.80}.",
            "channels",
        )
    return numbers.astype(np.int32)
