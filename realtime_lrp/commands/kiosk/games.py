"""Pages that visitors open with a button: teaching three things, and fooling the network."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from realtime_lrp.commands.kiosk.moment import ExhibitPage, Moment, known
from realtime_lrp.commands.kiosk.network import NOTHING, Answer
from realtime_lrp.commands.kiosk.settings import label, with_seconds
from realtime_lrp.commands.kiosk.states import State
from realtime_lrp.errors import UsageError, first_line
from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.realtime.viewer.events import Held
from realtime_lrp.view.exhibit import ACCENT, SOFT, Buttons, Element, Gap, TextBlock
from realtime_lrp.view.hud import Bar

if TYPE_CHECKING:
    from realtime_lrp.realtime.teacher import Teacher

THINGS = ("A", "B", "C")
TAKEN, MOST_S = 15, 10.0
"""A touch takes this many pictures, within so many seconds, and more while it is held."""

DRAW_S, TOLD_S = 45.0, 20.0  # how long there is to draw, and how long the result is shown
GAMES = ("teach", "game")  # the buttons of these pages; each closes the other page

log = logging.getLogger(__name__)


class Game(ExhibitPage):
    """A page that visitors open and close with a button; it closes when they go."""

    opened: float | None = None  # when; None while it is closed
    _before = ""  # the button that was touched at the last drawing

    def begin(self, moment: Moment) -> None:
        """It was opened."""

    def end(self, moment: Moment) -> None:
        """It was closed."""

    def update(self, moment: Moment) -> None:
        """Opens or closes at a touch; closes when the visitor has gone or maps fail."""
        touched = moment.touched if moment.touched != self._before else ""
        self._before = moment.touched
        gone = moment.state in (State.ATTRACT, State.CLOSED) or moment.failing
        if self.opened is None:
            if touched == self.setting and self.button(moment):
                self.opened = moment.now
                self.begin(moment)
        elif gone or touched in GAMES:
            self.opened = None
            self.end(moment)

    def due(self, moment: Moment) -> bool:
        """While it is open."""
        return self.opened is not None and moment.source == "camera"

    def button(self, moment: Moment) -> str:
        """Opens it, or closes it, while a visitor is there."""
        if moment.state != State.ACTIVE or moment.engine is None or moment.failing:
            return ""
        return moment.captions[self.setting]["button" if self.opened is None else "end"]


class TeachPage(Game):
    """Learns three things that the visitor shows, which are forgotten afterwards."""

    setting, target = "teach", "top1"

    _teacher: Teacher | None = None
    _key, _until = "", 0.0  # the thing whose pictures are taken, and until when at least
    _refused = False  # whether this network cannot be taught

    def begin(self, moment: Moment) -> None:
        self._teacher = moment.network.teach(THINGS) if moment.network else None

    def end(self, moment: Moment) -> None:
        if moment.network and self._teacher:
            moment.network.forget(self._teacher)
        self._teacher, self._key = None, ""

    def update(self, moment: Moment) -> None:
        """Takes pictures while a thing's button is touched."""
        before = self._before
        super().update(moment)
        if not self._teacher:
            return
        try:
            self._teacher.check()
        except Exception as error:
            self._refused, self.opened = isinstance(error, UsageError), None
            log.warning("teach: the page is closed: %s", first_line(error))
            self.end(moment)
            return
        if moment.touched.startswith("thing ") and moment.touched != before:
            self._key, self._until = moment.touched[-1], moment.now + MOST_S
        if self._key:
            shown = self._teacher.lesson.showings[-1:]
            few = not shown or len(shown[0].vectors) < TAKEN
            held = moment.touched == f"thing {self._key}"
            down = held or (few and moment.now < self._until)
            self._teacher.takes(Held(self._key, "visitor", down))
            self._key = self._key if down else ""

    def button(self, moment: Moment) -> str:
        """None for a network that cannot be taught."""
        return "" if self._refused else super().button(moment)

    def elements(self, moment: Moment) -> list[Element]:
        """A large button for each thing; below them what is seen."""
        captions, answer, texts = moment.captions, moment.answer, moment.captions["teach"]
        if not self._teacher:
            return []
        fields, seen = self._teacher.fields(), answer.name if answer else ""
        keys = {name: f"thing {key}" for key, name, _ in fields["classes"]}
        counts = [f"{name}  {count or ''}".strip() for _, name, count in fields["classes"]]
        chosen = keys.get(fields["shown"] or seen, "")
        below: list[Element] = [TextBlock(texts["how"], 0.9)]
        if answer and seen in keys:
            below = [
                TextBlock(f"{captions['answer']} {seen}", 1.3, ACCENT, one_line=True),
                Bar("", round(answer.share, 2), colour=ACCENT),
                TextBlock(captions[moment.colours], 0.9),
            ]
        told = texts["learning"] if fields["doing"] else texts["forgotten"]
        return [
            TextBlock(texts["title"], 1.4, ACCENT, one_line=True), Gap(0.4),
            Buttons((*keys.values(),), (*counts,), chosen, large=True), Gap(0.4),
            *below, Gap(0.3), TextBlock(told, 0.9, SOFT),
        ]  # fmt: skip


class GamePage(Game):
    """Fool it: draw what people recognise and the network does not."""

    setting = "game"

    _asked, _judged = "", False
    _saw: Answer | None = None  # what the network sees, or saw when the time was over

    def begin(self, moment: Moment) -> None:
        self._asked, self._judged = random.choice([one for one in CLASSES if one != NOTHING]), False

    def update(self, moment: Moment) -> None:
        """Keeps what the network sees when the time is over."""
        super().update(moment)
        if self.opened is None:
            return
        if not self._judged:
            self._saw, self._judged = moment.answer, self._left(moment) <= 0
        elif self._left(moment) < -TOLD_S:
            self.opened = None

    def button(self, moment: Moment) -> str:
        """For a network that knows drawn symbols."""
        return super().button(moment) if known(self.config) == "drawing" else ""

    def elements(self, moment: Moment) -> list[Element]:
        """What to draw and how long; then who has won, and why."""
        captions, texts = moment.captions, moment.captions["game"]
        asked, saw = label(captions, self._asked), self._saw
        if not self._judged:
            left = self._left(moment)
            return [
                TextBlock(texts["draw"], 0.9, SOFT), TextBlock(asked, 2.4, ACCENT), Gap(0.4),
                TextBlock(texts["how"], 1.0), Gap(0.6),
                TextBlock(with_seconds(texts["left"], left), 1.2),
                Bar("", round(left / DRAW_S, 2), colour=ACCENT),
            ]  # fmt: skip
        lost = saw is not None and saw.name == self._asked
        told = texts["lost" if lost else "won" if saw else "unseen"]
        told = told.replace("{label}", label(captions, saw.name if saw else ""))
        why: list[Element] = [Gap(0.4), TextBlock(captions[moment.colours], 0.9)] if saw else []
        title = texts["mine" if lost else "yours"]
        return [TextBlock(title, 1.8, ACCENT), Gap(0.4), TextBlock(told, 1.2), *why]

    def _left(self, moment: Moment) -> float:
        return DRAW_S - (moment.now - (self.opened or 0.0))
