"""Which maps are asked for: the method of each, its name, and the composite that it follows."""

from collections.abc import Sequence

from realtime_lrp.config import names
from realtime_lrp.config.names import ATTENTION_COMPOSITE, AUTO, COMPOSITE
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps.attention_maps import attention_weights
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.maps.plan import Method, Options
from realtime_lrp.relevance.network.canonise import mark_gates
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.rules.attention import differ_from_epsilon
from realtime_lrp.relevance.rules.composites import COMPOSITES, Composite


def composite_for(
    name: "str | Composite", graph: Graph, otherwise: str = COMPOSITE
) -> "str | Composite":
    """What a composite stands for: "auto" is the one that suits the network.

    For networks without attention that is `otherwise`.
    """
    if name != AUTO:
        return name
    mark_gates(graph)
    return ATTENTION_COMPOSITE if attention_weights(graph) else otherwise


def advice_on(graph: Graph, composite: Composite) -> str:
    """What would suit the network better than the composite that its map follows, or ""."""
    if composite.steps or not attention_weights(graph):
        return ""
    name = next((name for name, one in COMPOSITES.items() if one is composite), "this one")
    suits = ATTENTION_COMPOSITE
    return f"This network has attention: the composite {suits} follows it, {name} does not."


def unsuited(graph: Graph) -> frozenset[str]:
    """The names of methods and composites that a network refuses, or that equal another there."""
    names = set()
    for name, method in METHODS.items():
        try:
            method.needs(graph, Options())
        except UsageError:
            names.add(name)
    if not differ_from_epsilon(graph):
        names |= {name for name, composite in COMPOSITES.items() if composite.steps}
    return frozenset(names)


Asked = tuple[Method, Composite | None]
"""A map that a user asked for: how it is computed, and the composite to follow; None is the
explainer's own with its `layers`."""


def asked_maps(method: str, also: Sequence[str]) -> list[Asked]:
    """Looks up the explainer's method and the names of additional maps."""
    if method not in METHODS:
        hint = f"Use composite={method!r} with the method lrp. " if method in COMPOSITES else ""
        error = unknown("method", method, METHODS, names.METHODS.aliases)
        raise UsageError(f"{hint}{error}", "method") if hint else error
    found = [(METHODS[method], METHODS[method].composite)]
    for name in also:
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
    """The names of all maps, the own one first.

    The own map is called by its composite, or by its method where that is not LRP.
    """
    name = method if method != "lrp" else composite if isinstance(composite, str) else "lrp"
    if method == "lrp" and options.layers:
        name += " with layers"
    while name in also:
        name += " (own)"
    return name, *also
