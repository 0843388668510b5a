"""What a visitor chose: the language, the privacy card."""

from collections.abc import Mapping, Sequence

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.window.window import Mouse

PRIVACY_S = 20.0
"""Seconds for which the privacy card is shown."""

CHOICE_S = 60.0
"""A language that is chosen while nobody is there is forgotten after this many seconds."""


class VisitorChoices:
    """Language and privacy card, chosen by key or touch.

    Keys: 1 to 9 choose a language, "l" the next one, "p" shows the privacy card. While nobody is
    there the languages take turns, beginning with the first. A visitor gets the first one, unless
    they choose another, or somebody did just before.

    Args:
      languages: how many there are.
      rotate_s: seconds until the next language; 0: they do not take turns.
      now: the time.
    """

    def __init__(self, languages: int, rotate_s: float, now: float):
        self._languages, self._rotate_s = languages, rotate_s
        self._chosen: int | None = None
        self._chosen_at = self._rotating_since = now
        self._visiting = False
        self._privacy_until = 0.0
        self._button_down = False

    def language(self, now: float) -> int:
        """The index of the present language, from 0."""
        if self._chosen is not None and (self._visiting or now - self._chosen_at < CHOICE_S):
            return self._chosen
        if self._visiting:
            return 0
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
                self._choose(int(name.removeprefix("language ")), now)
            elif name.isdecimal() and 1 <= int(name) <= self._languages:
                self._choose(int(name) - 1, now)
            elif name == "l":
                self._choose((self.language(now) + 1) % self._languages, now)
            elif self.privacy(now) and name != "":
                self._privacy_until = now
            elif name in ("p", "privacy"):
                self._privacy_until = now + PRIVACY_S

    def visitor_came(self, now: float) -> None:
        """Shows the visitor the language that was chosen last, or else the first one."""
        if not self._visiting and now - self._chosen_at >= CHOICE_S:
            self._chosen = None
        self._visiting = True

    def visitor_left(self, now: float) -> None:
        """Lets the languages take turns again, from the first one on."""
        self._chosen, self._rotating_since, self._visiting = None, now, False

    def _choose(self, language: int, now: float) -> None:
        self._chosen, self._chosen_at = language, now

    def _touched(self, mouse: Mouse, buttons: Mapping[str, Box]) -> str:
        """The button where a touch began, "elsewhere" for none; "" while it lasts or ends."""
        began = mouse.button == "left" and not self._button_down
        self._button_down = mouse.button == "left"
        return (mouse.over(buttons) or "elsewhere") if began else ""
