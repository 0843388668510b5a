"""How notebooks show an explainer (targets, the rule of each layer) and an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from realtime_lrp.notebook import figure, html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from realtime_lrp.relevance.maps.account import Account
    from realtime_lrp.relevance.network.graph import Graph
    from realtime_lrp.relevance.rules.rules import Rule

MANY = 24
"""A longer table of rules is folded."""

SHOWN = 4
"""How many pictures of a batch are shown."""

ACCOUNT = ("started", "relevance_sum", "taken_by_biases", "lost")
"""The keys of an account in the order in which it is read."""


def explainer_html(
    graph: Graph,
    rules: Mapping[int, Rule],
    *,
    maps: Sequence[str],
    target: str,
    shape: Sequence[int],
    classes: int,
    weights: int,
    precision: str,
) -> str:
    """An explainer as HTML.

    Args:
      graph: its network, canonised.
      rules: the rule of each layer with weights, by output number; empty for methods without.
      maps: the names of its maps.
      target: what it explains.
      shape: (H, W, C) of a picture.
      classes: how many there are.
      weights: how many its layers have.
      precision: the type in which they compute.
    """
    about = {
        "maps": ", ".join(maps),
        "target": target,
        "input": " x ".join(map(str, shape)),
        "classes": classes,
        "weights": f"{weights:,}",
        "precision": precision,
    }
    text = html.facts(f"Explainer of {graph.name}", about)
    rows = [
        (node.layer, node.kind, rules[node.output]) for node in graph.nodes if node.output in rules
    ]
    if not rows:
        return text + html.remark("This method follows no rules.")
    table = html.table(("layer with weights", "type", "rule"), rows)
    return text + (html.folded(f"{len(rows)} rules", table) if len(rows) > MANY else table)


def explanation_html(
    description: str,
    plot: Figure,
    explained: Sequence[str],
    pictures: Sequence[Mapping[str, Any]],
    accounts: Mapping[str, Account],
    count: int,
) -> str:
    """The first pictures of an explanation as HTML: maps, answers, account.

    Args:
      description: the explanation in words.
      plot: these pictures and their maps.
      explained: the target of each.
      pictures: what `Explanation.to_dict` has of each.
      accounts: where their relevance went, by the name of the map.
      count: how many pictures the explanation has.
    """
    answers = [
        (number, target, ", ".join(f"{one['label']} {one['score']:.3g}" for one in about["top"]))
        for number, (target, about) in enumerate(zip(explained, pictures, strict=True))
    ]
    text = html.picture(figure.png_of(plot), description)
    text += html.table(("picture", "explained", "answers"), answers)
    sums_of_maps = [
        (number, name, *(f"{sums[key]:.3g}" for key in ACCOUNT))
        for number, one in enumerate(pictures)
        for name, sums in one["maps"].items()
        if "started" in sums
    ]
    if sums_of_maps:
        head = ("picture", "map", "started", "reached the pixels", "taken by biases", "lost")
        text += html.folded("account", html.table(head, sums_of_maps))
    gone = [
        f"{name} of picture {number}"
        for name, account in accounts.items()
        for number in account.vanished.nonzero()[0].tolist()
    ]
    if gone:
        text += html.remark(
            f"Almost nothing is left in {', '.join(gone)}: less than 1 % of the relevance that "
            "started reached pixels and biases. Explainer.layers tells in which layer it was lost."
        )
    if count > len(pictures):
        text += html.remark(f"The first {len(pictures)} of {count} pictures.")
    return text
