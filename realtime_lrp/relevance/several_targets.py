"""Explains each picture of a batch for several targets from one forward pass.

A part of the explainer. What the targets have in common is computed once: the forward passes,
those of perturbed pictures too, and the denominators of rules.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps.batches import run_in_parts
from realtime_lrp.relevance.maps.compiled import compile_once, scores_or_nan
from realtime_lrp.relevance.maps.not_finite import first_not_finite, one_pair
from realtime_lrp.relevance.maps.targets import Target, Targets
from realtime_lrp.relevance.network import checks

ExplainTargets = Callable[
    [np.ndarray | tf.Tensor, Sequence[Targets]], tuple[np.ndarray, list[np.ndarray]]
]
"""(x, targets) -> the scores, float32 [B, classes], and the relevance for each target, float32
[B, H, W, C]. x and each target are as in a call of the explainer."""


def compile_for_targets(explainer: Explainer, count: int) -> ExplainTargets:
    """Compiles a function that explains a batch for `count` targets, without additional maps.

    The function raises what the explainer raises.
    """
    graph, method, by_rules = explainer._graph, explainer._methods[0], explainer.follows_rules[0]
    signature = Target.signature(explainer.classes)
    fields = len(signature)

    def explain_each(x: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
        forward = graph.forward(x)
        starts = range(0, count * fields, fields)
        targets = [tensors[start : start + fields] for start in starts]
        explained = method.for_targets(x, forward, targets)
        scores = scores_or_nan(graph, forward, by_rules)
        return [scores, *(tf.cast(one.relevance, tf.float32) for one in explained)]

    picture = tf.TensorSpec([None, *explainer.input_shape], tf.float32, name="x")
    _, run = compile_once(explain_each, [picture, *signature * count], explainer._xla)

    def explain_targets(
        x: np.ndarray | tf.Tensor, targets: Sequence[Targets]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        x = explainer.check_batch(x)
        resolved = [explainer._target(target, len(x)) for target in targets]
        most = max(1, explainer.pictures_at_once() // count)
        scores, *maps = run_in_parts(
            lambda x, *tensors: run(checks.to_float32(x), *tensors), (x, *sum(resolved, ())), most
        )
        for target, relevance in zip(targets, maps, strict=True):
            if (bad := first_not_finite([scores, relevance])) is not None:
                raise explainer.not_finite(*one_pair(x, target, bad))
        return scores, maps

    return explain_targets
