"""Concept relevance propagation (Achtibat et al. 2023): maps of single channels of a layer.

`peaks` looks at all channels of some layers at once, without a map. `position_maps` then follows
single channels from single positions to the picture, as the receptive field of a neuron.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.concepts import channels as of_channels
from realtime_lrp.relevance.concepts.channels import Layer
from realtime_lrp.relevance.maps.compiled import Lazy, run_in_parts
from realtime_lrp.relevance.maps.layer_views import LayerViews
from realtime_lrp.relevance.maps.targets import Targets
from realtime_lrp.relevance.network import checks
from realtime_lrp.relevance.network.linear import Dense, Linear
from realtime_lrp.relevance.network.steps import Activation, Add, Concatenate, Elementwise
from realtime_lrp.relevance.network.token_grids import TokenGrids

AT_ONCE = 16  # how many channels are handed down together; more take several runs

PER_PICTURE = 2  # channels that take the memory of a picture (VGG16: 16 took as much as 8)

NEURONS_AT_ONCE = 8, 4, 2, 1
"""How many neurons of a picture are followed together, as many as there are left: each number has
a compiled function, and filling one up would cost as much as the neurons that are missing."""


@dataclass(frozen=True, eq=False)
class Concepts:
    """The channels of a layer with the most relevance, each with its map.

    Attributes:
      layer: the layer's name.
      channels: int32 [B, top], the largest share of relevance first, by magnitude.
      shares: float32 [B, top], the relevance of these channels at the layer's output, summed over
        rows and columns.
      maps: float32 [B, top, H, W, C], what becomes of it at the picture. What biases take on the
        way, or what rules lose, is missing in the sum of a map.
      by_channel: float32 [B, channels of the layer], the shares of all channels.
      scores: float32 [B, classes], the network's output.
    """

    layer: str
    channels: np.ndarray
    shares: np.ndarray
    maps: np.ndarray
    by_channel: np.ndarray
    scores: np.ndarray

    def __repr__(self) -> str:
        pictures, top = self.channels.shape
        return f"<Concepts of {self.layer!r}: {top} channels of {pictures} pictures>"


@dataclass(frozen=True, eq=False)
class Peaks:
    """The relevance that a layer's channels carry; a position counts rows and columns as one axis.

    In a layer of tokens it is the number of a token that stands for a patch. There attention has
    brought relevance together, much of it in the class token, so that no position stands for it.
    """

    # each [B, channels]
    shares: np.ndarray  # float32, the relevance at all positions and in tokens of no patch
    positions: np.ndarray  # int32, where the relevance is largest; -1 in a layer of tokens
    activations: np.ndarray  # float32, the largest activation at a position
    active_positions: np.ndarray  # int32, where that is


class ConceptViews(LayerViews):
    """Views of an `Explainer` on channels; each function is compiled at its first call."""

    _functions: dict[Hashable, Lazy]

    @cached_property
    def concept_layers(self) -> tuple[str, ...]:
        """The layers with rows and columns whose channels may be concepts, from the input on.

        Layers with weights, sums and joins, but the last weights, whose channels are classes. Of a
        transformer also layers of tokens, if each patch has one and the answer depends on it; of
        its attention only what is added up behind it.
        """
        graph = self._graph
        numbers = graph.outputs()
        classes = graph.last_with_weights(graph.output) | self._scored
        explained = graph.leading_to({graph.output})  # and no boxes
        return tuple(dict.fromkeys(
            node.layer
            for node in graph.nodes
            if isinstance(node.step, Linear | Add | Concatenate)
            and len(graph.shapes[node.output]) in (3, 4)
            and node.output in explained
            and classes.isdisjoint({node.output, numbers[node.layer]})
            and self._grids.has_places(node.output)
        ))  # fmt: skip

    @cached_property
    def concept_layer(self) -> str | None:
        """The one of `concept_layers` that shows most: the last one.

        Of a transformer it is the last of the hidden layers between two dense layers. In the sums
        behind them, to which all blocks add, single channels hardly answer to single things.
        """
        if not self.concept_layers:
            return None
        graph = self._graph
        *_, last = layers = self.concept_layers
        if self._grids.grid(graph.outputs()[last]) is None:
            return last
        dense = (node for node in graph.nodes if isinstance(node.step, Dense))
        read = (
            (node.layer, reader.step) for node in dense for reader in graph.readers(node.output)
        )
        hidden = {
            layer
            for layer, step in read
            if isinstance(step, Activation) or type(step) is Elementwise
        }
        return next((layer for layer in reversed(layers) if layer in hidden), last)

    def channel_counts(self) -> dict[str, int]:
        """Every layer, as `layers` names them -> how many channels its output has."""
        return {name: self._graph.shapes[n][-1] for name, n in self._graph.outputs().items()}

    def check_concept_layer(self, layer: str) -> None:
        """Refuses a layer whose channels cannot be shown in pictures."""
        self._tokens(self._layer(layer))

    def concepts(
        self, x: np.ndarray | tf.Tensor, layer: str, top: int = 4, target: Targets | None = None, *,
        channels: Sequence[int] | None = None,
    ) -> Concepts:  # fmt: skip
        """The channels of a layer with the most relevance, each with its map.

        Concept relevance propagation (Achtibat et al. 2023): relevance at the layer's output is
        kept in one channel alone and handed down from there. Over all channels the shares add up to
        the relevance at the layer, and the maps to the map of what passes through it. The first
        call for a layer and a `top` compiles a function; further targets and pictures do not.

        x and the target are as in a call, the layer's name as `layers` gives it. Its channels are
        the last axis of its output: units of a dense layer, features of tokens. `top` of them are
        explained, those with the largest shares of each picture; or `channels`, in this order.

        Raises:
          UsageError: the method is not LRP, there is no such layer or channel, relevance does not
            reach the layer, or it computes the scores.
          NotFiniteError: the network computes NaN or Inf.
        """
        pictures, tensors = self._pairs(self.check_batch(x), target)
        most = self.pictures_at_once()
        named = self._layer(layer)
        chosen = _chosen(top, channels, named)
        count = min(AT_ONCE, chosen.shape[1], PER_PICTURE * most)
        at_once = max(1, PER_PICTURE * most // (PER_PICTURE + count))
        function = self._compiled(("concepts", layer, count), partial(named.concepts, count))

        def run(chosen: np.ndarray) -> tuple[np.ndarray, ...]:
            padded = np.pad(chosen, ((0, 0), (0, count - chosen.shape[1])), mode="edge")
            return run_in_parts(function, (pictures, tf.constant(padded), tensors), at_once)

        scores, by_channel, first = run(chosen[:, :count])
        if channels is None:
            order = np.argsort(-np.abs(by_channel), axis=1, kind="stable")
            chosen = order[:, : chosen.shape[1]].astype(np.int32)
        chosen = np.broadcast_to(chosen, (len(scores), chosen.shape[1]))
        maps = [first]
        for start in range(count, chosen.shape[1], count):
            part = chosen[:, start : start + count]
            maps.append(run(part)[-1][:, : part.shape[1]])
        found = Concepts(
            layer=layer,
            channels=np.array(chosen),
            shares=np.take_along_axis(by_channel, chosen, 1),
            maps=np.concatenate(maps, 1) if len(maps) > 1 else first,
            by_channel=by_channel,
            scores=scores,
        )
        self._check_finite(x, target, scores, by_channel, found.maps)
        return found

    def peaks(
        self, x: np.ndarray | tf.Tensor, layers: Sequence[str], target: Targets | None = None
    ) -> tuple[np.ndarray, dict[str, Peaks]]:
        """The relevance of every channel of some layers, and where most of it is; without maps.

        `x` and `target` are as in a call. Returns the scores, float32 [B, classes], and the peaks
        of each layer. Tokens of a layer have to lie on a grid of patches.
        """
        found = [self._layer(layer) for layer in layers]
        tokens = list(map(self._tokens, found))
        function = self._compiled(("peaks", *layers), partial(of_channels.peaks, found, tokens))
        scores, peaks = self._in_parts(function, *self._pairs(self.check_batch(x), target))
        self._check_finite(x, target, scores, *(shares for shares, *_ in peaks))
        return scores, {layer: Peaks(*one) for layer, one in zip(layers, peaks, strict=True)}

    def position_maps(
        self, x: np.ndarray | tf.Tensor, layer: str, channels: Sequence[int],
        positions: Sequence[int],
    ) -> np.ndarray:  # fmt: skip
        """The maps of single neurons of a layer for one picture: what each of them looks at.

        Relevance 1 starts at one of `channels` and one of `positions`, for a single picture x.
        All rules are linear: except for its scale it is the map of the relevance that reaches this
        neuron. The position (as in `Peaks`) -1 stands for all neurons: the channel's map, see
        `concepts`. Returns float32 [neurons, H, W, C].
        """
        batch = checks.to_float32(self.check_batch(x))
        named = self._layer(layer)
        numbers = np.asarray(channels, np.int32)
        places = np.asarray(positions, np.int32)
        maps = np.empty((len(numbers), *self.input_shape), np.float32)
        for part in _in_parts(np.flatnonzero(places < 0)):
            maps[part] = self.concepts(batch, layer, channels=numbers[part].tolist()).maps[0]
        for part in _in_parts(np.flatnonzero(places >= 0)):
            count = len(part)
            function = self._compiled(("neurons", layer, count), partial(named.neurons, count))
            maps[part] = function(batch, *map(tf.constant, (numbers[part], places[part]))).numpy()
        return maps

    @cached_property
    def _grids(self) -> TokenGrids:
        return TokenGrids(self._graph)

    @cached_property
    def _scored(self) -> set[int]:
        """The numbers of the scores, and of what is made of them."""
        return self._graph.depending_on(self._graph.scoring())

    def _layer(self, name: str) -> Layer:
        """The layer of a name; refuses those whose channels are no concepts."""
        plan = self._plans[0]
        numbers = self._graph.outputs()
        if not plan.method.is_lrp:
            raise UsageError(
                "Concepts are defined for layer-wise relevance propagation only. Build the "
                'Explainer with method="lrp".',
                "method",
            )
        if not isinstance(name, str):
            raise UsageError(f"Expected the name of a layer. Received {name!r:.80}.", "layer")
        usable = [layer for layer, number in numbers.items() if number not in self._scored]
        if name not in numbers:
            raise unknown("layer", name, usable)
        if name not in usable:
            raise UsageError(
                f"The layer {name!r} computes the scores, which are classes and no concepts. "
                f"Choose a layer before it: {', '.join(usable[-3:])}.",
                "layer",
            )
        return Layer(plan, name, numbers[name], self._graph.shapes[numbers[name]][-1])

    def _tokens(self, layer: Layer) -> np.ndarray | None:
        """Which tokens of a layer stand for patches, bool [tokens]; None where it has no tokens.

        Raises:
          UsageError: its tokens cannot be laid on a grid, or the answer depends on none of them.
        """
        axes = len(self._graph.shapes[layer.number])
        if axes not in (3, 4) or (axes == 4 and self._grids.has_places(layer.number)):
            return None
        grid = self._grids.grid(layer.number)
        if grid is None:
            raise UsageError(
                f"The tokens of the layer {layer.name!r} cannot be laid on a grid of patches: it "
                "is not certain that each patch has just one. Choose another layer, such as the "
                "sum behind an attention.",
                "layer",
            )
        if not self._grids.patches_matter(layer.number):
            raise UsageError(
                f"In the layer {layer.name!r} the answer depends on no token of a patch, only on "
                "others, such as the class token. Choose a layer before the last attention.",
                "layer",
            )
        return grid >= 0

    def _compiled(self, key: Hashable, function: Callable[..., Any]) -> Lazy:
        """The function of a key: the first that was given for it, compiled at its first call."""
        return self._functions.setdefault(key, Lazy(function, self._xla))


def _chosen(top: int, channels: Sequence[int] | None, layer: Layer) -> np.ndarray:
    """The channels, int32 [1, K]; or -1 for each of the `top` best ones; refuses other things."""
    known = layer.channels
    if channels is None:
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= known:
            raise UsageError(
                f"Expected top as a whole number from 1 to {known}, the channels of "
                f"{layer.name!r}. Received {top!r:.80}.",
                "top",
            )
        return np.full([1, top], -1, np.int32)
    try:
        numbers = np.asarray(channels)
        fits = numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    except ValueError:  # sequences of several lengths
        fits = False
    if not fits or numbers.min() < 0 or numbers.max() >= known:
        raise UsageError(
            f"Expected a list of channels of the layer {layer.name!r}, each from 0 to "
            f"{known - 1}. Received {channels!r:.80}.",
            "channels",
        )
    return numbers.astype(np.int32)[None]


def _in_parts(neurons: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the numbers of neurons that are followed together; see `NEURONS_AT_ONCE`."""
    while len(neurons):
        count = next(one for one in NEURONS_AT_ONCE if one <= len(neurons))
        yield neurons[:count]
        neurons = neurons[count:]
