"""The page about single channels of the network: when it is shown, and which channel it is about.

It takes turns with the page of the answer. Nothing is computed for it while it is not due. Change
how long it stays here; what it says is in `pages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from realtime_lrp.view.elements import Pictures

ANSWER_S = 12.0
"""Seconds of the same answer after which the page is due."""

CONCEPT_S, CHANNELS = 8.0, 2
"""Seconds for which each channel is shown, and how many are shown in a turn."""

AHEAD_S = 2.0
"""Channels are computed from this many seconds before the page is due."""

WAIT_S = 6.0
"""If nothing can be shown for this long, the page is left out until its next turn."""

FORGIVEN_S = 1.5
"""The page stays if the answer is gone for less than this."""


@dataclass(frozen=True)
class ShownConcept:
    """A channel that is shown.

    Attributes:
      channel: its number in the layer.
      name: "" if it has none.
      pictures: pictures that it answers to, possibly none.
    """

    channel: int
    name: str
    pictures: Pictures


class ConceptTurns:
    """Decides when the page is shown, and of which channel.

    Args:
      describe: what there is to show of a channel, or None.

    Attributes:
      shown: the channel that is shown, or None: the page of the answer.
    """

    def __init__(self, describe: Callable[[int], ShownConcept | None]):
        self._describe = describe
        self._answered_at = 0.0
        self._start_over(None, 0.0)

    def _start_over(self, answer: int | None, now: float) -> None:
        """Shows the page of an answer, and no channel before `ANSWER_S`."""
        self.shown: ShownConcept | None = None
        self._answer, self._done = answer, set[int]()
        self._next_at = now + ANSWER_S

    def wanted(self, now: float) -> bool:
        """Whether channels have to be computed."""
        return self._answer is not None and now >= self._next_at - AHEAD_S

    def update(self, answer: int | None, channels: Iterable[tuple[int, float]], now: float) -> None:
        """Takes in what the network says.

        Args:
          answer: the class of the present answer, or None.
          channels: number and share of the newest map's channels, the largest share first.
          now: the time.
        """
        if answer is not None:
            self._answered_at = now
        elif now - self._answered_at < FORGIVEN_S:
            answer = self._answer
        if answer != self._answer:
            self._start_over(answer, now)
        if answer is not None and now >= self._next_at:
            self._take_turn(channels, now)

    def _take_turn(self, channels: Iterable[tuple[int, float]], now: float) -> None:
        """Shows the next channel; the answer again if all were shown or none can be."""
        found = self._next_channel(channels) if len(self._done) < CHANNELS else None
        if found:
            self.shown = found
            self._done.add(found.channel)
            self._next_at = now + CONCEPT_S
        elif self._done or now - self._next_at > WAIT_S:
            self._start_over(self._answer, now)

    def _next_channel(self, channels: Iterable[tuple[int, float]]) -> ShownConcept | None:
        """The first channel that speaks for the answer, was not shown in this turn, and can be."""
        for channel, share in channels:
            if share > 0 and channel not in self._done and (found := self._describe(channel)):
                return found
        return None
