"""The part of the explainer that looks inside the network: layers, sums, several targets."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import NotFiniteError
from realtime_lrp.relevance.maps.account import LayerFlow
from realtime_lrp.relevance.maps.batches import run_in_parts
from realtime_lrp.relevance.maps.compiled import Lazy, compile_once, targets_function
from realtime_lrp.relevance.maps.layer_records import (
    LayerRecord,
    first_not_finite,
    layer_flows,
    layer_records,
    one_pair,
)
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.targets import Target, TargetResolver, Targets
from realtime_lrp.relevance.network import checks
from realtime_lrp.relevance.network.graph import Graph

ExplainTargets = Callable[
    [np.ndarray | tf.Tensor, Sequence[Targets]], tuple[np.ndarray, list[np.ndarray]]
]
"""See `Explainer.compile_for_targets`."""


class LayerViews:
    """What an `Explainer` tells about layers; it sets the attributes."""

    check_batch: checks.BatchCheck
    input_shape: tuple[int, int, int]
    _graph: Graph
    _plans: Sequence[Plan]
    _flows: Sequence[Callable[..., tf.Tensor]]
    _layers: Lazy
    _default: Target
    _resolve: TargetResolver
    _signature: tuple[tf.TensorSpec, Target]
    _xla: bool

    def pictures_at_once(self) -> int:
        """How many pictures of a batch are explained together, as the free memory allows now."""
        raise NotImplementedError

    def not_finite(self, x: tf.Tensor, target: Targets | None = None) -> NotFiniteError:
        """The error for pictures x whose scores or maps are not finite."""
        raise NotImplementedError

    def layers(self, x: np.ndarray | tf.Tensor, target: Targets | None = None) -> list[LayerRecord]:
        """What every layer computed and handed down, from the output to the input.

        SmoothGrad and integrated gradients show the gradient at the picture itself. Branches that
        the output does not use are left out.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.
        """
        tensors = self._layers(*self._pairs(self.check_batch(x), target))
        return layer_records(self._graph, self._plans[0].rules, tensors)

    def relevance_sums(
        self, x: np.ndarray | tf.Tensor, target: Targets | None = None
    ) -> dict[str, np.ndarray]:
        """The sum of relevance that each layer hands down to its inputs, from output to input.

        Each sum is that at a layer's input end, not at its output.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.

        Returns:
          Layer name -> float64 [B].
        """
        return {record.name: record.sums() for record in self.layers(x, target)}

    def layer_flows(
        self, x: np.ndarray | tf.Tensor, index: int = 0, target: Targets | None = None
    ) -> list[LayerFlow]:
        """Sums of relevance layer by layer, from the output to the input.

        Of a batch x and a target, as in a call, and the map number `index`: 0 is the own one,
        followed by those of `also`. Computed operation by operation. A compiled function would be
        quicker from the seventh call on, but the first one would take 3.7 s (DeiT-Tiny, 2 cores)
        and not 0.6 s, in which `live` shows no new map.
        """
        flows = self._flows[index](*self._pairs(x, target))
        return layer_flows(self._graph, flows.numpy())

    def compile_for_targets(self, count: int) -> "ExplainTargets":
        """Compiles a function that explains a batch for `count` targets, without additional maps.

        What the targets have in common is computed once: the forward passes, of perturbed pictures
        too, and the denominators of rules. The function takes x and the targets, each as in a call.
        It returns the scores, float32 [B, classes], and the relevance for each target, float32
        [B, H, W, C], and raises what a call raises.
        """
        x, one = self._signature
        signature = [x, *[one] * count]
        _, run = compile_once(targets_function(self._plans[0]), signature, self._xla)

        def explain_targets(
            x: np.ndarray | tf.Tensor, targets: Sequence[Targets]
        ) -> tuple[np.ndarray, list[np.ndarray]]:
            x = self.check_batch(x)
            resolved = [self._target(target, len(x)) for target in targets]
            scores, *maps = run_in_parts(
                lambda x, *targets: run(checks.to_float32(x), *targets),
                (x, *resolved), max(1, self.pictures_at_once() // count),
            )  # fmt: skip
            for target, relevance in zip(targets, maps, strict=True):
                self._check_finite(x, target, scores, relevance)
            return scores, maps

        return explain_targets

    def _check_finite(
        self, x: np.ndarray | tf.Tensor, target: Targets | None, *arrays: np.ndarray
    ) -> None:
        if (bad := first_not_finite(arrays)) is not None:
            raise self.not_finite(*one_pair(x, target, bad))

    def _target(self, target: Targets | None, pictures: int) -> Target:
        """The tensors of a target, of which each has one row or one for each picture."""
        if target is None:
            return self._default
        return self._resolve.for_batch(target, pictures).tensors()

    def _pairs(self, x: np.ndarray | tf.Tensor, target: Targets | None) -> tuple[tf.Tensor, Target]:
        """Pictures and the tensors of their targets; one picture is repeated for each target."""
        batch, tensors = checks.to_float32(x), self._target(target, len(x))
        times = max(1, len(tensors.weights) // len(batch))
        return tf.repeat(batch, times, axis=0), tensors
