"""Views of an explainer on layers: each one's tensors, or their sums, in one explanation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import NotFiniteError
from realtime_lrp.relevance.maps.account import flood_advice
from realtime_lrp.relevance.maps.compiled import run_in_parts
from realtime_lrp.relevance.maps.detections import DRAWN, ends_of
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.targets import TargetResolver, Targets, TargetTensors, is_sequence
from realtime_lrp.relevance.network import checks
from realtime_lrp.relevance.network.checks import to_float32
from realtime_lrp.relevance.network.graph import Graph, Node, total
from realtime_lrp.system.machine import available_bytes

COPIES = 1.5
COPIES_PER_MAP = 0.5
"""Memory of a picture as a multiple of its activations, without and for each map: 1 to 1.5 were
measured for one map, 2.7 for five (VGG16, ResNet50, SqueezeNet; 16 pictures)."""


@dataclass(frozen=True)
class LayerRecord:
    """The tensors of one layer during one explanation.

    They are the tensors of the model in Keras, even where a batch norm was folded.

    Attributes:
      name: the layer's name; "model/layer" inside a nested model, "layer:2" at a second call.
      kind: its Keras type.
      rule: the rule of its weights; "" where it has none or the method follows no rules.
      inputs: the tensors that it read, [B, ...] each.
      output: the tensor that it computed, [B, ...].
      arrived: what arrived at its output, shaped like it: relevance, or the gradient.
      handed_down: each input's share, shaped like the inputs.
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
        return _sums(self.handed_down)

    @property
    def lost(self) -> np.ndarray:
        """The relevance that neither the inputs nor the biases received, float64 [B]."""
        return _sums([self.arrived]) - self.sums() - self.taken_by_biases

    @property
    def growth(self) -> np.ndarray:
        """The sum of magnitudes handed down, divided by the one that arrived, float64 [B]."""
        handed_down, arrived = (_sums(map(np.abs, a)) for a in (self.handed_down, [self.arrived]))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(arrived > 0, handed_down / arrived, 0.0)


