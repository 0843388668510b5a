"""The network's answer that is shown: how sure it is, and without flicker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.realtime.explaining import ExplainedFrame

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

NOTHING = "nothing"
"""The class that is never shown as an answer."""

SURE_S, PERHAPS_S = 0.2, 1.0
"""Seconds over which probabilities are averaged, for sure answers and for unsure ones.

A sure answer has to come quickly. Probabilities near the threshold vary from frame to frame.
"""

PERHAPS = 0.1
"""Least probability of an unsure answer, where the configuration sets none."""

KEEP = 0.8
"""An answer stays until its probability is below this share of its threshold."""

LEAD = 1.5
"""An unsure answer gives way to a class that is this many times as probable."""


@dataclass(frozen=True)
class Answer:
    """What the network sees: a class, its label and average probability, and whether it is sure."""

    index: int
    name: str
    share: float
    sure: bool


class SmoothedAnswer:
    """The network's answer, from the probabilities of the last maps.

    A network that has a class `NOTHING` gives unsure answers only where `perhaps`, their least
    probability, is set. `answer` is None where there is none.
    """

    def __init__(self, sure: float, perhaps: float | None):
        self._sure, self._perhaps = sure, perhaps
        self.reset()

    def reset(self) -> None:
        """Forgets all maps; there is no answer until the next one."""
        self.answer: Answer | None = None
        self._quick, self._slow = _RunningMean(SURE_S), _RunningMean(PERHAPS_S)
        self._last: ExplainedFrame | None = None

    def belongs_to(self, explained: ExplainedFrame | None) -> bool:
        """Whether a map may be shown with this answer: it does not explain another class."""
        if explained is None or self.answer is None:
            return False
        target = explained.request.target
        explained_class = np.argmax(explained.result.scores) if target == "top1" else target
        return isinstance(explained_class, str) or int(explained_class) == self.answer.index

    def update(self, explained: ExplainedFrame | None) -> None:
        """Takes in the newest map; None: there is none, and no answer."""
        if explained is None:
            self.reset()
        elif explained is not self._last:
            self._last = explained
            scores, time_s = explained.result.scores, explained.frame.time
            quick, slow = self._quick.add(scores, time_s), self._slow.add(scores, time_s)
            engine = explained.engine
            answer = self._answer(quick, self._sure, True, engine)
            if answer is None and (self._perhaps is not None or not knows_nothing(engine)):
                least = PERHAPS if self._perhaps is None else self._perhaps
                answer = self._answer(slow, least, False, engine)
            self.answer = answer if answer and answer.name != NOTHING else None

    def _answer(
        self, scores: np.ndarray, least: float, sure: bool, engine: Engine
    ) -> Answer | None:
        best, before = int(np.argmax(scores)), self.answer
        if before and not sure and scores[best] < LEAD * scores[before.index]:
            best = before.index
        kept = before is not None and before.index == best and (before.sure or not sure)
        if scores[best] < least * (KEEP if kept else 1):
            return None
        return Answer(best, engine.label(best), float(scores[best]), sure)


class _RunningMean:
    """The mean of scores over time; older ones count less and less."""

    def __init__(self, time_constant_s: float):
        self._constant_s, self._time_s = time_constant_s, 0.0
        self._mean: np.ndarray | None = None

    def add(self, scores: np.ndarray, time_s: float) -> np.ndarray:
        """The mean with new scores; of these alone if another network made those before."""
        passed_s, self._time_s = max(0.0, time_s - self._time_s), time_s
        if self._mean is None or self._mean.shape != scores.shape:
            self._mean = scores
        else:
            weight = np.exp(-passed_s / self._constant_s)
            self._mean = weight * self._mean + (1 - weight) * scores
        return self._mean


def knows_nothing(engine: Engine) -> bool:
    """Whether the network has a class for pictures that show none of its other classes."""
    return NOTHING in (engine.network.labels or ())
