"""Which maps an explainer computes: the method of each, and the composite that it follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from realtime_lrp.config import names
from realtime_lrp.config.defaults import ATTENTION_COMPOSITE, COMPOSITE
from realtime_lrp.config.names import AUTO
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps.attention_maps import attention_weights
from realtime_lrp.relevance.maps.methods import (
    METHODS,
    Explain,
    Method,
    MethodContext,
    MethodOptions,
    grad_cam_at,
)
from realtime_lrp.relevance.network.canonise import mark_gates
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.rules.attention import differ_from_epsilon
from realtime_lrp.relevance.rules.composites import (
    COMPOSITES,
    Composite,
    with_layers,
)
from realtime_lrp.relevance.rules.rounding import Lowering, choose_lowering, keeps_sign
from realtime_lrp.relevance.rules.rules import Epsilon, LayerContext, Propagate, Rule


@dataclass(frozen=True)
class MapRequest:
    """A map that a user asked for.

    Attributes:
      method: how it is computed.
      composite: the one to follow; None means the explainer's own with its `layers`.
    """

    method: Method
    composite: Composite | None


@dataclass(frozen=True)
class MapPlan:
    """A map, with everything that is decided before anything is compiled.

    Attributes:
      method: how it is computed.
      composite: which rules it follows.
      rules: the rule of each layer with weights, by output number; empty where the method follows
        none.
      absorbing: the output numbers of layers whose biases take a share of the relevance.
      keeps_sign: whether the map has no negative entry where the target has none.
      signs: the number of the tensor whose signs relevance starts with, or None.
      values: the number of the logits with which relevance starts; None where it starts with
        probabilities.
      divided_by_logits: the names of layers that divide the probability of a class by its logit.
      difference: whether the map adds up to a difference of scores.
    """

    method: Method
    composite: Composite
    rules: Mapping[int, Rule]
    absorbing: frozenset[int]
    keeps_sign: bool
    signs: int | None = None
    values: int | None = None
    divided_by_logits: frozenset[str] = frozenset()
    difference: bool = False


def composite_for(
    name: "str | Composite", graph: Graph, otherwise: str = COMPOSITE
) -> "str | Composite":
    """What a composite stands for: "auto" is the one that suits the network.

    Args:
      name: a name, "auto" or a `Composite`.
      graph: the network.
      otherwise: what "auto" is for networks without attention.
    """
    if name != AUTO:
        return name
    mark_gates(graph)
    return ATTENTION_COMPOSITE if attention_weights(graph) else otherwise


def advice_on(graph: Graph, composite: Composite) -> str:
    """What would suit the network better than the composite that its map follows, or "".

    Args:
      graph: the network.
      composite: the one that the map follows.
    """
    if composite.steps or not attention_weights(graph):
        return ""
    name = next((name for name, one in COMPOSITES.items() if one is composite), "this one")
    suits = ATTENTION_COMPOSITE
    return f"This network has attention: the composite {suits} follows it, {name} does not."


def unsuited(graph: Graph, tensors: Mapping[int, tf.Tensor]) -> frozenset[str]:
    """The names of methods and composites that a network refuses, or that equal another one there.

    Args:
      graph: the canonised network.
      tensors: its tensors by number, of which only the shapes count.
    """
    names = {name for name, method in METHODS.items() if not method.suits(graph, tensors)}
    if not differ_from_epsilon(graph):
        names |= {name for name, composite in COMPOSITES.items() if composite.steps}
    return frozenset(names)


def map_requests(method: str, also: Sequence[str]) -> list[MapRequest]:
    """Looks up the explainer's method and the names of additional maps.

    Raises:
      UsageError: there is no such method, or no such map.
    """
    if method not in METHODS:
        hint = f"Use composite={method!r} with the method lrp. " if method in COMPOSITES else ""
        error = unknown("method", method, METHODS, names.METHODS.aliases)
        raise UsageError(f"{hint}{error}", "method") if hint else error
    own = MapRequest(METHODS[method], METHODS[method].composite)
    return [own, *map(_additional_map, also)]


def map_names(
    method: str,
    composite: str | Composite,
    layers: Mapping[str, str | Rule] | None,
    also: Sequence[str],
) -> tuple[str, ...]:
    """The names of all maps, the own one first; the arguments are those of `Explainer`.

    The own map is called by its composite, or by its method where that is not LRP.
    """
    name = method if method != "lrp" else composite if isinstance(composite, str) else "lrp"
    if method == "lrp" and layers:
        name += " with layers"
    while name in also:
        name += " (own)"
    return name, *also


def _additional_map(name: str) -> MapRequest:
    """A map named after a method, or after the composite that LRP follows."""
    if name in METHODS:
        return MapRequest(METHODS[name], METHODS[name].composite)
    if name in COMPOSITES:
        return MapRequest(METHODS["lrp"], COMPOSITES[name])
    raise unknown("map", name, [*METHODS, *COMPOSITES], names.METHODS.aliases)


def plan_maps(
    requests: Sequence[MapRequest],
    composite: Composite,
    layers: Mapping[str, str | Rule],
    graph: Graph,
    contexts: Mapping[int, LayerContext],
    start: str = "probability",
    absorb_bias: bool | None = None,
    grad_cam: int | None = None,
) -> list[MapPlan]:
    """Decides which rule each layer follows in each map.

    Args:
      requests: the maps.
      composite: the explainer's own composite.
      layers: its rules for particular layers, see `with_layers`.
      graph: the canonised network.
      contexts: what is known about its layers with weights, by output number.
      start: with what LRP starts, "probability" or "logit".
      absorb_bias: see `Composite.absorbing`.
      grad_cam: the number of the feature maps for Grad-CAM; None means the last ones.

    Raises:
      UsageError: there is no such rule, a pattern matches no layer, or a layer has no rule.
    """
    own = with_layers(composite, layers, graph)
    plans = []
    for request in requests:
        method, followed = request.method, request.composite or own
        if grad_cam is not None and method is METHODS["grad_cam"]:
            method = grad_cam_at(grad_cam)
        rules = followed.rules(graph, contexts) if method.by_rules else {}
        values = _logits(graph) if start == "logit" and method.starts_with_scores else None
        positive = not method.signed or (keeps_sign(rules, graph) and values is None)
        difference = method.from_baseline and graph.differentiated() is not None
        signs = None if values is not None else _signed_logits(rules, graph)
        divided = {n.layer for n in graph.nodes if n.output in _last_layers(graph, signs)}
        absorbing = followed.absorbing(graph, contexts, absorb_bias)
        plans.append(
            MapPlan(
                method, followed, rules, absorbing, positive, signs, values, frozenset(divided),
                difference,
            )
        )  # fmt: skip
    return plans


def _signed_logits(rules: Mapping[int, Rule], graph: Graph) -> int | None:
    """The logits, where the last layers with weights divide by a sum with the logit's sign.

    Relevance of a class with a negative logit would change its sign there.
    """
    logits = graph.logits()
    if logits is None or not rules:
        return None
    last = _last_layers(graph, logits)
    return logits if any(rules[number].signed_sum for number in last) else None


def _logits(graph: Graph) -> int:
    """The number of the logits, or of a linear output.

    Raises:
      UsageError: the scores are computed of several tensors.
    """
    number = graph.differentiated()
    if number is None:
        raise UsageError(
            f"The scores of {graph.name!r} are made of several softmaxes or sigmoids, or reshaped: "
            "it has no logits to start from. Use start=probability.",
            "start",
        )
    return number


def _last_layers(graph: Graph, logits: int | None) -> set[int]:
    return set() if logits is None else graph.last_with_weights(logits)


def choose_precision(
    precision: str,
    plans: Sequence[MapPlan],
    graph: Graph,
    fast: str,
    keep: float,
    contrasts: bool,
) -> Lowering:
    """What computes in which precision.

    Args:
      precision: "float32", "bfloat16", or "auto" for what keeps the maps.
      plans: the maps.
      graph: the canonised network.
      fast: the fastest precision of the device.
      keep: the share of entries that layers with weights pass on.
      contrasts: whether classes count against others.
    """
    if precision != "auto":
        return Lowering(precision)
    cancels = keep < 1 or any(plan.method.cancels for plan in plans)
    contrasts |= any(plan.values is not None for plan in plans)  # logits may have both signs
    rules, absorbing = [plan.rules for plan in plans], plans[0].absorbing
    attends = all(
        plan.composite.steps
        and not plan.composite.overrides
        and all(isinstance(rule, Epsilon) for rule in plan.rules.values())
        for plan in plans
    )
    return choose_lowering(rules, graph, fast, absorbing, contrasts, cancels, attends)


def bind_maps(
    plans: Sequence[MapPlan],
    graph: Graph,
    contexts: Mapping[int, LayerContext],
    options: MethodOptions,
    absorb_bias: bool | None = None,
) -> list[Explain]:
    """Binds the method of each map to the network; rules are bound once for each composite.

    Args:
      plans: the maps.
      graph: the network, its weights in the type in which they compute.
      contexts: what is known about its layers with weights, by output number.
      options: what the user chose about methods.
      absorb_bias: see `Composite.absorbing`.
    """
    bound: dict[Composite, Mapping[int, Propagate]] = {}
    for plan in plans:
        if plan.rules and plan.composite not in bound:
            bound[plan.composite] = plan.composite.bind(graph, contexts, absorb_bias)
    explain = []
    for plan in plans:
        rules = bound[plan.composite] if plan.rules else {}
        steps = plan.composite.bind_steps(graph, contexts, absorb_bias) if plan.rules else {}
        context = MethodContext(graph, rules, options, plan.signs, plan.values, steps)
        explain.append(plan.method.bind(context))
    return explain
