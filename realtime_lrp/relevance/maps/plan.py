"""A method, and the plan of one map: what was asked for, what was decided, how it is computed."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps import starts
from realtime_lrp.relevance.maps.targets import TargetTensors
from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.network.graph import BIASES, Arrival, Back, Graph, Part, Parts, total
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Handed, Numbered, sum_of_each
from realtime_lrp.relevance.rules.composites import EXCITATION, Composite
from realtime_lrp.relevance.rules.rules import LayerContext, Rule

CHUNK_BYTES = 512 << 20  # activations of a chunk; more at once is not faster on a CPU

Perturb = Callable[[tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]]
"""(x [1, H, W, C], numbers of copies int32 [N], how many copies there are in all) -> the copies
[N, H, W, C], and float32 [N], how much the gradient of each counts; over all copies it adds up to
1."""

MAP = tf.map_fn  # kept: reading a network replaces TensorFlow's own for a while, in all threads


@dataclass(frozen=True)
class Options:
    """A user's choices for all maps of an explainer; see the arguments of `Explainer`."""

    layers: Mapping[str, str | Rule] = field(default_factory=dict)
    absorb_bias: bool | None = None
    samples: int | None = None
    start: str = "probability"
    grad_cam_layer: str | None = None


@dataclass(frozen=True)
class Method:
    """A way to explain."""

    # (scores, target) -> what starts at the output
    start: Callable[[tf.Tensor, TargetTensors], tf.Tensor]
    # plan -> the function that passes what arrives at a node back to its inputs
    back: Callable[["Plan"], Back]
    # (plan, x, tensors, parts) -> the map, shaped like x
    finish: Callable[["Plan", tf.Tensor, Numbered, Parts], tf.Tensor]
    # (graph, options) -> what the method needs of a network, which becomes `Plan.needed`. Raises
    # UsageError where a network has it not: menus, keys and tables leave the method out there
    needs: Callable[[Graph, Options], Any] = lambda graph, options: None
    # makes the copies of a picture whose mean gradient is used, or None
    perturb: Perturb | None = None
    samples: int = 20  # how many copies there are unless the user decides
    # whether the copies begin at 0, so that the sum of the map is the difference of the scores
    from_zero: bool = False
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
        return self.start is starts.start_of_relevance


class MethodResult(NamedTuple):
    """The output of a plan for a batch."""

    relevance: tf.Tensor  # the map, shaped like x
    parts: Parts  # what arrived at each tensor and at biases
    # float32 [B, 3]: what started, its sum and the sum of its magnitude; and what biases took. Of
    # integrated gradients what their sum should be: by how much the explained scores differ from
    # those of a picture of zeros
    account: tf.Tensor


