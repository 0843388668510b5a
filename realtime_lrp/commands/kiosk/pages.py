"""What the exhibit says in each state, as pages for `view/exhibit`."""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime_lrp.commands.kiosk.captions import Captions, with_seconds
from realtime_lrp.view.exhibit import ACCENT, SOFT, Bar, Buttons, Element, Gap, Page, TextBlock
from realtime_lrp.view.hud import Legend

CAPTION_S = 6.0
"""Seconds for which each caption stands."""

SHORT = 12
"""Letters of a name that stands in the largest type."""

HINT_S = 12.0
"""Seconds for which each thing to try stands."""


@dataclass(frozen=True)
class PageBuilder:
    """What all pages depend on.

    Attributes:
      captions: in every language.
      drawing: whether the network knows drawn symbols, else everyday objects.
      colormap: of the maps.
      signed: whether maps can be negative.
    """

    captions: tuple[Captions, ...]
    drawing: bool
    colormap: str
    signed: bool

    def attract(self, language: int, now: float) -> Page:
        """Nobody is there."""
        words = self.captions[language]
        more = words.attract_drawing if self.drawing else words.attract_objects
        first, *others = words.attract
        caption = _nth([*more, *others], now, CAPTION_S)
        top = TextBlock(first, 2.0, ACCENT), Gap(0.8), TextBlock(caption, 1.3)
        return Page(top, self._foot(language))

    def active(self, language: int, name: str, share: float, seconds: float) -> Page:
        """Somebody is there.

        Args:
          language: number of the captions.
          name: the network's answer, "" for none.
          share: its probability.
          seconds: since somebody came.
        """
        words = self.captions[language]
        if name:
            top: list[Element] = [
                TextBlock(words.answer, 0.9, SOFT),
                TextBlock(words.label(name), 2.4 if len(name) <= SHORT else 1.5, ACCENT),
                Bar(round(share, 2)),
                Gap(0.5),
                TextBlock(words.colours_signed if self.signed else words.colours, 0.9),
                Gap(0.3),
                Legend(self.colormap, words.against if self.signed else words.little, words.much),
                Gap(0.6),
            ]
        else:
            top = [
                TextBlock(words.answer, 0.9, SOFT),
                TextBlock(words.nothing, 1.5, one_line=True),
                Gap(2),
            ]
        hints = words.try_drawing if self.drawing else words.try_objects
        top += [TextBlock(words.try_, 0.9, SOFT), TextBlock(_nth(hints, seconds, HINT_S), 1.0)]
        return Page(tuple(top), self._foot(language))

    def idle(self, language: int, left_s: float, of_s: float) -> Page:
        """Nobody was seen for a while.

        Args:
          language: number of the captions.
          left_s: seconds until it starts again.
          of_s: seconds that it waits in all.
        """
        words = self.captions[language]
        top = (
            TextBlock(words.still_there, 2.0, ACCENT), Gap(0.6),
            TextBlock(with_seconds(words.wave, left_s), 1.2), Gap(0.6),
            Bar(round(left_s / of_s, 2)),
        )  # fmt: skip
        return Page(top, self._foot(language))

    def _foot(self, language: int) -> tuple[Buttons]:
        several = self.captions if len(self.captions) > 1 else ()
        names = [f"language {n}" for n in range(len(several))]
        words = [one.name for one in several]
        privacy = self.captions[language].privacy.button
        return (Buttons((*names, "privacy"), (*words, privacy), f"language {language}"),)


def _nth(texts: Sequence[str], seconds: float, each_s: float) -> str:
    return texts[int(seconds / each_s) % len(texts)]
