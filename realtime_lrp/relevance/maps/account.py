"""The account of relevance: what started, what reached the pixels, what biases took, what was lost.

LRP has one; that of integrated gradients compares the map's sum with the difference of the scores.
The numbers of other methods mean nothing. Sums are those of a picture.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.maps.methods import Explain, MethodResult
from realtime_lrp.relevance.network.graph import BIASES, Graph, Part, total

FLOOD = 1e3
"""A layer, or a whole network, that makes the sum of magnitudes larger by more than this factor
computes a map that explains nothing."""

VANISHED = 0.01
"""Where pixels and biases received less than this share of what started, a map shows nothing."""


@dataclass(frozen=True)
class LayerFlow:
    """What went through one layer on the way back, for each picture of a batch.

    Attributes:
      name: the layer's name.
      kind: its Keras type.
      arrived: float64 [B], the sum of relevance that arrived at its output.
      handed_down: the sum that it handed to its inputs.
      taken_by_biases: the sum that its biases took.
      growth: the sum of magnitudes handed down, divided by the one that arrived.
    """

    name: str
    kind: str
    arrived: np.ndarray
    handed_down: np.ndarray
    taken_by_biases: np.ndarray
    growth: np.ndarray

    @property
    def lost(self) -> np.ndarray:
        """What neither the inputs nor the biases received."""
        return self.arrived - self.handed_down - self.taken_by_biases


@dataclass(frozen=True)
class Account:
    """Where the relevance of each picture went: started = reached + biases + lost.

    Attributes:
      started: float32 [B], the relevance at the network's output; for integrated gradients by how
        much the explained scores differ from those of the baseline.
      reached: float32 [B], the sum of the map.
      biases: float32 [B], what biases took.
    """

    started: np.ndarray
    reached: np.ndarray
    biases: np.ndarray

    @property
    def lost(self) -> np.ndarray:
        """float32 [B], what neither the pixels nor biases received; below 0 it was gained."""
        return self.started - self.reached - self.biases

    @property
    def vanished(self) -> np.ndarray:
        """Whether the pixels and biases received less than 1 % of what started: bool [B]."""
        received: np.ndarray = np.abs(self.reached) + np.abs(self.biases)
        return received < VANISHED * np.abs(self.started)


def flood_advice(absorb_bias: bool | None, drowns: bool = False) -> str:
    """What to do where relevance grows without limit on its way back.

    Args:
      absorb_bias: as the user set it.
      drowns: whether it grows at the start, where the probability of each of several classes is
        divided by its logit, which may be nearly 0.
    """
    if drowns:
        return "explain one class (--target top1), or start from the logits (lrp.start: logit)"
    if absorb_bias is False:
        return "leave lrp.absorb_bias at null, or choose another --composite"
    return "choose another --composite, or other rules for its layers (lrp.layers)"


def flood_text(growth: float, layer: str, kind: str, layer_growth: float, advice: str) -> str:
    """Says that a map explains nothing, why, and what to do.

    Args:
      growth: how many times larger the sum of magnitudes became on the whole way.
      layer: the layer where it grew most.
      kind: its Keras type.
      layer_growth: how many times larger it became there.
      advice: what to do.
    """
    return (
        f"the map explains nothing: relevance grew by a factor of {growth:.1e} on its way, most in "
        f"the layer {layer!r} ({kind}, {layer_growth:.1e}). Expected at most {FLOOD:.0f}: "
        f"{advice}."
    )


def account(result: MethodResult, output: int) -> tf.Tensor:
    """What started: its sum and the sum of its magnitude; and what biases took. float32 [B, 3].

    For integrated gradients it is what their sum should be, the difference of the scores.

    Args:
      result: what the method computed.
      output: the number of the network's output.
    """
    if result.difference is not None:
        none = tf.zeros_like(result.difference)
        return tf.stack([result.difference, tf.abs(result.difference), none], -1)
    parts = result.parts
    begin = tf.cast(parts[output][0].tensor, tf.float32)
    started, magnitude = tf.reduce_sum(begin, -1), tf.reduce_sum(tf.abs(begin), -1)
    taken = [part.tensor for part in parts.get(BIASES, ())]
    return tf.stack([started, magnitude, tf.add_n([tf.zeros_like(started), *taken])], -1)


def flows_function(graph: Graph, explain: Explain) -> Callable[..., tf.Tensor]:
    """Makes the function (x, *target) -> float32 [nodes, B, 5], see `layer_flows`.

    For each node: the sum and the magnitude of what arrived, the sum
    and the magnitude of what it handed down, and what biases took.
    """

    def flows(x: tf.Tensor, *target: tf.Tensor) -> tf.Tensor:
        parts = explain(x, graph.forward(x), *target).parts
        from_node: dict[int, list[Part]] = {}
        biases = {}
        for number, handed in parts.items():
            for part in handed:
                if part.node and number == BIASES:
                    biases[part.node.output] = part.tensor
                elif part.node:
                    from_node.setdefault(part.node.output, []).append(part)
        nothing = tf.zeros([tf.shape(x)[0], 5])
        rows = []
        for node in graph.nodes:
            if node.output in from_node:
                sums = [_sums([Part(total(parts[node.output]))]), _sums(from_node[node.output])]
                taken = biases.get(node.output, nothing[:, 0])[:, None]
                rows.append(tf.concat([*sums, taken], -1))
            else:
                rows.append(nothing)
        return tf.stack(rows)

    return flows


def _sums(parts: Sequence[Part]) -> tf.Tensor:
    """Sum and magnitude of several tensors together, float32 [B, 2]."""
    tensors = [tf.cast(part.tensor, tf.float32) for part in parts]
    axes = [list(range(1, tensor.shape.rank)) for tensor in tensors]
    pairs = [
        tf.stack([tf.reduce_sum(tensor, axis), tf.reduce_sum(tf.abs(tensor), axis)], -1)
        for tensor, axis in zip(tensors, axes, strict=True)
    ]
    return tf.add_n(pairs)


def layer_flows(graph: Graph, numbers: np.ndarray) -> list[LayerFlow]:
    """One entry for each node, from the output to the input.

    Args:
      graph: the network.
      numbers: what the compiled `flows_function` returned.
    """
    flows = []
    for node, row in zip(graph.nodes, np.asarray(numbers, np.float64), strict=True):
        arrived, magnitude, handed_down, handed_magnitude, taken = row.T
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = np.where(magnitude > 0, handed_magnitude / magnitude, 0.0)
        flows.append(LayerFlow(node.layer, node.kind, arrived, handed_down, taken, growth))
    return flows[::-1]
