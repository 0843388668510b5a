"""Explains each picture of a batch for several targets from one forward pass.

A part of the explainer. What the targets have in common is computed once: the forward pass, and
the denominators of rules. The perturbed passes of SmoothGrad and integrated gradients are not
shared.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance import checks
from realtime_lrp.relevance.compiled import compile_once, explain_function
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.targets import Target, Targets

ExplainTargets = Callable[
    [np.ndarray | tf.Tensor, Sequence[Targets]], tuple[np.ndarray, list[np.ndarray]]
]
"""(x, targets) -> the scores, float32 [B, classes], and the relevance for each target, float32
[B, H, W, C]. x and each target are as in a call of the explainer."""


def compile_for_targets(explainer: Explainer, count: int) -> ExplainTargets:
    """Compiles a function that explains a batch for `count` targets, without additional maps.

    The function raises what the explainer raises.
    """
    by_rules = any(explainer.follows_rules)
    explain = explain_function(explainer._graph, explainer._methods[:1], by_rules)
    signature = Target.signature(explainer.classes)
    fields = len(signature)

    def explain_each(x: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
        starts = range(0, count * fields, fields)
        explained = [explain(x, *tensors[start : start + fields]) for start in starts]
        return [explained[0][0], *(maps[0] for _, maps, _ in explained)]

    picture = tf.TensorSpec([None, *explainer.input_shape], tf.float32, name="x")
    _, run = compile_once(explain_each, [picture, *signature * count], explainer._xla)

    def explain_targets(
        x: np.ndarray | tf.Tensor, targets: Sequence[Targets]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        batch = checks.to_batch(x, explainer.input_shape)
        resolved = [explainer._target(target, len(batch)) for target in targets]
        scores, *maps = (one.numpy() for one in run(batch, *sum(resolved, ())))
        for target, relevance in zip(targets, maps, strict=True):
            if not (np.isfinite(scores.sum()) and np.isfinite(relevance.sum())):
                raise explainer.not_finite(batch, target)
        return scores, maps

    return explain_targets
