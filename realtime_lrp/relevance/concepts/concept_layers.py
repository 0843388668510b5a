"""Which layers have channels that are concepts, and the checks of what a user asks for."""

from collections.abc import Mapping, Sequence

import numpy as np

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Dense, DenseByOutput, Linear
from realtime_lrp.relevance.network.steps import Activation, Add, Concatenate, Elementwise
from realtime_lrp.relevance.network.token_grids import TokenGrids


def concept_layers(
    graph: Graph, shapes: Mapping[int, Sequence[int]], grids: TokenGrids
) -> tuple[str, ...]:
    """What `Explainer.concept_layers` returns; shapes are for one picture, with the batch."""
    scores, classes = _scores(graph), graph.last_with_weights(graph.output)
    outputs = graph.outputs()
    found = {
        node.layer: None
        for node in graph.nodes
        if isinstance(node.step, Linear | Add | Concatenate)
        and len(shapes[node.output]) in (3, 4)
        and node.output not in classes
        and outputs[node.layer] not in scores
        and grids.has_places(node.output)
    }
    return tuple(found)


def concept_number(plan: Plan, layer: str) -> int:
    """The number of the output of a layer whose channels can be concepts; refuses others."""
    graph = plan.graph
    if not plan.method.is_lrp:
        raise UsageError(
            "Concepts are defined for layer-wise relevance propagation only. Build the "
            'Explainer with method="lrp".',
            "method",
        )
    if not isinstance(layer, str):
        raise UsageError(f"Expected the name of a layer. Received {layer!r:.80}.", "layer")
    scores, numbers = _scores(graph), graph.outputs()
    usable = [name for name, one in numbers.items() if one not in scores]
    if layer not in numbers:
        raise unknown("layer", layer, usable)
    if numbers[layer] in scores:
        raise UsageError(
            f"The layer {layer!r} computes the scores, which are classes and no concepts. "
            f"Choose a layer before it: {', '.join(usable[-3:])}.",
            "layer",
        )
    return numbers[layer]


def default_layer(graph: Graph, layers: Sequence[str], grids: TokenGrids) -> str | None:
    """What `Explainer.concept_layer` returns."""
    if not layers:
        return None
    outputs = graph.outputs()
    if grids.grid(outputs[layers[-1]]) is None:
        return layers[-1]
    hidden = {node.layer for node in graph.nodes if _is_hidden(graph, node)}
    return next((one for one in reversed(layers) if one in hidden), layers[-1])


def _is_hidden(graph: Graph, node: Node) -> bool:
    """Whether a node computes the units of a dense layer that an activation reads."""
    return isinstance(node.step, Dense | DenseByOutput) and any(
        isinstance(one.step, Activation) or type(one.step) is Elementwise
        for one in graph.readers(node.output)
    )


def seen_tokens(
    layer: str, number: int, shape: Sequence[int], grids: TokenGrids
) -> np.ndarray | None:
    """Which tokens of a layer stand for patches of the picture, bool [tokens].

    None where the layer has no tokens. `number` and `shape` (with the batch) are its output's.

    Raises:
      UsageError: its tokens cannot be laid on a grid, or the answer does not depend on patches.
    """
    if len(shape) not in (3, 4) or (len(shape) == 4 and grids.has_places(number)):
        return None
    grid = grids.grid(number)
    if grid is None:
        raise UsageError(
            f"The tokens of the layer {layer!r} cannot be laid on a grid of patches: it is not "
            "certain that each patch has just one. Choose another layer, such as the sum behind an "
            "attention.",
            "layer",
        )
    if not grids.patches_matter(number):
        raise UsageError(
            f"Of the tokens of the layer {layer!r} the answer depends on none that stands for a "
            "patch, only on a class token or the like. Choose a layer before the last attention.",
            "layer",
        )
    return grid.cells >= 0


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
    """Refuses what is no whole number from 1 to `known`, the channels of the layer."""
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= known:
        raise UsageError(
            f"Expected top as a whole number from 1 to {known}, the channels of {layer!r}. "
            f"Received {top!r:.80}.",
            "top",
        )
    return int(top)


def checked_channels(channels: Sequence[int], layer: str, known: int) -> np.ndarray:
    """The channels as int32 [K]; refuses what is no sequence of channels of the layer."""
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
