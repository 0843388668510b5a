"""How notebooks show an explainer (targets, the rule of each layer) and an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from realtime_lrp.notebook import figure, html
from realtime_lrp.relevance.targets import target_words

if TYPE_CHECKING:
    from realtime_lrp.relevance.explainer import Explainer
    from realtime_lrp.relevance.explanation import Explanation
    from realtime_lrp.relevance.graph import Graph
    from realtime_lrp.relevance.rules import Rule

MANY = 24
"""A longer table of rules is folded."""

SHOWN = 4
"""How many pictures of a batch are shown."""

ACCOUNT = ("started", "relevance_sum", "taken_by_biases", "lost")
"""The keys of an account in the order in which it is read."""


def explainer_html(
    explainer: Explainer, names: Sequence[str], target: str, graph: Graph, rules: Mapping[int, Rule]
) -> str:
    """The explainer as HTML.

    Args:
      explainer: what is shown.
      names: the names of its maps.
      target: what it explains.
      graph: its network, canonised.
      rules: the rule of each layer with weights, by output number; empty for methods without.
    """
    about = {
        "maps": ", ".join(names),
        "target": target,
        "input": " x ".join(map(str, explainer.input_shape)),
        "classes": explainer.classes,
        "weights": f"{explainer.weights:,}",
        "precision": explainer.precision,
    }
    text = html.facts(f"Explainer of {graph.name}", about)
    rows = [
        (node.layer, node.kind, rules[node.output]) for node in graph.nodes if node.output in rules
    ]
    if not rows:
        return text + html.remark("This method follows no rules.")
    table = html.table(("layer with weights", "type", "rule"), rows)
    return text + (html.folded(f"{len(rows)} rules", table) if len(rows) > MANY else table)


def explanation_html(explanation: Explanation) -> str:
    """The first pictures of an explanation as HTML: maps, answers, account."""
    if not len(explanation):
        return html.escaped(explanation)
    shown = explanation[:SHOWN]
    about = shown.to_dict()["pictures"]
    image = html.picture(figure.png_of(shown.plot()), repr(explanation))
    answers = [
        (
            number,
            target_words(explanation.targets[number], explanation.labels),
            ", ".join(f"{answer['label']} {answer['score']:.3g}" for answer in one["top"]),
        )
        for number, one in enumerate(about)
    ]
    text = image + html.table(("picture", "explained", "answers"), answers)
    accounts = [
        (number, name, *(f"{sums[key]:.3g}" for key in ACCOUNT))
        for number, one in enumerate(about)
        for name, sums in one["maps"].items()
        if "started" in sums
    ]
    if accounts:
        head = ("picture", "map", "started", "reached the pixels", "taken by biases", "lost")
        text += html.folded("account", html.table(head, accounts))
    gone = [
        f"{name} of picture {number}"
        for name, account in shown.accounts.items()
        for number in account.vanished.nonzero()[0].tolist()
    ]
    if gone:
        text += html.remark(
            f"Almost nothing is left in {', '.join(gone)}: less than 1 % of the relevance that "
            "started reached pixels and biases. Explainer.layers tells in which layer it was lost."
        )
    if len(explanation) > SHOWN:
        text += html.remark(f"The first {SHOWN} of {len(explanation)} pictures.")
    return text
