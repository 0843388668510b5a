"""The network: its relevance thread, its answer without flicker, and what is wrong with them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.commands.kiosk.states import Fault, broken
from realtime_lrp.config import Config
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    UnavailableError,
    UsageError,
    first_line,
    masked,
)
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.view.text import undrawable

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.teaching.teacher import Teacher

log = logging.getLogger(__name__)

SLOW_S, HUNG_S = 5.0, 20.0  # seconds without a map until a card says so, until the process ends
SLOW_FACTOR, HUNG_FACTOR = 3, 8  # times its last map for which a slow network has time instead
FAILING_S = 30.0  # seconds of errors after which only a new process can help
LOADING_S = 900.0  # seconds that loading, downloading included, may take
ASLEEP_S = 2.0  # after a gap this long between two looks waiting for a map starts anew
OFFLINE_S = 30.0  # seconds until the next try after a failed download of weights

PERMANENT = (UsageError, DamagedInputError, MissingInputError, ImportError)
"""Loading errors that no retry mends."""


class RelevancePart:
    """The relevance thread; `engine` made the newest map, None before the first one."""

    def __init__(self, config: Config, stats: Stats, now: float):
        self.engine: Engine | None = None
        # What is wrong with a gallery, which is not shown, must not keep the network from loading.
        self._config = config.changed(concepts={"gallery": None, "names": None})
        self._stats = stats
        self._frames: Slot[np.ndarray] = Slot()
        self._start(now)

    def _start(self, now: float) -> None:
        self._untaught: Engine | None = None  # the network before the first lesson
        self._thread = RelevanceThread(
            self._config, self._frames, first_request(self._config), self._stats,
            changeable=self._config.kiosk.teach,
        )  # fmt: skip
        self._thread.start()
        self._started_at = self._updated_at = now
        self._restart_at: float | None = None
        self._waiting_since: float | None = None  # when a picture without a map yet was submitted
        self._failing_since: float | None = None
        self._maps = 0

    def submit(self, picture: np.ndarray, captured: float, now: float) -> None:
        self._frames.put(picture, captured)
        if self._waiting_since is None:
            self._waiting_since = now

    def ask(self, target: str, at: tuple[float, float] | None = None) -> None:
        """Asks for maps of a target, of a segmentation at a place, as configured without one."""
        request = self._thread.request
        aim = replace(request.aim, at=at or first_request(self._config).aim.at)
        if (target, aim) != (request.target, request.aim):
            self._thread.request = replace(request, target=target, aim=aim)

    def teach(self, classes: Sequence[str]) -> Teacher:
        """Begins a lesson, which `forget` ends; nothing of it is written."""
        from realtime_lrp.teaching.lesson import Lesson  # these import TensorFlow
        from realtime_lrp.teaching.teacher import Teacher

        self._untaught = self._untaught or self._thread.engine  # which may still be a taught one
        return Teacher(Lesson(classes), self._frames, self._thread, lambda *_: "").__enter__()

    def forget(self, teacher: Teacher) -> None:
        """Ends a lesson, and goes back to the network before it."""
        teacher.end()
        if self._untaught and self._thread.engine_cache:
            self._thread.engine_cache.exchange(self._untaught, self._thread.choice)

    @property
    def submitted(self) -> int:
        return self._frames.count

    def newest(self, after: int) -> ExplainedFrame | None:
        """The newest map, if its picture's number is above `after`."""
        item = self._thread.maps.newest()
        return item.value if item and item.value.frame.number > after else None

    def pause(self) -> None:
        """Says that no picture will be submitted for a while: a missing map is no fault."""
        self._waiting_since = None

    def update(self, now: float) -> None:
        """Notes new maps and errors.

        Raises:
          Error: the network never loaded, and only another configuration can mend that.
          TemporaryError: the thread ended, hangs or keeps failing.
        """
        if self._restart_at is not None:
            if now >= self._restart_at:
                self._start(now)
            return
        self._note_progress(now)
        if not self._thread.alive:
            self._handle_end(now)
        elif why := self._why_stuck(now):
            raise broken("network", why)

    def fault(self, now: float) -> Fault | None:
        """The fault that keeps maps from coming, or None."""
        if self._restart_at is not None:
            return Fault("network", self._restart_at - now)
        if self._thread.failing:
            return Fault("network", 1.0)
        if not self._thread.maps.count and self.engine is None:
            return Fault("starting")
        waited = now - self._waiting_since if self._waiting_since is not None else 0.0
        slow = waited > self._limit_s(SLOW_S, SLOW_FACTOR)
        return Fault("slow", self._limit_s(HUNG_S, HUNG_FACTOR) - waited) if slow else None

    @property
    def failing(self) -> bool:
        return bool(self._thread.failing)

    def _limit_s(self, least_s: float, factor: int) -> float:
        """Seconds to wait for a map: a network that always needs long has longer."""
        last_s = self._stats.map_ms[-1] / 1000 if self._stats.map_ms else 0.0
        return max(least_s, factor * last_s)

    def stop(self) -> None:
        """Starts no further map."""
        self._thread.end()

    def _note_progress(self, now: float) -> None:
        if now - self._updated_at > ASLEEP_S and self._waiting_since is not None:
            self._waiting_since = now  # the process itself was stopped
        self._updated_at = now
        if self._thread.maps.count != self._maps:
            self._maps = self._thread.maps.count
            self._note_engine(self._thread.engine)
            self._waiting_since = None
        if not self._thread.failing:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = now

    def _note_engine(self, engine: Engine | None) -> None:
        """Remembers it; the log says once which letters of its labels the fonts lack."""
        labels = engine.network.labels if engine and engine is not self.engine else None
        if missing := undrawable("".join(dict.fromkeys("".join(labels or ())))):
            told = "labels: the fonts have no %s; translate them in the captions"
            log.warning(told, " ".join(missing))
        self.engine = engine

    def _why_stuck(self, now: float) -> str:
        """Why the running thread must be given up; "" if it need not."""
        if self._failing_since is not None:
            return "it keeps failing" if now - self._failing_since > FAILING_S else ""
        if self.engine is None:
            return "loading takes too long" if now - self._started_at > LOADING_S else ""
        waited = now - self._waiting_since if self._waiting_since is not None else 0.0
        return "it hangs" if waited > self._limit_s(HUNG_S, HUNG_FACTOR) else ""

    def _handle_end(self, now: float) -> None:
        """The thread ended: waits for weights, or raises."""
        why = "its thread ended"
        try:
            self._thread.check()
        except Exception as error:
            if self.engine is None and isinstance(error, PERMANENT):
                raise
            why = first_line(error)
            if self.engine is None and isinstance(error, UnavailableError):
                log.warning("the network cannot be loaded, trying again: %s", masked(why))
                self._restart_at = now + OFFLINE_S  # another process would not help
                return
        raise broken("network", why)


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
        self._means: dict[float, np.ndarray] = {}  # time constant in seconds -> mean scores
        self._last: ExplainedFrame | None = None

    def belongs_to(self, explained: ExplainedFrame | None) -> bool:
        """Whether a map may be shown with this answer: it does not explain another class."""
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
        mean = self._means.get(constant_s)
        last = self._last
        if last and mean is not None and mean.shape == scores.shape:
            weight = np.exp(-max(0.0, explained.frame.time - last.frame.time) / constant_s)
            scores = weight * mean + (1 - weight) * scores
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
