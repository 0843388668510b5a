"""What the screen shows: the exhibit's state, and the network's answer without flicker.

Both come from facts and times alone: here is no camera, screen or clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.realtime.explaining import ExplainedFrame

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


class ScreenState(StrEnum):
    """The screen's state."""

    ATTRACT = "attract"
    ACTIVE = "active"
    IDLE = "idle"
    CARD = "card"
    CLOSED = "closed"


class StateMachine:
    """The exhibit's state; it starts with the card of a network that is being loaded.

    It asks whether anybody is there after `idle_s` seconds without a visitor, and waits
    `countdown_s` for an answer. `since` is when the state began, `last_present` when a visitor was
    last there.
    """

    def __init__(self, idle_s: float, countdown_s: float, now: float):
        self.idle_s = idle_s
        self.countdown_s = countdown_s
        self.state = ScreenState.CARD
        self.since = self.last_present = now

    def step(self, now: float, is_open: bool, fault: str, present: bool) -> ScreenState:
        """Takes at most one transition; `fault` is the card that has to be shown, "" for none."""
        if present:
            self.last_present = now
        state = self._next(now, is_open, fault, present)
        if state != self.state:
            self.state = state
            self.since = now
        return state

    def _next(self, now: float, is_open: bool, fault: str, present: bool) -> ScreenState:
        """The arrows of the diagram in docs/kiosk.md; the first one that applies is taken."""
        if not is_open:
            return ScreenState.CLOSED
        if self.state == ScreenState.CLOSED or fault:
            return ScreenState.CARD
        if present:
            return ScreenState.ACTIVE
        if self.state == ScreenState.CARD:
            return ScreenState.ATTRACT
        if self.state == ScreenState.ACTIVE and now - self.last_present >= self.idle_s:
            return ScreenState.IDLE
        if self.state == ScreenState.IDLE and not self.countdown(now):
            return ScreenState.ATTRACT
        return self.state

    def countdown(self, now: float) -> float:
        """Seconds that are left of the countdown in the state idle."""
        return max(0.0, self.countdown_s - (now - self.since))


NOTHING = "nothing"  # the class that is never shown as an answer

SURE_S = 0.2
PERHAPS_S = 1.0
"""Seconds over which probabilities are averaged, for sure answers and for unsure ones.

A sure answer has to come quickly. Probabilities near the threshold vary from frame to frame.
"""

PERHAPS = 0.1  # least probability of an unsure answer, where the configuration sets none
KEEP = 0.8  # an answer stays until its probability is below this share of its threshold
LEAD = 1.5  # an unsure answer gives way to a class that is this many times as probable


@dataclass(frozen=True)
class SeenThing:
    """The class that the network sees, its label, average probability, and whether it is sure."""

    index: int
    name: str
    share: float
    sure: bool


class SmoothedAnswer:
    """The network's answer, from the probabilities of the last maps.

    A network that has a class `NOTHING` gives unsure answers only where `perhaps`, their least
    probability, is set. `seen` is None where there is none. Where `follows`, maps of what is seen
    are asked for, and `answer` is what the newest map explains; else it is what is seen.
    """

    def __init__(self, sure: float, perhaps: float | None, follows: bool):
        self._sure = sure
        self._perhaps = perhaps
        self._follows = follows
        self.reset()

    def reset(self) -> None:
        """Forgets all maps; there is no answer until the next one."""
        self.answer: SeenThing | None = None
        self.seen: SeenThing | None = None
        self._means: dict[float, np.ndarray] = {}  # constant in seconds -> mean scores
        self._last: ExplainedFrame | None = None

    def belongs_to(self, explained: ExplainedFrame | None) -> bool:
        """Whether a map may be shown with the answer: it does not explain another class."""
        return explained is not None and _may_explain(explained, self.answer)

    def update(self, explained: ExplainedFrame | None) -> None:
        """Takes in the newest map; None: there is none, and no answer."""
        if explained is None:
            self.reset()
        elif explained is not self._last:
            last = self._last
            if last and last.engine.network.labels != explained.engine.network.labels:
                self.reset()  # its classes are others
            quick = self._mean(explained, SURE_S)
            slow = self._mean(explained, PERHAPS_S)
            self._last = explained
            engine = explained.engine
            segments = explained.result.segments
            empty = segments and segments.label == explained.engine.explainer.background
            if explained.result.found == () or empty:
                quick = 0 * quick
                slow = 0 * slow
            answer = self._answer(quick, self._sure, True, engine)
            if answer is None and (self._perhaps is not None or not knows_nothing(engine)):
                least = PERHAPS if self._perhaps is None else self._perhaps
                answer = self._answer(slow, least, False, engine)
            self.seen = answer if answer and answer.name != NOTHING else None
            target = explained.request.target
            if not (self._follows and self.seen) or _may_explain(explained, self.seen):
                self.answer = self.seen
            elif target.isdecimal():  # it was seen when its map was asked for
                index = int(target)
                self.answer = SeenThing(index, engine.label(index), float(slow[index]), False)
            elif self.answer and not self.belongs_to(explained):
                self.answer = self.seen

    def _mean(self, explained: ExplainedFrame, constant_s: float) -> np.ndarray:
        """The mean of the scores over time; older scores count less."""
        scores = explained.result.scores
        if self._last:
            passed_s = max(0.0, explained.frame.time - self._last.frame.time)
            weight = np.exp(-passed_s / constant_s)
            scores = weight * self._means[constant_s] + (1 - weight) * scores
        self._means[constant_s] = scores
        return scores

    def _answer(
        self, scores: np.ndarray, least: float, sure: bool, engine: Engine
    ) -> SeenThing | None:
        best = int(np.argmax(scores))
        before = self.seen
        if before and not sure and scores[best] < LEAD * scores[before.index]:
            best = before.index
        kept = before is not None and before.index == best and (before.sure or not sure)
        if scores[best] < least * (KEEP if kept else 1):
            return None
        return SeenThing(best, engine.label(best), float(scores[best]), sure)


def _may_explain(explained: ExplainedFrame, answer: SeenThing | None) -> bool:
    if answer is None or explained.result.found is not None:
        return answer is not None
    target = explained.request.target
    class_ = str(np.argmax(explained.result.scores)) if target == "top1" else target
    return not class_.isdecimal() or int(class_) == answer.index


def knows_nothing(engine: Engine) -> bool:
    """Whether the network has a class for pictures that show none of its other classes."""
    return NOTHING in (engine.network.labels or ())
