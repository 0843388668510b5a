"""Where channels respond: the material from which pictures are chosen for each channel.

`peaks` looks at all channels of some layers at once, without a map: what each carries, and where
most of it is. `position_maps` then follows single channels from single positions to the picture, as
the receptive field of a neuron.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.concepts.backs import of_copies, past_gates
from realtime_lrp.relevance.maps.batches import run_in_parts
from realtime_lrp.relevance.maps.compiled import Compute, LazyByKey, signature_of
from realtime_lrp.relevance.maps.methods import Explain
from realtime_lrp.relevance.network.graph import Graph, Part, Parts, total

AT_ONCE = 8, 4, 2, 1
"""How many neurons of a picture are followed together, as many as there are left: each number has
a compiled function, and filling one up would cost as much as the neurons that are missing."""


@dataclass(frozen=True, eq=False)
class Peaks:
    """What the channels of a layer carry. A position counts rows and columns as one axis.

    In a layer of tokens it is the number of a token that stands for a patch. There attention has
    brought relevance together, much of it in the class token, so that no position stands for it.

    Attributes:
      shares: float32 [B, channels], the relevance of each channel, summed over all positions, and
        over tokens that stand for no patch.
      positions: int32 [B, channels], where the relevance of a channel is largest; -1 in a layer of
        tokens.
      activations: float32 [B, channels], the largest activation of each channel at a position.
      active_positions: int32 [B, channels], where that is.
    """

    shares: np.ndarray
    positions: np.ndarray
    activations: np.ndarray
    active_positions: np.ndarray


class References:
    """Looks for peaks and follows them; each function is compiled at its first call.

    Args:
      graph: the network.
      explain: LRP, bound to it.
      shape: (H, W, C) of a picture.
      classes: the number of scores.
      sharing: the output numbers of layers whose rules take several relevances of a picture.
      xla: whether functions go through XLA.
      number: layer -> the number of its output; raises UsageError for layers without concepts.
      seen_tokens: layer -> which of its tokens stand for patches, bool; None for feature maps.
        Raises UsageError where that cannot be said.
    """

    def __init__(
        self,
        graph: Graph,
        explain: Explain,
        shape: tuple[int, ...],
        classes: int,
        sharing: Collection[int],
        xla: bool,
        number: Callable[[str], int],
        seen_tokens: Callable[[str], np.ndarray | None],
    ) -> None:
        self._graph, self._explain, self._sharing = graph, explain, sharing
        self._x, *self._target = signature_of(shape, classes)
        self._number, self._seen_tokens = number, seen_tokens
        self._functions = LazyByKey(xla)

    def peaks(
        self, x: tf.Tensor, target: Sequence[tf.Tensor], layers: Sequence[str], most: int
    ) -> tuple[np.ndarray, dict[str, Peaks]]:
        """The scores, and the peaks of each layer.

        Args:
          x: float32 [B, H, W, C].
          target: the tensors of a target, of all pictures or one for each.
          layers: their names.
          most: how many pictures are explained at once.
        """
        numbers = {layer: self._number(layer) for layer in layers}
        seen = {layer: self._seen_tokens(layer) for layer in layers}
        function = self._functions.get(
            ("peaks", *layers),
            peaks_function(self._graph, self._explain, numbers, seen),
            [self._x, *self._target],
        )
        scores, *arrays = run_in_parts(function, (x, *target), most)
        return scores, {
            layer: Peaks(*arrays[4 * at : 4 * at + 4]) for at, layer in enumerate(layers)
        }

    def position_maps(
        self, x: tf.Tensor, layer: str, channels: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        """What `Explainer.position_maps` returns."""
        number, maps = self._number(layer), []
        for part in in_parts(len(channels)):
            count = part.stop - part.start
            function = self._functions.get(
                ("maps", number, count),
                position_maps_function(self._graph, self._explain, number, count, self._sharing),
                [self._x, *[tf.TensorSpec([count], tf.int32)] * 2],
            )
            chosen = [tf.constant(one[part], tf.int32) for one in (channels, positions)]
            maps.append(function(x, *chosen).numpy())
        return np.concatenate(maps)


def in_parts(neurons: int) -> Iterator[slice]:
    """Yields the parts of so many neurons that are followed together; see `AT_ONCE`."""
    begin = 0
    while begin < neurons:
        count = next(one for one in AT_ONCE if one <= neurons - begin)
        yield slice(begin, begin + count)
        begin += count


def peaks_function(
    graph: Graph,
    explain: Explain,
    layers: Mapping[str, int],
    seen: Mapping[str, np.ndarray | None],
) -> Compute:
    """Makes the function (x, *target) -> scores, and the four arrays of `Peaks` for each layer.

    Args:
      graph: the network.
      explain: LRP, bound to it.
      layers: layer -> the number of its output.
      seen: layer -> which of its tokens stand for patches, bool; None for feature maps.
    """

    def peaks(x: tf.Tensor, *target: tf.Tensor) -> tuple[tf.Tensor, ...]:
        needed = {node.output for number in layers.values() for node in graph.behind(number)}
        nodes = [node for node in graph.nodes if node.output in needed]
        tensors = graph.forward(x)
        parts: Parts = defaultdict(list)
        parts[graph.output].append(Part(explain.start(tensors, *target)))
        graph.hand_down(parts, nodes, tensors, past_gates(explain.back))
        found = []
        for layer, number in layers.items():
            output = _by_position(tensors[number])
            arrived = parts.get(number)
            relevance = _by_position(total(arrived)) if arrived else tf.zeros_like(output)
            position = tf.argmax(relevance, 1, tf.int32)
            if (tokens := seen[layer]) is not None:
                position = tf.fill(tf.shape(position), -1)
                output = tf.where(tokens[:, None], output, output.dtype.min)
            found += [tf.reduce_sum(relevance, 1), position]
            found += [tf.reduce_max(output, 1), tf.argmax(output, 1, tf.int32)]
        return tensors[graph.output], *found

    return peaks


def position_maps_function(
    graph: Graph, explain: Explain, number: int, count: int, sharing: Collection[int]
) -> Compute:
    """Makes the function (x, channels [count], positions [count]) -> maps [count, H, W, C].

    Each map is that of one neuron of the tensor `number`; it starts with relevance 1. x has one
    picture.

    Args:
      graph: the network.
      explain: LRP, bound to it.
      number: the number of the layer's output.
      count: how many neurons are followed.
      sharing: the output numbers of layers whose rules take relevance [K, B, ...].
    """

    def maps(x: tf.Tensor, channels: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        tensors = graph.forward(x)
        output = tensors[number]
        shape = output.shape[1:]
        width = shape[-1]
        one = tf.one_hot(positions * width + channels, shape.num_elements(), dtype=output.dtype)
        begin = tf.reshape(one, [count, *shape])
        back = of_copies(past_gates(explain.back), count, sharing)
        return tf.cast(total(graph.backward(tensors, begin, back, number)[0]), tf.float32)

    return maps


def _by_position(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor [B, ..., N] as float32 [B, positions, N]."""
    shape = tensor.shape
    positions = shape[1:-1].num_elements() or 1
    return tf.reshape(tf.cast(tensor, tf.float32), [-1, positions, shape[-1]])
