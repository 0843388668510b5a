"""The screen's states: a state machine as a table, without camera, screen or clock."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from realtime_lrp.errors import TemporaryError, masked


class State(StrEnum):
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


@dataclass(frozen=True)
class Observation:
    """The input of the next state; `fault` is the card that has to be shown, "" for none."""

    now: float
    open: bool
    fault: str
    present: bool


@dataclass(frozen=True)
class Transition:
    """An arrow of the diagram; `reason` is for the documentation."""

    sources: tuple[State, ...]
    reason: str
    applies: Callable[["StateMachine", Observation], bool]
    target: State


class StateMachine:
    """The exhibit's state; it starts with the card of a network that is being loaded.

    It asks whether anybody is there after `idle_s` seconds without a visitor, and waits
    `countdown_s` for an answer. `since` is when the state began, `last_present` when a visitor was
    last there.
    """

    def __init__(self, idle_s: float, countdown_s: float, now: float):
        self.idle_s, self.countdown_s = idle_s, countdown_s
        self.state = State.CARD
        self.since = self.last_present = now

    def step(self, observation: Observation) -> State:
        """Takes at most one transition and returns the state after it."""
        if observation.present:
            self.last_present = observation.now
        for transition in TRANSITIONS:
            if self.state in transition.sources and transition.applies(self, observation):
                self.state, self.since = transition.target, observation.now
                break
        return self.state

    def countdown(self, now: float) -> float:
        """Seconds that are left of the countdown in the state idle."""
        return max(0.0, self.countdown_s - (now - self.since))


_SHOWING = (State.ATTRACT, State.ACTIVE, State.IDLE)

TRANSITIONS = (
    Transition(
        (*_SHOWING, State.CARD), "outside the opening hours", lambda m, o: not o.open, State.CLOSED
    ),
    Transition((State.CLOSED,), "opening hours begin", lambda m, o: o.open, State.CARD),
    Transition(_SHOWING, "something fails", lambda m, o: bool(o.fault), State.CARD),
    Transition(
        (State.CARD,),
        "it works again, a visitor is there",
        lambda m, o: not o.fault and o.present,
        State.ACTIVE,
    ),
    Transition(
        (State.CARD,), "it works again, nobody is there", lambda m, o: not o.fault, State.ATTRACT
    ),
    Transition((State.ATTRACT,), "a visitor comes", lambda m, o: o.present, State.ACTIVE),
    Transition(
        (State.ACTIVE,),
        "nobody for idle_seconds",
        lambda m, o: o.now - m.last_present >= m.idle_s,
        State.IDLE,
    ),
    Transition((State.IDLE,), "the visitor is there", lambda m, o: o.present, State.ACTIVE),
    Transition(
        (State.IDLE,),
        "countdown_seconds are over",
        lambda m, o: o.now - m.since >= m.countdown_s,
        State.ATTRACT,
    ),
)
"""All transitions; the first one that applies is taken."""


def broken(part: str, why: str) -> TemporaryError:
    """Ends the process, for what only a new one mends."""
    return TemporaryError(
        f"The {part} is broken: {masked(why)}. The service manager starts the exhibit again."
    )
