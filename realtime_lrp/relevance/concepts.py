"""Concept relevance propagation (Achtibat et al. 2023): maps of single channels of a layer.

Relevance is handed down to the output of a layer once. There each channel is kept by itself and
handed down to the picture, all channels as one batch. The tensors of the forward pass are computed
once for each picture.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.backs import of_copies, past_gates
from realtime_lrp.relevance.batches import run_in_parts
from realtime_lrp.relevance.compiled import Lazy, signature_of
from realtime_lrp.relevance.graph import Graph, Parts, total
from realtime_lrp.relevance.layer_contexts import reachable
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.methods import METHODS, Explain
from realtime_lrp.relevance.steps import Add, Concatenate

AT_ONCE = 16
"""How many channels are handed down together; more take several runs."""

PER_PICTURE = 2
"""How many channels take the memory of a picture (VGG16: 16 channels took that of 8 pictures)."""

Compute = Callable[..., tuple[tf.Tensor, ...]]


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
        self._xla = xla
        self._functions: dict[tuple[Any, ...], Lazy] = {}

    def layers(self) -> tuple[str, ...]:
        """What `Explainer.concept_layers` returns."""
        graph, scores = self._graph, self._scores()
        classes = graph.last_with_weights(graph.output)
        reached, outputs = reachable(graph), graph.outputs()
        found = {
            node.layer: None
            for node in graph.nodes
            if isinstance(node.step, Linear | Add | Concatenate)
            and len(self._shapes[node.output]) == 4
            and node.output in reached - classes
            and outputs[node.layer] not in scores
        }
        return tuple(found)

    def sums(self, layer: str) -> Callable[[Parts], tf.Tensor]:
        """What computes the shares of all channels of a layer, float32 [B, channels].

        It takes what arrived at each tensor on the way to the picture. Where only a gate of a
        product reads the layer, the shares are 0.

        Raises:
          UsageError: as `Explainer.concepts`, for the layer or the method.
        """
        number = self.number(layer)

        def by_channel(parts: Parts) -> tf.Tensor:
            if number not in parts:
                raise not_reached(layer)
            return channel_sums(total(parts[number]))

        return by_channel

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
            chosen = np.full([1, _checked_top(top, layer, known)], -1, np.int32)
        else:
            chosen = _checked_channels(channels, layer, known)[None]
        count = min(AT_ONCE, chosen.shape[1], PER_PICTURE * most)
        function = self._function(
            concepts_function(self._graph, self._explain, layer, number, count, self.sharing),
            [tf.TensorSpec([None, count], tf.int32, name="channels")],
            ("concepts", number, count),
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
            kept[:, _checked_channels(channels, layer, known)] = 1
            masks[number] = layer, kept
        numbers = sorted(masks, reverse=True)
        function = self._function(
            conditional_function(
                self._graph, self._explain, {number: masks[number][0] for number in numbers}
            ),
            [tf.TensorSpec([None, self._shapes[number][-1]], tf.float32) for number in numbers],
            ("conditional", *numbers),
        )
        given = [tf.constant(masks[number][1]) for number in numbers]
        scores, maps = run_in_parts(function, (x, *given, *target), most)
        return scores, maps

    def channel_counts(self) -> dict[str, int]:
        """What `Explainer.channel_counts` returns."""
        numbers = self._graph.outputs().items()
        return {layer: int(self._shapes[number][-1]) for layer, number in numbers}

    def _function(
        self, compute: Compute, between: Sequence[tf.TensorSpec], key: tuple[Any, ...]
    ) -> Lazy:
        """The function (x, *between, *target) of a key, which is compiled at its first call."""
        lazy = Lazy(compute, [self._x, *between, *self._target], self._xla)
        return self._functions.setdefault(key, lazy)

    def number(self, layer: str) -> int:
        """The number of the output of a layer whose channels can be concepts.

        Raises:
          UsageError: the method is not LRP, there is no such layer, or its channels are none.
        """
        if self._explain.method is not METHODS["lrp"]:
            raise UsageError(
                "Concepts are defined for layer-wise relevance propagation only. Build the "
                'Explainer with method="lrp".',
                "method",
            )
        if not isinstance(layer, str):
            raise UsageError(f"Expected the name of a layer. Received {layer!r:.80}.", "layer")
        graph, scores = self._graph, self._scores()
        numbers = graph.outputs()
        reached = reachable(graph)
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

    def _scores(self) -> set[int]:
        """The numbers of the scores, and of what is made of them."""
        scores = self._graph.scoring()
        return scores | {node.output for one in scores for node in self._graph.behind(one)}


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
        arrived = _arrived(graph, explain, tensors, begin, None, number, layer)
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
            arrived = _arrived(graph, explain, tensors, relevance, start, number, layer)
            relevance, start = arrived * _by_channel(mask, arrived), number
        parts = graph.backward(tensors, relevance, past_gates(explain.back), start)
        return tensors[graph.output], tf.cast(total(parts[0]), tf.float32)

    return conditional


def _arrived(
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
    if number not in parts:
        raise not_reached(layer)
    return total(parts[number])


def channel_sums(relevance: tf.Tensor) -> tf.Tensor:
    """The sum of each channel over rows and columns, float32 [B, channels]."""
    rows_and_columns = list(range(1, relevance.shape.rank - 1))
    return tf.reduce_sum(tf.cast(relevance, tf.float32), rows_and_columns)


def not_reached(layer: str) -> UsageError:
    """The error for a layer whose output gets no relevance."""
    return UsageError(
        f"No relevance reaches the layer {layer!r}: the scores do not depend on it, a gate or "
        "attention weights come out of it, or another layer of the conditions passes it by. "
        "Choose another layer.",
        "layer",
    )


def _each_alone(relevance: tf.Tensor, channels: tf.Tensor) -> tf.Tensor:
    """Relevance [B, ..., N] of channels [B or 1, K], each by itself: [K * B, ..., N].

    All pictures of the first channel come first.
    """
    mask = tf.one_hot(tf.transpose(channels), relevance.shape[-1], dtype=relevance.dtype)
    kept = relevance[None] * _by_channel(mask, relevance)
    return tf.reshape(kept, [-1, *relevance.shape[1:]])


def _by_channel(mask: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
    """A mask [..., B, N] in a shape that multiplies relevance [B, ..., N]."""
    middle = [1] * (relevance.shape.rank - 2)
    shape = tf.concat([tf.shape(mask)[:-1], middle, tf.shape(mask)[-1:]], 0)
    return tf.cast(tf.reshape(mask, shape), relevance.dtype)


def _checked_top(top: int, layer: str, known: int) -> int:
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


def _checked_channels(channels: Sequence[int], layer: str, known: int) -> np.ndarray:
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
