"""What each layer of a network held during one explanation."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from realtime_lrp.relevance.maps.compiled import LayerTensors
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.rules.rules import Rule


@dataclass(frozen=True)
class LayerRecord:
    """What one layer of the network held during one explanation.

    The tensors are those of the model as Keras runs it, even where a batch norm was folded.

    Attributes:
      name: the layer's name; "model/layer" inside a nested model, "layer:2" at a second call.
      kind: its Keras type.
      rule: the rule of its weights; "" where it has none or the method follows no rules.
      inputs: the tensors that it read, [B, ...] each.
      output: the tensor that it computed, [B, ...].
      arrived: what arrived at its output, shaped like it: relevance, or the gradient.
      handed_down: what it handed to each of its inputs, shaped like these.
      taken_by_biases: float32 [B], the sum of relevance that its biases took.
    """

    name: str
    kind: str
    rule: str
    inputs: tuple[np.ndarray, ...]
    output: np.ndarray
    arrived: np.ndarray
    handed_down: tuple[np.ndarray, ...]
    taken_by_biases: np.ndarray

    def sums(self) -> np.ndarray:
        """The sum of relevance that the layer hands down to its inputs, float64 [B]."""
        parts = [part.reshape(len(part), -1) for part in self.handed_down]
        return np.sum([part.sum(1, dtype=np.float64) for part in parts], axis=0)


def layer_records(
    graph: Graph, rules: Mapping[int, Rule], tensors: LayerTensors
) -> list[LayerRecord]:
    """One record for each layer, from the output to the input.

    Args:
      graph: the network.
      rules: the rule of each layer with weights, by output number.
      tensors: what the compiled function of the layers returned.
    """
    shown, arrived, handed_down = tensors
    by_layer: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.output in arrived:
            by_layer.setdefault(node.layer, []).append(node)
    records = []
    for nodes in by_layer.values():
        first, last = nodes[0], nodes[-1]
        of_weights = [str(rules[node.output]) for node in nodes if node.output in rules]
        taken = [
            handed_down[node.output, len(node.inputs)].numpy()
            for node in nodes
            if (node.output, len(node.inputs)) in handed_down
        ]
        inputs = [shown[number].numpy() for number in first.inputs]
        received = [handed_down.get((first.output, index)) for index in range(len(inputs))]
        records.append(
            LayerRecord(
                name=first.layer,
                kind=first.kind,
                rule=of_weights[0] if of_weights else "",
                inputs=tuple(inputs),
                output=shown[last.output].numpy(),
                arrived=arrived[last.output].numpy(),
                handed_down=tuple(
                    np.zeros_like(a) if part is None else part.numpy()
                    for a, part in zip(inputs, received, strict=True)
                ),
                taken_by_biases=sum(taken, np.zeros(len(arrived[last.output]), np.float32)),
            )
        )
    return records[::-1]
