"""The composites that `evaluate --search` tries: named ones, random ones, variants of the best.

A random one has a rule with its numbers for each group of layers (input, early, middle, late,
output) and a way through max pools. It is written as settings, which a user can copy.
"""

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from realtime_lrp.config.names import COMPOSITE, VIEWER_COMPOSITE
from realtime_lrp.engine.engine import Engine
from realtime_lrp.relevance.network.canonise import canonise
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.rules.composites import COMPOSITES

DEFAULTS = COMPOSITE, VIEWER_COMPOSITE
"""The composites that commands use unless told otherwise: of pictures and films, of live views."""

BASE = "epsilon"  # the composite of random candidates; every layer has a rule of its own
ATTEMPTS = 5  # drawn for each variant that is wanted, because some are alike


@dataclass
class Candidate:
    """Settings of LRP to try: a composite with rules of its own for layers and groups of them."""

    name: str  # of the composite, "random 3" or "variant 1 of random 3"
    composite: str
    pool: str = "max"
    rules: Mapping[str, str] = field(default_factory=dict)  # group -> rule
    groups: Mapping[str, list[str]] = field(default_factory=dict)  # group -> its layers
    gains: dict[int, float] = field(default_factory=dict)
    """Number of pictures -> the mean criterion; one for each round that it reached."""

    def settings(self) -> dict[str, Any]:
        """The section `lrp` of a configuration."""
        layers = {
            glob.escape(name): rule
            for group, rule in self.rules.items()
            for name in self.groups[group]
        }
        return {"method": "lrp", "composite": self.composite, "pool": self.pool, "layers": layers}

    def __str__(self) -> str:
        if self.name == self.composite:
            return self.name
        rules = (f"{group} {rule}, " for group, rule in self.rules.items())
        return f"{self.name}: {''.join(rules)}pool {self.pool}"


def candidates(groups: Mapping[str, list[str]], count: int, seed: int) -> list[Candidate]:
    """The defaults, the other named composites, then random ones; `count` in all.

    Candidate number n does not depend on `count`.
    """
    named = [*DEFAULTS, *(name for name in COMPOSITES if name not in DEFAULTS)]
    found = [Candidate(name, name, groups=groups) for name in named[:count]]
    for number in range(1, count - len(found) + 1):
        found.append(_random(number, groups, np.random.default_rng([seed, number])))
    return found


def _random(number: int, groups: Mapping[str, list[str]], rng: np.random.Generator) -> Candidate:
    rules = {group: _draw(group, rng) for group in groups}
    pool = str(rng.choice(["max", "average"]))
    return Candidate(f"random {number}", BASE, pool, rules, groups)


def variants(parents: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """Candidates that differ from one of the parents in the rule of one group, or in the pool.

    The parents take turns; no two candidates, and no parent, have the same settings.
    """
    found: list[Candidate] = []
    seen = [parent.settings() for parent in parents]
    for number in range(ATTEMPTS * count if parents else 0):
        rng = np.random.default_rng([seed, 0, number])
        changed = _variant(len(found) + 1, parents[number % len(parents)], rng)
        if len(found) < count and changed.settings() not in seen:
            found.append(changed)
            seen.append(changed.settings())
    return found


def _variant(number: int, parent: Candidate, rng: np.random.Generator) -> Candidate:
    group = str(rng.choice([*parent.groups, "pool"]))
    change: dict[str, Any] = {"pool": "max" if parent.pool == "average" else "average"}
    if group != "pool":
        change = {"rules": {**parent.rules, group: _draw(group, rng)}}
    return replace(parent, name=f"variant {number} of {parent.name}", gains={}, **change)


def _draw(group: str, rng: np.random.Generator) -> str:
    rules = RULES_OF_GROUP.get(group, HIDDEN)
    rule = rules[rng.integers(len(rules))]
    return DRAWS[rule](rng) if rule in DRAWS else rule


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> str:
    return f"{np.exp(rng.uniform(np.log(low), np.log(high))):.2g}"


def _alpha_beta(rng: np.random.Generator) -> str:
    alpha = float(rng.choice([1.5, 2, 3]))
    return f"alpha_beta({alpha:g}, {alpha - 1:g})"


DRAWS: dict[str, Callable[[np.random.Generator], str]] = {
    "some gamma": lambda rng: f"gamma({_log_uniform(rng, 0.02, 2)})",
    "some epsilon": lambda rng: f"epsilon({_log_uniform(rng, 1e-4, 10)})",
    "some alpha_beta": _alpha_beta,
}
"""Rules with random numbers; others are taken as they are."""

HIDDEN = ("some gamma", "some gamma", "some alpha_beta", "zplus", "some epsilon")
"""What layers between input and output may follow, each as probable as the others."""

RULES_OF_GROUP = {
    "input": ("flat", "wsquare", "zbox", "zplus_input", *HIDDEN),
    "output": ("epsilon", "some epsilon", "some gamma", "zplus", "some alpha_beta"),
}


def layer_groups(engine: Engine) -> dict[str, list[str]]:
    """The layers with weights in groups, by name, from input to output; no group is empty.

    "input" has no layer with weights before it. "output" are the layers behind the last
    convolution, or the last layer. The others are "early", "middle" and "late", a third each.
    """
    graph = build_graph(engine.model, engine.config.lrp.pool)
    canonise(graph)
    first, behind = _weighted_layers(graph)
    names = [*behind]
    convolutions = [index for index, name in enumerate(names) if behind[name]]
    last = len(names) - 1
    cut = min(convolutions[-1] + 1, last) if convolutions else max(last, 0)
    hidden, third = names[:cut], -(-cut // 3)
    groups = {
        "input": first,
        "early": hidden[:third],
        "middle": hidden[third : 2 * third],
        "late": hidden[2 * third :],
        "output": names[cut:],
    }
    return {group: members for group, members in groups.items() if members}


def _weighted_layers(graph: Graph) -> tuple[list[str], dict[str, bool]]:
    """The layers that see the input before any other weights; the others, and if they convolve.

    A layer that is called twice counts once, where it is called first.
    """
    before_weights, first, behind = {0}, [], {}
    for node in graph.nodes:
        if isinstance(node.step, Linear):
            name = node.layer.split(":")[0]
            if before_weights.issuperset(node.inputs):
                first.append(name)
            elif name not in first:
                behind[name] = node.step.convolves
        elif before_weights.issuperset(node.inputs):
            before_weights.add(node.output)
    return first, behind
