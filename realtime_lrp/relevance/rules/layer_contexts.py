"""Facts for the rules about each layer with weights, the layers' costs, and their strides."""

import math
from typing import cast

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, nearest
from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.network.convolutions import Convolution, TransposedConvolution
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Dense, Linear
from realtime_lrp.relevance.network.places import compute_supports
from realtime_lrp.relevance.network.token_grids import TokenGrids
from realtime_lrp.relevance.rules.rules import LayerContext


def layer_contexts(
    graph: Graph, shape: tuple[int, int, int], box: tuple[np.ndarray, np.ndarray] | None
) -> dict[int, LayerContext]:
    """The context of each layer with weights, by output number, for pictures (H, W, C) in a box."""
    supports = compute_supports(graph, shape)
    nonnegative = graph.nonnegative()
    inputs = graph.computed({0: supports[0]}, Linear)
    ends = [graph.computed({0: tf.constant(end[None])}, Linear) for end in box or ()]
    contexts = {}
    for node in graph.with_weights:
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


def count_operations(graph: Graph) -> tuple[int, int]:
    """(floating point operations of a forward pass of a picture, weights without biases)."""
    operations = weights = 0
    for node in graph.with_weights:
        size = math.prod(cast(Linear, node.step).kernel.shape)
        weights += size
        transposed = isinstance(node.step, TransposedConvolution)
        positions = graph.shapes[node.inputs[0] if transposed else node.output][1:-1]
        operations += 2 * size * math.prod(positions)  # each weight is used at each of them
    return operations, weights


def pixel_stride(graph: Graph) -> tuple[int, int]:
    """The period of the grid that the first layers leave in a map: (rows, columns) in pixels.

    It is the stride of the first layers with weights, times the stride of pools before them. Pools
    right behind them count too if their windows overlap, as in SqueezeNet and ResNet50. The largest
    of several first layers counts. A dense layer of patches has their size as its stride.
    """
    before = {0: np.ones(2, int)}  # tensor -> pixels for every entry
    behind: dict[int, np.ndarray] = {}  # the same, up to the second layers with weights
    found = [before[0]]
    for node in graph.nodes:
        known = next((k for k in (before, behind) if k.keys() >= set(node.inputs)), None)
        if known is None or (known is behind and isinstance(node.step, Linear)):
            continue
        stride = np.max([known[n] for n in node.inputs], axis=0)
        if isinstance(node.step, steps.Pool):
            stride = stride * node.step.geometry["strides"][1:3]
        elif isinstance(node.step, Convolution) and len(node.step.geometry["strides"]) == 2:
            stride = stride * node.step.geometry["strides"]
        if isinstance(node.step, Dense) and len(graph.shapes[node.output]) > 2:
            grid = TokenGrids(graph, node.output).cells_of_patches(node.output)
            stride = np.ones(2, int) if grid is None else np.array(graph.shapes[0][1:3]) // grid
        if isinstance(node.step, Linear):
            behind[node.output] = stride
            found.append(stride)
        else:
            known[node.output] = stride
            if known is behind and isinstance(node.step, steps.Pool) and node.step.overlaps:
                found.append(stride)
    rows, columns = np.max(found, axis=0).tolist()
    return rows, columns


def feature_maps(graph: Graph, layer: str) -> int:
    """The number of the feature maps that a layer computes."""
    found = {
        node.layer: node.output
        for node in graph.nodes
        if len(shape := graph.shapes[node.output]) == 4 and shape[1] * shape[2] > 1
    }
    if layer in found:
        return found[layer]
    close = nearest(layer, found)
    hint = f"Did you mean {close!r}?" if close else f"There are: {', '.join(found)}."
    raise UsageError(
        f"No layer with rows and columns is called {layer!r}. {hint}", "grad_cam_layer"
    )


def spatial_maps(graph: Graph) -> list[int]:
    """The numbers of the tensors with rows and columns, but of pools of other ones.

    Of a detector they are those that both its boxes and its scores are computed from.
    """
    spatial = {0}
    found = []
    scoring = graph.scoring()
    for node in graph.nodes:
        moved = isinstance(node.step, steps.Reshape | steps.Permute | steps.GlobalPool)
        shape = graph.shapes[node.output]
        if moved or spatial.isdisjoint(node.inputs) or len(shape) != 4:
            continue
        spatial.add(node.output)
        passes_on = isinstance(node.step, steps.Pool | steps.Identity | steps.ZeroPadding)
        if shape[1] * shape[2] > 1 and not passes_on and node.output not in scoring:
            found.append(node.output)
    if ends := graph.ends:
        shared = graph.leading_to({ends.boxes}) & graph.leading_to({ends.scores})
        found = [number for number in found if number in shared]
    return found
