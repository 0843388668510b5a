"""Concept relevance propagation (Achtibat et al. 2023): maps of single channels of a layer.

Relevance is handed down to the output of a layer once. There each channel is kept by itself and
handed down to the picture, all channels as one batch. The tensors of the forward pass are computed
once for each picture.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.concepts.backs import of_copies, past_gates
from realtime_lrp.relevance.concepts.concept_layers import (
    checked_channels,
    checked_top,
    concept_layers,
    concept_number,
    default_layer,
    not_reached,
    seen_tokens,
)
from realtime_lrp.relevance.maps.batches import run_in_parts
from realtime_lrp.relevance.maps.compiled import Compute, LazyByKey, signature_of
from realtime_lrp.relevance.maps.methods import Explain
from realtime_lrp.relevance.network.graph import Graph, Parts, total
from realtime_lrp.relevance.network.token_grids import TokenGrids

AT_ONCE = 16
"""How many channels are handed down together; more take several runs."""

PER_PICTURE = 2
"""How many channels take the memory of a picture (VGG16: 16 channels took that of 8 pictures)."""


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


class ConceptMaps:
    """Computes conditional maps of a network; each function is compiled at its first call.

    Args:
      graph: the network.
      explain: the method of the explainer's own map.
      shapes: number of a tensor -> its shape for one picture, with the batch.
      classes: the number of scores.
      sharing: the output numbers of layers whose rules take several relevances of each picture at
        once.
      xla: whether functions go through XLA.

    Attributes:
      sharing: as given.
    """

    def __init__(
        self,
        graph: Graph,
        explain: Explain,
        shapes: Mapping[int, Sequence[int]],
        classes: int,
        sharing: Collection[int],
        xla: bool,
    ) -> None:
        self._graph, self._explain, self._shapes = graph, explain, shapes
        self.sharing = sharing
        self._x, *self._target = signature_of(tuple(shapes[0][1:]), classes)
        self._functions = LazyByKey(xla)

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """What `Explainer.concept_layers` returns."""
        return concept_layers(self._graph, self._shapes, self._grids)

    @cached_property
    def _grids(self) -> TokenGrids:
        return TokenGrids(self._graph, self._shapes)

    @cached_property
    def default_layer(self) -> str | None:
        """What `Explainer.concept_layer` returns."""
        return default_layer(self._graph, self.layers, self._grids)

    def seen_tokens(self, layer: str) -> np.ndarray | None:
        """Which tokens of a layer stand for patches; see the function.

        Raises:
          UsageError: as `Explainer.peaks`.
        """
        number, shape = self.output_of(layer)
        return seen_tokens(layer, number, shape, self._grids)

    def sums(self, layer: str) -> Callable[[Parts], tf.Tensor]:
        """What computes the shares of all channels of a layer, float32 [B, channels].

        It takes what arrived at each tensor on the way to the picture. Where only a gate of a
        product reads the layer, the shares are 0.

        Raises:
          UsageError: as `Explainer.concepts`, for the layer or the method.
        """
        number = self.number(layer)

        def by_channel(parts: Parts) -> tf.Tensor:
            return channel_sums(arrived_at(parts, number, layer))

        return by_channel

    def output_of(self, layer: str) -> tuple[int, Sequence[int]]:
        """The number of a layer's output, and its shape with a batch of 1.

        Raises:
          UsageError: as `Explainer.concepts`, for the layer or the method.
        """
        number = self.number(layer)
        return number, self._shapes[number]

    def concepts(
        self,
        x: tf.Tensor,
        target: Sequence[tf.Tensor],
        layer: str,
        top: int,
        channels: Sequence[int] | None,
        most: int,
    ) -> Concepts:
        """What `Explainer.concepts` returns; numbers may be NaN or Inf.

        Args:
          x: float32 [B, H, W, C].
          target: the tensors of a target, of all pictures or one for each.
          layer: as there.
          top: as there.
          channels: as there.
          most: how many pictures are explained at once without concepts.
        """
        number = self.number(layer)
        known = self._shapes[number][-1]
        if channels is None:
            chosen = np.full([1, checked_top(top, layer, known)], -1, np.int32)
        else:
            chosen = checked_channels(channels, layer, known)[None]
        count = min(AT_ONCE, chosen.shape[1], PER_PICTURE * most)
        wanted = tf.TensorSpec([None, count], tf.int32, name="channels")
        function = self._functions.get(
            ("concepts", number, count),
            concepts_function(self._graph, self._explain, layer, number, count, self.sharing),
            [self._x, wanted, *self._target],
        )

        def run(chosen: np.ndarray) -> list[np.ndarray]:
            missing = count - chosen.shape[1]
            padded = np.pad(chosen, ((0, 0), (0, missing)), mode="edge")
            pictures = max(1, PER_PICTURE * most // (PER_PICTURE + count))
            return run_in_parts(function, (x, tf.constant(padded), *target), pictures)

        scores, by_channel, first = run(chosen[:, :count])
        if channels is None:
            order = np.argsort(-np.abs(by_channel), axis=1, kind="stable")
            chosen = order[:, : chosen.shape[1]].astype(np.int32)
        chosen = np.broadcast_to(chosen, (len(scores), chosen.shape[1]))
        maps = [first]
        for start in range(count, chosen.shape[1], count):
            part = chosen[:, start : start + count]
            maps.append(run(part)[-1][:, : part.shape[1]])
        return Concepts(
            layer=layer,
            channels=np.array(chosen),
            shares=np.take_along_axis(by_channel, chosen, 1),
            maps=np.concatenate(maps, 1) if len(maps) > 1 else first,
            by_channel=by_channel,
            scores=scores,
        )

    def conditional(
        self,
        x: tf.Tensor,
        target: Sequence[tf.Tensor],
        conditions: Mapping[str, Sequence[int]],
        most: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The scores, and what `Explainer.conditional` returns; numbers may be NaN or Inf.

        Args:
          x: float32 [B, H, W, C].
          target: the tensors of a target, of all pictures or one for each.
          conditions: as there.
          most: how many pictures are explained at once.
        """
        if not isinstance(conditions, Mapping) or not conditions:
            raise UsageError(
                f"Expected conditions as {{layer: [channels]}}. Received {conditions!r:.80}.",
                "conditions",
            )
        masks = {}
        for layer, channels in conditions.items():
            number = self.number(layer)
            known = self._shapes[number][-1]
            kept = np.zeros([1, known], np.float32)
            kept[:, checked_channels(channels, layer, known)] = 1
            masks[number] = layer, kept
        numbers = sorted(masks, reverse=True)
        specs = [tf.TensorSpec([None, self._shapes[number][-1]], tf.float32) for number in numbers]
        function = self._functions.get(
            ("conditional", *numbers),
            conditional_function(
                self._graph, self._explain, {number: masks[number][0] for number in numbers}
            ),
            [self._x, *specs, *self._target],
        )
        given = [tf.constant(masks[number][1]) for number in numbers]
        scores, maps = run_in_parts(function, (x, *given, *target), most)
        return scores, maps

    def channel_counts(self) -> dict[str, int]:
        """What `Explainer.channel_counts` returns."""
        numbers = self._graph.outputs().items()
        return {layer: int(self._shapes[number][-1]) for layer, number in numbers}

    def number(self, layer: str) -> int:
        """The number of the output of a layer; see `concept_number`."""
        return concept_number(self._graph, self._explain, layer)


