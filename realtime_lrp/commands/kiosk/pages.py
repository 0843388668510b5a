"""The pages of the exhibit: what stands beside the picture at a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from realtime_lrp.commands.kiosk.parts import RelevancePart
from realtime_lrp.commands.kiosk.settings import Captions, label, with_seconds
from realtime_lrp.commands.kiosk.states import ScreenState, SeenThing
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.view.exhibit import ACCENT, SOFT, Buttons, Element, Gap, Page, TextBlock
from realtime_lrp.view.hud import Bar, Legend
from realtime_lrp.view.look import Look
from realtime_lrp.view.text import WHITE

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

NAMED = 4  # most boxes of a detector whose classes are named
SHORT_NAME = 12  # names of up to this many letters are set in the largest type
CAPTION_S = 6.0  # seconds for which each caption is shown
HINT_S = 12.0  # seconds for which each thing to try is shown


@dataclass(frozen=True)
class Moment:
    """Everything that a page depends on; times are seconds of a monotonic clock."""

    now: float
    state: ScreenState
    since: float  # when the state began
    left_s: float  # seconds until an idle exhibit starts over
    source: str  # the one that is shown: "camera", "clip" or ""
    captions: Captions
    engine: Engine | None = None  # None before the first map
    explained: ExplainedFrame | None = None
    failing: bool = False  # whether maps cannot be computed at the moment
    answer: SeenThing | None = None
    explains: bool = False  # whether the map explains the answer
    old: bool = False  # whether the answer is to another picture than the shown one
    network: RelevancePart | None = None
    touched: str = ""  # the button where a touch began since the last drawing
    held: str = ""  # the button that is held

    @property
    def seen(self) -> str:
        """The name of the answer; "" for none."""
        return self.answer.name if self.answer else ""

    @property
    def colours(self) -> str:
        """The key of the sentence on what the colours of the map mean."""
        signed = self.explained is not None and self.explained.result.maps[0].signed
        return "colours_signed" if signed else "colours"


class ExhibitPage:
    """A page. Write a class like those below, and add it to `PAGES` in `games`."""

    # the key of the section `kiosk` that switches the page on, and the section of the captions that
    # it needs; "" for a page that is always there
    setting: ClassVar[str] = ""
    # what is explained; "": what the configuration says
    target = ""

    def __init__(self, config: Config):
        self.config = config

    def update(self, moment: Moment) -> None:
        """Takes in what happened; called before each drawing, whether or not the page is due."""

    def due(self, moment: Moment) -> bool:
        """Whether the page is shown, unless one before it is."""
        raise NotImplementedError

    def elements(self, moment: Moment) -> list[Element]:
        """The page's elements above the buttons."""
        raise NotImplementedError

    def kept(self) -> ExplainedFrame | None:
        """The frame to show instead of the present picture and map; None for the present one."""
        return None

    def shows_map(self, moment: Moment) -> bool:
        """Whether the map is shown: where the page names the answer that it explains."""
        return moment.explains

    def button(self, moment: Moment) -> str:
        """The text of its button on every page, named as its setting; "" while there is none."""
        return ""


def known(config: Config) -> str:
    """The key of the caption for what the network knows: drawn symbols or everyday objects."""
    return "drawing" if config.model.name.lower() in EMBEDDED else "objects"


class AttractPage(ExhibitPage):
    """Invites whoever passes by."""

    def due(self, moment: Moment) -> bool:
        return True

    def elements(self, moment: Moment) -> list[Element]:
        captions = moment.captions
        headline, *others = captions["attract"]
        turns = [*captions[f"attract_{known(self.config)}"], *others]
        caption = turns[int(moment.now / CAPTION_S) % len(turns)]
        return [TextBlock(headline, 2.0, ACCENT), Gap(0.8), TextBlock(caption, 1.3)]


class IdlePage(ExhibitPage):
    """Asks whether anybody is still there."""

    def due(self, moment: Moment) -> bool:
        return moment.state == ScreenState.IDLE

    def elements(self, moment: Moment) -> list[Element]:
        captions = moment.captions
        share = moment.left_s / self.config.kiosk.countdown_seconds
        return [
            TextBlock(captions["still_there"], 2.0, ACCENT), Gap(0.6),
            TextBlock(with_seconds(captions["wave"], moment.left_s), 1.2), Gap(0.6),
            Bar("", round(share, 2), colour=ACCENT),
        ]  # fmt: skip


class AnswerPage(ExhibitPage):
    """Says what the network sees in the camera's picture, and what to try."""

    _answered = False
    _since = 0.0

    def update(self, moment: Moment) -> None:
        """Begins with the first hint when an answer comes or goes."""
        answered = moment.answer is not None
        if answered != self._answered:
            self._answered = answered
            self._since = moment.now

    def due(self, moment: Moment) -> bool:
        return moment.source == "camera"

    def elements(self, moment: Moment) -> list[Element]:
        captions = moment.captions
        answer = moment.answer
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

    def _answer(self, moment: Moment, answer: SeenThing) -> list[Element]:
        captions = moment.captions
        name = label(moment.captions, answer.name)
        found = moment.explained.result.found if moment.explained else None
        colour, told = (ACCENT, "answer") if answer.sure else (WHITE, "perhaps")
        if moment.old:
            colour = SOFT
            told = "before"
        bars = [Bar("", round(answer.share, 2), colour=colour)]
        if found and moment.engine:  # several drawings, each in its box with its score
            named = sorted(found[:NAMED], key=lambda one: one.number)
            labels = (label(captions, moment.engine.label(one.label)) for one in named)
            name = ", ".join(dict.fromkeys(labels))
            bars = []
        size = 2.4 if len(name) <= SHORT_NAME else 1.5
        signed = moment.colours == "colours_signed"
        low, high = ("against", "for") if signed else ("little", "much")
        look = Look.of(self.config.overlay)
        colours = Legend(look.named(signed), captions[low], captions[high])
        legend = () if found and look.colormap is None else (Gap(0.3), colours)
        return [
            TextBlock(captions[told], 0.9, SOFT), TextBlock(name, size, colour), *bars, Gap(0.5),
            TextBlock(captions[moment.colours], 0.9), *legend, Gap(0.6),
        ]  # fmt: skip


def drawn_page(
    page: ExhibitPage, moment: Moment, languages: Sequence[Captions],
    pages: Sequence[ExhibitPage] = (),
) -> Page:  # fmt: skip
    """A page with its buttons: one for each of `pages`, of several languages, and for privacy."""
    games = {one.setting: text for one in pages if (text := one.button(moment))}
    choices = languages if len(languages) > 1 else ()
    names = [f"language {number}" for number in range(len(choices))]
    texts = [captions["name"] for captions in choices]
    chosen = f"language {languages.index(moment.captions)}"
    privacy = moment.captions["privacy"]["button"]
    buttons = Buttons((*names, "privacy"), (*texts, privacy), chosen)
    bottom = (Buttons((*games,), (*games.values(),)), buttons) if games else (buttons,)
    return Page(tuple(page.elements(moment)), bottom)
