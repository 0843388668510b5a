"""What the exhibit does: a state machine as data, without a camera, a screen or a clock."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What is on the screen."""

    ATTRACT = "attract"
    ACTIVE = "active"
    IDLE = "idle"
    CARD = "card"
    CLOSED = "closed"


@dataclass(frozen=True)
class Observation:
    """What decides, at a moment.

    Attributes:
      now: seconds of a clock that never goes back.
      open: whether it is an opening hour.
      trouble: the card that is to be shown, "" for none.
      present: whether somebody is there.
    """

    now: float
    open: bool
    trouble: str
    present: bool


@dataclass(frozen=True)
class Transition:
    """A way from one state to another.

    Attributes:
      sources: the states that it leads away from.
      when: the reason, in words for the documentation.
      holds: whether the reason is there.
      target: the state that it leads to.
    """

    sources: tuple[State, ...]
    when: str
    holds: Callable[["StateMachine", Observation], bool]
    target: State


class StateMachine:
    """The exhibit's state; it begins with the card of a network that is not loaded yet.

    Args:
      idle_s: seconds without anybody until it asks who is there.
      countdown_s: seconds that it waits for an answer.

    Attributes:
      state: the present one.
      since: when it began.
      last_present: when somebody was last there.
    """

    def __init__(self, idle_s: float, countdown_s: float, now: float):
        self.idle_s, self.countdown_s = idle_s, countdown_s
        self.state = State.CARD
        self.since = self.last_present = now

    def step(self, seen: Observation) -> State:
        """Takes at most one transition; the state after it."""
        if seen.present:
            self.last_present = seen.now
        for one in TRANSITIONS:
            if self.state in one.sources and one.holds(self, seen):
                self.state, self.since = one.target, seen.now
                break
        return self.state

    def countdown(self, now: float) -> float:
        """Seconds until an unanswered question ends."""
        return max(0.0, self.countdown_s - (now - self.since))


_SHOWING = (State.ATTRACT, State.ACTIVE, State.IDLE)

TRANSITIONS = (
    Transition(
        (*_SHOWING, State.CARD), "outside the opening hours", lambda m, s: not s.open, State.CLOSED
    ),
    Transition((State.CLOSED,), "opening hour", lambda m, s: s.open, State.CARD),
    Transition(_SHOWING, "something is missing", lambda m, s: bool(s.trouble), State.CARD),
    Transition(
        (State.CARD,),
        "it is back, somebody is there",
        lambda m, s: not s.trouble and s.present,
        State.ACTIVE,
    ),
    Transition(
        (State.CARD,), "it is back, nobody is there", lambda m, s: not s.trouble, State.ATTRACT
    ),
    Transition((State.ATTRACT,), "somebody comes", lambda m, s: s.present, State.ACTIVE),
    Transition(
        (State.ACTIVE,),
        "nobody for idle_seconds",
        lambda m, s: s.now - m.last_present >= m.idle_s,
        State.IDLE,
    ),
    Transition((State.IDLE,), "somebody is there", lambda m, s: s.present, State.ACTIVE),
    Transition(
        (State.IDLE,),
        "countdown_seconds are over",
        lambda m, s: s.now - m.since >= m.countdown_s,
        State.ATTRACT,
    ),
)
"""Every transition; the first one whose reason is there is taken."""


def diagram() -> str:
    """The machine as a Mermaid diagram, for the documentation."""
    ways = [(source, one) for one in TRANSITIONS for source in one.sources]
    lines = [f"    {source} --> {one.target}: {one.when}" for source, one in ways]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.CARD}", *lines])
