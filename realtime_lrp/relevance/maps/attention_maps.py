"""Attention weights as maps: those of the last layer, and attention rollout.

They say which patches the answer looks at. What these patches say for or against a class does not
show: the maps of all classes are the same.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.plan import Options, Plan
from realtime_lrp.relevance.network.graph import Graph, Parts, total
from realtime_lrp.relevance.network.steps import Softmax
from realtime_lrp.relevance.network.token_grids import TokenGrid, TokenGrids
from realtime_lrp.relevance.network.traced_steps import MatrixProduct


class Attention(NamedTuple):
    """The attention of a network among the patches of a picture."""

    # the numbers of the tensors that hold them, [B, heads, tokens, tokens], from the first layer to
    # the last. Each row adds up to 1. In the last one there may be other rows, as where attention
    # pools the patches
    weights: tuple[int, ...]
    grid: TokenGrid  # the patches that the tokens stand for


def attention_weights(graph: Graph) -> tuple[int, ...]:
    """The numbers of the softmaxes whose rows weigh the rows of another matrix."""
    found = set()
    for node in graph.nodes:
        if isinstance(node.step, MatrixProduct) and len(node.step.gate) == 1:
            (position,) = node.step.gate
            weights = _nearest_softmax(graph, node.inputs[position])
            found |= set() if weights is None else {weights}
    return tuple(sorted(found))


def _nearest_softmax(graph: Graph, number: int) -> int | None:
    node = graph.producer(number)
    while node and not isinstance(node.step, Softmax):
        node = graph.producer(node.inputs[0])
    return node.output if node else None


def find_attention(graph: Graph, options: Options | None = None) -> Attention:
    """Finds the attention among the patches of a picture."""
    weights = attention_weights(graph)
    if not weights:
        raise UsageError(
            f"The network {graph.name!r} has no attention: attention and attention_rollout are "
            "for transformers. Use another method, such as lrp.",
            "method",
        )
    shapes = [graph.shapes[number] for number in weights]
    tokens = shapes[0][-1]
    grid = _grid(graph, weights[0], tokens)
    square = all(shape[-2:] == (tokens, tokens) for shape in shapes[:-1])
    by_rows = all(_adds_up_rows(graph, number) for number in weights)
    among_all = square and by_rows and shapes[-1][-1] == tokens and len(shapes[0]) <= 4
    if grid is None or not among_all:
        raise UsageError(
            f"The attention of {graph.name!r} is not among all patches of a picture but within "
            f"windows or between other tokens (weights {_by(shapes[0])} to {_by(shapes[-1])}): "
            "attention and attention_rollout cannot follow it. Use the method lrp with the "
            "composite attnlrp.",
            "method",
        )  # fmt: skip
    return Attention(weights, grid)


def _adds_up_rows(graph: Graph, number: int) -> bool:
    """Whether a softmax is along the last axis."""
    softmax = cast(Softmax, graph.nodes[number - 1].step)
    return np.atleast_1d(softmax.axis).tolist() in ([-1], [len(graph.shapes[number]) - 1])


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape[1:]))


def _grid(graph: Graph, end: int, tokens: int) -> TokenGrid | None:
    """The patches of the last tokens before a tensor, if there are as many as it has columns."""
    grids = TokenGrids(graph, end)
    found = (grids.grid(node.output) for node in reversed(graph.nodes[: end - 1]))
    return next((one for one in found if one is not None and len(one.cells) == tokens), None)


def patches_of(graph: Graph) -> tuple[int, int] | None:
    """Rows and columns of the patches among which a network attends, or None."""
    try:
        return find_attention(graph).grid[:2]
    except UsageError:
        return None


def last_layer(
    plan: Plan, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    """How much the answer attends to each patch in the last layer, as a map."""
    last = plan.needed.weights[-1]
    looked = tf.linalg.matvec(mean_of_heads(tensors[last]), _read(parts, last), transpose_a=True)
    return _drawn(looked, plan.needed.grid, x)


def rollout(plan: Plan, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts) -> tf.Tensor:
    """Attention rollout (Abnar & Zuidema 2020): weights of all layers multiplied, as a map.

    Half of each token stays what it was, as the residual connection keeps it.
    """
    found: Attention = plan.needed
    looked = _read(parts, found.weights[-1])
    for number in reversed(found.weights):
        weights = mean_of_heads(tensors[number])
        attended = tf.linalg.matvec(weights, looked, transpose_a=True)
        square = weights.shape[1] == weights.shape[2]
        looked = (attended + looked) / 2 if square else attended
    return _drawn(looked, found.grid, x)


def mean_of_heads(weights: tf.Tensor) -> tf.Tensor:
    """Attention weights [B, heads, rows, tokens] averaged, float32 [B, rows, tokens]."""
    weights = tf.cast(weights, tf.float32)
    return tf.reduce_mean(weights, 1) if weights.shape.rank == 4 else weights


def _read(parts: Parts, last: int) -> tf.Tensor:
    """The share of each row of the last layer in the answer: [B, rows], adding up to 1.

    The answer depends on the class token alone, or on all tokens: on whatever has a gradient.
    """
    gradient = mean_of_heads(tf.abs(total(parts[last])))
    read = tf.cast(tf.reduce_max(gradient, -1) > 0, tf.float32)
    return tf.math.divide_no_nan(read, tf.reduce_sum(read, -1, keepdims=True))


def _drawn(looked: tf.Tensor, grid: TokenGrid, x: tf.Tensor) -> tf.Tensor:
    """What the answer sees in each token, [B, tokens], as a map shaped like x with the same sum.

    Tokens that are no patches are left out. Resized bilinearly, as Grad-CAM is.
    """
    rows, columns, cells = grid
    in_order = np.argsort(cells)[-rows * columns :]
    patches = tf.reshape(tf.gather(looked, in_order, axis=1), [-1, rows, columns, 1])
    height, width, channels = x.shape[1:]
    drawn = tf.image.resize(patches, (height, width))
    share = rows * columns / (height * width * channels)
    return tf.repeat(drawn * share, channels, axis=3)
