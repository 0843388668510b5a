"""Pages that visitors open with a button: teaching three things, and fooling the network."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from realtime_lrp.commands.kiosk.pages import (
    AnswerPage,
    AttractPage,
    ExhibitPage,
    IdlePage,
    Moment,
    known,
)
from realtime_lrp.commands.kiosk.settings import label, with_seconds
from realtime_lrp.commands.kiosk.states import NOTHING, ScreenState
from realtime_lrp.errors import UsageError, first_line
from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.events import LessonKey
from realtime_lrp.view.exhibit import ACCENT, SOFT, Buttons, Element, Gap, TextBlock
from realtime_lrp.view.hud import Bar

if TYPE_CHECKING:
    from realtime_lrp.teaching.teacher import Teacher

THINGS = ("A", "B", "C")
TAKEN, MOST_S = 15, 10.0  # a touch takes 15 pictures within 10 seconds, and more while it is held
EMPTY = "0"  # the key of the scene without a thing, which is learnt first
READ_S = 2.0  # time to read the instructions before the empty scene is learnt
DRAW_S, TOLD_S = 45.0, 20.0  # how long there is to draw, and how long the result is shown
JUDGED_S = 1.0  # the answer in these last seconds decides the game
GAMES = ("teach", "game")  # the buttons of these pages; each closes the other page

log = logging.getLogger(__name__)


class Game(ExhibitPage):
    """A page that visitors open and close with a button; it closes when they go."""

    opened: float | None = None  # when; None while it is closed

    def begin(self, moment: Moment) -> None:
        """It was opened."""

    def end(self, moment: Moment) -> None:
        """It was closed."""

    def update(self, moment: Moment) -> None:
        """Opens or closes at a touch; closes when the visitor has gone or maps fail."""
        gone = moment.state in (ScreenState.ATTRACT, ScreenState.CLOSED) or moment.failing
        if self.opened is None:
            if moment.touched == self.setting and self.button(moment):
                self.opened = moment.now
                self.target = "top1"
                self.begin(moment)
        elif gone or moment.touched in GAMES:
            self.close(moment)

    def close(self, moment: Moment) -> None:
        self.opened = None
        self.target = ""
        self.end(moment)

    def due(self, moment: Moment) -> bool:
        return self.opened is not None and moment.source == "camera"

    def button(self, moment: Moment) -> str:
        if moment.state != ScreenState.ACTIVE or moment.engine is None or moment.failing:
            return ""
        return moment.captions[self.setting]["button" if self.opened is None else "end"]


class TeachPage(Game):
    """Learns three things that the visitor shows, which are forgotten afterwards."""

    setting = "teach"

    _teacher: Teacher | None = None
    _key, _until = "", 0.0  # the thing whose pictures are taken, and until when at least
    _refused = False  # whether this network cannot be taught

    def begin(self, moment: Moment) -> None:
        self._teacher = moment.network.teach((*THINGS, NOTHING)) if moment.network else None
        self._key = EMPTY
        self._until = math.inf

    def end(self, moment: Moment) -> None:
        if moment.network and self._teacher:
            moment.network.forget(self._teacher)
        self._teacher = None
        self._key = ""

    def update(self, moment: Moment) -> None:
        super().update(moment)
        if not self._teacher:
            return
        try:
            self._teacher.check()
        except Exception as error:
            self._refused = isinstance(error, UsageError)
            log.warning("teach: the page is closed: %s", first_line(error))
            self.close(moment)
            return
        if moment.touched.startswith("thing ") and self._key != EMPTY:
            self._key = moment.touched[-1]
            self._until = moment.now + MOST_S
        reads = self._key == EMPTY and moment.now - (self.opened or 0.0) < READ_S
        if self._key and not reads:
            shown = self._teacher.lesson.showings[-1:]
            few = not shown or len(shown[0].vectors) < TAKEN
            held = f"thing {self._key}" in (moment.held, moment.touched)
            down = held or (few and moment.now < self._until)
            self._teacher.takes(LessonKey(self._key, "visitor", down))
            self._key = self._key if down else ""

    def button(self, moment: Moment) -> str:
        return "" if self._refused else super().button(moment)

    def elements(self, moment: Moment) -> list[Element]:
        captions = moment.captions
        answer = moment.answer
        texts = moment.captions["teach"]
        if not self._teacher:
            return []
        fields = self._teacher.fields()
        things = [one for one in fields["classes"] if one[0] != EMPTY]
        keys = [f"thing {key}" for key, *_ in things]
        counts = [f"{name}  {count or ''}".strip() for _, name, count in things]
        below: list[Element] = [TextBlock(texts["empty" if self._key == EMPTY else "how"], 0.9)]
        if answer and answer.name in THINGS:
            below = [
                TextBlock(f"{captions['answer']} {answer.name}", 1.3, ACCENT, one_line=True),
                Bar("", round(answer.share, 2), colour=ACCENT),
                TextBlock(captions[moment.colours], 0.9),
            ]
        told = texts["learning"] if fields["doing"] else texts["forgotten"]
        return [
            TextBlock(texts["title"], 1.4, ACCENT, one_line=True), Gap(0.4),
            Buttons((*keys,), (*counts,), f"thing {self._key}", large=True), Gap(0.4),
            *below, Gap(0.3), TextBlock(told, 0.9, SOFT),
        ]  # fmt: skip

    def shows_map(self, moment: Moment) -> bool:
        return super().shows_map(moment) and moment.seen in THINGS


class GamePage(Game):
    """Fool it: draw what people recognise and the network does not."""

    setting = "game"

    _asked = ""
    _last: Sequence[Moment] = ()  # the moments of the last `JUDGED_S`
    _decided: Moment | None = None

    def begin(self, moment: Moment) -> None:
        self._asked = random.choice([one for one in CLASSES if one != NOTHING])

    def update(self, moment: Moment) -> None:
        super().update(moment)
        if self.opened is None:
            return
        if self._decided is None:
            self._judge(moment)
        elif self._left(moment) < -TOLD_S:
            self.close(moment)

    def end(self, moment: Moment) -> None:
        self._last = ()
        self._decided = None

    def _judge(self, moment: Moment) -> None:
        """Decides when the time is over: for what was asked for if it was seen half of the last."""
        recent = [one for one in self._last if moment.now - one.now <= JUDGED_S]
        self._last = [*recent, moment]
        if self._left(moment) <= 0:
            times = Counter(one.seen for one in self._last)
            often = times.most_common(1)[0][0]
            name = self._asked if 2 * times[self._asked] >= len(self._last) else often
            self._decided = next(one for one in reversed(self._last) if one.seen == name)

    def kept(self) -> ExplainedFrame | None:
        decided = self._decided
        return decided.explained if decided and decided.explains else None

    def shows_map(self, moment: Moment) -> bool:
        return super().shows_map(moment) and not self._decided

    def button(self, moment: Moment) -> str:
        return super().button(moment) if known(self.config) == "drawing" else ""

    def elements(self, moment: Moment) -> list[Element]:
        captions = moment.captions
        texts = moment.captions["game"]
        seen = (self._decided or moment).seen
        left = self._left(moment)
        named = label(captions, seen) if seen else captions["nothing"]
        if self._decided is None:
            return [
                TextBlock(texts["draw"], 0.9, SOFT),
                TextBlock(label(captions, self._asked), 2.4, ACCENT), Gap(0.4),
                TextBlock(texts["how"], 1.0), Gap(0.6),
                TextBlock(with_seconds(texts["left"], left), 1.2),
                Bar("", round(left / DRAW_S, 2), colour=ACCENT), Gap(0.6),
                TextBlock(f"{captions['answer']} {named}", 1.0, SOFT, one_line=True),
            ]  # fmt: skip
        lost = seen == self._asked
        told = texts["lost" if lost else "won" if seen else "unseen"].replace("{label}", named)
        title = texts["mine" if lost else "yours"]
        return [
            TextBlock(title, 1.8, ACCENT), Gap(0.4), TextBlock(told, 1.2), Gap(0.4),
            TextBlock(captions[moment.colours] if self.kept() else "", 0.9),
        ]  # fmt: skip

    def _left(self, moment: Moment) -> float:
        return DRAW_S - (moment.now - (self.opened or 0.0))


PAGES: tuple[type[ExhibitPage], ...] = (
    IdlePage, TeachPage, GamePage, AnswerPage, AttractPage,
)  # fmt: skip
"""All pages; the first one that is due is shown."""
