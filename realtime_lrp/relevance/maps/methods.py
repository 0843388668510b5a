"""Methods: LRP, the gradient and its relatives, all computed from one forward pass.

A method says what starts at the output, what each step passes back, and how the map is computed
from what arrives. SmoothGrad and integrated gradients run additional forward passes.
To add a method, add a row to `METHODS`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps import attention_maps
from realtime_lrp.relevance.maps.perturbed import (
    Baseline,
    Perturb,
    chunk_size,
    first_linear,
    mean_gradients,
    noisy,
    on_path,
)
from realtime_lrp.relevance.maps.rectifiers import guided_rectifiers, rectifiers
from realtime_lrp.relevance.maps.targets import start_of_gradient, start_of_relevance
from realtime_lrp.relevance.network.graph import Back, Graph, Node, Part, Parts, total
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Handed, Multiple, Tensors, relevance_of
from realtime_lrp.relevance.rules.attention import BoundStepRule
from realtime_lrp.relevance.rules.composites import EXCITATION, Composite
from realtime_lrp.relevance.rules.layer_contexts import spatial_maps
from realtime_lrp.relevance.rules.rules import Propagate
from realtime_lrp.relevance.rules.sharing import Shares


@dataclass(frozen=True)
class MethodOptions:
    """What users choose about methods.

    Attributes:
      guided: patterns of the layers whose ReLUs guided backprop changes; None means all.
      samples: how many copies of a picture SmoothGrad and integrated gradients explain; None means
        as many as the method needs.
      activations: bytes of those of one picture; they decide how many copies are explained at once.
      baseline: pictures -> where the paths of integrated gradients begin.
      keep: the share of entries, largest first, that each layer with weights lets through.
    """

    guided: Sequence[str] | None = None
    samples: int | None = None
    activations: int = 1
    baseline: Baseline = tf.zeros_like
    keep: float = 1.0


@dataclass(frozen=True)
class MethodContext:
    """What a method may know about the network that it explains.

    Attributes:
      graph: the canonised network.
      rules: output number of each layer with weights -> its bound rule; empty where the method
        follows no rules.
      options: what the user chose.
      signs: the number of the tensor whose signs relevance starts with; None where it starts
        without.
      values: the number of the logits with which relevance starts; None where it starts with
        probabilities.
      step_rules: output number of a step -> the composite's rule for it, see `attention.py`.
    """

    graph: Graph
    rules: Mapping[int, Propagate]
    options: MethodOptions
    signs: int | None = None
    values: int | None = None
    step_rules: Mapping[int, BoundStepRule] = field(default_factory=dict)


class MethodResult(NamedTuple):
    """What a method computes for a batch.

    Attributes:
      relevance: the map, shaped like x.
      parts: what arrived at each tensor and at biases.
      difference: float32 [B], what the sum of integrated gradients should be: by how much the
        explained scores differ from those of the baseline. None for other methods.
    """

    relevance: tf.Tensor
    parts: Parts
    difference: tf.Tensor | None = None


@dataclass(frozen=True)
class Method:
    """A way to explain.

    Attributes:
      start: (scores, *target) -> what starts at the output.
      back: context -> the function that passes what arrives at a node back to its inputs.
      finish: (graph, x, tensors, parts) -> the map, shaped like x.
      perturb: makes the copies of a picture whose mean gradient is used, or None.
      samples: how many copies there are unless the user decides.
      from_baseline: whether the copies begin at a baseline, so that the sum of the map is the
        difference of the scores.
      signed: whether maps can have negative entries; for methods that follow no rules.
      absolute: whether the magnitude of an entry counts, because its sign only says whether the
        pixel should become brighter or darker.
      cancels: whether terms of both signs cancel on the way back, so that rounding there changes
        the map.
      by_rules: whether relevance follows the rules of a composite.
      composite: the one to follow instead of the configured one, or None.
      suits: (graph, tensors) -> whether a network has what the method needs. Menus, keys and tables
        leave it out elsewhere.
    """

    start: Callable[..., tf.Tensor]
    back: Callable[[MethodContext], Back]
    finish: Callable[[Graph, tf.Tensor, Mapping[int, tf.Tensor], Parts], tf.Tensor]
    perturb: Perturb | None = None
    samples: int = 20
    from_baseline: bool = False
    signed: bool = True
    absolute: bool = False
    cancels: bool = False
    by_rules: bool = False
    composite: Composite | None = None
    suits: Callable[[Graph, Mapping[int, tf.Tensor]], bool] = lambda graph, tensors: True

    @property
    def starts_with_scores(self) -> bool:
        """Whether relevance starts with scores, as in LRP, rather than with 1."""
        return self.start is start_of_relevance

    def bind(self, context: MethodContext) -> "Explain":
        """Binds the method to a network."""
        options = context.options
        samples = options.samples or self.samples
        return Explain(
            method=self,
            graph=context.graph,
            back=_letting_through(options.keep, self.back(context)),
            samples=samples,
            chunk=chunk_size(samples, options.activations),
            baseline=options.baseline if self.from_baseline else None,
            signs=context.signs,
            values=context.values,
            keeps_all=options.keep >= 1,
        )


@dataclass(frozen=True, eq=False)
class Explain:
    """A method that is bound to a network; runs inside the compiled function.

    Attributes:
      method: which one.
      graph: the network.
      back: what each step passes back.
      samples: how many copies of a picture are explained, if any.
      chunk: how many of them at once.
      baseline: pictures -> where the paths of integrated gradients begin; None for other methods.
      signs: see `MethodContext`.
      values: see there.
      keeps_all: whether layers with weights pass on all that arrives, see `MethodOptions.keep`.
    """

    method: Method
    graph: Graph
    back: Back
    samples: int
    chunk: int
    baseline: Baseline | None
    signs: int | None
    values: int | None
    keeps_all: bool

    def __call__(
        self, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], *target: tf.Tensor
    ) -> MethodResult:
        """Returns the map of a target, and what arrived at each tensor and at biases."""
        (explained,) = self.for_targets(x, tensors, [target])
        return explained

    def for_targets(
        self,
        x: tf.Tensor,
        tensors: Mapping[int, tf.Tensor],
        targets: Sequence[Sequence[tf.Tensor]],
    ) -> list[MethodResult]:
        """As a call, for each of several targets; perturbed pictures go forward once for all."""
        method, graph = self.method, self.graph
        begins = [self.start(tensors, *target) for target in targets]
        parts = [graph.backward(tensors, begin, self.back) for begin in begins]
        if not method.perturb:
            return [MethodResult(method.finish(graph, x, tensors, one), one) for one in parts]
        origin = self.baseline(x) if self.baseline else tf.zeros_like(x)
        means = mean_gradients(
            graph, self.back, method.perturb, x, origin, tensors, begins, self.samples, self.chunk,
            first_linear(graph) if self.keeps_all else [],
        )  # fmt: skip
        arrived = [{0: [Part(mean)]} for mean in means]
        maps = [method.finish(graph, x - origin, tensors, one) for one in arrived]
        differences = self._differences(tensors, origin, begins)
        return list(map(MethodResult, maps, parts, differences))

    def start(self, tensors: Mapping[int, tf.Tensor], *target: tf.Tensor) -> tf.Tensor:
        """What starts at the output for a target, float32 [B, classes]."""
        scores = tensors[self.graph.output]
        if self.values is not None:
            return start_of_gradient(scores, *target) * tf.cast(tensors[self.values], scores.dtype)
        begin = self.method.start(scores, *target)
        return begin if self.signs is None else with_signs_of(tensors[self.signs], begin)

    def _differences(
        self, tensors: Mapping[int, tf.Tensor], origin: tf.Tensor, begins: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        """By how much the explained scores differ from those of the baseline, for each target."""
        number = self.graph.differentiated()
        if self.baseline is None or number is None:
            return [None] * len(begins)
        end, start = (
            tf.cast(one[number], tf.float32) for one in (tensors, self.graph.forward(origin))
        )
        rise = end - start
        return [tf.reduce_sum(begin * rise, -1) for begin in begins]


def with_signs_of(logits: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """What starts, times the sign of each logit (0 counts as positive).

    Unchanged where the logits are not shaped like the scores, as before a pool.

    Args:
      logits: [B, classes].
      begin: float32 [B, classes].
    """
    if logits.shape[1:] != begin.shape[1:]:
        return begin
    return tf.where(logits < 0, -begin, begin)


def _letting_through(keep: float, back: Back) -> Back:
    if keep >= 1:
        return back

    def filtered(
        node: Node, inputs: Tensors, output: tf.Tensor, arriving: tf.Tensor | Multiple
    ) -> Handed:
        if isinstance(node.step, Linear):
            arriving = top_share(relevance_of(arriving), keep)
        return back(node, inputs, output, arriving)

    return filtered


def top_share(relevance: tf.Tensor, share: float) -> tf.Tensor:
    """Keeps the largest entries by magnitude and sets the others to 0.

    Args:
      relevance: [B, ...].
      share: how many of each picture's entries are kept, above 0 to 1.
    """
    size = math.prod(relevance.shape[1:])
    magnitude = tf.reshape(tf.abs(relevance), [-1, size])
    least = tf.math.top_k(magnitude, math.ceil(share * size)).values[:, -1]
    least = tf.reshape(least, [-1] + [1] * (relevance.shape.rank - 1))
    return tf.where(tf.abs(relevance) >= least, relevance, 0.0)


def _relevance(context: MethodContext) -> Back:
    rules, step_rules = context.rules, context.step_rules

    def back(
        node: Node, inputs: Tensors, output: tf.Tensor, arriving: tf.Tensor | Multiple
    ) -> Handed:
        if node.output in step_rules:
            handed = step_rules[node.output](node.step, inputs, output, arriving)
            if handed is not None:
                return handed
        relevance = relevance_of(arriving)
        if node.output in rules:
            handed = rules[node.output](inputs[0], relevance)
            return list(handed) if isinstance(handed, Shares) else [handed]
        return node.step.relevance(inputs, output, relevance)

    return back


def _gradient(context: MethodContext) -> Back:
    scoring = context.graph.scoring()

    def back(node: Node, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        if node.output in scoring:
            return [gradient]
        return node.step.gradient(inputs, output, gradient)

    return back


def _to_last_attention(context: MethodContext) -> Back:
    """The gradient down to the last layer's attention weights."""
    weights, plain = attention_maps.attention_weights(context.graph), _gradient(context)
    last = max(weights, default=context.graph.output)

    def back(node: Node, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        return plain(node, inputs, output, gradient) if node.output > last else []

    return back


def _through_relus(masked: bool) -> Callable[[MethodContext], Back]:
    """The gradient, which passes ReLUs only where it is positive.

    With `masked` the activation has to be positive as well.
    """

    def make(context: MethodContext) -> Back:
        plain, rectifiers = (
            _gradient(context),
            guided_rectifiers(context.graph, context.options.guided),
        )

        def back(node: Node, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
            if node.output not in rectifiers:
                return plain(node, inputs, output, gradient)
            positive = tf.nn.relu(gradient)
            return plain(node, inputs, output, positive) if masked else [positive]

        return back

    return make


def _has_rectifiers(graph: Graph, tensors: Mapping[int, tf.Tensor]) -> bool:
    return bool(rectifiers(graph))


def _has_feature_maps(graph: Graph, tensors: Mapping[int, tf.Tensor]) -> bool:
    return bool(spatial_maps(graph, tensors))


def _attends(graph: Graph, tensors: Mapping[int, tf.Tensor]) -> bool:
    return attention_maps.patches_of(graph, tensors) is not None


def _at_input(
    graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    return total(parts[0])


def _times_input(
    graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    return x * total(parts[0])


def _grad_cam(
    graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    """Grad-CAM (Selvaraju et al. 2017, eq. 1 and 2) at the last spatial feature maps.

    Resized bilinearly to the picture and divided equally among its channels.
    """
    return _class_activation(x, tensors, parts, _last_maps(graph, tensors, parts))


def grad_cam_at(number: int) -> Method:
    """Grad-CAM at the feature maps of this number."""

    def finish(
        graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
    ) -> tf.Tensor:
        return _class_activation(x, tensors, parts, number)

    return replace(METHODS["grad_cam"], finish=finish)


def _class_activation(
    x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts, number: int
) -> tf.Tensor:
    maps = tensors[number]
    weights = tf.reduce_mean(tf.cast(total(parts[number]), maps.dtype), [1, 2], keepdims=True)
    cam = tf.nn.relu(tf.reduce_sum(weights * maps, -1, keepdims=True))
    channels = x.shape[3]
    return tf.repeat(tf.image.resize(cam, x.shape[1:3]), channels, axis=3) / channels


def _last_maps(graph: Graph, tensors: Mapping[int, tf.Tensor], parts: Parts) -> int:
    """The number of the last tensor with rows and columns, before the pools that follow it."""
    found = [number for number in spatial_maps(graph, tensors) if number in parts]
    if found:
        return found[-1]
    raise UsageError("grad_cam needs a network with convolutions before its last layers.", "method")


METHODS: dict[str, Method] = {
    "lrp": Method(start_of_relevance, _relevance, _at_input, by_rules=True),
    "gradient": Method(start_of_gradient, _gradient, _at_input, absolute=True, cancels=True),
    "input_x_gradient": Method(start_of_gradient, _gradient, _times_input, cancels=True),
    "guided_backprop": Method(
        start_of_gradient, _through_relus(True), _at_input, absolute=True, suits=_has_rectifiers
    ),
    "deconvnet": Method(
        start_of_gradient, _through_relus(False), _at_input, absolute=True, suits=_has_rectifiers
    ),
    "excitation_backprop": Method(
        start_of_gradient, _relevance, _at_input, by_rules=True, composite=EXCITATION
    ),
    "grad_cam": Method(
        start_of_gradient, _gradient, _grad_cam, signed=False, suits=_has_feature_maps
    ),
    "smoothgrad": Method(
        start_of_gradient, _gradient, _at_input, noisy, absolute=True, cancels=True
    ),
    "integrated_gradients": Method(
        start_of_gradient,
        _gradient,
        _times_input,
        on_path,
        samples=50,
        from_baseline=True,
        cancels=True,
    ),
    "attention": Method(
        start_of_gradient,
        _to_last_attention,
        attention_maps.last_layer,
        signed=False,
        suits=_attends,
    ),
    "attention_rollout": Method(
        start_of_gradient,
        _to_last_attention,
        attention_maps.rollout,
        signed=False,
        suits=_attends,
    ),
}
"""Name in configuration and documentation -> method."""
