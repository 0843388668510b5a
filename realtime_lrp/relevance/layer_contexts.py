"""What rules may know about each layer with weights, and what these layers cost."""

import math

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, first_line
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.rules import LayerContext


def compute_supports(graph: Graph, shape: tuple[int, int, int]) -> dict[int, tf.Tensor]:
    """The support of every tensor, see `Graph.supports`.

    Raises:
      UsageError: the model cannot run on pictures of this shape.
    """
    try:
        return graph.supports(shape)
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        raise UsageError(
            f"The model {graph.name!r} cannot be run on pictures of "
            f"{shape[0]} x {shape[1]} ({first_line(error)}).",
            "size",
        ) from error


def layer_contexts(
    graph: Graph,
    supports: dict[int, tf.Tensor],
    box: tuple[np.ndarray, np.ndarray] | None,
) -> dict[int, LayerContext]:
    """The context of each layer with weights, by output number.

    Args:
      graph: the canonised network.
      supports: those of its tensors.
      box: the lowest and highest input [H, W, C], or None.
    """
    nonnegative = graph.nonnegative()
    inputs = graph.before_weights(supports[0])
    ends = [graph.before_weights(tf.constant(end[None])) for end in box or ()]
    contexts = {}
    for node in graph.nodes:
        if isinstance(node.step, Linear):
            (number,) = node.inputs
            bounds = [end[number] for end in ends if number in end]
            contexts[node.output] = LayerContext(
                name=node.layer,
                nonnegative=number in nonnegative,
                support=supports[number],
                is_input=number in inputs,
                box=(tf.minimum(*bounds), tf.maximum(*bounds)) if bounds else None,
            )
    return contexts


def count_operations(graph: Graph, supports: dict[int, tf.Tensor]) -> tuple[int, int]:
    """(floating point operations, weights) of the layers with weights, biases not counted.

    The operations are those of one forward pass of one picture.
    """
    operations = weights = 0
    for node in graph.nodes:
        if isinstance(node.step, Linear):
            (number,) = node.inputs
            size = math.prod(node.step.kernel.shape)
            uses = node.step.uses_per_weight(supports[number], supports[node.output])
            weights += size
            operations += 2 * size * uses
    return operations, weights
