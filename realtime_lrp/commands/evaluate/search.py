"""`evaluate --search`: looks for the composite whose maps say best what the network used.

Candidates are named composites and random ones. A random one has a rule with its numbers for each
group of layers (input, early, middle, late, output) and a way through max pools. It is written as
settings, which a user can copy.

Candidates are compared on one half of the photos by successive halving (Jamieson and Talwalkar
2016): all of them on a few photos, the best third on three times as many, until the rest has seen
the whole half. The best one is then measured, with the defaults, on the other half.

The criterion is insertion - deletion: the area under the insertion curve less the area under the
deletion curve, from -1 to 1. It is the symmetric relevance gain of Blücher, Vielhaben, Strodthoff
2024, "Decoupling pixel flipping and occlusion strategy for consistent XAI benchmarks".
"""

import glob
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from realtime_lrp.commands.evaluate.measuring import GAIN, AnswerEvaluation
from realtime_lrp.commands.evaluate.metrics import (
    FEWEST_PHOTOS,
    Values,
    compared,
    intervals,
    photo_of,
    rounded,
)
from realtime_lrp.commands.evaluate.report import with_interval
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.config.names import COMPOSITE, VIEWER_COMPOSITE
from realtime_lrp.config.provenance import Provenance, figures_json
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.relevance.network.canonise import canonise
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.system.progress import Progress
from realtime_lrp.system.terminal import new_table, rendered

DEFAULTS = COMPOSITE, VIEWER_COMPOSITE
"""The composites that commands use unless told otherwise: of pictures and films, of live views."""

BASE = "epsilon"  # the composite of random candidates; every layer has a rule of its own


@dataclass
class Candidate:
    """Settings of LRP to try: a composite with rules of its own for layers and groups of them."""

    name: str  # of the composite, or "random 3"
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
        rng = np.random.default_rng([seed, number])
        rules = {group: _draw(group, rng) for group in groups}
        pool = str(rng.choice(["max", "average"]))
        found.append(Candidate(f"random {number}", BASE, pool, rules, groups))
    return found


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


KEPT = 3  # the best third of a round goes on to the next one, which has three times the photos
FEWEST = 4  # photos of the first round, at least

FIGURES = (GAIN, "insertion", "deletion")
CRITERION = (
    "gain = insertion - deletion, the mean over pictures of the area under the insertion curve "
    "less the area under the deletion curve"
)

FOUND = "found"  # the row of what the search found

REPORT_FILE, SETTINGS_FILE = SEARCH_FILES = "search.json", "settings.yaml"
"""What `evaluate --search -o` writes into its folder."""

log = logging.getLogger(__name__)


def run_search(
    engine: Engine, samples: Samples, count: int, seed: int, folder: Path | None, made: Provenance
) -> list[str]:
    """Searches among `count` composites on half of the photos; gives the lines of the result."""
    to_search, to_report = halves(samples, seed)
    evaluation = AnswerEvaluation(engine, samples, seed, forgetting=False)
    tried = candidates(layer_groups(engine), count, seed)
    search(evaluation, to_search, tried)
    if not best_first(tried):
        raise DamagedInputError("No composite can explain this network. -v says why.")
    defaults = {name: Candidate(name, name) for name in DEFAULTS}
    rows = {
        name: evaluation.faithfulness(to_report, candidate.settings())
        for name, candidate in {FOUND: best_first(tried)[0], **defaults}.items()
    }
    searched, reported = (
        [samples.names[index] for index in half] for half in (to_search, to_report)
    )
    shared = engine.config.lrp.model_dump(
        mode="json", exclude_defaults=True, exclude={"target", "precision"}
    )
    report = search_report(tried, searched, reported, rows, shared)
    if folder:
        (folder / REPORT_FILE).write_text(figures_json(report, made))
        (folder / SETTINGS_FILE).write_text(settings_yaml(report))
    return search_lines(report, best_first(tried)[0])


