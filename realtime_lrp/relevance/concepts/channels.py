"""Relevance of the channels of a layer, in compiled functions.

At the output of a layer each channel, or each neuron, is kept by itself and handed down to the
picture, all of them as one batch, after one forward pass of each picture.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.compiled import ChannelOutput
from realtime_lrp.relevance.maps.detections import DrawnBoxes, row_near
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.starts import located, scores_at
from realtime_lrp.relevance.maps.targets import TargetTensors
from realtime_lrp.relevance.network.graph import Arrival, Back, Part, Parts, total
from realtime_lrp.relevance.network.steps import Handed, Multiple, Numbered, Product
from realtime_lrp.relevance.rules import rules


def past_gates(back: Back) -> Back:
    """Hands nothing to the gates of products, instead of zeros."""

    def handed(at: Arrival) -> Handed:
        parts = back(at)
        if not isinstance(at.node.step, Product):
            return parts
        gated = at.node.step.gated(at.inputs, at.output)
        return [part if takes else None for part, takes in zip(parts, gated, strict=True)]

    return handed


def of_copies(back: Back, count: int, sharing: Collection[int]) -> Back:
    """Hands down relevance [count * B, ...] where the tensors of the network are [B, ...].

    `sharing`: the output numbers of layers whose rules compute once what the copies have in common.
    """

    def copies(a: tf.Tensor) -> tf.Tensor:
        return tf.tile(a, [count] + [1] * (a.shape.rank - 1))

    def handed(at: Arrival) -> Handed:
        if at.node.output not in sharing or isinstance(at.arriving, Multiple):
            inputs = [copies(a) for a in at.inputs]
            return back(at._replace(inputs=inputs, output=copies(at.output)))
        several = tf.reshape(at.arriving, [count, -1, *at.output.shape[1:]])
        (received,) = back(at._replace(arriving=several))
        return [tf.reshape(received, [-1, *at.inputs[0].shape[1:]])]

    return handed


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer whose channels are explained, by the plan of the explainer's own map.

    Attributes:
      number: the number of its output.
      channels: how many it has.
    """

    plan: Plan
    name: str
    number: int
    channels: int

    def concepts(
        self, count: int, x: tf.Tensor, channels: tf.Tensor, target: TargetTensors
    ) -> tuple[tf.Tensor, ...]:
        """Scores, shares of all channels, and maps float32 [B, count, H, W, C] of some.

        Channels are int32 [B or 1, count]; -1 stands for one of those with the largest shares,
        which come in order.
        """
        graph = self.plan.graph
        tensors = graph.forward(x)
        target = located(graph, tensors, target)
        begin = self.plan.start(tensors, target)
        back = past_gates(self.plan.back)
        arrived = self._arrived(graph.backward(tensors, begin, back, None, self.number))
        shares = _channel_sums(arrived)
        largest = tf.math.top_k(tf.abs(shares), count).indices
        maps = self._maps(tensors, arrived, tf.where(channels < 0, largest, channels))
        return scores_at(graph, tensors, target), shares, maps

    def neurons(
        self, count: int, x: tf.Tensor, channels: tf.Tensor, positions: tf.Tensor
    ) -> tf.Tensor:
        """The map of each of `count` neurons of one picture, where relevance 1 starts."""
        tensors = self.plan.graph.forward(x)
        output = tensors[self.number]
        places = positions * self.channels + channels
        one = tf.one_hot(places, output.shape[1:].num_elements(), dtype=output.dtype)
        begin = tf.reshape(one, [count, *output.shape[1:]])
        return self._to_the_picture(tensors, begin, count)[0]

    def beside_maps(
        self,
        count: int,
        after: Callable[[tf.Tensor], Any],
        tensors: Numbered,
        parts: Parts,
        found: DrawnBoxes | None,
        *chosen_by: tf.Tensor,
    ) -> ChannelOutput:
        """The channels beside the maps of `explain_function`: what arrived is known from the first.

        Only the channels are handed down by themselves, from the layer on. With `count` there is a
        prior, float32 [2, channels]: the chosen channels are those with the largest share of the
        magnitude of all shares, 0 to 1, after its first row is added and the result is multiplied
        by its second row. They belong to one box of a detector, see `row_near`, which is given
        near which place of the input. `after` computes something of the chosen channels' maps.
        """
        arrived = self._arrived(parts)
        if not chosen_by:
            return ChannelOutput(_channel_sums(arrived))
        prior, near = chosen_by
        if found:
            arrived = tf.gather(arrived, row_near(found, near, tf.shape(tensors[0])[0]))
        shares = _channel_sums(arrived)
        magnitudes = tf.abs(shares)
        of_all = tf.math.divide_no_nan(magnitudes, tf.reduce_sum(magnitudes, -1, keepdims=True))
        chosen = tf.math.top_k((of_all + prior[0]) * prior[1], count).indices
        maps = self._maps(tensors, arrived, chosen)
        drawn = after(tf.reshape(maps, [-1, *tensors[0].shape[1:]]))
        return ChannelOutput(shares, chosen, drawn, maps)

    def peaks(self, tokens: np.ndarray | None, tensors: Numbered, parts: Parts) -> list[tf.Tensor]:
        """The four arrays of `Peaks`; `tokens` says which stand for patches, if it has tokens."""
        output = _by_position(tensors[self.number])
        arrived = parts.get(self.number)
        relevance = _by_position(total(arrived)) if arrived else tf.zeros_like(output)
        position = tf.argmax(relevance, 1, tf.int32)
        if tokens is not None:
            position = tf.fill(tf.shape(position), -1)
            output = tf.where(tokens[:, None], output, output.dtype.min)
        return [
            tf.reduce_sum(relevance, 1), position,
            tf.reduce_max(output, 1), tf.argmax(output, 1, tf.int32),
        ]  # fmt: skip

    def _arrived(self, parts: Parts) -> tf.Tensor:
        """Relevance at the layer's output."""
        if self.number not in parts:
            raise UsageError(
                f"No relevance reaches the layer {self.name!r}: the scores do not depend on it, or "
                "a gate or attention weights come out of it. Choose another layer.",
                "layer",
            )
        return total(parts[self.number])

    def _maps(self, tensors: Numbered, arrived: tf.Tensor, channels: tf.Tensor) -> tf.Tensor:
        """The map of each of some channels [B or 1, count] alone, float32 [B, count, H, W, C]."""
        mask = tf.one_hot(channels, arrived.shape[-1], dtype=arrived.dtype)
        mask = tf.transpose(mask, [1, 0, 2])  # oneDNN prints an error where integers are transposed
        middle = [1] * (arrived.shape.rank - 2)
        shape = tf.concat([tf.shape(mask)[:2], middle, tf.shape(mask)[2:]], 0)
        kept = arrived[None] * tf.reshape(mask, shape)  # all pictures of the first channel first
        begin = tf.reshape(kept, [-1, *arrived.shape[1:]])
        return self._to_the_picture(tensors, begin, channels.shape[-1])

    def _to_the_picture(self, tensors: Numbered, begin: tf.Tensor, count: int) -> tf.Tensor:
        """The maps, float32 [B, count, H, W, C], of relevance [count * B, ...] at the layer."""
        # our rules take R with an axis more, see `sharing.py`; those of a program may not
        ours = {n for n, one in self.plan.rules.items() if type(one).__module__ == rules.__name__}
        back = of_copies(past_gates(self.plan.back), count, ours)
        arrived = self.plan.graph.backward(tensors, begin, back, self.number)[0]
        several = [count, -1, *tensors[0].shape[1:]]
        maps = tf.reshape(tf.cast(total(arrived), tf.float32), several)
        return tf.transpose(maps, [1, 0, 2, 3, 4])


