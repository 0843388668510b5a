"""The pages of the exhibit: what stands beside the picture, and when.

A page is a class here with a place in `PAGES`. The page about channels takes turns with the page of
the answer; nothing is computed for it while it is not due.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from realtime_lrp.commands.kiosk.games import GamePage, TeachPage
from realtime_lrp.commands.kiosk.moment import ExhibitPage, Moment, known
from realtime_lrp.commands.kiosk.network import Answer
from realtime_lrp.commands.kiosk.settings import Captions, label, with_seconds
from realtime_lrp.commands.kiosk.states import State
from realtime_lrp.config import Config
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.errors import first_line
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.maps import described_layers
from realtime_lrp.view.exhibit import ACCENT, SOFT, Buttons, Element, Gap, Page, Pictures, TextBlock
from realtime_lrp.view.hud import Bar, Legend, percent
from realtime_lrp.view.look import Look
from realtime_lrp.view.scene import ExplainedPicture
from realtime_lrp.view.text import WHITE

NAMED = 4  # of so many boxes of a detector the classes are named
SHORT_NAME = 12  # names of up to this many letters are set in the largest type
CAPTION_S = 6.0  # seconds for which each caption is shown
HINT_S = 12.0  # seconds for which each thing to try is shown
ANSWER_S = 12.0  # seconds of the same answer after which the page about channels is due

CONCEPT_S = 8.0  # seconds for which each channel is shown
TURN_S = ANSWER_S + 2 * CONCEPT_S  # seconds of a turn: the answer, then two channels
AHEAD_S = 2.0  # channels are computed from this many seconds before that
FORGIVEN_S = 1.5  # the page about channels stays if the answer is gone for less than this
PICTURES = 6  # pictures of the gallery, at most

REST_S = 600.0
"""If computing channels fails, or explaining while they are, none are computed for this long."""

log = logging.getLogger(__name__)


class AttractPage(ExhibitPage):
    """Invites whoever passes by."""

    def due(self, moment: Moment) -> bool:
        """Whenever no other page is."""
        return True

    def elements(self, moment: Moment) -> list[Element]:
        """A headline, and captions in turn."""
        captions = moment.captions
        headline, *others = captions["attract"]
        turns = [*captions[f"attract_{known(self.config)}"], *others]
        caption = turns[int(moment.now / CAPTION_S) % len(turns)]
        return [TextBlock(headline, 2.0, ACCENT), Gap(0.8), TextBlock(caption, 1.3)]


class IdlePage(ExhibitPage):
    """Asks whether anybody is still there."""

    def due(self, moment: Moment) -> bool:
        """In its own state."""
        return moment.state == State.IDLE

    def elements(self, moment: Moment) -> list[Element]:
        """The question, and a countdown."""
        captions, share = moment.captions, moment.left_s / self.config.kiosk.countdown_seconds
        return [
            TextBlock(captions["still_there"], 2.0, ACCENT), Gap(0.6),
            TextBlock(with_seconds(captions["wave"], moment.left_s), 1.2), Gap(0.6),
            Bar("", round(share, 2), colour=ACCENT),
        ]  # fmt: skip


class AnswerPage(ExhibitPage):
    """Says what the network sees in the camera's picture, and what to try."""

    _answered, _since = False, 0.0

    def update(self, moment: Moment) -> None:
        """Begins with the first hint when an answer comes or goes."""
        answered = moment.answer is not None
        if answered != self._answered:
            self._answered, self._since = answered, moment.now

    def due(self, moment: Moment) -> bool:
        """While the camera's pictures are shown."""
        return moment.source == "camera"

    def elements(self, moment: Moment) -> list[Element]:
        """The answer or that there is none, and a hint."""
        captions, answer = moment.captions, moment.answer
        if answer:
            top = self._answer(moment, answer)
        else:
            top = [
                TextBlock(captions["answer"], 0.9, SOFT),
                TextBlock(captions["nothing"], 1.5, one_line=True),
                Gap(2),
            ]
        hints = captions[f"{'try_answer' if answer else 'try'}_{known(self.config)}"]
        begin = max(self._since, moment.since)
        hint = hints[int((moment.now - begin) / HINT_S) % len(hints)]
        return [*top, TextBlock(captions["try"], 0.9, SOFT), TextBlock(hint, 1.0)]

    def _answer(self, moment: Moment, answer: Answer) -> list[Element]:
        """The answer, and what the colours of its map mean."""
        captions, name = moment.captions, label(moment.captions, answer.name)
        found = moment.explained.result.found if moment.explained else None
        if found and moment.engine:  # several drawings, each in its box
            named = sorted(found[:NAMED], key=lambda one: one.number)
            labels = (label(captions, moment.engine.label(one.label)) for one in named)
            name = ", ".join(dict.fromkeys(labels))
        size = 2.4 if len(name) <= SHORT_NAME else 1.5
        colour = ACCENT if answer.sure else WHITE
        signed = moment.colours == "colours_signed"
        low, high = ("against", "for") if signed else ("little", "much")
        look = Look.of(self.config.overlay)
        colours = Legend(look.named(signed), captions[low], captions[high])
        legend = () if found and look.colormap is None else (Gap(0.3), colours)
        return [
            TextBlock(captions["answer"] if answer.sure else captions["perhaps"], 0.9, SOFT),
            TextBlock(name, size, colour),
            Bar("", round(answer.share, 2), colour=colour),
            Gap(0.5),
            TextBlock(captions[moment.colours], 0.9),
            *legend,
            Gap(0.6),
        ]


