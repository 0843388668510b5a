"""The text of each state, as pages that `view.exhibit` draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from realtime_lrp.commands.kiosk.answer import Answer
from realtime_lrp.commands.kiosk.captions import LABEL, Captions, opening_text, with_seconds
from realtime_lrp.commands.kiosk.concepts import ShownConcept
from realtime_lrp.commands.kiosk.screen import ClosedCard
from realtime_lrp.commands.kiosk.states import State
from realtime_lrp.view.colormaps import Colormap
from realtime_lrp.view.elements import (
    ACCENT,
    SOFT,
    Buttons,
    Element,
    Gap,
    TextBlock,
)
from realtime_lrp.view.exhibit import Page
from realtime_lrp.view.hud import Bar, Legend
from realtime_lrp.view.text import WHITE

CAPTION_S = 6.0
"""Seconds for which each caption is shown."""

SHORT_NAME = 12
"""Names of up to this many letters are set in the largest type."""

HINT_S = 12.0
"""Seconds for which each thing to try is shown."""


@dataclass(frozen=True)
class PageBuilder:
    """Builds the pages.

    Attributes:
      captions: those of each language.
      drawing: whether the network knows drawn symbols; else everyday objects.
      colormap: name of the maps' colour map.
      signed: whether maps can be negative.
    """

    captions: tuple[Captions, ...]
    drawing: bool
    colormap: str | Colormap
    signed: bool

    def attract(self, language: int, now: float) -> Page:
        """The page while nobody is there."""
        captions = self.captions[language]
        ideas = captions.attract_drawing if self.drawing else captions.attract_objects
        headline, *others = captions.attract
        caption = _in_turn([*ideas, *others], now, CAPTION_S)
        top = TextBlock(headline, 2.0, ACCENT), Gap(0.8), TextBlock(caption, 1.3)
        return Page(top, self._footer(language))

    def active(self, language: int, answer: Answer | None, seconds: float) -> Page:
        """The page while a visitor is there.

        Args:
          language: index of the captions.
          answer: the network's answer, or None.
          seconds: time since the visitor came.
        """
        captions = self.captions[language]
        if answer:
            top = self._answer_elements(captions, answer)
        else:
            top = [
                TextBlock(captions.answer, 0.9, SOFT),
                TextBlock(captions.nothing, 1.5, one_line=True),
                Gap(2),
            ]
        hint = self._hint(captions, answer is not None, seconds)
        top += [TextBlock(captions.try_, 0.9, SOFT), TextBlock(hint, 1.0)]
        return Page(tuple(top), self._footer(language))

    def _answer_elements(self, captions: Captions, answer: Answer) -> list[Element]:
        """The answer, and what the colours of its map mean."""
        size = 2.4 if len(answer.name) <= SHORT_NAME else 1.5
        colour = ACCENT if answer.sure else WHITE
        ends = (captions.little, captions.much)
        if self.signed:
            ends = (captions.against, captions.for_)
        return [
            TextBlock(captions.answer if answer.sure else captions.perhaps, 0.9, SOFT),
            TextBlock(captions.label(answer.name), size, colour),
            Bar("", round(answer.share, 2), colour=colour),
            Gap(0.5),
            TextBlock(captions.colours_signed if self.signed else captions.colours, 0.9),
            Gap(0.3),
            Legend(self.colormap, *ends),
            Gap(0.6),
        ]

    def _hint(self, captions: Captions, answered: bool, seconds: float) -> str:
        """What to try: hints in turn. The first is for no answer, others need one.

        Their order does not depend on the answer, so that a hint stays when the answer goes.
        """
        first, *others = captions.try_drawing if self.drawing else captions.try_objects
        for_answer = captions.try_answer_drawing if self.drawing else captions.try_answer_objects
        order = [(first, not answered), *((hint, answered) for hint in for_answer)]
        order += [(hint, True) for hint in others]
        begin = int(seconds / HINT_S) % len(order)
        return next((hint for hint, fits in [*order[begin:], *order] if fits), first)

    def concept(self, language: int, shown: ShownConcept | None) -> Page:
        """The page about one channel of the network; its own map lies over the picture.

        Args:
          language: index of the captions.
          shown: the channel.
        """
        captions = self.captions[language]
        texts = captions.concepts
        if texts is None or shown is None:
            return self.active(language, None, 0.0)
        name = texts.names.get(shown.name, shown.name) or texts.nameless
        size = 2.0 if len(name) <= SHORT_NAME else 1.4
        top: list[Element] = [TextBlock(texts.part, 0.9, SOFT), TextBlock(name, size, ACCENT)]
        if shown.pictures.pictures:
            top += [Gap(0.5), shown.pictures]
        took_part = texts.took_part.replace(LABEL, captions.label(shown.answer))
        top += [Gap(0.5), TextBlock(took_part, 0.9), Gap(0.2), TextBlock(texts.where, 0.9)]
        return Page(tuple(top), self._footer(language))

    def idle(self, language: int, remaining_s: float, total_s: float) -> Page:
        """The page that asks whether anybody is still there.

        Args:
          language: index of the captions.
          remaining_s: seconds until the exhibit starts again.
          total_s: seconds of the whole countdown.
        """
        captions = self.captions[language]
        top = (
            TextBlock(captions.still_there, 2.0, ACCENT), Gap(0.6),
            TextBlock(with_seconds(captions.wave, remaining_s), 1.2), Gap(0.6),
            Bar("", round(remaining_s / total_s, 2), colour=ACCENT),
        )  # fmt: skip
        return Page(top, self._footer(language))

    def closed(self, language: int, opens: datetime | None, now: datetime) -> ClosedCard:
        """The card outside the opening hours.

        Args:
          language: index of the captions.
          opens: when the exhibit opens next, local time; None: never.
          now: the local time.
        """
        captions = self.captions[language]
        return ClosedCard(captions.closed.title, opening_text(captions, opens, now))

    def _footer(self, language: int) -> tuple[Buttons]:
        """The buttons: a language each if there are several, and the privacy card."""
        choices = self.captions if len(self.captions) > 1 else ()
        names = [f"language {index}" for index in range(len(choices))]
        texts = [captions.name for captions in choices]
        privacy = self.captions[language].privacy.button
        return (Buttons((*names, "privacy"), (*texts, privacy), f"language {language}"),)


@dataclass(frozen=True)
class Moment:
    """What the page depends on.

    Attributes:
      state: the exhibit's state.
      source: whose pictures are shown: "camera", "clip" or "".
      language: index of the captions.
      now: the time.
      lasted_s: seconds since the state began.
      idle_s: in the state idle, seconds that are left, and seconds of the whole countdown.
      answer: the network's answer, or None.
      concept: the channel that is shown, or None.
    """

    state: State
    source: str
    language: int
    now: float
    lasted_s: float
    idle_s: tuple[float, float]
    answer: Answer | None
    concept: ShownConcept | None


@dataclass(frozen=True)
class PageRow:
    """A page.

    Attributes:
      due: whether it is shown at a moment.
      draw: what is on it.
    """

    due: Callable[[Moment], bool]
    draw: Callable[[PageBuilder, Moment], Page]


PAGES = {
    "idle": PageRow(
        lambda m: m.state == State.IDLE, lambda pages, m: pages.idle(m.language, *m.idle_s)
    ),
    "concept": PageRow(
        lambda m: m.concept is not None, lambda pages, m: pages.concept(m.language, m.concept)
    ),
    "active": PageRow(
        lambda m: m.source == "camera",
        lambda pages, m: pages.active(m.language, m.answer, m.lasted_s),
    ),
    "attract": PageRow(lambda m: True, lambda pages, m: pages.attract(m.language, m.now)),
}
"""All pages; the first one that is due is shown."""


def page_at(pages: PageBuilder, moment: Moment) -> Page:
    """The page that is shown at a moment."""
    return next(row for row in PAGES.values() if row.due(moment)).draw(pages, moment)


def _in_turn(texts: Sequence[str], seconds: float, each_s: float) -> str:
    return texts[int(seconds / each_s) % len(texts)]
