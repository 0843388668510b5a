"""Methods: LRP, the gradient and its relatives, all computed from one forward pass.

To add a method, add a row to `METHODS`, and its name and sentence to `config/names.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import tensorflow as tf

from realtime_lrp.config import names
from realtime_lrp.config.names import ATTENTION_COMPOSITE, AUTO, COMPOSITE, DETECTOR_COMPOSITE
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps.plan import Method, Options, Plan
from realtime_lrp.relevance.maps.starts import start_of_gradient, start_of_relevance
from realtime_lrp.relevance.network.canonise import mark_gates
from realtime_lrp.relevance.network.graph import Arrival, Back, Graph, Parts, total
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Activation, Handed, Numbered
from realtime_lrp.relevance.network.traced_steps import MatrixProduct, Normalisation, Offset
from realtime_lrp.relevance.rules.attention import has_attention
from realtime_lrp.relevance.rules.composites import COMPOSITES, EXCITATION, Composite
from realtime_lrp.relevance.rules.layer_contexts import feature_maps, spatial_maps

NOISE = 0.1  # standard deviation of SmoothGrad's noise, relative to the picture's range


def _relevance(plan: Plan) -> Back:
    rules = {
        number: rule.bind(
            cast(Linear, plan.graph.nodes[number - 1].step),
            replace(plan.contexts[number], absorb_bias=number in plan.absorbing),
        )
        for number, rule in plan.rules.items()
    }
    step_rules = plan.composite.bind_steps(
        plan.graph, plan.rules, plan.absorbing, plan.options.absorb_bias
    )

    def back(at: Arrival) -> Handed:
        number = at.node.output
        if number in step_rules and (handed := step_rules[number](at)) is not None:
            return handed
        if number in rules:
            handed = rules[number](at.inputs[0], at.relevance)
            return handed if isinstance(handed, list) else [handed]
        return at.node.step.relevance(at.inputs, at.output, at.relevance)

    return back


def _gradient(plan: Plan) -> Back:
    scoring = plan.graph.scoring()

    def back(at: Arrival) -> Handed:
        return [at.relevance] if at.node.output in scoring else at.gradient(at.relevance)

    return back


def _through_relus(masked: bool) -> Callable[[Plan], Back]:
    """The gradient; ReLUs pass what is positive of it, `masked` ones only where they are active."""

    def make(plan: Plan) -> Back:
        plain = _gradient(plan)

        def back(at: Arrival) -> Handed:
            if at.node.output not in plan.needed:
                return plain(at)
            positive = tf.nn.relu(at.relevance)
            return plain(at._replace(arriving=positive)) if masked else [positive]

        return back

    return make


def _rectifiers(graph: Graph, options: Options) -> set[int]:
    steps = ((node.output, node.step) for node in graph.nodes)
    found = {number for number, step in steps if isinstance(step, Activation) and step.rectifies}
    if not found:
        raise UsageError(
            "The network has no ReLU: guided_backprop and deconvnet would be its gradient. "
            "Use the method gradient.",
            "method",
        )
    return found


def _last_maps(graph: Graph, options: Options) -> int:
    """The number of the feature maps that Grad-CAM weights: the chosen layer's, or the last."""
    if options.grad_cam_layer is not None:
        return feature_maps(graph, options.grad_cam_layer)
    if found := spatial_maps(graph):
        return found[-1]
    raise UsageError("grad_cam needs a network with convolutions before its last layers.", "method")


def _without_boxes(graph: Graph, options: Options) -> None:
    if graph.ends:
        raise UsageError(
            "Methods that average over changed pictures cannot explain boxes, which would change "
            "too. Expected another method, such as lrp, gradient or guided_backprop.",
            "method",
        )


def _at_input(plan: Plan, x: tf.Tensor, tensors: Numbered, parts: Parts) -> tf.Tensor:
    return total(parts[0])


def _times_input(plan: Plan, x: tf.Tensor, tensors: Numbered, parts: Parts) -> tf.Tensor:
    return x * total(parts[0])


def _grad_cam(plan: Plan, x: tf.Tensor, tensors: Numbered, parts: Parts) -> tf.Tensor:
    """Grad-CAM (Selvaraju et al. 2017, eq. 1 and 2), resized and divided among the channels."""
    maps = tensors[plan.needed]
    weights = tf.reduce_mean(tf.cast(total(parts[plan.needed]), maps.dtype), [1, 2], keepdims=True)
    cam = tf.nn.relu(tf.reduce_sum(weights * maps, -1, keepdims=True))
    channels = x.shape[3]
    return tf.repeat(tf.image.resize(cam, x.shape[1:3]), channels, axis=3) / channels


