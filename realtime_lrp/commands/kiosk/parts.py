"""The parts that can fail while nobody is there to mend them, each watched.

A part that ended or hangs is started again; one that needs that too often ends the process, which
its service manager starts anew. What is wrong meanwhile is told as the name of a card.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    TemporaryError,
    UnavailableError,
    UsageError,
    first_line,
    masked,
)
from realtime_lrp.realtime.capture import DARK, FROZEN, WAITING, Capture, OpenSource
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread, first_request
from realtime_lrp.realtime.latest import Item, Slot
from realtime_lrp.realtime.stats import Stats

RESTARTS, WITHIN_S = 5, 60.0
"""A part is started again at most so often within so many seconds."""

PARTS = ("camera", "clip", "network", "screen", "window")
"""What is counted when it is started again."""

PAUSE_S = 2.0
"""Seconds from the end of the relevance thread to the next one."""

SLOW_S, HUNG_S = 5.0, 20.0
"""Seconds without a map after which that is told, and after which the thread is given up."""

FAILING_S = 30.0
"""Seconds of errors after which the network is loaded again."""

LOADING_S = 900.0
"""Seconds that loading, and downloading, may take."""

OPENING_S = 10.0
"""Seconds that a camera may take for its first picture until that is told."""

ASLEEP_S = 2.0
"""Nobody looked for so long: the process stood still, and what waited since then waits anew."""

OFFLINE_S = (10.0, 30.0, 60.0, 300.0)
"""Seconds from a failed download of weights to the next try, each time longer."""

GONE_S = 60.0
"""Seconds without the camera after which the staff are asked for."""

TIMES_SLOWER, TIMES_HUNG = 3, 8
"""A network that needs long for a map is slow, and hangs, from so many times as long on."""

WRONG = (UsageError, DamagedInputError, MissingInputError)
"""Errors of the network's loading that stay until the configuration is changed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trouble:
    """What is wrong.

    Attributes:
      card: the name of its card.
      seconds: until it is tried again, or is over.
    """

    card: str
    seconds: float = 0.0


class Budget:
    """Counts how often parts were started again.

    Attributes:
      spent: by part.
      last_error: what happened last, and when, by the clock that `spend` is told; or None.
    """

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.last_error: tuple[str, float] | None = None
        self._recent: dict[str, deque[float]] = {}

    def note(self, error: str, now: float) -> None:
        """Notes what happened, without what may be secret in it."""
        self.last_error = masked(error), now

    def spend(self, part: str, why: str, now: float) -> None:
        """Counts a restart.

        Raises:
          TemporaryError: there were too many.
        """
        self.note(f"{part}: {why}", now)
        recent = self._recent.setdefault(part, deque())
        while recent and now - recent[0] > WITHIN_S:
            recent.popleft()
        if len(recent) >= RESTARTS:
            raise TemporaryError(
                f"The {part} had to be started again more than {RESTARTS} times within "
                f"{WITHIN_S:.0f} seconds ({masked(why)}). The service manager starts us again."
            )
        recent.append(now)
        self.spent[part] += 1
        log.warning("%s is started again: %s", part, masked(why))


class Pictures:
    """The camera, or a clip: open while it is wanted.

    Args:
      part: its name.
      open_source: opens it.
      turned: what each picture goes through.
      budget: counts restarts.
    """

    def __init__(
        self,
        part: str,
        open_source: OpenSource,
        turned: Callable[[np.ndarray], np.ndarray],
        budget: Budget,
    ):
        self._part, self._open, self._turned, self._budget = part, open_source, turned, budget
        self._capture: Capture | None = None
        self._since, self._number = 0.0, 0
        self._well_at = 0.0
        self._noted = ""
        self._reconnects = self._captured = 0

    def newest(self, timeout_s: float) -> Item[np.ndarray] | None:
        """The newest picture if it was not asked for before; waits up to `timeout_s` for one."""
        capture = self._capture
        frame = capture.frames.newest(self._number, timeout_s) if capture else None
        if frame:
            self._number = frame.number
        return frame

    @property
    def reconnects(self) -> int:
        """How often it gave pictures again after a loss."""
        return self._reconnects + (self._capture.reconnects if self._capture else 0)

    @property
    def captured(self) -> int:
        """How many pictures came."""
        return self._captured + (self._capture.frames.count if self._capture else 0)

    def tend(self, wanted: bool, now: float) -> None:
        """Opens or releases it, and starts it again where its supervisor ended.

        Raises:
          TemporaryError: that was needed too often.
        """
        if self._capture and not self._capture.supervised:
            self.release()
            self._budget.spend(self._part, "its thread ended", now)
        if wanted and not self._capture:
            self._capture = Capture(self._open, self._turned, patient=True)
            self._capture.start()
            self._since = self._well_at = now
            self._number = 0
        elif not wanted:
            self.release()

    def release(self) -> None:
        """Gives it back."""
        if self._capture:
            self._reconnects, self._captured = self.reconnects, self.captured
            self._capture.end()
            self._capture = None

    def trouble(self, now: float) -> Trouble | None:
        """What is wrong with its picture."""
        capture = self._capture
        if capture is None:
            return None
        if not capture.frames.count and capture.trouble in ("", WAITING):
            late = now - self._since > OPENING_S
            return Trouble("camera" if late else "starting", PAUSE_S)
        told, self._noted = self._noted, capture.trouble
        if not capture.trouble:
            self._well_at = now
            return None
        card = {FROZEN: "frozen", DARK: "dark"}.get(capture.trouble, "camera")
        if capture.trouble != told:
            self._budget.note(capture.trouble, now)
        gone = card == "camera" and now - self._well_at > GONE_S
        return Trouble("staff" if gone else card, capture.next_try - now)

    @property
    def described(self) -> str:
        """What it is, or what is wrong with it."""
        capture = self._capture
        if capture is None:
            return "released"
        return capture.trouble or capture.described


class Network:
    """The relevance thread, over all its restarts.

    Args:
      config: the effective configuration.
      stats: counts maps.
      budget: counts restarts.
      now: the time.

    Attributes:
      engine: the one that explained last, None before the first map.
    """

    def __init__(self, config: Config, stats: Stats, budget: Budget, now: float):
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

    def trouble(self, now: float) -> Trouble | None:
        """What keeps maps from coming."""
        if self._again is not None:
            return Trouble("network", self._again - now)
        if self._thread.failing:
            return Trouble("network", 1.0)
        if not self._thread.maps.count and self.engine is None:
            return Trouble("starting")
        waited = now - self._waiting if self._waiting is not None else 0.0
        slow = waited > max(SLOW_S, TIMES_SLOWER * self._usual_s)
        return Trouble("slow", self._hung_s - waited) if slow else None

    @property
    def _usual_s(self) -> float:
        """Seconds that the last map took."""
        return self._stats.map_ms[-1] / 1000 if self._stats.map_ms else 0.0

    @property
    def _hung_s(self) -> float:
        return max(HUNG_S, TIMES_HUNG * self._usual_s)

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
            if self.engine is None and isinstance(error, WRONG):
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
