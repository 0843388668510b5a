"""Changes to what steps hand down, for relevance that starts inside the network."""

from collections.abc import Collection

import tensorflow as tf

from realtime_lrp.relevance.network.graph import Back, Node
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

    Args:
      back: what each step hands down.
      count: how many relevances there are of each picture.
      sharing: the output numbers of layers whose rules compute once what these have in common.
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
