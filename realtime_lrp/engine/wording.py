"""Answers and targets in words, as they are shown to people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

TARGETS = {"all": "all classes", "top1": "the best", "top5": "the five best"}


def top_scores(engine: Engine, scores: np.ndarray, count: int = 5) -> list[tuple[str, float]]:
    """The highest scores of one picture as (label, score), best first."""
    best = np.argsort(-scores)[:count]
    return [(engine.label(index), float(scores[index])) for index in best]


def best_label(top: Sequence[tuple[str, float]]) -> str:
    """The best label with its score in percent: "goldfish 93%"."""
    name, score = top[0]
    percent = f"{score:.0%}" if score >= 0.01 else "<1%"
    return f"{name.replace('_', ' ')}  {percent}"


def score_list(top: Sequence[tuple[str, float]]) -> str:
    """Labels with their scores: "goldfish 0.93, tench 0.02"."""
    return ", ".join(f"{name} {score:.3g}" for name, score in top)


def answer_line(engine: Engine, result: Result) -> str:
    """The line under a recording's picture: best label, score, number of perturbed passes."""
    best = best_label(top_scores(engine, result.scores, 1))
    return f"{best}   {note}" if (note := passes_note(engine, result)) else best


def passes_note(engine: Engine, result: Result) -> str:
    """The number of perturbed passes; of integrated gradients also how complete their map is.

    For example "(mean of 20 passes, 99.2% of the difference)"; empty without such passes.
    """
    passes, first = engine.explainer.passes, result.maps[0]
    if not passes:
        return ""
    complete = ""
    if first.kind.difference and first.started:
        complete = f", {first.total / first.started:.1%} of the difference"
    return f"(mean of {passes} passes{complete})"


def describe_target(
    engine: Engine, target: str | int, scores: Sequence[tuple[str, float]] = ()
) -> str:
    """A target in words, with class names in place of indices.

    With `scores`, which `top_scores` returns, "top1" names the class.
    """
    if target == "top1" and scores:
        return f"the best: {scores[0][0]}"
    if known := TARGETS.get(str(target)):
        return known
    return name_classes(target, engine.explainer.classes, engine.label)


def name_classes(target: str | int, classes: int, label: Callable[[int], str]) -> str:
    """A target with class names in place of indices: "3 - 5" becomes "star - cup"."""
    sides = [side.strip() for side in str(target).split(" - ")]
    return " - ".join(label(int(s)) if s.isdecimal() and int(s) < classes else s for s in sides)
