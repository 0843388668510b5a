"""A Keras model as a flat list of steps over numbered tensors; tensor 0 is the model's input.

The model is walked once. Nested models are entered, shared layers appear once for each call.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.half import InHalf
from realtime_lrp.relevance.layers import steps_of
from realtime_lrp.relevance.linear import RECTIFIERS, Linear
from realtime_lrp.relevance.steps import (
    Activation,
    Add,
    Concatenate,
    Elementwise,
    GlobalPool,
    Identity,
    MaxPool,
    Pool,
    Reshape,
    Step,
    Tensors,
)


@dataclass(frozen=True)
class Node:
    """One step at its place in the network.

    Attributes:
      layer: the Keras layer's name; inside a nested model "model/layer"; "layer:2" where it is
        called a second time.
      kind: the Keras layer's type.
      step: what it computes.
      inputs: the numbers of the tensors it reads.
      output: the number of the tensor it makes.
    """

    layer: str
    kind: str
    step: Step
    inputs: tuple[int, ...]
    output: int


_KEEPING_SCORES = (Reshape, Elementwise, Concatenate, Pool, GlobalPool, Add)

Back = Callable[[Node, Tensors, tf.Tensor, tf.Tensor], Tensors]
"""(node, its inputs, its output, what arrives at the output) -> what each input gets."""


class Part(NamedTuple):
    """What a node hands down to one of its inputs.

    Attributes:
      tensor: like the input.
      node: who hands it down; None for what begins at the output.
      place: which of the node's inputs it is.
    """

    tensor: tf.Tensor
    node: Node | None = None
    place: int = 0


Parts = dict[int, list[Part]]
"""Number of a tensor -> what arrives there."""


@dataclass
class Graph:
    """Nodes in the order of the forward pass; every node comes after those it reads from.

    It keeps the model's weights, not the model.

    Attributes:
      nodes: the steps.
      output: the number of the model's output.
      name: the model's name.
      input_shape: (rows, columns, channels) that it reads, None where they are not fixed.
      output_shape: of its output, without the batch.
    """

    nodes: list[Node] = field(default_factory=list)
    output: int = 0
    name: str = ""
    input_shape: tuple[int | None, ...] = ()
    output_shape: tuple[int | None, ...] = ()
    _between: set[int] = field(default_factory=set)
    _dtype: tf.DType = tf.float32

    def append(self, layer: str, kind: str, steps: Sequence[Step], inputs: tuple[int, ...]) -> int:
        """Adds a layer's chain of steps and returns the number of its output."""
        calls = len({node.layer for node in self.nodes if node.layer.split(":")[0] == layer})
        layer = f"{layer}:{calls + 1}" if calls else layer
        for step in steps:
            self.output = len(self.nodes) + 1
            self.nodes.append(Node(layer, kind, step, inputs, self.output))
            inputs = (self.output,)
        return self.output

    def producer(self, number: int) -> Node | None:
        """The node that makes a tensor; None for the model's input."""
        return self.nodes[number - 1] if number else None

    def readers(self, number: int) -> list[Node]:
        """The nodes that read a tensor."""
        return [node for node in self.nodes if number in node.inputs]

    def replace(self, node: Node) -> None:
        """Puts a node in the place of the one that makes the same tensor."""
        self.nodes[node.output - 1] = node

    def compute_in(self, dtype: tf.DType) -> None:
        """Lets the layers with weights, and what lies between them, compute in another type.

        float16 is for the products of the layers alone; what lies between them stays in float32.

        What comes before the first and after the last of them stays in float32: the picture's
        preprocessing, the softmax. So does an input layer whose output a max pool reads: of a
        window's nearly equal entries the rounded ones would make another one win, which moves
        relevance at full resolution (SqueezeNet, z+: correlation with float32 0.997, so 0.9999).
        """
        self._dtype, self._between = dtype, self._between_weights()
        for node in self.nodes:
            self.replace(self.computing(node))

    def computing(self, node: Node) -> Node:
        """The node with its weights in the type in which it computes."""
        if not (isinstance(node.step, Linear) and node.output in self._between):
            return node
        if self._dtype == tf.float16:
            return replace(node, step=InHalf(node.step))
        return replace(node, step=node.step.cast(self._dtype))

    def unfolded(self, nodes: Sequence[Node]) -> "Graph":
        """This graph with nodes as they were before something was folded into or out of them."""
        graph = copy.copy(self)
        graph.nodes = list(self.nodes)
        for node in nodes:
            graph.replace(self.computing(node))
        return graph

    def _between_weights(self) -> set[int]:
        """The output numbers of the layers with weights and of what lies between them."""
        behind: set[int] = set()
        before: set[int] = set()
        exact = self._inputs_before_max_pools()
        for node in self.nodes:
            begins = isinstance(node.step, Linear) and node.output not in exact
            if begins or not behind.isdisjoint(node.inputs):
                behind.add(node.output)
        for node in reversed(self.nodes):
            if isinstance(node.step, Linear) or node.output in before:
                before |= {node.output, *node.inputs}
        return behind & before

    def _inputs_before_max_pools(self) -> set[int]:
        """The output numbers of the input layers of which a max pool reads, directly or behind."""
        origin: dict[int, set[int]] = {0: {0}}  # the layers with weights right before a tensor
        found: set[int] = set()
        for node in self.nodes:
            before = set().union(*(origin[n] for n in node.inputs))
            if isinstance(node.step, Linear):
                origin[node.output] = {node.output} if before == {0} else set()
            else:
                origin[node.output] = before
                found |= before if isinstance(node.step, MaxPool) else set()
        return found - {0}

    def forward(self, x: tf.Tensor, joined: bool = True) -> dict[int, tf.Tensor]:
        """Every tensor of the forward pass by its number.

        Args:
          x: the model's input.
          joined: a layer with weights computes the ReLU that alone reads it as well; the tensor
            between them, which no rule and no gradient needs, is then the rectified one.
        """
        tensors = {0: x}
        between = tf.float32 if self._dtype == tf.float16 else self._dtype
        for node in self.nodes:
            if node.output in tensors:
                continue
            dtype = between if node.output in self._between else tf.float32
            inputs = [tf.cast(tensors[n], dtype) for n in node.inputs]
            behind, rectifier = self._up_to_rectifier(node) if joined else ([], "")
            if behind:
                output = node.step.forward(*inputs, rectifier)
                tensors |= {one.output: output for one in (node, *behind)}
            else:
                tensors[node.output] = node.step.forward(*inputs)
        return tensors

    def _up_to_rectifier(self, node: Node) -> tuple[list[Node], str]:
        """What alone reads a layer with weights, one behind the other, up to a ReLU, and its name.

        Nothing where there is no such ReLU.
        """
        behind: list[Node] = []
        number = node.output if isinstance(node.step, Linear) else self.output
        while number != self.output and len(readers := self.readers(number)) == 1:
            behind += readers
            number = readers[0].output
            step = readers[0].step
            if isinstance(step, Activation) and step.name in RECTIFIERS:
                return behind, step.name
            if not isinstance(step, Identity):
                break
        return [], ""

    def finite(self, tensors: dict[int, tf.Tensor]) -> tf.Tensor:
        """Whether all that layers with weights made is finite, bool [B].

        Behind a layer it may no longer be seen: a ReLU makes 0 of NaN.
        """
        made = [tensors[node.output] for node in self.nodes if isinstance(node.step, Linear)]
        sums = [tf.reduce_sum(tf.cast(one, tf.float32), range(1, one.shape.rank)) for one in made]
        return tf.reduce_all(tf.math.is_finite(sums), 0)

    def activations(self, size: tuple[int, int]) -> int:
        """How many numbers a forward pass of one picture of (rows, columns) holds."""
        picture = tf.TensorSpec([1, *size, self.input_shape[-1]], tf.float32)
        made = tf.function(self.forward, autograph=False).get_concrete_function(picture)
        return sum(math.prod(one.shape) for one in made.structured_outputs.values())

    def backward(self, tensors: Mapping[int, tf.Tensor], begin: tf.Tensor, back: Back) -> Parts:
        """Sends something back from the output to the input, over the kept tensors.

        Args:
          tensors: what `forward` gave.
          begin: what arrives at the output.
          back: what each node does with what arrives.

        Returns:
          What arrives at each tensor, in the order in which it travels.
        """
        parts: Parts = defaultdict(list, {self.output: [Part(begin)]})
        for node in reversed(self.nodes):
            if node.output not in parts:
                continue  # a branch that the output does not use
            output = tensors[node.output]
            inputs = [tf.cast(tensors[n], output.dtype) for n in node.inputs]
            handed = back(node, inputs, output, total(parts[node.output]))
            for place, (number, part) in enumerate(zip(node.inputs, handed, strict=True)):
                parts[number].append(Part(tf.cast(part, tensors[number].dtype), node, place))
        return parts

    def nonnegative(self) -> set[int]:
        """The numbers of the tensors that can never hold a negative entry."""
        found: set[int] = set()
        for node in self.nodes:
            made_so = isinstance(node.step, Activation) and node.step.nonnegative
            if made_so or (node.step.keeps_sign and found.issuperset(node.inputs)):
                found.add(node.output)
        return found

    def scoring(self) -> set[int]:
        """The numbers of the activations that make the output's scores.

        A softmax or sigmoid at the end, joined, pooled, averaged or scaled at most; none where the
        output holds no probabilities.
        """
        return self._scoring(self.output)

    def _scoring(self, number: int) -> set[int]:
        node = self.producer(number)
        if node is None:
            return set()
        if isinstance(node.step, Activation):
            return {number} if node.step.gates else set()
        if not isinstance(node.step, _KEEPING_SCORES):
            return set()
        found = [self._scoring(n) for n in node.inputs]
        return set().union(*found) if all(found) else set()

    def supports(self, shape: tuple[int, int, int]) -> dict[int, tf.Tensor]:
        """Where each tensor holds something and is not an explicit padding.

        Args:
          shape: (rows, columns, channels) of the model's input.

        Returns:
          By tensor number, [1, ...]: 1 for content, 0 for padding.
        """
        supports = {0: tf.ones([1, *shape])}
        for node in self.nodes:
            inputs = [supports[n] for n in node.inputs]
            if isinstance(node.step, Linear):
                supports[node.output] = tf.ones_like(node.step.forward(*inputs))
            else:
                supports[node.output] = node.step.support(*inputs)
        return supports

    def before_weights(self, x: tf.Tensor) -> dict[int, tf.Tensor]:
        """The tensors between the model's input x and its first layers with weights."""
        tensors = {0: x}
        for node in self.nodes:
            if not isinstance(node.step, Linear) and tensors.keys() >= set(node.inputs):
                tensors[node.output] = node.step.forward(*(tensors[n] for n in node.inputs))
        return tensors


