"""A Keras model as a flat list of steps over numbered tensors; tensor 0 is the model's input.

The model is walked once. Nested models are entered, shared layers appear once for each call.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import keras
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.layers import steps_of
from realtime_lrp.relevance.steps import Activation, Linear, Step


@dataclass(frozen=True)
class Node:
    """One step at its place in the network.

    Attributes:
      layer: the Keras layer's name; inside a nested model "model/layer"; "layer:2" where it is
        called a second time.
      step: what it computes.
      inputs: the numbers of the tensors it reads.
      output: the number of the tensor it makes.
      entry: whether it is the first step of its layer.
    """

    layer: str
    step: Step
    inputs: tuple[int, ...]
    output: int
    entry: bool


@dataclass
class Graph:
    """Nodes in the order of the forward pass; every node comes after those it reads from."""

    nodes: list[Node] = field(default_factory=list)
    output: int = 0

    def append(self, layer: str, steps: Sequence[Step], inputs: tuple[int, ...]) -> int:
        """Adds a layer's chain of steps and returns the number of its output."""
        calls = len({node.layer for node in self.nodes if node.layer.split(":")[0] == layer})
        layer = f"{layer}:{calls + 1}" if calls else layer
        for step in steps:
            self.output = len(self.nodes) + 1
            self.nodes.append(Node(layer, step, inputs, self.output, entry=step is steps[0]))
            inputs = (self.output,)
        return self.output

    def forward(self, x: tf.Tensor) -> dict[int, tf.Tensor]:
        """Every tensor of the forward pass by its number."""
        tensors = {0: x}
        for node in self.nodes:
            tensors[node.output] = node.step.forward(*(tensors[n] for n in node.inputs))
        return tensors

    def nonnegative(self) -> set[int]:
        """The numbers of the tensors that can never hold a negative entry."""
        found: set[int] = set()
        for node in self.nodes:
            made_so = isinstance(node.step, Activation)
            if made_so or (node.step.keeps_sign and found.issuperset(node.inputs)):
                found.add(node.output)
        return found

    def input_supports(self, shape: tuple[int, int, int]) -> dict[int, tf.Tensor]:
        """The picture's support for each input layer.

        An input layer is a linear layer with no linear layer between it and the model's input.

        Args:
          shape: (rows, columns, channels) of the model's input.

        Returns:
          By output number of the input layer: [1, ...] like its input, 1 for picture, 0 for an
          explicit padding.
        """
        supports = {0: tf.ones([1, *shape])}
        found = {}
        for node in self.nodes:
            if not supports.keys() >= set(node.inputs):
                continue
            inputs = [supports[n] for n in node.inputs]
            if isinstance(node.step, Linear):
                found[node.output] = inputs[0]
            else:
                supports[node.output] = node.step.support(*inputs)
        return found


def build_graph(model: keras.Model, pool: str) -> Graph:
    """Walks a functional or Sequential model.

    Args:
      model: one picture in, one vector out.
      pool: how relevance goes back through max pools, "max" or "average".

    Raises:
      DamagedInputError: the model is not a graph of layers, or has several inputs or outputs.
      UnsupportedLayerError: a layer has no rule.
    """
    _require_graph(model)
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise DamagedInputError(
            f"The model {model.name!r} has {len(model.inputs)} inputs and {len(model.outputs)} "
            "outputs. Expected one picture in and one vector of classes out."
        )
    graph = Graph()
    (graph.output,) = _walk(model, [0], "", graph, pool)
    return graph


def _require_graph(model: keras.Model) -> None:
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
    _require_graph(model)
    known = dict(zip(map(id, model.inputs), numbers, strict=True))
    for node in _nodes_in_order(model):
        inputs = [known[id(tensor)] for tensor in node.input_tensors]
        if isinstance(node.operation, keras.Model):
            inner = f"{prefix}{node.operation.name}/"
            outputs = _walk(node.operation, inputs, inner, graph, pool)
        else:
            steps = steps_of(node.operation, pool)
            outputs = [graph.append(prefix + node.operation.name, steps, tuple(inputs))]
        known.update(zip(map(id, node.outputs), outputs, strict=True))
    return [known[id(tensor)] for tensor in model.outputs]


def _nodes_in_order(model: keras.Model) -> list:
    # A Sequential model keeps its graph to itself; the same tensors give a functional one.
    functional = keras.Model(model.inputs, model.outputs)
    by_depth = functional._nodes_by_depth
    in_order = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in in_order if not node.is_input]