@dataclass(frozen=True)
class ShownConcept:
    """A channel with its name, "" for none, and the pictures that it answers to, perhaps none."""

    channel: int
    name: str
    pictures: Pictures


class ConceptTurns:
    """Decides when the page is shown, and of which channel.

    `describe` returns what there is to show of a channel, or None. `shown` is None while the page
    of the answer is due, `answer` the class of the present answer.
    """

    def __init__(self, describe: Callable[[int], ShownConcept | None]):
        self._describe = describe
        self._answered_at = 0.0
        self.start_over(None, 0.0)

    def start_over(self, answer: int | None, now: float) -> None:
        """Begins with the page of an answer."""
        self.answer, self._since = answer, now
        self._chosen: dict[int, ShownConcept] = {}  # place in this turn -> its channel
        self.shown: ShownConcept | None = None

    def wanted(self, now: float) -> bool:
        """Whether channels have to be computed."""
        return self.answer is not None and (now - self._since) % TURN_S >= ANSWER_S - AHEAD_S

    def update(self, answer: int | None, channels: Iterable[tuple[int, float]], now: float) -> None:
        """Takes in the answer, and number and share of the newest map's channels, largest first."""
        if answer is not None:
            self._answered_at = now
        elif now - self._answered_at < FORGIVEN_S:
            answer = self.answer
        if answer != self.answer:
            self.start_over(answer, now)
        place = int(((now - self._since) % TURN_S - ANSWER_S) // CONCEPT_S)
        if place < 0:
            self._chosen = {}
        elif answer is not None and place not in self._chosen:
            found = self._next_channel(channels)
            self._chosen |= {place: found} if found else {}
        self.shown = self._chosen.get(place)

    def _next_channel(self, channels: Iterable[tuple[int, float]]) -> ShownConcept | None:
        """The first channel that speaks for the answer, was not shown in this turn, and can be."""
        for channel, share in channels:
            known = any(channel == one.channel for one in self._chosen.values())
            if share > 0 and not known and (found := self._describe(channel)):
                return found
        return None


class ConceptPage(ExhibitPage):
    """What one channel answers to; its own map lies over the picture.

    Whatever fails leaves the page out, and the log says so once.
    """

    setting = "concepts"

    def __init__(self, config: Config):
        super().__init__(config)
        self._turns = ConceptTurns(self._described)
        self._gallery: Gallery | None = None
        self._layer = ""
        self._engine: object = None
        self._rests_until = 0.0
        self._problem = ""

    def due(self, moment: Moment) -> bool:
        """While a visitor sees an answer, and it is a channel's turn."""
        return moment.state == State.ACTIVE and self._turns.shown is not None

    def elements(self, moment: Moment) -> list[Element]:
        """What the channel answers to, and in which answer it takes part."""
        shown, engine, texts = self._turns.shown, moment.engine, moment.captions.get("concepts")
        if texts is None or shown is None or engine is None or self._turns.answer is None:
            return []
        name = texts.get("names", {}).get(shown.name, shown.name) or texts["nameless"]
        size = 2.0 if len(name) <= SHORT_NAME else 1.4
        pictures: list[Element] = [Gap(0.5), shown.pictures] if shown.pictures.pictures else []
        answer = label(moment.captions, engine.label(self._turns.answer))
        return [
            TextBlock(texts["part"], 0.9, SOFT), TextBlock(name, size, ACCENT), *pictures,
            Gap(0.5), TextBlock(texts["took_part"].format(label=answer), 0.9),
            Gap(0.2), TextBlock(texts["where"], 0.9),
        ]  # fmt: skip

    def update(self, moment: Moment) -> None:
        """Takes in the newest map and answer; asks for channels while the page is due."""
        if moment.engine is not self._engine:
            self._engine = moment.engine
            self._read_gallery(moment)
        self.request = self._requested(moment) if self._gallery else None

    def _requested(self, moment: Moment) -> ConceptRequest | None:
        now, turns = moment.now, self._turns
        found = moment.explained.result.concepts if moment.explained else None
        wanted = turns.wanted(now)
        if wanted and found and found.problem:
            self._rest(found.problem, now + REST_S)
        elif wanted and moment.failing:
            self._rest("explaining failed", now + REST_S)
        elif found and found.maps:
            self._problem = ""
        if now < self._rests_until:
            turns.start_over(None, now)
            return None
        answer = moment.answer if moment.state == State.ACTIVE else None
        channels = [(one.channel, one.share) for one in found.maps] if found else []
        turns.update(answer.index if answer else None, channels, now)
        if not turns.wanted(now):
            return None
        return ConceptRequest(self._layer, turns.shown.channel if turns.shown else None)

    def _read_gallery(self, moment: Moment) -> None:
        """Finds layer, pictures and names for an engine."""
        self._gallery, self._rests_until = None, 0.0
        engine, wanted = moment.engine, self.config.concepts.layer
        if engine is None:
            return
        try:
            from realtime_lrp.engine.gallery import gallery_of  # imports TensorFlow

            gallery = gallery_of(engine, self.config)
            self._layer = wanted or (described_layers(engine, gallery) or ("",))[-1]
        except Exception as error:  # the exhibit goes on, whatever is wrong with a file
            self._rest(first_line(error), math.inf)
            return
        if not engine.concepts.layers:
            why = "it needs LRP, and a network with layers of rows and columns"
        elif not (gallery.names.get(self._layer) or gallery.channels(self._layer)):
            why = f"there are no pictures or names for the channels of {self._layer!r}"
        else:
            self._gallery = gallery
            return
        self._rest(why, math.inf)

    def _rest(self, why: str, until: float) -> None:
        """Computes no channels until then; says so once while the reason stays the same."""
        self._rests_until = until
        self._turns.start_over(None, 0.0)
        if why != self._problem:
            span = "" if until == math.inf else f" for {REST_S:.0f} s"
            log.warning("concepts: the page is left out%s: %s", span, why)
        self._problem = why

    def _described(self, channel: int) -> ShownConcept | None:
        """A channel with its name and pictures; None without both."""
        if self._gallery is None:
            return None
        pictures = tuple(self._gallery.pictures(self._layer, channel))[:PICTURES]
        name = self._gallery.name(self._layer, channel)
        return ShownConcept(channel, name, Pictures(pictures)) if name or pictures else None


PAGES: tuple[type[ExhibitPage], ...] = (
    IdlePage, TeachPage, GamePage, ConceptPage, AnswerPage, AttractPage,
)  # fmt: skip
"""All pages; the first one that is due is shown."""


def pages_of(config: Config) -> list[ExhibitPage]:
    """The pages that a configuration asks for."""
    wanted = [page for page in PAGES if not page.setting or getattr(config.kiosk, page.setting)]
    return [page(config) for page in wanted]


def drawn_page(
    page: ExhibitPage, moment: Moment, languages: Sequence[Captions],
    pages: Sequence[ExhibitPage] = (),
) -> Page:  # fmt: skip
    """A page as `view.exhibit` draws it, with its buttons.

    They are those of all `pages`, languages, if several, and privacy.
    """
    games = {one.setting: text for one in pages if (text := one.button(moment))}
    choices = languages if len(languages) > 1 else ()
    names = [f"language {number}" for number in range(len(choices))]
    texts = [captions["name"] for captions in choices]
    chosen = f"language {languages.index(moment.captions)}"
    privacy = moment.captions["privacy"]["button"]
    buttons = Buttons((*names, "privacy"), (*texts, privacy), chosen)
    bottom = (Buttons((*games,), (*games.values(),)), buttons) if games else (buttons,)
    return Page(tuple(page.elements(moment)), bottom)


def with_captions(
    drawn: ExplainedPicture, explained: ExplainedFrame, captions: Captions
) -> ExplainedPicture:
    """A detector's boxes with texts in the language of the captions."""
    texts = (
        (f"{label(captions, explained.engine.label(one.label))} {percent(one.score)}",
         captions["inside"].replace("{share}", percent(one.inside)))
        for one in explained.result.found or ()
    )  # fmt: skip
    pairs = zip(drawn.outlines, texts, strict=True)
    outlines = tuple(one._replace(above=above, below=below) for one, (above, below) in pairs)
    return replace(drawn, outlines=outlines)
