"""What a visitor chose, and what is said about what is held up."""

from collections.abc import Mapping, Sequence

import numpy as np

from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.view.exhibit import Box
from realtime_lrp.view.window.window import Mouse

PRIVACY_S = 20.0
"""Seconds for which the privacy card is shown."""

MEMORY_S = 0.2
"""Seconds over which the network's scores are averaged, so that the answer does not flicker."""

NOTHING = "nothing"
"""The name of a class that is no answer."""

LEAST, LEAST_KNOWN = 0.15, 0.5
"""An answer needs this much of the probability; the second where a class is called so."""


class VisitorChoices:
    """Language and privacy card, by key or touch.

    Keys: 1 to 9 are the languages, "l" goes on to the next one, "p" shows the privacy card. While
    nobody is there the languages go on by themselves, the first one first; who comes keeps the one
    that stood there.

    Args:
      languages: how many there are.
      rotate_s: seconds until the next language; 0: it stays.
      now: the time.
    """

    def __init__(self, languages: int, rotate_s: float, now: float):
        self._languages, self._rotate_s = languages, rotate_s
        self._chosen: int | None = None
        self._since = now
        self._privacy_until = 0.0
        self._down = False

    def language(self, now: float) -> int:
        """The number of the present language, from 0."""
        if self._chosen is not None:
            return self._chosen
        turns = int((now - self._since) / self._rotate_s) if self._rotate_s else 0
        return turns % self._languages

    def privacy(self, now: float) -> bool:
        """Whether the privacy card is shown."""
        return now < self._privacy_until

    def handle(self, events: Sequence[str | Mouse], places: Mapping[str, Box], now: float) -> None:
        """Does what keys and touches ask for.

        Args:
          events: see `Window.events`.
          places: the buttons on the screen: "language 0", ..., "privacy".
          now: the time.
        """
        for event in events:
            name = self._touched(event, places) if isinstance(event, Mouse) else event
            if name.startswith("language "):
                self._chosen = int(name.removeprefix("language "))
            elif name.isdecimal() and 1 <= int(name) <= self._languages:
                self._chosen = int(name) - 1
            elif name == "l":
                self._chosen = (self.language(now) + 1) % self._languages
            elif self.privacy(now) and name != "":
                self._privacy_until = now
            elif name in ("p", "privacy"):
                self._privacy_until = now + PRIVACY_S

    def come(self, now: float) -> None:
        """Somebody is there: the language stays."""
        self._chosen = self.language(now)

    def go(self, now: float) -> None:
        """Nobody is there: the languages begin anew with the first one."""
        self._chosen, self._since = None, now

    def _touched(self, mouse: Mouse, places: Mapping[str, Box]) -> str:
        """The button that a touch began on, "elsewhere" for none; "" while it lasts or ends."""
        began = mouse.button == "left" and not self._down
        self._down = mouse.button == "left"
        return (mouse.over(places) or "elsewhere") if began else ""


class SmoothedAnswer:
    """The network's answer, averaged over the last maps.

    Attributes:
      name: the best class, "" where none is likely or the best one is "nothing".
      share: its probability, 0 to 1.
    """

    def __init__(self) -> None:
        self.name, self.share = "", 0.0
        self._scores: np.ndarray | None = None
        self._last: ExplainedFrame | None = None

    def is_of(self, made: ExplainedFrame | None) -> bool:
        """Whether a map explains the answer: that of a moment before may have been another."""
        if made is None or not self.name:
            return False
        return made.engine.label(int(np.argmax(made.result.scores))) == self.name

    def hear(self, made: ExplainedFrame | None) -> None:
        """Takes in a map; None where there is none."""
        if made is None:
            self.name, self.share, self._scores, self._last = "", 0.0, None, None
            return
        if made is self._last:
            return
        scores, before = made.result.scores, self._scores
        if self._last and before is not None and before.shape == scores.shape:
            passed = made.frame.time - self._last.frame.time
            kept = np.exp(-max(0.0, passed) / MEMORY_S)
            scores = kept * before + (1 - kept) * scores
        self._scores, self._last = scores, made
        best = int(np.argmax(scores))
        name, share = made.engine.label(best), float(scores[best])
        labels = made.engine.network.labels or ()
        known = name != NOTHING and share >= (LEAST_KNOWN if NOTHING in labels else LEAST)
        self.name, self.share = (name, share) if known else ("", 0.0)
