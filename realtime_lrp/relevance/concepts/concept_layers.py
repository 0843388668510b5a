"""Which layers of a network have channels that are concepts."""

from functools import cached_property

import numpy as np

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Dense, Linear
from realtime_lrp.relevance.network.steps import Activation, Add, Concatenate, Elementwise
from realtime_lrp.relevance.network.token_grids import TokenGrids


class ConceptLayers:
    """The layers of a canonised network of known shapes."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._shapes = graph, graph.shapes
        self._grids = TokenGrids(graph)
        self._numbers = graph.outputs()
        self._scores = graph.scoring()  # and what is made of them
        self._scores |= {node.output for one in self._scores for node in graph.behind(one)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What `Explainer.concept_layers` returns."""
        classes = self._graph.last_with_weights(self._graph.output)
        found = {
            node.layer: None
            for node in self._graph.nodes
            if isinstance(node.step, Linear | Add | Concatenate)
            and len(self._shapes[node.output]) in (3, 4)
            and node.output not in classes
            and self._numbers[node.layer] not in self._scores
            and self._grids.has_places(node.output)
        }
        return tuple(found)

    @cached_property
    def default(self) -> str | None:
        """What `Explainer.concept_layer` returns."""
        last = self.names[-1] if self.names else None
        if last is None or self._grids.grid(self._numbers[last]) is None:
            return last
        hidden = {node.layer for node in self._graph.nodes if self._is_hidden(node)}
        return next((one for one in reversed(self.names) if one in hidden), last)

    def _is_hidden(self, node: Node) -> bool:
        """Whether a node computes the units of a dense layer that an activation reads."""
        return isinstance(node.step, Dense) and any(
            isinstance(one.step, Activation) or type(one.step) is Elementwise
            for one in self._graph.readers(node.output)
        )

    def channels(self) -> dict[str, int]:
        """Layer -> how many channels its output has."""
        return {layer: self._shapes[number][-1] for layer, number in self._numbers.items()}

    def number(self, layer: str) -> int:
        """The number of a layer's output; refuses layers whose channels are no concepts."""
        if not isinstance(layer, str):
            raise UsageError(f"Expected the name of a layer. Received {layer!r:.80}.", "layer")
        usable = [name for name, one in self._numbers.items() if one not in self._scores]
        if layer not in self._numbers:
            raise unknown("layer", layer, usable)
        if self._numbers[layer] in self._scores:
            raise UsageError(
                f"The layer {layer!r} computes the scores, which are classes and no concepts. "
                f"Choose a layer before it: {', '.join(usable[-3:])}.",
                "layer",
            )
        return self._numbers[layer]

    def tokens(self, layer: str) -> np.ndarray | None:
        """Which tokens of a layer stand for patches, bool [tokens]; None where it has no tokens.

        Raises:
          UsageError: its tokens cannot be laid on a grid, or the answer depends on none of them.
        """
        number = self._numbers[layer]
        axes = len(self._shapes[number])
        if axes not in (3, 4) or (axes == 4 and self._grids.has_places(number)):
            return None
        grid = self._grids.grid(number)
        if grid is None:
            raise UsageError(
                f"The tokens of the layer {layer!r} cannot be laid on a grid of patches: it is not "
                "certain that each patch has just one. Choose another layer, such as the sum "
                "behind an attention.",
                "layer",
            )
        if not self._grids.patches_matter(number):
            raise UsageError(
                f"Of the tokens of the layer {layer!r} the answer depends on none that stands for "
                "a patch, only on a class token or the like. Choose a layer before the last "
                "attention.",
                "layer",
            )
        return grid.cells >= 0
