"""The pages of the exhibit: what stands beside the picture, and when."""

from collections.abc import Sequence

from realtime_lrp.commands.kiosk.answer import Answer
from realtime_lrp.commands.kiosk.captions import Captions, label, with_seconds
from realtime_lrp.commands.kiosk.concepts import ConceptPage
from realtime_lrp.commands.kiosk.page import SHORT_NAME, ExhibitPage, Moment
from realtime_lrp.commands.kiosk.states import State
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.view.elements import ACCENT, SOFT, Buttons, Element, Gap, TextBlock
from realtime_lrp.view.exhibit import Page
from realtime_lrp.view.hud import Bar, Legend
from realtime_lrp.view.look import Look
from realtime_lrp.view.text import WHITE

CAPTION_S = 6.0
"""Seconds for which each caption is shown."""

HINT_S = 12.0
"""Seconds for which each thing to try is shown."""


class AttractPage(ExhibitPage):
    """Invites whoever passes by."""

    def due(self, moment: Moment) -> bool:
        """Whenever no other page is."""
        return True

    def elements(self, moment: Moment) -> list[Element]:
        """A headline, and captions in turn."""
        captions = moment.captions
        headline, *others = captions["attract"]
        turns = [*captions[f"attract_{_known(self.config)}"], *others]
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
        hints = captions[f"{'try_answer' if answer else 'try'}_{_known(self.config)}"]
        begin = max(self._since, moment.since)
        hint = hints[int((moment.now - begin) / HINT_S) % len(hints)]
        return [*top, TextBlock(captions["try"], 0.9, SOFT), TextBlock(hint, 1.0)]

    def _answer(self, moment: Moment, answer: Answer) -> list[Element]:
        """The answer, and what the colours of its map mean."""
        captions = moment.captions
        size = 2.4 if len(answer.name) <= SHORT_NAME else 1.5
        colour = ACCENT if answer.sure else WHITE
        signed = moment.explained is not None and moment.explained.result.maps[0].signed
        low, high = ("against", "for") if signed else ("little", "much")
        return [
            TextBlock(captions["answer"] if answer.sure else captions["perhaps"], 0.9, SOFT),
            TextBlock(label(captions, answer.name), size, colour),
            Bar("", round(answer.share, 2), colour=colour),
            Gap(0.5),
            TextBlock(captions["colours_signed"] if signed else captions["colours"], 0.9),
            Gap(0.3),
            Legend(Look.of(self.config.overlay).named(signed), captions[low], captions[high]),
            Gap(0.6),
        ]


PAGES: tuple[type[ExhibitPage], ...] = (IdlePage, ConceptPage, AnswerPage, AttractPage)
"""All pages; the first one that is due is shown."""


def pages_of(config: Config) -> list[ExhibitPage]:
    """The pages that a configuration asks for."""
    wanted = [page for page in PAGES if not page.setting or getattr(config.kiosk, page.setting)]
    return [page(config) for page in wanted]


def drawn_page(page: ExhibitPage, moment: Moment, languages: Sequence[Captions]) -> Page:
    """A page as `view.exhibit` draws it, with its buttons: languages, if several, and privacy."""
    choices = languages if len(languages) > 1 else ()
    names = [f"language {number}" for number in range(len(choices))]
    texts = [captions["name"] for captions in choices]
    chosen = f"language {languages.index(moment.captions)}"
    privacy = moment.captions["privacy"]["button"]
    buttons = Buttons((*names, "privacy"), (*texts, privacy), chosen)
    return Page(tuple(page.elements(moment)), (buttons,))


def _known(config: Config) -> str:
    """What the network knows: drawn symbols or everyday objects, as keys of captions say it."""
    return "drawing" if config.model.name.lower() in EMBEDDED else "objects"