@dataclass(frozen=True, eq=False)
class Plan:
    """One map of a network, which runs inside compiled functions."""

    method: Method  # how it is computed
    graph: Graph  # the network, canonised
    options: Options = Options()  # what the user chose
    composite: Composite = EXCITATION  # which rules it follows
    # what rules may know about the layers with weights, by output number
    contexts: Mapping[int, LayerContext] = field(default_factory=dict)

    @cached_property
    def needed(self) -> Any:
        """The result of `Method.needs`."""
        return self.method.needs(self.graph, self.options)

    @cached_property
    def rules(self) -> Mapping[int, Rule]:
        """The rule of each layer with weights, by output number; empty where it follows none."""
        return self.composite.rules(self.graph, self.contexts) if self.method.by_rules else {}

    @cached_property
    def absorbing(self) -> frozenset[int]:
        """The output numbers of layers whose biases take a share of the relevance."""
        return self.composite.absorbing(self.graph, self.contexts, self.options.absorb_bias)

    @cached_property
    def keeps_sign(self) -> bool:
        """Whether the map has no negative entry where the target has none."""
        if not self.method.signed:
            return True
        return self.values is None and keeps_sign(self.rules, self.graph)

    @cached_property
    def values(self) -> int | None:
        """The number of the logits with which relevance starts, or of a linear output; or None."""
        if self.options.start != "logit" or not self.method.starts_with_scores:
            return None
        number = self.graph.differentiated()
        if number is None:
            raise UsageError(
                f"The scores of {self.graph.name!r} are made of several softmaxes or sigmoids, or "
                "reshaped: it has no logits to start from. Use start=probability.",
                "start",
            )
        return number

    @cached_property
    def signs(self) -> int | None:
        """The number of the logits with whose signs relevance starts, or None."""
        # divided by a sum with the sign of a negative logit, relevance would change its own sign
        return self.graph.logits() if self._signed.keys() == {self.graph.output} else None

    @cached_property
    def turning(self) -> set[int]:
        """The output numbers of the steps at which relevance changes its sign.

        If scores are means of several softmaxes or sigmoids, it has the signs of their logits; the
        other of two classes has the sign of what speaks against it. The factors of a product share
        one score, and one sign.
        """
        graph = self.graph
        if not self.rules:
            return set()
        two = {node.output for node in graph.nodes if isinstance(node.step, steps.TwoClasses)}
        return self._signed.keys() - {graph.output} | two

    @cached_property
    def _signed(self) -> dict[int, set[int]]:
        """Softmaxes and sigmoids of the scores -> layers that divide by their signed logits."""
        found = {}
        for number in self.graph.scoring(steps.Sum) if self.values is None else ():
            logits = self.graph.nodes[number - 1].inputs[0]
            last = self.rules.keys() & self.graph.last_with_weights(logits)
            if divided := {one for one in last if self.rules[one].signed_sum}:
                found[number] = divided
        return found

    @property
    def divided_by_logits(self) -> set[str]:
        """The names of layers that divide the probability of a class by its logit."""
        return {self.graph.nodes[one - 1].layer for last in self._signed.values() for one in last}

    @property
    def activations(self) -> int:
        """The bytes of all tensors of a picture, float32."""
        return 4 * sum(map(math.prod, self.graph.shapes.values())) or 1

    @property
    def difference(self) -> bool:
        """Whether the map adds up to a difference of scores."""
        return self.method.from_zero and self.graph.differentiated() is not None

    @property
    def samples(self) -> int:
        """How many copies of a picture are explained; 0 where the method needs none."""
        return (self.options.samples or self.method.samples) if self.method.perturb else 0

    @cached_property
    def back(self) -> Back:
        """The way back of each step. Modified weights are made at the first access."""
        with tf.init_scope():  # once, even if that is inside a graph
            back = self.method.back(self)
        turning = self.turning

        def turned(at: Arrival) -> Handed:
            handed = back(at)
            if at.node.output in turning and not isinstance(at.node.step, steps.TwoClasses):
                return [with_signs_of(at.inputs[0], steps.relevance_of(handed[0])), *handed[1:]]
            return handed

        return turned if turning else back

    def __call__(self, x: tf.Tensor, tensors: Numbered, target: TargetTensors) -> MethodResult:
        """Returns the map of a located target, and what arrived at each tensor and at biases."""
        if self.graph.places is None:
            return self._of_target(x, tensors, target)
        one, other = starts.sides_of(tf.cast(tensors[self.graph.output], tf.float32), target)
        opposed = tf.reduce_any(target.weights < 0, -1, keepdims=True)
        chosen = target.contrast | target.rest | opposed  # sides that start as one cancel
        chosen = tf.broadcast_to(chosen, [tf.shape(x)[0], 1])
        side = one._replace(**{  # the target itself where it is no contrast
            name: tf.where(chosen, getattr(one, name), getattr(target, name))
            for name in ("weights", "top", "rest", "by_probability")
        })  # fmt: skip
        first = self._of_target(x, tensors, side)

        def contrast() -> tuple[tf.Tensor, tf.Tensor]:
            second = self._of_target(x, tensors, other).relevance
            relevance = _divided(first.relevance) - _divided(second)
            total = sum_of_each(relevance)
            account = tf.stack([total, sum_of_each(tf.abs(relevance)), tf.zeros_like(total)], -1)
            return (
                tf.where(chosen[:, :, None, None], relevance, first.relevance),
                tf.where(chosen, account, first.account),
            )

        relevance, account = tf.cond(
            tf.reduce_any(chosen), contrast, lambda: (first.relevance, first.account)
        )
        return MethodResult(relevance, first.parts, account)

    def _of_target(self, x: tf.Tensor, tensors: Numbered, target: TargetTensors) -> MethodResult:
        """The map of a target, whatever it is set against."""
        graph = self.graph
        parts = self.parts(tensors, target)
        if not self.method.perturb:
            relevance = self.method.finish(self, x, tensors, parts)
            return MethodResult(relevance, parts, self._account(parts))
        mean = self._mean_gradient(x, tensors, parts[graph.output][0].tensor)
        rise = None
        if self.difference and (number := graph.differentiated()) is not None:
            black = graph.forward(tf.zeros_like(x))
            rise = tf.cast(tensors[number], tf.float32) - tf.cast(black[number], tf.float32)
        relevance = self.method.finish(self, x, tensors, {0: [Part(mean)]})
        return MethodResult(relevance, parts, self._account(parts, rise))

    def _mean_gradient(self, x: tf.Tensor, tensors: Numbered, begin: tf.Tensor) -> tf.Tensor:
        """The mean of what arrives at the copies of a picture, shaped like x.

        `begin` starts at the output, for all copies of a picture, shaped like it. The copies go
        forward in chunks of one size, so that any number of them needs the same memory: a divisor
        of their number where that wastes less. The derivative of the first layers is the same for
        every picture: they pass the mean of all copies back, quicker than the gradient of each.
        """
        graph = self.graph
        samples = self.samples
        perturb = cast(Perturb, self.method.perturb)
        most = max(1, min(samples, CHUNK_BYTES // self.activations))
        chunk = max(size for size in range(1, most + 1) if samples % size == 0)
        if 2 * chunk <= most:
            chunk = math.ceil(samples / math.ceil(samples / most))
        linear = []  # the first layers with weights, and padding before them
        padded = {0}
        for node in graph.nodes:
            if isinstance(node.step, Linear | steps.ZeroPadding) and padded.issuperset(node.inputs):
                linear.append(node)
                if isinstance(node.step, steps.ZeroPadding):
                    padded.add(node.output)
        others = [node for node in graph.behind(0) if node not in linear]
        ends = [0, *(node.output for node in linear)]
        shapes = [tensors[number].shape[1:] for number in ends]

        def of_chunk(picture: tf.Tensor, begin: tf.Tensor, first: tf.Tensor) -> list[tf.Tensor]:
            numbers = first + tf.range(chunk)
            copies, weights = perturb(picture[None], tf.minimum(numbers, samples - 1), samples)
            weights = tf.where(numbers < samples, weights, 0.0)
            parts = _arriving({graph.output: tf.repeat(begin[None], chunk, axis=0)})
            graph.hand_down(parts, others, graph.forward(copies), self.back)
            return [
                tf.tensordot(weights, tf.cast(total(parts[end]), tf.float32), 1)
                if parts[end]
                else tf.zeros(shape)
                for end, shape in zip(ends, shapes, strict=True)
            ]

        def of_picture(inputs: tuple[tf.Tensor, tf.Tensor]) -> list[tf.Tensor]:
            if chunk >= samples:
                return of_chunk(*inputs, tf.constant(0))
            _, means = tf.while_loop(
                lambda first, means: first < samples,
                lambda first, means: (
                    first + chunk, list(map(tf.add, means, of_chunk(*inputs, first)))
                ),
                (tf.constant(0), list(map(tf.zeros, shapes))),
                parallel_iterations=1,  # otherwise several chunks are in memory at once
            )  # fmt: skip
            return means

        signature = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
        means = MAP(of_picture, (x, begin), fn_output_signature=signature, parallel_iterations=1)
        parts = _arriving(dict(zip(ends, means, strict=True)))
        graph.hand_down(parts, linear, tensors, self.back)
        return total(parts[0])

    def parts(self, tensors: Numbered, target: TargetTensors) -> Parts:
        """The relevance or gradient at each tensor, and the share of biases."""
        return self.graph.backward(tensors, self.start(tensors, target), self.back)

    def start(self, tensors: Numbered, target: TargetTensors) -> tf.Tensor:
        """The start at the output for a target, shaped like the scores."""
        target = starts.located(self.graph, tensors, target)
        scores = tensors[self.graph.output]
        if self.values is not None:
            t = starts.start_of_gradient(scores, target)
            return t * tf.cast(tensors[self.values], scores.dtype)
        begin = self.method.start(scores, target)
        return begin if self.signs is None else with_signs_of(tensors[self.signs], begin)

    def _account(self, parts: Parts, rise: tf.Tensor | None = None) -> tf.Tensor:
        """The account of what arrived; `rise` is the difference of logits from a zero picture's."""
        begin = tf.cast(parts[self.graph.output][0].tensor, tf.float32)
        if rise is not None:
            difference = sum_of_each(begin * rise)
            return tf.stack([difference, tf.abs(difference), tf.zeros_like(difference)], -1)
        started = sum_of_each(begin)
        magnitude = sum_of_each(tf.abs(begin))
        for number in self.turning:  # what changed its sign there counts as started so
            read = self.graph.nodes[number - 1].inputs[0]
            own = [one.tensor for one in parts[read] if one.node and one.node.output == number]
            if own:
                started += sum_of_each(tf.add_n(own)) - sum_of_each(total(parts[number]))
        taken = [part.tensor for part in parts.get(BIASES, ())]
        return tf.stack([started, magnitude, tf.add_n([tf.zeros_like(started), *taken])], -1)


def _divided(relevance: tf.Tensor) -> tf.Tensor:
    """Each map [B, H, W, C], float32, divided by its sum of magnitudes; 0 where that is 0."""
    relevance = tf.cast(relevance, tf.float32)
    return tf.math.divide_no_nan(relevance, sum_of_each(tf.abs(relevance))[:, None, None, None])


def keeps_sign(rules: Mapping[int, Rule], graph: Graph, exempt: Collection[int] = ()) -> bool:
    """Whether relevance stays positive from the output to the input; some layers are `exempt`."""
    nonnegative = graph.nonnegative()
    return (
        bool(rules)
        and graph.output in nonnegative
        and all(
            rules[node.output].keeps_sign or node.output in exempt
            if node.output in rules
            else not node.step.shares or nonnegative.issuperset(node.inputs)
            for node in graph.nodes
        )
    )


def with_signs_of(logits: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """The start, [B, ..., classes], times the sign of each logit (0 counts as positive)."""
    return tf.where(logits < 0, -begin, begin)


def _arriving(tensors: Numbered) -> Parts:
    return defaultdict(list, {number: [Part(tensor)] for number, tensor in tensors.items()})
