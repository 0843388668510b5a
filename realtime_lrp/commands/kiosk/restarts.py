"""What a watched part has in common: its fault, and how often it may be started again."""

import logging
from collections import Counter, deque
from dataclasses import dataclass

from realtime_lrp.errors import TemporaryError, masked

RESTARTS, WITHIN_S = 5, 60.0
"""A part is started again at most this often within this many seconds."""

PARTS = ("camera", "clip", "network", "screen", "window")
"""The parts whose restarts are counted."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fault:
    """What is wrong.

    Attributes:
      card: the name of its card.
      seconds: until it is tried again, or is over.
    """

    card: str
    seconds: float = 0.0


class RestartBudget:
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