def concepts_function(
    graph: Graph,
    explain: Explain,
    layer: str,
    number: int,
    count: int,
    sharing: Collection[int] = (),
) -> Compute:
    """Makes the function (x, channels, *target) -> scores, shares of all channels, maps.

    Channels are int32 [B or 1, count]; -1 stands for one of those with the largest shares, which
    come in order. Maps are float32 [B, count, H, W, C].

    Args:
      graph: the network.
      explain: LRP, bound to it.
      layer: the name of the layer.
      number: the number of its output.
      count: how many channels are kept, each by itself.
      sharing: the output numbers of layers whose rules take relevance [K, B, ...].
    """

    def concepts(x: tf.Tensor, channels: tf.Tensor, *target: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tensors = graph.forward(x)
        begin = explain.start(tensors, *target)
        arrived = relevance_at(graph, explain, tensors, begin, None, number, layer)
        by_channel = channel_sums(arrived)
        largest = tf.math.top_k(tf.abs(by_channel), count).indices
        channels = tf.where(channels < 0, largest, channels)
        maps = channel_maps(graph, explain, tensors, arrived, number, channels, sharing)
        return tensors[graph.output], by_channel, maps

    return concepts


def channel_maps(
    graph: Graph,
    explain: Explain,
    tensors: Mapping[int, tf.Tensor],
    arrived: tf.Tensor,
    number: int,
    channels: tf.Tensor,
    sharing: Collection[int] = (),
) -> tf.Tensor:
    """The map of each of some channels of a tensor by itself, float32 [B, count, H, W, C].

    Args:
      graph: the network.
      explain: LRP, bound to it.
      tensors: what `Graph.forward` returned.
      arrived: the relevance that arrived at the tensor, [B, ..., N].
      number: the tensor's number.
      channels: int32 [B or 1, count].
      sharing: as in `concepts_function`.
    """
    count, picture = channels.shape[1], tensors[0].shape[1:]
    kept = _each_alone(arrived, channels)
    back = of_copies(past_gates(explain.back), count, sharing)
    relevance = tf.cast(total(graph.backward(tensors, kept, back, number)[0]), tf.float32)
    return tf.transpose(tf.reshape(relevance, [count, -1, *picture]), [1, 0, 2, 3, 4])


def conditional_function(graph: Graph, explain: Explain, layers: Mapping[int, str]) -> Compute:
    """Makes the function (x, *masks, *target) -> scores, the map.

    Args:
      graph: the network.
      explain: LRP, bound to it.
      layers: number of a layer's output -> its name, the last layer first. There is a mask for
        each, float32 [B or 1, channels]: 1 for channels whose relevance is kept, else 0.
    """

    def conditional(x: tf.Tensor, *inputs: tf.Tensor) -> tuple[tf.Tensor, ...]:
        masks, target = inputs[: len(layers)], inputs[len(layers) :]
        tensors = graph.forward(x)
        relevance, start = explain.start(tensors, *target), None
        for (number, layer), mask in zip(layers.items(), masks, strict=True):
            arrived = relevance_at(graph, explain, tensors, relevance, start, number, layer)
            relevance, start = arrived * shaped_as_channels(mask, arrived), number
        parts = graph.backward(tensors, relevance, past_gates(explain.back), start)
        return tensors[graph.output], tf.cast(total(parts[0]), tf.float32)

    return conditional


def relevance_at(
    graph: Graph,
    explain: Explain,
    tensors: Mapping[int, tf.Tensor],
    begin: tf.Tensor,
    start: int | None,
    number: int,
    layer: str,
) -> tf.Tensor:
    """The relevance that reaches the output of a layer, `number`, from the tensor `start`."""
    parts = graph.backward(tensors, begin, past_gates(explain.back), start, number)
    return arrived_at(parts, number, layer)


def arrived_at(parts: Parts, number: int, layer: str) -> tf.Tensor:
    """The relevance that arrived at the output of a layer, `number`.

    Raises:
      UsageError: none did.
    """
    if number not in parts:
        raise not_reached(layer)
    return total(parts[number])


def channel_sums(relevance: tf.Tensor) -> tf.Tensor:
    """The sum of each channel over rows and columns, float32 [B, channels]."""
    rows_and_columns = list(range(1, relevance.shape.rank - 1))
    return tf.reduce_sum(tf.cast(relevance, tf.float32), rows_and_columns)


def _each_alone(relevance: tf.Tensor, channels: tf.Tensor) -> tf.Tensor:
    """Relevance [B, ..., N] of channels [B or 1, K], each by itself: [K * B, ..., N].

    All pictures of the first channel come first.
    """
    mask = tf.one_hot(channels, relevance.shape[-1], dtype=relevance.dtype)
    mask = tf.transpose(mask, [1, 0, 2])  # oneDNN prints an error where integers are transposed
    kept = relevance[None] * shaped_as_channels(mask, relevance)
    return tf.reshape(kept, [-1, *relevance.shape[1:]])


def shaped_as_channels(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """A mask [..., B, N] in a shape that multiplies a tensor [B, ..., N]."""
    middle = [1] * (tensor.shape.rank - 2)
    shape = tf.concat([tf.shape(mask)[:-1], middle, tf.shape(mask)[-1:]], 0)
    return tf.cast(tf.reshape(mask, shape), tensor.dtype)
