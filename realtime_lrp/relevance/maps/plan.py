"""A method, and the plan of one map: what was asked for, what was decided, how it is computed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import tensorflow as tf

from realtime_lrp.relevance.maps.perturbed import (
    Baseline,
    Perturb,
    chunk_size,
    first_linear,
    mean_gradients,
)
from realtime_lrp.relevance.maps.targets import Target, start_of_gradient, start_of_relevance
from realtime_lrp.relevance.network.graph import BIASES, Arrival, Back, Graph, Part, Parts
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Handed
from realtime_lrp.relevance.rules.composites import EXCITATION, Composite
from realtime_lrp.relevance.rules.rules import LayerContext, Rule

Numbered = Mapping[int, tf.Tensor]
"""The tensors of a network by their numbers."""


@dataclass(frozen=True)
class Options:
    """What users choose about all maps of an explainer; see the arguments of `Explainer`."""

    layers: Mapping[str, str | Rule] = field(default_factory=dict)
    absorb_bias: bool | None = None
    keep: float = 1.0
    guided: Sequence[str] | None = None
    samples: int | None = None
    start: str = "probability"
    grad_cam_layer: str | None = None


def _nothing(graph: Graph, options: Options) -> None:
    """Suits every network."""


@dataclass(frozen=True)
class Method:
    """A way to explain."""

    start: Callable[[tf.Tensor, Target], tf.Tensor]  # (scores, target) -> what starts at the output
    # plan -> the function that passes what arrives at a node back to its inputs
    back: Callable[["Plan"], Back]
    # (plan, x, tensors, parts) -> the map, shaped like x
    finish: Callable[["Plan", tf.Tensor, Numbered, Parts], tf.Tensor]
    # (graph, options) -> what the method needs of a network, which becomes `Plan.needed`. Raises
    # UsageError where a network has it not: menus, keys and tables leave the method out there
    needs: Callable[[Graph, Options], Any] = _nothing
    # makes the copies of a picture whose mean gradient is used, or None
    perturb: Perturb | None = None
    samples: int = 20  # how many copies there are unless the user decides
    # whether the copies begin at a baseline, so that the sum of the map is the difference of the
    # scores
    from_baseline: bool = False
    signed: bool = True  # whether maps can have negative entries; for methods that follow no rules
    # whether the magnitude of an entry counts, because its sign only says whether the pixel should
    # become brighter or darker
    absolute: bool = False
    # whether terms of both signs cancel on the way back, so that rounding there changes the map
    cancels: bool = False
    by_rules: bool = False  # whether relevance follows the rules of a composite
    composite: Composite | None = None  # the one to follow instead of the configured one, or None

    @property
    def is_lrp(self) -> bool:
        """Whether it is LRP by any composite; only then channels have relevance of their own."""
        return self.by_rules and self.composite is None

    @property
    def starts_with_scores(self) -> bool:
        """Whether relevance starts with scores, as in LRP, rather than with 1."""
        return self.start is start_of_relevance


class MethodResult(NamedTuple):
    """What a plan computes for a batch."""

    relevance: tf.Tensor  # the map, shaped like x
    parts: Parts  # what arrived at each tensor and at biases
    # float32 [B, 3]: what started, its sum and the sum of its magnitude; and what biases took. Of
    # integrated gradients what their sum should be: by how much the explained scores differ from
    # those of the baseline
    account: tf.Tensor


@dataclass(frozen=True, eq=False)
class Plan:
    """One map of a network, which runs inside compiled functions."""

    method: Method  # how it is computed
    graph: Graph  # the network, canonised
    options: Options = Options()  # what the user chose
    needed: Any = None  # what `Method.needs` found
    composite: Composite = EXCITATION  # which rules it follows
    # the rule of each layer with weights, by output number; empty where the method follows none
    rules: Mapping[int, Rule] = field(default_factory=dict)
    # the output numbers of layers whose biases take a share of the relevance
    absorbing: frozenset[int] = frozenset()
    keeps_sign: bool = False  # whether the map has no negative entry where the target has none
    signs: int | None = None  # the number of the tensor whose signs relevance starts with, or None
    # the number of the logits with which relevance starts; None where it starts with probabilities
    values: int | None = None
    # the names of layers that divide the probability of a class by its logit
    divided_by_logits: frozenset[str] = frozenset()
    # what rules may know about the layers with weights, by output number
    contexts: Mapping[int, LayerContext] = field(default_factory=dict)
    # bytes of those of one picture; they decide how many copies are explained at once
    activations: int = 1
    baseline: Baseline = tf.zeros_like  # pictures -> where the paths of integrated gradients begin

    @property
    def difference(self) -> bool:
        """Whether the map adds up to a difference of scores."""
        return self.method.from_baseline and self.graph.differentiated() is not None

    @property
    def samples(self) -> int:
        """How many copies of a picture are explained; 0 where the method needs none."""
        return (self.options.samples or self.method.samples) if self.method.perturb else 0

    @cached_property
    def back(self) -> Back:
        """What each step passes back. Modified weights are made at the first access."""
        with tf.init_scope():  # once, even if that is inside a graph
            return _letting_through(self.options.keep, self.method.back(self))

    def __call__(self, x: tf.Tensor, tensors: Numbered, target: Target) -> MethodResult:
        """Returns the map of a target, and what arrived at each tensor and at biases."""
        (explained,) = self.for_targets(x, tensors, [target])
        return explained

    def for_targets(
        self, x: tf.Tensor, tensors: Numbered, targets: Sequence[Target]
    ) -> list[MethodResult]:
        """As a call, for each of several targets; perturbed pictures go forward once for all."""
        method, graph = self.method, self.graph
        parts = [self.parts(tensors, target) for target in targets]
        if not method.perturb:
            return [
                MethodResult(method.finish(self, x, tensors, one), one, self._account(one))
                for one in parts
            ]
        origin = self.baseline(x) if method.from_baseline else tf.zeros_like(x)
        begins = [one[graph.output][0].tensor for one in parts]
        means = mean_gradients(
            graph, self.back, method.perturb, x, origin, tensors, begins, self.samples,
            chunk_size(self.samples, self.activations),
            first_linear(graph) if self.options.keep >= 1 else [],
        )  # fmt: skip
        number, rise = graph.differentiated(), None
        if self.difference and number is not None:
            end, start = (tf.cast(a[number], tf.float32) for a in (tensors, graph.forward(origin)))
            rise = end - start
        return [
            MethodResult(
                method.finish(self, x - origin, tensors, {0: [Part(mean)]}), one,
                self._account(one, rise),
            )
            for mean, one in zip(means, parts, strict=True)
        ]  # fmt: skip

    def parts(self, tensors: Numbered, target: Target) -> Parts:
        """What arrives at each tensor, and at biases."""
        return self.graph.backward(tensors, self.start(tensors, target), self.back)

    def start(self, tensors: Numbered, target: Target) -> tf.Tensor:
        """What starts at the output for a target, float32 [B, classes]."""
        scores = tensors[self.graph.output]
        if self.values is not None:
            return start_of_gradient(scores, target) * tf.cast(tensors[self.values], scores.dtype)
        begin = self.method.start(scores, target)
        return begin if self.signs is None else with_signs_of(tensors[self.signs], begin)

    def _account(self, parts: Parts, rise: tf.Tensor | None = None) -> tf.Tensor:
        """The account of what arrived; `rise` is by how much logits differ from a baseline's."""
        begin = tf.cast(parts[self.graph.output][0].tensor, tf.float32)
        if rise is not None:
            difference = tf.reduce_sum(begin * rise, -1)
            return tf.stack([difference, tf.abs(difference), tf.zeros_like(difference)], -1)
        started, magnitude = tf.reduce_sum(begin, -1), tf.reduce_sum(tf.abs(begin), -1)
        taken = [part.tensor for part in parts.get(BIASES, ())]
        return tf.stack([started, magnitude, tf.add_n([tf.zeros_like(started), *taken])], -1)


def with_signs_of(logits: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """What starts, [B, classes], times the sign of each logit (0 counts as positive).

    Unchanged where the logits are not shaped like the scores, as before a pool.
    """
    if logits.shape[1:] != begin.shape[1:]:
        return begin
    return tf.where(logits < 0, -begin, begin)


def _letting_through(keep: float, back: Back) -> Back:
    if keep >= 1:
        return back

    def filtered(at: Arrival) -> Handed:
        if isinstance(at.node.step, Linear):
            at = at._replace(arriving=top_share(at.relevance, keep))
        return back(at)

    return filtered


def top_share(relevance: tf.Tensor, share: float) -> tf.Tensor:
    """Keeps this share of each picture's entries, the largest by magnitude; the others become 0."""
    size = math.prod(relevance.shape[1:])
    magnitude = tf.reshape(tf.abs(relevance), [-1, size])
    least = tf.math.top_k(magnitude, math.ceil(share * size)).values[:, -1]
    least = tf.reshape(least, [-1] + [1] * (relevance.shape.rank - 1))
    return tf.where(tf.abs(relevance) >= least, relevance, 0.0)
