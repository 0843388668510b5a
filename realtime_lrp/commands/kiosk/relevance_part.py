"""The network: its relevance thread, watched, and started again when it ends or hangs."""

import logging

import numpy as np

from realtime_lrp.commands.kiosk.restarts import Fault, RestartBudget
from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
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

PAUSE_S = 2.0
"""Seconds from the end of the relevance thread to the next one."""

SLOW_S, HUNG_S = 5.0, 20.0
"""Seconds without a map after which a card says so, and after which the thread is given up."""

SLOW_FACTOR, HUNG_FACTOR = 3, 8
"""A network that always needs long counts as slow, or hung, after this many times its last map."""

FAILING_S = 30.0
"""Seconds of errors after which the network is loaded again."""

LOADING_S = 900.0
"""Seconds that loading, downloading included, may take."""

ASLEEP_S = 2.0
"""After a gap this long between two looks the process itself was stopped: waiting starts anew."""

OFFLINE_S = (10.0, 30.0, 60.0, 300.0)
"""Seconds until the next try after a failed download of weights, each time longer."""

PERMANENT = (UsageError, DamagedInputError, MissingInputError)
"""Loading errors that only another configuration mends."""

log = logging.getLogger(__name__)


class RelevancePart:
    """The relevance thread, over all its restarts.

    Args:
      config: the effective configuration.
      stats: counts maps.
      budget: counts restarts.
      now: the time.

    Attributes:
      engine: the one that explained last, None before the first map.
    """

    def __init__(self, config: Config, stats: Stats, budget: RestartBudget, now: float):
        self.engine: Engine | None = None
        self._config, self._stats, self._budget = config, stats, budget
        self._frames: Slot[np.ndarray] = Slot()
        self._offline = 0
        self._start(now)

    def _start(self, now: float) -> None:
        self._thread = RelevanceThread(
            self._config, self._frames, first_request(self._config), self._stats,
            engine=self.engine,
        )  # fmt: skip
        self._thread.start()
        self._since = self._looked = now
        self._again: float | None = None
        self._waiting: float | None = None
        self._failing: float | None = None
        self._count = 0

    def show(self, picture: np.ndarray, captured: float, now: float) -> None:
        """Hands over a picture to be explained."""
        self._frames.put(picture, captured)
        if self._waiting is None:
            self._waiting = now

    @property
    def shown(self) -> int:
        """How many pictures were handed over."""
        return self._frames.count

    def newest(self, after: int) -> ExplainedFrame | None:
        """The newest map of a picture that has a number above `after`."""
        made = self._thread.maps.newest()
        return made.value if made and made.value.frame.number > after else None

    def rest(self) -> None:
        """No picture will come for a while."""
        self._waiting = None

    def tend(self, now: float) -> None:
        """Notes what was finished; starts the thread again where it ended or hangs.

        Raises:
          Error: the network cannot be loaded, and never was.
          TemporaryError: the thread had to be started too often.
        """
        if self._again is not None:
            if now >= self._again:
                self._start(now)
            return
        self._note_progress(now)
        if not self._thread.alive:
            self._ended(now)
        elif why := self._stuck(now):
            self._give_up(why, now, keep_engine=False)

    def trouble(self, now: float) -> Fault | None:
        """What keeps maps from coming."""
        if self._again is not None:
            return Fault("network", self._again - now)
        if self._thread.failing:
            return Fault("network", 1.0)
        if not self._thread.maps.count and self.engine is None:
            return Fault("starting")
        waited = now - self._waiting if self._waiting is not None else 0.0
        slow = waited > max(SLOW_S, SLOW_FACTOR * self._usual_s)
        return Fault("slow", self._hung_s - waited) if slow else None

    @property
    def _usual_s(self) -> float:
        """Seconds that the last map took."""
        return self._stats.map_ms[-1] / 1000 if self._stats.map_ms else 0.0

    @property
    def _hung_s(self) -> float:
        return max(HUNG_S, HUNG_FACTOR * self._usual_s)

    def end(self) -> None:
        """Begins no further map."""
        self._thread.end()

    def _note_progress(self, now: float) -> None:
        if now - self._looked > ASLEEP_S and self._waiting is not None:
            self._waiting = now
        self._looked = now
        if self._thread.maps.count != self._count:
            self._count = self._thread.maps.count
            self.engine = self._thread.engine
            self._waiting = None
        if not self._thread.failing:
            self._failing = None
        elif self._failing is None:
            self._failing = now
            self._budget.note(self._thread.failing, now)

    def _stuck(self, now: float) -> str:
        """Why the thread is given up; "" where it is not."""
        if self._failing is not None:
            return "it fails again and again" if now - self._failing > FAILING_S else ""
        if not self._count and self.engine is None:
            return "loading takes too long" if now - self._since > LOADING_S else ""
        hung = self._waiting is not None and now - self._waiting > self._hung_s
        return "it hangs" if hung else ""

    def _ended(self, now: float) -> None:
        why = "its thread ended"
        try:
            self._thread.check()
        except Exception as error:
            if self.engine is None and isinstance(error, PERMANENT):
                raise
            why = first_line(error)
            if self.engine is None and isinstance(error, UnavailableError):
                self._wait_for_weights(why, now)
                return
        self._give_up(why, now, keep_engine=True)

    def _wait_for_weights(self, why: str, now: float) -> None:
        """Tries again later, for ever: another process would fare no better."""
        pause_s = OFFLINE_S[min(self._offline, len(OFFLINE_S) - 1)]
        self._offline += 1
        self._budget.note(f"network: {why}", now)
        log.warning("the network cannot be loaded, next try in %.0f s: %s", pause_s, masked(why))
        self._again = now + pause_s

    def _give_up(self, why: str, now: float, keep_engine: bool) -> None:
        self._thread.end()
        if not keep_engine:
            self.engine = None
        self._budget.spend("network", why, now)
        self._again = now + PAUSE_S
