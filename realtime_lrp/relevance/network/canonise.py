"""Folds batch norms into layers with weights, and finds the gates of products.

Without folding, a rule would look at weights that the network never uses without the batch norm.
Scores do not change.
"""

import functools
import logging
from dataclasses import replace

import tensorflow as tf

from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.traced_steps import Choice, MatrixProduct, rectifier_of

# what may lie between a sigmoid and the product that it gates
PASSING = (steps.Elementwise, steps.Move, steps.Sum, steps.Pool, steps.GlobalPool)


def canonise(graph: Graph) -> list[Node]:
    """Folds batch norms and marks the gates of products, in place; returns the replaced nodes.

    A batch norm is folded into the layer with weights before it if it is the only reader of that
    layer. Otherwise it is folded into the layers after it if all of them have weights and see no
    zero padding. Otherwise it stays, and relevance passes through it unchanged.
    """
    before = list(graph.nodes)
    for node in before:
        _as_rectifier(graph, node)
    for node in before:
        if isinstance(node.step, steps.Affine):
            _fold_backwards(graph, node, node.step) or _fold_forwards(graph, node, node.step)
    mark_gates(graph)
    return [node for node in before if node is not graph.producer(node.output)]


def _as_rectifier(graph: Graph, node: Node) -> None:
    """Makes a ReLU of a node that reads a tensor and comparisons of that tensor, if it is one."""
    reads = set(node.inputs)
    shapes: list[list[int]] = []
    while choices := [p for n in reads if (p := graph.producer(n)) and isinstance(p.step, Choice)]:
        shapes += [shape for p in choices if isinstance(p.step, Choice) for shape in p.step.shapes]
        reads = reads.difference(p.output for p in choices).union(*(p.inputs for p in choices))
    changes = any(shape != shapes[0] for shape in shapes)
    if not shapes or changes or len(reads) != 1 or isinstance(node.step, Choice):
        return
    (number,) = reads

    def compute(a: tf.Tensor) -> tf.Tensor:
        known = {number: a}

        def value(of: int) -> tf.Tensor:
            if of not in known:
                one = graph.nodes[of - 1]
                known[of] = one.step.forward(*map(value, one.inputs))
            return known[of]

        return value(node.output)

    if step := rectifier_of(compute, shapes[0]):
        graph.replace(replace(node, step=step, inputs=(number,)))


def mark_gates(graph: Graph) -> None:
    """Tells products which of their inputs are gates, in place."""
    for node in graph.nodes:
        if isinstance(node.step, steps.Product | MatrixProduct):
            inputs = enumerate(node.inputs)
            gates = frozenset(position for position, n in inputs if _gates(graph, n))
            both = isinstance(node.step, MatrixProduct) and len(gates) > 1  # neither is one then
            node.step.gates = frozenset() if both else gates


def _fold_backwards(graph: Graph, norm: Node, affine: steps.Affine) -> bool:
    number = norm.inputs[0]
    while number != graph.output and len(graph.readers(number)) == 1:
        before = graph.producer(number)
        if before is not None and isinstance(before.step, Linear):
            graph.replace(replace(before, step=before.step.then(affine.scale, affine.offset)))
            graph.replace(replace(norm, step=steps.Identity()))
            return True
        if before is None or not isinstance(before.step, steps.Identity):
            return False
        number = before.inputs[0]
    return False


def _fold_forwards(graph: Graph, norm: Node, affine: steps.Affine) -> bool:
    layers: dict[Node, Linear] = {}  # they read what the norm computes, identities skipped
    left = [norm.output]
    while left:
        number = left.pop()
        readers = graph.readers(number)
        if number == graph.output or not readers:
            return False
        for node in readers:
            if isinstance(node.step, steps.Identity):
                left.append(node.output)
            elif isinstance(node.step, Linear) and node.step.sees_whole_windows:
                layers[node] = node.step
            else:
                return False
    for node, layer in layers.items():
        graph.replace(replace(node, step=layer.after(affine.scale, affine.offset)))
    graph.replace(replace(norm, step=steps.Identity()))
    return True


def _gates(graph: Graph, number: int) -> bool:
    """Whether a tensor comes from a sigmoid, a deviation or the like, with no weights between."""
    while (node := graph.producer(number)) is not None:
        if isinstance(node.step, steps.Deviation | Choice):
            return True
        if isinstance(node.step, steps.Activation):
            return node.step.gates
        if not isinstance(node.step, PASSING) or len(node.inputs) > 1:
            return False
        (number,) = node.inputs
    return False


log = logging.getLogger(__name__)


@functools.lru_cache(256)
def warn_once(text: str) -> None:
    """Logs a warning unless it was logged before."""
    log.warning("%s", text)