def total(parts: Sequence[Part]) -> tf.Tensor:
    """What arrives at a tensor: the sum of all that was handed down to it."""
    return tf.add_n([part.tensor for part in parts])


def build_graph(model: keras.Model, pool: str) -> Graph:
    """Walks a functional or Sequential model.

    Args:
      model: one picture in, one vector out.
      pool: how relevance goes back through max pools, "max" or "average".

    Raises:
      DamagedInputError: the model is not a graph of layers, or has several inputs or outputs.
      UnsupportedLayerError: a layer has no rule.
    """
    require_graph(model)
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise DamagedInputError(
            f"The model {model.name!r} has {len(model.inputs)} inputs and {len(model.outputs)} "
            "outputs. Expected one picture in and one vector of classes out."
        )
    picture, scores = (tuple(ends[0].shape)[1:] for ends in (model.inputs, model.outputs))
    graph = Graph(name=model.name, input_shape=picture, output_shape=scores)
    (graph.output,) = _walk(model, [0], "", graph, pool)
    return graph


def require_graph(model: keras.Model) -> None:
    """Refuses a model whose layers cannot be walked.

    Raises:
      DamagedInputError: it is subclassed or not built.
    """
    try:
        known = model.inputs and model.outputs
    except (AttributeError, ValueError):
        known = False
    if not known:
        raise DamagedInputError(
            f"The model {model.name!r} is not a graph of layers. Expected a functional or a built "
            "Sequential Keras model; subclassed models have to be written as a functional one."
        )


