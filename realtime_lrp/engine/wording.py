"""Answers, targets and losses of relevance in words, as they are shown to people.

Must not import TensorFlow: files of results are written without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.engine.segments import area_list, why
from realtime_lrp.relevance.maps.account import State
from realtime_lrp.relevance.maps.targets import TARGETS, Target

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result, ResultMap

EACH_BOX = "each box"  # is what a detector explains, where its target names no class


def top_scores(
    label: Callable[[int], str], scores: np.ndarray, count: int = 5
) -> list[tuple[str, float]]:
    """The highest scores of one picture as (label, score), best first."""
    best = np.argsort(-scores)[:count]
    return [(label(index), float(scores[index])) for index in best]


def nothing_found(target: Target, label: Callable[[int], str]) -> str:
    """A sentence where a detector is sure of no box: "no star or cup found"."""
    named = list(map(label, target.classes))
    return f"no {' or '.join(named)} found" if named else "nothing found"


def sight_note(result: Result) -> str:
    """Says that a thing to follow was not found; "" where it was, or nothing is followed."""
    return "nothing to follow: whole picture" if result.region.found is False else ""


def best_answer(engine: Engine, result: Result) -> str:
    """The best label, "goldfish  93%"; of boxes all, by their numbers; or the largest classes."""
    if result.segments:
        areas = result.segments.areas()
        scores = [area for area in areas if area[0] != engine.explainer.background][:3] or areas[:3]
    elif result.found is None:
        best = int(np.argmax(result.scores))
        scores = [(best, float(result.scores[best]))]
        if engine.explainer.classes == 1:  # a value, which is no share of anything
            return f"{engine.label(best)}  {scores[0][1]:.4g}"
    else:
        boxes = sorted(result.found, key=lambda one: one.number)
        scores = [(box.label, box.score) for box in boxes]
    shares = (f"{share:.0%}" if share >= 0.01 else "<1%" for _, share in scores)
    texts = (f"{engine.label(n)}  {share}" for (n, _), share in zip(scores, shares, strict=True))
    return ", ".join(texts) or nothing_found(result.target, engine.label)


def score_list(engine: Engine, result: Result) -> str:
    """Labels with scores, "cup 0.93, moon 0.02": the three best, all boxes, or largest classes."""
    if result.segments:
        areas = area_list(engine, result.segments)[:3]
        listed = ", ".join(f"{name} {area:.0%}" for name, area in areas)
        return f"{listed}; {why(engine, result.segments)}"
    top = top_scores(engine.label, result.scores, 3)
    if result.found is not None:
        top = [(engine.label(one.label), one.score) for one in result.found]
    listed = ", ".join(f"{name} {score:.3g}" for name, score in top)
    return listed or nothing_found(result.target, engine.label)


def passes_note(engine: Engine, result: Result) -> str:
    """The perturbed passes: "(mean of 20 passes, 99.2% of the difference)"; "" without."""
    passes = engine.explainer.passes
    first = result.maps[0]
    if not passes:
        return ""
    complete = ""
    if first.kind.difference and first.started:
        complete = f", {first.total / first.started:.1%} of the difference"
    return f"(mean of {passes} passes{complete})"


def describe_target(
    engine: Engine, target: Target, scores: Sequence[tuple[str, float]] = ()
) -> str:
    """A target in words, with class names; with `scores` of `top_scores` "top1" names the class."""
    known = TARGETS.get(str(target))
    if engine.detects and known:
        return EACH_BOX
    if target.top == 1 and scores:
        return f"the best: {scores[0][0]}"
    return known or target.words(engine.label)


MOSTLY = 0.9  # biases that took this share of the score, or more, are spoken of

STATES = {
    State.ZERO: "the map of {name} is zero everywhere",
    State.FAINT: "the explained score is about 0, so there is nothing to explain",
    State.VANISHED: "{lost} of the relevance was lost on its way; the map shows how the rest is "
    "spread",
    State.FLOODED: "the map of {name} explains nothing: relevance grew without limit",
}
"""A sentence for each map that does not show its whole score."""


def map_note(one: ResultMap) -> str:
    """A sentence on what a map shows of the score that it explains; "" where it shows most."""
    if one.state in STATES:
        share = one.lost / one.started if one.started else 0.0
        return STATES[one.state].format(name=one.name, lost=share_text(share))
    biases = one.taken_by_biases / one.started if one.accounted and one.started else 0.0
    if biases < MOSTLY:
        return ""
    return f"biases took {share_text(biases)} of the score; the map shows how the rest is spread"


def share_text(share: float) -> str:
    """A share in percent: two digits of a small one, and of what one near 1 leaves: "99.9995 %"."""
    rest = min(abs(share), abs(1 - abs(share)))
    digits = math.ceil(-math.log10(rest)) - 2 if 1e-12 < rest < 0.005 else 0
    return f"{100 * share:.{digits}f} %"


LOSS_EVERY = 100
"""The layer that lost most is looked for in every hundredth map that lost relevance: the search
costs as much as a map."""

INSPECT = "realtime-lrp inspect shows every layer"


@dataclass(frozen=True)
class Loss:
    """The place that loses most relevance."""

    layer: str | None  # None of integrated gradients, which need more samples
    share: float  # what was lost, as a share of what started; below 0 it was gained
    kind: str = ""  # the layer's type


def find_loss(engine: Engine, picture: np.ndarray, result: Result, index: int = 0) -> Loss:
    """Looks for the layer that loses most relevance, of the worst box; costs as much as a map."""
    if result.found:
        result = max(result.found, key=lambda one: abs(one.maps[index].lost))
    one = result.maps[index]
    started = one.started_magnitude
    if one.kind.difference:
        return Loss(None, one.lost / started if started else 0.0)
    layers = engine.layers(picture, result, index)
    most = max(layers, key=lambda layer: abs(layer.lost[0]))
    return Loss(most.name, float(most.lost[0]) / started if started else 0.0, most.kind)


@dataclass
class _Group:
    """Maps that lost relevance: how many, the largest share that is missing, and where it went."""

    vanished: bool
    count: int = 0
    missing: float = 0.0
    loss: Loss = Loss(None, 0.0)


class Losses:
    """Counts the first maps of pictures that lost relevance, and says where it went."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._maps = 0
        self._groups = _Group(True), _Group(False)

    def add(self, picture: np.ndarray, result: Result) -> str | None:
        """Adds the map of uint8 [h, w, 3]; gives the layer that lost most, None if it closes."""
        self._maps += 1
        one = result.maps[0]
        if one.closes:
            return None
        group = self._groups[one.state is not State.VANISHED]
        if group.count % LOSS_EVERY == 0:
            group.loss = find_loss(self._engine, picture, result)
        group.count += 1
        group.missing = max(group.missing, one.lost / (one.started_magnitude or 1.0), key=abs)
        return group.loss.layer

    @property
    def notes(self) -> list[str]:
        """A line about maps that show almost nothing and one about those that lack a part."""
        return [self._note(group) for group in self._groups if group.count]

    def _note(self, group: _Group) -> str:
        """Says what is missing from maps, in which layer it was lost, and what to do."""
        maps = f"{group.count} of {self._maps} maps" if self._maps > 1 else "the map"
        loss = group.loss
        missing = group.missing
        share = f"{'up to ' if self._maps > 1 else ''}{abs(missing):.0%}"
        if loss.layer is None:
            return (
                f"the sum of {maps} is {share} away from the difference of the scores. Expected "
                "less: raise lrp.samples."
            )
        verb = "lost" if loss.share >= 0 else "added"
        where = f"; the layer {loss.layer!r} {verb} most ({abs(loss.share):.0%})"
        advice = "If that is too much, choose another --composite"
        if missing > 0 and ("epthwise" in loss.kind or "Separable" in loss.kind):
            advice = (
                "A window of this layer without a positive contribution has no pixel to hand its "
                "relevance to; --composite epsilon loses nothing there"
            )
        elif self._engine.explainer.gives_biases_nothing and missing > 0:
            advice = (
                "This composite loses the relevance of neurons that only their bias drives; "
                "--composite epsilon_plus_flat gives it to the biases"
            )
        if group.vanished:
            what = f"less than 1% of the relevance that started is left in {maps}"
            where += ". The map shows how the rest is spread"
        else:
            change = "is missing from" if missing >= 0 else "was added to"
            what = f"{share} of the relevance that started {change} {maps}"
        return f"{what}{where}. {advice}; {INSPECT}."