def search(
    evaluation: AnswerEvaluation, samples: Sequence[int], tried: Sequence[Candidate]
) -> None:
    """Compares candidates on some samples; notes in each what was measured."""
    left = list(tried)
    for count in search_rounds(len(samples), len(tried)):
        with Progress(1, unit="candidates", logged=True) as progress:
            progress.begin(f"candidates on {count} pictures", len(left))
            for number, one in enumerate(left):
                progress.step(number, one.name)
                try:
                    values = evaluation.faithfulness(samples[:count], one.settings())
                except Error as error:
                    log.info("%s is left out: %s", one.name, error)
                else:
                    one.gains[count] = float(np.mean(values[GAIN]))
        alive = best_first(one for one in left if count in one.gains)
        left = alive[: -(-len(alive) // KEPT)]


def best_first(tried: Iterable[Candidate]) -> list[Candidate]:
    """The measured candidates; first those on most pictures, of these the highest gain first."""
    measured = [one for one in tried if one.gains]
    return sorted(measured, key=lambda one: max(one.gains.items()), reverse=True)


def search_rounds(photos: int, candidates: int) -> list[int]:
    """How many photos each round has, ascending; two or three candidates see all of them."""
    rounds = [photos]
    while rounds[0] > KEPT * FEWEST and candidates > KEPT ** len(rounds):
        rounds.insert(0, -(-rounds[0] // KEPT))
    return rounds


def halves(samples: Samples, seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the samples to search on and of those to report on, in random order.

    Samples of one photo stay together; its second one comes after the first ones of all photos.
    """
    by_photo: dict[str, list[int]] = {}
    for number, name in enumerate(samples.names):
        by_photo.setdefault(photo_of(name), []).append(number)
    photos = [*by_photo.values()]
    if len(photos) < 2:
        raise UsageError(
            "There is one photo. --search needs at least two: half of them to choose by, the other "
            "half to report on."
        )
    shuffled = [photos[index] for index in np.random.default_rng(seed).permutation(len(photos))]
    middle = len(photos) // 2
    return _in_turns(shuffled[:middle]), _in_turns(shuffled[middle:])


def _in_turns(groups: Sequence[Sequence[int]]) -> list[int]:
    """The first of each group, then the second of each that has one, and so on."""
    return [number for turn in zip_longest(*groups) for number in turn if number is not None]


def search_report(
    tried: Sequence[Candidate],
    searched: Sequence[str],
    reported: Sequence[str],
    rows: Mapping[str, Values],
    shared: Mapping[str, Any],
) -> dict[str, Any]:
    """The result as plain data, for JSON.

    `searched` and `reported` are the names of the pictures that the search was made on and that
    `rows` were measured on: what was found and the defaults.
    `shared` are the other settings of the section `lrp`.
    """
    photos = [photo_of(name) for name in reported]
    found = best_first(tried)[0]

    def interval(values: np.ndarray) -> list[float]:
        return rounded(intervals(values[:, None], photos)[0])

    gains = {name: values[GAIN] for name, values in rows.items()}
    pairs = [(FOUND, name) for name in rows if name != FOUND]
    return {
        "criterion": CRITERION,
        "found": {"name": found.name, "lrp": {**shared, **found.settings()}},
        "searched_on": list(searched),
        "reported_on": list(reported),
        "candidates": [
            {
                "name": one.name,
                "lrp": one.settings(),
                "gain_by_pictures": {count: round(gain, 4) for count, gain in one.gains.items()},
            }
            for one in tried
        ],
        "rows": [
            {
                "name": name,
                "n": len(values[GAIN]),
                **{figure: round(float(values[figure].mean()), 4) for figure in FIGURES},
                "intervals": {figure: interval(values[figure]) for figure in FIGURES},
                "values": {figure: values[figure].round(6).tolist() for figure in FIGURES},
            }
            for name, values in rows.items()
        ],
        "differences": [
            {
                "figure": GAIN,
                "to": one["second"],
                "n": one["n"],
                "difference": one["difference"],
                "interval": one["interval"],
            }
            for one in compared(gains, pairs, photos)
        ],
    }


def search_lines(report: Mapping[str, Any], best: Candidate) -> list[str]:
    """The result as plain text: the figures, whether the defaults are beaten, the settings."""
    measured = sum(bool(tried["gain_by_pictures"]) for tried in report["candidates"])
    return [
        f"{measured} of {len(report['candidates'])} candidates measured on "
        f"{len(report['searched_on'])} pictures; {CRITERION}",
        f"found: {best}",
        "",
        *_table(report),
        "",
        *_verdicts(report),
        "",
        *settings_yaml(report).splitlines(),
    ]


def _table(report: Mapping[str, Any]) -> list[str]:
    table = new_table(f"on {len(report['reported_on'])} other pictures", *FIGURES)
    for row in report["rows"]:
        cells = [with_interval(row[figure], row["intervals"][figure]) for figure in FIGURES]
        table.add_row(row["name"], *cells)
    return rendered(table)


def _verdicts(report: Mapping[str, Any]) -> list[str]:
    photos = len({photo_of(name) for name in report["reported_on"]})
    if photos < FEWEST_PHOTOS:
        return [
            f"too few photos to compare found with the defaults: {photos}, expected "
            f"{FEWEST_PHOTOS} or more"
        ]
    lines = []
    for difference in report["differences"]:
        low, high = difference["interval"]
        if report["found"]["name"] == difference["to"]:
            verdict = f"found is {difference['to']} itself"
        elif low > 0:
            verdict = f"found beats {difference['to']}"
        elif high < 0:
            verdict = f"found is worse than {difference['to']}: keep that"
        else:
            verdict = f"found cannot be told from {difference['to']}"
        lines.append(
            f"{verdict}: gain {difference['difference']:+.4f} "
            f"(95 % interval {low:+.4f} to {high:+.4f}, {difference['n']} pictures of "
            f"{photos} photos)"
        )
    return lines


def settings_yaml(report: Mapping[str, Any]) -> str:
    """The settings that were found, as a file for `--config`."""
    text: str = yaml.safe_dump({"lrp": report["found"]["lrp"]}, sort_keys=False, width=1000)
    return f"# found by realtime-lrp evaluate --search; use with --config\n{text}"
