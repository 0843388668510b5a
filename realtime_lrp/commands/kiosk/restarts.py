"""What the watched parts share: the fault that a card shows, and the limit on restarts.

A part that needs too many restarts ends the process, and systemd starts it again.
"""

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
    """Something that keeps the exhibit from showing pictures with maps.

    Attributes:
      card: the name of the card that explains it to visitors.
      remaining_s: seconds until the next try, or until it should be over.
    """

    card: str
    remaining_s: float = 0.0


class RestartBudget:
    """Counts restarts, and ends the process when there are too many.

    Attributes:
      restarts: how often each part was started again.
      last_error: (text, time) of the newest error, by the clock that the callers use; or None.
    """

    def __init__(self) -> None:
        self.restarts: Counter[str] = Counter()
        self.last_error: tuple[str, float] | None = None
        self._recent: dict[str, deque[float]] = {}

    def note_error(self, error: str, now: float) -> None:
        """Remembers an error, with passwords masked."""
        self.last_error = masked(error), now

    def count_restart(self, part: str, why: str, now: float) -> None:
        """Counts a restart of a part.

        Raises:
          TemporaryError: the part was restarted too often.
        """
        self.note_error(f"{part}: {why}", now)
        recent = self._recent.setdefault(part, deque())
        while recent and now - recent[0] > WITHIN_S:
            recent.popleft()
        if len(recent) >= RESTARTS:
            raise TemporaryError(
                f"The {part} had to be restarted more than {RESTARTS} times within "
                f"{WITHIN_S:.0f} seconds ({masked(why)}). The service manager will restart the "
                "exhibit."
            )
        recent.append(now)
        self.restarts[part] += 1
        log.warning("restarting the %s: %s", part, masked(why))