def _walk(
    model: keras.Model, numbers: list[int], prefix: str, graph: Graph, pool: str
) -> list[int]:
    """Appends the model's layers; returns the numbers of its outputs."""
    require_graph(model)
    known = dict(zip(map(id, model.inputs), numbers, strict=True))
    for node in _nodes_in_order(model):
        inputs = [known[id(tensor)] for tensor in node.input_tensors]
        if isinstance(node.operation, keras.Model):
            inner = f"{prefix}{node.operation.name}/"
            outputs = _walk(node.operation, inputs, inner, graph, pool)
        else:
            layer = node.operation
            _require_finite(layer)
            steps = steps_of(layer, pool, node.arguments.args)
            kind = type(layer).__name__
            outputs = [graph.append(prefix + layer.name, kind, steps, tuple(inputs))]
        known.update(zip(map(id, node.outputs), outputs, strict=True))
    return [known[id(tensor)] for tensor in model.outputs]


def _require_finite(layer: keras.Operation) -> None:
    for weight in getattr(layer, "weights", ()):  # plain operations have none
        if not np.isfinite(tf.reduce_sum(tf.cast(weight.value, tf.float32)).numpy()):
            raise DamagedInputError(
                f"The weights {weight.name!r} of the layer {layer.name!r} "
                f"({type(layer).__name__}) hold NaN, Inf or numbers too large to be added up. "
                "Expected finite weights: train or export the model again."
            )


def _nodes_in_order(model: keras.Model) -> list[Any]:
    # A Sequential model keeps its graph to itself; the same tensors give a functional one.
    functional = keras.Model(model.inputs, model.outputs)
    by_depth = functional._nodes_by_depth
    in_order = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in in_order if not node.is_input]