def peaks(
    layers: list[Layer], tokens: list[np.ndarray | None], x: tf.Tensor, target: TargetTensors
) -> tuple[tf.Tensor, list[list[tf.Tensor]]]:
    """Scores, and the peaks of each layer, see `Layer.peaks`."""
    plan = layers[0].plan
    graph = plan.graph
    needed = {node.output for layer in layers for node in graph.behind(layer.number)}
    nodes = [node for node in graph.nodes if node.output in needed]
    tensors = graph.forward(x)
    target = located(graph, tensors, target)
    parts: Parts = defaultdict(list)
    parts[graph.output].append(Part(plan.start(tensors, target)))
    graph.hand_down(parts, nodes, tensors, past_gates(plan.back))
    return scores_at(graph, tensors, target), [
        layer.peaks(seen, tensors, parts) for layer, seen in zip(layers, tokens, strict=True)
    ]


def no_prior(channels: int) -> np.ndarray:
    """The prior that changes nothing."""
    return np.stack([np.zeros(channels, np.float32), np.ones(channels, np.float32)])


def _channel_sums(relevance: tf.Tensor) -> tf.Tensor:
    """The sum of each channel over rows and columns, float32 [B, channels]."""
    return tf.reduce_sum(tf.cast(relevance, tf.float32), list(range(1, relevance.shape.rank - 1)))


def _by_position(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor [B, ..., N] as float32 [B, positions, N]."""
    positions = tensor.shape[1:-1].num_elements() or 1
    return tf.reshape(tf.cast(tensor, tf.float32), [-1, positions, tensor.shape[-1]])
