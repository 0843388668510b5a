"""What each layer of a network held, or summed up, during one explanation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import NotFiniteError
from realtime_lrp.relevance.maps.account import LayerFlow, flood_advice
from realtime_lrp.relevance.maps.plan import MethodResult, Plan
from realtime_lrp.relevance.maps.targets import Target, Targets, is_sequence
from realtime_lrp.relevance.network.checks import to_float32
from realtime_lrp.relevance.network.graph import BIASES, Graph, Node, Part, total
from realtime_lrp.relevance.rules.rules import Rule

LayerTensors = tuple[dict[int, tf.Tensor], dict[int, tf.Tensor], dict[tuple[int, int], tf.Tensor]]
"""Tensors of the model by number, what arrived at them by number, and what nodes handed down, by
(number of the node's output, position of its input). What biases took, [B], follows the inputs."""


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


def layers_function(plan: Plan, as_built: Graph) -> Callable[..., LayerTensors]:
    """Makes the function (x, target) -> what every layer computed and handed down.

    The tensors are those of `as_built`, the network before batch norms were folded.
    """

    def layers(x: tf.Tensor, target: Target) -> LayerTensors:
        graph = plan.graph
        parts = plan(x, graph.forward(x), target).parts
        shown = as_built.forward(x, joined=False)
        arrived = {
            number: tf.cast(total(handed), tf.float32)
            for number, handed in parts.items()
            if number != BIASES
        }
        handed_down = {
            (part.node.output, part.position): tf.cast(part.tensor, tf.float32)
            for handed in parts.values()
            for part in handed
            if part.node
        }
        read = {n for node in graph.nodes if node.output in arrived for n in node.inputs}
        return {n: shown[n] for n in {*arrived, *read}}, arrived, handed_down

    return layers


def layer_records(
    graph: Graph, rules: Mapping[int, Rule], tensors: LayerTensors
) -> list[LayerRecord]:
    """One record for each layer, from the output to the input; rules are by output number."""
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


def account(result: MethodResult, output: int) -> tf.Tensor:
    """What started: its sum and the sum of its magnitude; and what biases took. float32 [B, 3].

    For integrated gradients it is what their sum should be, the difference of the scores.
    `output` is the number of the network's output.
    """
    if result.difference is not None:
        none = tf.zeros_like(result.difference)
        return tf.stack([result.difference, tf.abs(result.difference), none], -1)
    parts = result.parts
    begin = tf.cast(parts[output][0].tensor, tf.float32)
    started, magnitude = tf.reduce_sum(begin, -1), tf.reduce_sum(tf.abs(begin), -1)
    taken = [part.tensor for part in parts.get(BIASES, ())]
    return tf.stack([started, magnitude, tf.add_n([tf.zeros_like(started), *taken])], -1)


def flows_function(plan: Plan) -> Callable[..., tf.Tensor]:
    """Makes the function (x, target) -> float32 [nodes, B, 5], see `layer_flows`.

    For each node: the sum and the magnitude of what arrived, the sum
    and the magnitude of what it handed down, and what biases took.
    """
    graph = plan.graph

    def flows(x: tf.Tensor, target: Target) -> tf.Tensor:
        parts = plan(x, graph.forward(x), target).parts
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

    `numbers` are what `flows_function` returned.
    """
    flows = []
    for node, row in zip(graph.nodes, np.asarray(numbers, np.float64), strict=True):
        arrived, magnitude, handed_down, handed_magnitude, taken = row.T
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = np.where(magnitude > 0, handed_magnitude / magnitude, 0.0)
        flows.append(LayerFlow(node.layer, node.kind, arrived, handed_down, taken, growth))
    return flows[::-1]


def first_not_finite(arrays: Sequence[np.ndarray]) -> int | None:
    """The number of the first entry of a batch that is not finite in one of the arrays, or None."""
    finite = [np.isfinite(one.reshape(len(one), -1).sum(1)) for one in arrays]
    bad = np.flatnonzero(~np.all(finite, axis=0))
    return int(bad[0]) if bad.size else None


def one_pair(
    x: np.ndarray | tf.Tensor, target: Targets | None, number: int
) -> tuple[np.ndarray | tf.Tensor, Targets | None]:
    """One picture of a batch, as a batch, with its target."""
    own = [target[number]] if is_sequence(target) else target
    return x[number : number + 1] if len(x) > 1 else x, own


def find_not_finite(
    graph: Graph,
    x: np.ndarray | tf.Tensor,
    flows: Iterable[LayerFlow],
    half: bool,
    absorb_bias: bool | None,
) -> NotFiniteError:
    """Finds the first layer that computes NaN or Inf, forwards or back; returns the error.

    The graph is the network as it was built, the scores or maps of x are not finite. `flows` are of
    all maps that follow rules, each from the output to the input; they are used if needed.
    """
    tensors = graph.forward(to_float32(x), joined=False)
    for node in graph.nodes:
        output = tensors[node.output].numpy().astype(np.float32)
        if not np.isfinite(output).all():
            what = "NaN" if np.isnan(output).any() else "Inf"
            where = f"{what} in the layer {node.layer!r} ({node.kind})"
            advice = "try --precision float32" if half else "check its weights"
            return NotFiniteError(
                f"The network {graph.name!r} computes numbers that are not finite for this "
                f"picture: {where}. Expected finite ones: {advice} and --preprocess."
            )
    where = next(
        (
            f" behind the layer {flow.name!r} ({flow.kind})"
            for flow in flows
            if not np.isfinite(flow.growth).all()
        ),
        "",
    )
    return NotFiniteError(
        f"The relevance of this picture is not finite{where}, although the scores of "
        f"{graph.name!r} are. Expected finite relevance: {flood_advice(absorb_bias)}."
    )
