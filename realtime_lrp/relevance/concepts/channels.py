"""What compiled functions compute of the channels of a layer.

Relevance is handed down to the output of a layer once. There each channel, or each neuron, is kept
by itself and handed down to the picture, all of them as one batch. The tensors of the forward pass
are computed once for each picture.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.concepts.concept_layers import not_reached
from realtime_lrp.relevance.maps.compiled import ChannelOutput, Compute
from realtime_lrp.relevance.maps.plan import Numbered, Plan
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.relevance.network.graph import Back, Node, Part, Parts, total
from realtime_lrp.relevance.network.steps import Handed, Multiple, Product, Tensors


def past_gates(back: Back) -> Back:
    """Hands nothing to the gates of products, instead of zeros."""

    def handed(
        node: Node, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor | Multiple
    ) -> Handed:
        parts = back(node, inputs, output, relevance)
        if not isinstance(node.step, Product):
            return parts
        gated = node.step.gated(inputs, output)
        return [part if takes else None for part, takes in zip(parts, gated, strict=True)]

    return handed


def of_copies(back: Back, count: int, sharing: Collection[int]) -> Back:
    """Hands down relevance [count * B, ...] where the tensors of the network are [B, ...].

    `sharing`: the output numbers of layers whose rules compute once what the copies have in common.
    """

    def copies(a: tf.Tensor) -> tf.Tensor:
        return tf.tile(a, [count] + [1] * (a.shape.rank - 1))

    def handed(
        node: Node, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor | Multiple
    ) -> Handed:
        if node.output not in sharing or isinstance(relevance, Multiple):
            return back(node, [copies(a) for a in inputs], copies(output), relevance)
        several = tf.reshape(relevance, [count, -1, *output.shape[1:]])
        (received,) = back(node, inputs, output, several)
        return [tf.reshape(received, [-1, *inputs[0].shape[1:]])]

    return handed


def concepts_function(
    plan: Plan, layer: str, number: int, count: int, sharing: Collection[int]
) -> Compute:
    """Makes the function (x, channels, target) -> scores, shares of all channels, maps.

    Channels are int32 [B or 1, count]; -1 stands for one of those with the largest shares, which
    come in order. Maps are float32 [B, count, H, W, C].
    """

    def concepts(x: tf.Tensor, channels: tf.Tensor, target: Target) -> tuple[tf.Tensor, ...]:
        tensors = plan.graph.forward(x)
        begin = plan.start(tensors, target)
        arrived = _relevance_at(plan, tensors, begin, None, number, layer)
        shares = _channel_sums(arrived)
        largest = tf.math.top_k(tf.abs(shares), count).indices
        channels = tf.where(channels < 0, largest, channels)
        maps = _channel_maps(plan, tensors, arrived, number, channels, sharing)
        return tensors[plan.graph.output], shares, maps

    return concepts


def conditional_function(plan: Plan, layers: Mapping[int, str]) -> Compute:
    """Makes the function (x, masks, target) -> scores, the map.

    `layers`: number of a layer's output -> its name, the last layer first. There is a mask for
    each, float32 [B or 1, channels]: 1 for channels whose relevance is kept, else 0.
    """

    def conditional(
        x: tf.Tensor, masks: list[tf.Tensor], target: Target
    ) -> tuple[tf.Tensor, tf.Tensor]:
        tensors = plan.graph.forward(x)
        relevance, start = plan.start(tensors, target), None
        for (number, layer), mask in zip(layers.items(), masks, strict=True):
            arrived = _relevance_at(plan, tensors, relevance, start, number, layer)
            relevance, start = arrived * _shaped_as_channels(mask, arrived), number
        parts = plan.graph.backward(tensors, relevance, past_gates(plan.back), start)
        return tensors[plan.graph.output], tf.cast(total(parts[0]), tf.float32)

    return conditional


def peaks_function(
    plan: Plan, layers: Mapping[str, int], seen: Mapping[str, np.ndarray | None]
) -> Compute:
    """Makes the function (x, target) -> scores, and for each layer the four arrays of `Peaks`.

    `layers`: layer -> the number of its output; `seen`: layer -> which of its tokens stand for
    patches, bool, None for feature maps.
    """

    def peaks(x: tf.Tensor, target: Target) -> tuple[tf.Tensor, dict[str, list[tf.Tensor]]]:
        graph = plan.graph
        needed = {node.output for number in layers.values() for node in graph.behind(number)}
        nodes = [node for node in graph.nodes if node.output in needed]
        tensors = graph.forward(x)
        parts: Parts = defaultdict(list)
        parts[graph.output].append(Part(plan.start(tensors, target)))
        graph.hand_down(parts, nodes, tensors, past_gates(plan.back))
        found = {}
        for layer, number in layers.items():
            output = _by_position(tensors[number])
            arrived = parts.get(number)
            relevance = _by_position(total(arrived)) if arrived else tf.zeros_like(output)
            position = tf.argmax(relevance, 1, tf.int32)
            if (tokens := seen[layer]) is not None:
                position = tf.fill(tf.shape(position), -1)
                output = tf.where(tokens[:, None], output, output.dtype.min)
            found[layer] = [
                tf.reduce_sum(relevance, 1), position,
                tf.reduce_max(output, 1), tf.argmax(output, 1, tf.int32),
            ]  # fmt: skip
        return tensors[graph.output], found

    return peaks


def position_maps_function(
    plan: Plan, number: int, count: int, sharing: Collection[int]
) -> Compute:
    """Makes the function (x, channels [count], positions [count]) -> maps [count, H, W, C].

    Each map is that of one neuron of the tensor `number`; it starts with relevance 1. x has one
    picture.
    """

    def maps(x: tf.Tensor, channels: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        tensors = plan.graph.forward(x)
        output = tensors[number]
        shape = output.shape[1:]
        width = shape[-1]
        one = tf.one_hot(positions * width + channels, shape.num_elements(), dtype=output.dtype)
        begin = tf.reshape(one, [count, *shape])
        return _to_the_picture(plan, tensors, begin, number, count, sharing)[0]

    return maps


def channels_of_layer(
    plan: Plan,
    layer: str,
    number: int,
    sharing: Collection[int],
    count: int = 0,
    after: Callable[[tf.Tensor], Any] | None = None,
) -> Callable[..., ChannelOutput]:
    """What `explain_function` takes to compute a layer's channels beside the maps.

    What arrives at the layer is known from the first map: only the channels are handed down by
    themselves, from the layer on. With `count` the function takes one further input, a prior
    float32 [2, channels of the layer]. The chosen channels are those with the largest share of the
    magnitude of all shares, 0 to 1, after the prior's first row is added to it and the result is
    multiplied by its second row. `after` computes something of the chosen channels' maps.
    """

    def channels(tensors: Numbered, parts: Parts, *prior: tf.Tensor) -> ChannelOutput:
        arrived = _arrived_at(parts, number, layer)
        shares = _channel_sums(arrived)
        if not prior or after is None:
            return ChannelOutput(shares)
        magnitudes = tf.abs(shares)
        of_all = tf.math.divide_no_nan(magnitudes, tf.reduce_sum(magnitudes, -1, keepdims=True))
        chosen = tf.math.top_k((of_all + prior[0][0]) * prior[0][1], count).indices
        maps = _channel_maps(plan, tensors, arrived, number, chosen, sharing)
        drawn = after(tf.reshape(maps, [-1, *tensors[0].shape[1:]]))
        return ChannelOutput(shares, chosen, drawn, maps)

    return channels


def no_prior(channels: int) -> np.ndarray:
    """The prior that changes nothing."""
    return np.stack([np.zeros(channels, np.float32), np.ones(channels, np.float32)])


def _channel_maps(
    plan: Plan,
    tensors: Numbered,
    arrived: tf.Tensor,
    number: int,
    channels: tf.Tensor,
    sharing: Collection[int],
) -> tf.Tensor:
    """The map of each of some channels [B or 1, count] by itself, float32 [B, count, H, W, C]."""
    kept = _each_alone(arrived, channels)
    return _to_the_picture(plan, tensors, kept, number, channels.shape[1], sharing)


def _to_the_picture(
    plan: Plan,
    tensors: Numbered,
    begin: tf.Tensor,
    number: int,
    count: int,
    sharing: Collection[int],
) -> tf.Tensor:
    """The maps, float32 [B, count, H, W, C], of relevance [count * B, ...] at a tensor."""
    back = of_copies(past_gates(plan.back), count, sharing)
    relevance = tf.cast(total(plan.graph.backward(tensors, begin, back, number)[0]), tf.float32)
    return tf.transpose(tf.reshape(relevance, [count, -1, *tensors[0].shape[1:]]), [1, 0, 2, 3, 4])


def _relevance_at(
    plan: Plan, tensors: Numbered, begin: tf.Tensor, start: int | None, number: int, layer: str
) -> tf.Tensor:
    """The relevance that reaches the output of a layer, `number`, from the tensor `start`."""
    parts = plan.graph.backward(tensors, begin, past_gates(plan.back), start, number)
    return _arrived_at(parts, number, layer)


def _arrived_at(parts: Parts, number: int, layer: str) -> tf.Tensor:
    if number not in parts:
        raise not_reached(layer)
    return total(parts[number])


def _channel_sums(relevance: tf.Tensor) -> tf.Tensor:
    """The sum of each channel over rows and columns, float32 [B, channels]."""
    rows_and_columns = list(range(1, relevance.shape.rank - 1))
    return tf.reduce_sum(tf.cast(relevance, tf.float32), rows_and_columns)


def _each_alone(relevance: tf.Tensor, channels: tf.Tensor) -> tf.Tensor:
    """Relevance [B, ..., N] of channels [B or 1, K], each by itself: [K * B, ..., N].

    All pictures of the first channel come first.
    """
    mask = tf.one_hot(channels, relevance.shape[-1], dtype=relevance.dtype)
    mask = tf.transpose(mask, [1, 0, 2])  # oneDNN prints an error where integers are transposed
    kept = relevance[None] * _shaped_as_channels(mask, relevance)
    return tf.reshape(kept, [-1, *relevance.shape[1:]])


def _shaped_as_channels(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """A mask [..., B, N] in a shape that multiplies a tensor [B, ..., N]."""
    middle = [1] * (tensor.shape.rank - 2)
    shape = tf.concat([tf.shape(mask)[:-1], middle, tf.shape(mask)[-1:]], 0)
    return tf.cast(tf.reshape(mask, shape), tensor.dtype)


def _by_position(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor [B, ..., N] as float32 [B, positions, N]."""
    shape = tensor.shape
    positions = shape[1:-1].num_elements() or 1
    return tf.reshape(tf.cast(tensor, tf.float32), [-1, positions, shape[-1]])
