"""The screen's states: a state machine without camera, screen or clock."""

from dataclasses import dataclass
from enum import StrEnum

from realtime_lrp.errors import TemporaryError, masked


class ScreenState(StrEnum):
    """The screen's state."""

    ATTRACT = "attract"
    ACTIVE = "active"
    IDLE = "idle"
    CARD = "card"
    CLOSED = "closed"


@dataclass(frozen=True)
class Fault:
    """The reason why the exhibit shows no maps: its card, and seconds until it should be over."""

    card: str
    remaining_s: float = 0.0


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


def broken(part: str, why: str) -> TemporaryError:
    """Ends the process, for what only a new one mends."""
    return TemporaryError(
        f"The {part} is broken: {masked(why)}. The service manager starts the exhibit again."
    )