def _sums(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of the entries of several arrays [B, ...] together, float64 [B]."""
    return np.sum([a.reshape(len(a), -1).sum(1, dtype=np.float64) for a in arrays], axis=0)


def _array(tensor: tf.Tensor) -> np.ndarray:
    return tf.cast(tensor, tf.float32).numpy()


class LayerViews:
    """Views of an `Explainer` on layers; the explainer sets the attributes."""

    check_batch: checks.BatchCheck
    input_shape: tuple[int, int, int]
    precision: str
    _graph: Graph
    _as_built: Graph
    _plans: Sequence[Plan]
    _default: TargetTensors
    _resolve: TargetResolver
    _xla: bool

    def pictures_at_once(self) -> int:
        """How many pictures of a batch are explained together, in half of the memory free now."""
        if tf.config.list_physical_devices("GPU"):  # a GPU says when its memory does not suffice
            return 1 << 30
        maps = len(self._plans) * (DRAWN if self._graph.ends else 1)
        each = self._plans[0].activations * (COPIES + COPIES_PER_MAP * maps)
        return max(1, int(available_bytes() / 2 / each))

    def not_finite(
        self, x: np.ndarray | tf.Tensor, target: Targets | None = None
    ) -> NotFiniteError:
        """The error for NaN or Inf in pictures `x` under `target`; it names the first layer."""
        graph = self._as_built
        tensors = graph.forward(to_float32(x), joined=False)
        for node in graph.nodes:
            output = tensors[node.output].numpy().astype(np.float32)
            if not np.isfinite(output).all():
                what = "NaN" if np.isnan(output).any() else "Inf"
                where = f"{what} in the layer {node.layer!r} ({node.kind})"
                half = self.precision != "float32"
                advice = "try --precision float32" if half else "check its weights"
                return NotFiniteError(
                    f"The network {graph.name!r} computes numbers that are not finite for this "
                    f"picture: {where}. Expected finite ones: {advice} and --preprocess."
                )
        by_rules = (index for index, plan in enumerate(self._plans) if plan.rules)
        records = (record for index in by_rules for record in self.layers(x, target, index))
        grown = next((one for one in records if not np.isfinite(one.growth).all()), None)
        where = f" behind the layer {grown.name!r} ({grown.kind})" if grown else ""
        return NotFiniteError(
            f"The relevance of this picture is not finite{where}, although the scores of "
            f"{graph.name!r} are. Expected finite relevance: "
            f"{flood_advice(self._plans[0].options.absorb_bias)}."
        )

    def layers(
        self,
        x: np.ndarray | tf.Tensor,
        target: Targets | None = None,
        index: int = 0,
        place: int | None = None,
    ) -> list[LayerRecord]:
        """The tensors of every layer and the shares it handed down, from the output to the input.

        SmoothGrad and integrated gradients show the gradient at the picture itself. Branches that
        the output does not use are left out. Computed operation by operation: a compiled function
        would be quicker from the seventh call on, but the first one would take 3.7 s (DeiT-Tiny, 2
        cores) and not 0.6 s, in which `live` shows no new map.

        x and the target are as in a call. The map number `index` is the own one, 0, or one of
        `also`, which follow. Of a detector the score at a `place` is explained, see `Detections`;
        None is the surest one.
        """
        batch, resolved = self._pairs(self.check_batch(x), target)
        plan = self._plans[index]
        known = {}
        if place is not None:
            known[ends_of(plan.graph).chosen] = tf.fill([len(batch)], place)
        shown = self._as_built.forward(batch, joined=False, known=known)
        parts = plan.parts(plan.graph.forward(batch, known=known), resolved)
        handed = {  # what biases took follows the inputs
            (part.node.output, part.position): _array(part.tensor)
            for received in parts.values()
            for part in received
            if part.node
        }
        layers: dict[str, list[Node]] = {}
        for node in plan.graph.nodes:
            if node.output in parts:
                layers.setdefault(node.layer, []).append(node)

        def record(nodes: Sequence[Node]) -> LayerRecord:
            """The record of the layer that consists of these nodes."""
            first = nodes[0]
            biases = ((node.output, len(node.inputs)) for node in nodes)
            taken = [handed[key] for key in biases if key in handed]
            rules = [str(plan.rules[one.output]) for one in nodes if one.output in plan.rules]
            inputs = tuple(shown[number].numpy() for number in first.inputs)
            return LayerRecord(
                name=first.layer,
                kind=first.kind,
                rule=rules[0] if rules else "",
                inputs=inputs,
                output=shown[nodes[-1].output].numpy(),
                arrived=_array(total(parts[nodes[-1].output])),
                handed_down=tuple(
                    handed.get((first.output, position), np.zeros_like(a))
                    for position, a in enumerate(inputs)
                ),
                taken_by_biases=sum(taken, np.zeros(len(batch), np.float32)),
            )

        return list(map(record, reversed(layers.values())))

    def _in_parts(self, run: Callable[..., Any], x: Any, *more: Any, each: int = 1) -> Any:
        """A compiled function's output as arrays; a picture takes the memory of `each`."""
        most = max(1, self.pictures_at_once() // each)
        return run_in_parts(lambda x, *more: run(to_float32(x), *more), (x, *more), most)

    def _check_finite(
        self, x: np.ndarray | tf.Tensor, target: Targets | None, *arrays: np.ndarray
    ) -> None:
        """Refuses scores or maps, one entry for each picture or target, that hold NaN or Inf."""
        finite = np.all(
            [np.isfinite(array.reshape(len(array), -1).sum(1)) for array in arrays], axis=0
        )
        for number in np.flatnonzero(~finite).tolist():
            own = [target[number]] if is_sequence(target) else target
            raise self.not_finite(x[number : number + 1] if len(x) > 1 else x, own)

    def _target(self, target: Targets | None, pictures: int) -> TargetTensors:
        """The tensors of a target; each has one row, or a row a picture."""
        if target is None:
            return self._default
        return self._resolve.for_batch(target, pictures).tensors()

    def _pairs(
        self, x: np.ndarray | tf.Tensor, target: Targets | None
    ) -> tuple[tf.Tensor, TargetTensors]:
        """Pictures and the tensors of their targets; one picture is repeated for each target."""
        tensors = self._target(target, len(x))
        times = max(1, len(tensors.weights) // len(x))
        return tf.repeat(to_float32(x), times, axis=0), tensors
