"""Which maps an explainer computes: the method of each, and the composite that it follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from realtime_lrp.config import names
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.composites import (
    COMPOSITES,
    Composite,
    with_layers,
)
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.methods import (
    METHODS,
    Explain,
    Method,
    MethodContext,
    MethodOptions,
    grad_cam_at,
)
from realtime_lrp.relevance.rounding import Lowering, choose_lowering, keeps_sign
from realtime_lrp.relevance.rules import LayerContext, Propagate, Rule


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
      logits: the number of the tensor whose signs relevance starts with, or None.
      difference: whether the map adds up to a difference of scores.
    """

    method: Method
    composite: Composite
    rules: Mapping[int, Rule]
    absorbing: frozenset[int]
    keeps_sign: bool
    logits: int | None = None
    difference: bool = False


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
        positive = not method.signed or keeps_sign(rules, graph)
        difference = method.from_baseline and graph.differentiated() is not None
        logits = _signed_logits(rules, graph)
        absorbing = followed.absorbing(graph, contexts, absorb_bias)
        plans.append(MapPlan(method, followed, rules, absorbing, positive, logits, difference))
    return plans


def _signed_logits(rules: Mapping[int, Rule], graph: Graph) -> int | None:
    """The logits, where the last layers with weights divide by a sum with the logit's sign.

    Relevance of a class with a negative logit would change its sign there.
    """
    logits = graph.logits()
    if logits is None or not rules:
        return None
    last = graph.last_with_weights(logits)
    return logits if any(rules[number].signed_sum for number in last) else None


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
      precision: "float32", "bfloat16", "float16", or "auto" for what keeps the maps.
      plans: the maps.
      graph: the canonised network.
      fast: the fastest precision of the device.
      keep: the share of entries that layers with weights pass on.
      contrasts: whether classes count against others.
    """
    if precision != "auto":
        return Lowering(precision)
    cancels = keep < 1 or any(plan.method.cancels for plan in plans)
    rules, absorbing = [plan.rules for plan in plans], plans[0].absorbing
    attends = all(
        plan.rules and plan.composite.steps and not plan.composite.overrides for plan in plans
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
        context = MethodContext(graph, rules, options, plan.logits, steps)
        explain.append(plan.method.bind(context))
    return explain