def noisy(x: tf.Tensor, numbers: tf.Tensor, samples: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Copies with Gaussian noise, the same at each call (Smilkov et al. 2017); see `Perturb`."""
    seeds = [tf.stack([20, number]) for number in tf.unstack(numbers)]
    noise = tf.stack([tf.random.stateless_normal(x.shape[1:], seed) for seed in seeds])
    copies = x + NOISE * (tf.reduce_max(x) - tf.reduce_min(x)) * noise
    return copies, tf.fill([len(seeds)], 1 / samples)


def on_path(x: tf.Tensor, numbers: tf.Tensor, samples: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Points of the straight path from 0 to the picture (Sundararajan et al. 2017); see `Perturb`.

    The share of the way is u^2 at the midpoints u of equal intervals: near 0 gradients change
    fastest. `docs/mathematics.md` has what that gains.
    """
    u = (tf.cast(numbers, x.dtype) + 0.5) / samples
    return u[:, None, None, None] ** 2 * x, 2 * u / samples


METHODS: dict[str, Method] = {
    "lrp": Method(start_of_relevance, _relevance, _at_input, by_rules=True),
    "guided_backprop": Method(
        start_of_gradient, _through_relus(True), _at_input, _rectifiers, absolute=True
    ),
    "grad_cam": Method(start_of_gradient, _gradient, _grad_cam, _last_maps, signed=False),
    "smoothgrad": Method(
        start_of_gradient, _gradient, _at_input, _without_boxes,
        perturb=noisy, absolute=True, cancels=True,
    ),
    "excitation_backprop": Method(
        start_of_gradient, _relevance, _at_input, by_rules=True, composite=EXCITATION
    ),
    "integrated_gradients": Method(
        start_of_gradient, _gradient, _times_input, _without_boxes,
        perturb=on_path, samples=50, from_zero=True, cancels=True,
    ),
    "gradient": Method(start_of_gradient, _gradient, _at_input, absolute=True, cancels=True),
    "input_x_gradient": Method(start_of_gradient, _gradient, _times_input, cancels=True),
    "deconvnet": Method(
        start_of_gradient, _through_relus(False), _at_input, _rectifiers, absolute=True
    ),
}  # fmt: skip
"""Name in configuration and documentation -> method; what an audience understands comes first."""


def composite_for(
    name: "str | Composite", graph: Graph, otherwise: str = COMPOSITE
) -> "str | Composite":
    """The composite of a name; "auto" is what suits the network, `otherwise` without attention."""
    if name != AUTO:
        return name
    mark_gates(graph)
    if not has_attention(graph):
        return otherwise
    return ATTENTION_COMPOSITE if graph.boxes is None else DETECTOR_COMPOSITE


def advice_on(graph: Graph, composite: Composite) -> str:
    """Advice on a composite that suits the network better than this one, or ""."""
    if composite.steps or not has_attention(graph):
        return ""
    name = next((name for name, one in COMPOSITES.items() if one is composite), "this one")
    suits = composite_for(AUTO, graph)
    return f"This network has attention: the composite {suits} follows it, {name} does not."


def unsuited(graph: Graph) -> frozenset[str]:
    """The names of methods and composites that a network refuses, or that equal another there."""
    names = set()
    for name, method in METHODS.items():
        try:
            method.needs(graph, Options())
        except UsageError:
            names.add(name)
    kinds = Normalisation | Offset | MatrixProduct  # their rules differ from those of epsilon
    if not any(isinstance(node.step, kinds) for node in graph.nodes):
        names |= {name for name, composite in COMPOSITES.items() if composite.steps}
    return frozenset(names)


def asked_maps(method: str, also: Sequence[str]) -> list[tuple[Method, Composite | None]]:
    """Each map's method, and its composite; None is the explainer's own with its `layers`."""
    if method not in METHODS:
        hint = f"Use composite={method!r} with the method lrp. " if method in COMPOSITES else ""
        error = unknown("method", method, METHODS, names.METHODS.aliases)
        raise UsageError(f"{hint}{error}", "method") if hint else error
    found = []
    for name in (method, *also):
        if name in METHODS:
            found.append((METHODS[name], METHODS[name].composite))
        elif name in COMPOSITES:
            found.append((METHODS["lrp"], COMPOSITES[name]))
        else:
            raise unknown("map", name, [*METHODS, *COMPOSITES], names.METHODS.aliases)
    return found


def map_names(
    method: str, composite: str | Composite, options: Options, also: Sequence[str]
) -> tuple[str, ...]:
    """The names of all maps, first the own: its composite, or its method where that is not LRP."""
    name = method if method != "lrp" else composite if isinstance(composite, str) else "lrp"
    if method == "lrp" and options.layers:
        name += " with layers"
    while name in also:
        name += " (own)"
    return name, *also
