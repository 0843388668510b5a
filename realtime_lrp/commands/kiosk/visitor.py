"""What a visitor chose (language, privacy card), and the answer of the network that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.system.geometry import Box
from realtime_lrp.view.window.window import Mouse

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

PRIVACY_S = 20.0
"""Seconds for which the privacy card is shown."""

AVERAGE_S = 0.2
"""Seconds over which the network's scores are averaged, so that the answer does not flicker."""

NOTHING = "nothing"
"""The class that is not shown as an answer."""

MIN_SHARE, MIN_SHARE_WITH_NOTHING = 0.15, 0.5
"""Least probability of an answer; the second for networks that have a class `NOTHING`."""


class VisitorChoices:
    """Language and privacy card, chosen by key or touch.

    Keys: 1 to 9 choose a language, "l" the next one, "p" shows the privacy card. While nobody is
    there the languages take turns, beginning with the first; for a visitor the present one stays.

    Args:
      languages: how many there are.
      rotate_s: seconds until the next language; 0: they do not take turns.
      now: the time.
    """

    def __init__(self, languages: int, rotate_s: float, now: float):
        self._languages, self._rotate_s = languages, rotate_s
        self._chosen: int | None = None
        self._rotating_since = now
        self._privacy_until = 0.0
        self._button_down = False

    def language(self, now: float) -> int:
        """The index of the present language, from 0."""
        if self._chosen is not None:
            return self._chosen
        turns = int((now - self._rotating_since) / self._rotate_s) if self._rotate_s else 0
        return turns % self._languages

    def privacy(self, now: float) -> bool:
        """Whether the privacy card is shown."""
        return now < self._privacy_until

    def handle(self, events: Sequence[str | Mouse], buttons: Mapping[str, Box], now: float) -> None:
        """Does what keys and touches ask for.

        Args:
          events: see `Window.events`.
          buttons: boxes of the buttons on the screen: "language 0", ..., "privacy".
          now: the time.
        """
        for event in events:
            name = self._touched(event, buttons) if isinstance(event, Mouse) else event
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

    def visitor_came(self, now: float) -> None:
        """Keeps the present language."""
        self._chosen = self.language(now)

    def visitor_left(self, now: float) -> None:
        """Lets the languages take turns again, from the first one on."""
        self._chosen, self._rotating_since = None, now

    def _touched(self, mouse: Mouse, buttons: Mapping[str, Box]) -> str:
        """The button where a touch began, "elsewhere" for none; "" while it lasts or ends."""
        began = mouse.button == "left" and not self._button_down
        self._button_down = mouse.button == "left"
        return (mouse.over(buttons) or "elsewhere") if began else ""


class SmoothedAnswer:
    """The network's answer, from scores averaged over the last maps.

    Attributes:
      name: the best class; "" if none is probable enough, or the best one is `NOTHING`.
      share: its probability, 0 to 1.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all maps; there is no answer until the next one."""
        self.name, self.share = "", 0.0
        self._scores: np.ndarray | None = None
        self._last: ExplainedFrame | None = None

    def belongs_to(self, explained: ExplainedFrame | None) -> bool:
        """Whether a map explains this answer; maps of a moment ago may explain another one."""
        if explained is None or not self.name:
            return False
        return explained.engine.label(int(np.argmax(explained.result.scores))) == self.name

    def update(self, explained: ExplainedFrame | None) -> None:
        """Takes in the newest map; None: there is none, and no answer."""
        if explained is None:
            self.reset()
            return
        if explained is self._last:
            return
        scores, average = explained.result.scores, self._scores
        if self._last and average is not None and average.shape == scores.shape:
            passed_s = explained.frame.time - self._last.frame.time
            weight = np.exp(-max(0.0, passed_s) / AVERAGE_S)
            scores = weight * average + (1 - weight) * scores
        self._scores, self._last = scores, explained
        best = int(np.argmax(scores))
        name, share = explained.engine.label(best), float(scores[best])
        least = MIN_SHARE_WITH_NOTHING if knows_nothing(explained.engine) else MIN_SHARE
        self.name, self.share = (name, share) if name != NOTHING and share >= least else ("", 0.0)


def knows_nothing(engine: Engine) -> bool:
    """Whether the network has a class for pictures that show none of its other classes."""
    return NOTHING in (engine.network.labels or ())
