"""The exhibit's pages that visitors open: teaching three things, and fooling the network."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from faults.clock import until
from test_kiosk_loop import Turns

from realtime_lrp import config
from realtime_lrp.commands.kiosk import games, screen
from realtime_lrp.commands.kiosk.network import RelevancePart
from realtime_lrp.commands.kiosk.pages import AnswerPage
from realtime_lrp.errors import UsageError
from realtime_lrp.models.drawings import drawings
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer.events import LessonKey
from realtime_lrp.view.exhibit import TextBlock
from realtime_lrp.view.window import Mouse


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.setattr(screen.ScreenArtist, "_draw_picture", lambda *words: None)
    sets = ("kiosk.teach=true", "kiosk.game=true", "kiosk.perhaps=0.1")
    made = Turns(monkeypatch, *sets).visit()
    made.turn()
    yield made
    made.kiosk.end()


def touch(turns, name, seconds=0.2):
    """Touches a button for so long; returns the page that is shown then."""
    x0, y0, x1, y1 = turns.kiosk._artist.buttons[name]
    for button in ("left", ""):
        turns.events = [Mouse((x0 + x1) // 2, (y0 + y1) // 2, button)]
        turns.turn(seconds)
    return turns.kiosk.page


def texts(turns):
    elements = turns.kiosk.screen.page.top
    return " ".join(one.text for one in elements if isinstance(one, TextBlock))


@pytest.mark.parametrize(
    "seen, expected",
    [("heart", "I saw it!"), ("star", "You fooled me! I took it for: star."),
     ("nothing", "You fooled me! I saw nothing that I know.")],
)  # fmt: skip
def test_the_game_is_won_by_what_people_alone_recognise(seen, expected, turns, monkeypatch):
    """It names a class, and says what it saw when the time is over; then it ends by itself."""
    monkeypatch.setattr(games.random, "choice", lambda labels: "heart")
    assert isinstance(touch(turns, "game"), games.GamePage)
    assert "Draw this: heart" in texts(turns)
    draw(turns, seen)
    assert expected in texts(turns)
    for _ in range(int(games.TOLD_S) + 1):
        turns.turn(1.0, present=True, star=1.0)
    assert isinstance(turns.kiosk.page, AnswerPage)


def draw(turns, seen, last=()):
    """Plays the end: one thing is seen until the last turns of 0.2 s, in which others are."""
    turns.kiosk.page.opened -= games.DRAW_S - (3 - 0.01)
    for name in [*[seen] * (15 - len(last)), *last]:
        turns.turn(0.2, present=True, **{name: 1.0})


@pytest.mark.parametrize(
    "last, expected, kept",
    [(["heart"] * 4 + ["nothing"], "I saw it!", True), (["star"] * 6, "You fooled me!", True),
     (["nothing"] * 6, "I saw nothing that I know", False)],
)  # fmt: skip
def test_the_last_second_decides_the_game(last, expected, kept, turns, monkeypatch):
    """Not one moment; picture and map of what decided stay, whatever is seen afterwards."""
    monkeypatch.setattr(games.random, "choice", lambda labels: "heart")
    touch(turns, "game")
    draw(turns, "heart", last)
    assert expected in texts(turns)
    decided = turns.kiosk.screen
    for _ in range(5):
        turns.turn(0.2, present=True, heart=1.0)
    shown = turns.kiosk.screen
    assert (shown.explained is not None) == kept
    assert (shown.picture is decided.picture) == kept
    assert expected in texts(turns)
    touch(turns, "game")
    assert isinstance(turns.kiosk.page, AnswerPage)
    assert turns.kiosk._pages[2].kept() is None  # it is forgotten


class FakeTeacher:
    """Notes what is held; a picture is taken each time."""

    def __init__(self, classes):
        self.counts, self.held, self.wrong = dict.fromkeys(classes, 0), [], None
        self.lesson = SimpleNamespace(showings=[SimpleNamespace(vectors=[])])

    def check(self):
        if self.wrong:
            raise self.wrong

    def takes(self, event):
        self.held.append((event.key, event.down))
        self.lesson.showings[0].vectors.append(0)

    def fields(self):
        classes = [(str(key % 4), name, 7) for key, name in enumerate(self.counts, 1)]
        return {"classes": classes, "shown": "", "doing": "", "last": ""}


def test_a_touch_takes_pictures_of_a_thing_and_leaving_forgets_it(turns, monkeypatch):
    """As many as it needs, also after a short touch; answers are the best class's meanwhile."""
    part, forgotten = turns.kiosk.network, []
    monkeypatch.setattr(part, "teach", FakeTeacher)
    monkeypatch.setattr(part, "forget", forgotten.append)
    page = touch(turns, "teach")
    assert isinstance(page, games.TeachPage) and "Teach me three things" in texts(turns)
    teacher = page._teacher
    touch(turns, "thing 2")  # while the empty scene is learnt
    assert "hold up nothing" in texts(turns) and not teacher.held
    taken = [(True, games.TAKEN), (False, 1)]
    until(lambda: turns.turn(0.2, present=True, heart=1.0) and teacher.held[-1:] == [("0", False)])
    assert teacher.held == [("0", down) for down, times in taken for _ in range(times)]
    assert turns.kiosk.answer == "heart" and turns.kiosk.screen.explained is None
    teacher.held.clear()
    teacher.lesson.showings[0].vectors.clear()
    touch(turns, "thing 2")
    until(lambda: turns.turn(0.2, present=True) and not teacher.held[-1][1])
    assert teacher.held == [("2", down) for down, times in taken for _ in range(times)]
    until(lambda: turns.turn(0.2, present=True, star=0.3) and turns.kiosk.answer == "star")
    assert part._thread.request.target == "top1"
    assert isinstance(touch(turns, "game"), games.GamePage)
    assert forgotten == [teacher]
    touch(turns, "teach")
    until(lambda: turns.turn(1.0, present=False, nothing=1.0) == "attract")
    assert len(forgotten) == 2 and page._teacher is None
    turns.turn(present=True)
    turns.turn(present=True)
    touch(turns, "teach")
    page._teacher.wrong = UsageError("no vector")
    turns.turn(present=True)
    turns.turn(present=True)
    assert isinstance(turns.kiosk.page, AnswerPage) and "teach" not in turns.kiosk._artist.buttons


def test_a_lesson_goes_on_while_the_exhibit_asks_who_is_there(monkeypatch):
    """A class that the configuration explains is none of the lesson's."""
    monkeypatch.setattr(screen.ScreenArtist, "_draw_picture", lambda *words: None)
    turns = Turns(monkeypatch, "kiosk.teach=true", "lrp.target=heart").visit()
    part = turns.kiosk.network
    monkeypatch.setattr(part, "teach", FakeTeacher)
    monkeypatch.setattr(part, "forget", lambda teacher: None)
    targets = [part._thread.request.target]
    page = touch(turns, "teach")
    targets.append(part._thread.request.target)
    until(lambda: turns.turn(0.5, present=False, nothing=1.0) == "idle")
    targets.append(part._thread.request.target)
    assert page._teacher and targets == ["heart", "top1", "top1"]
    turns.kiosk.end()


@pytest.mark.usefixtures("compiled")
def test_what_is_taught_is_the_networks_answer_until_it_is_forgotten():
    """With real maps: two drawn symbols are learnt as A and B."""
    drawn = drawings()
    chosen = config.load(sets=("kiosk.teach=true",), command="kiosk").config
    part = RelevancePart(chosen, Stats("", ""), time.monotonic())

    def show(symbol, done):
        pictures = drawn.pixels[drawn.labels == symbol]

        def shown():
            now = time.monotonic()
            part.submit(np.ascontiguousarray(pictures[int(10 * now) % 12]), now, now)
            part.update(now)
            return done()

        until(shown)

    show(3, lambda: part.engine)
    untaught = part.engine
    teacher = part.teach(("A", "B", "C"))
    for key, symbol in (("1", 3), ("2", 13)):

        def taken(key=key):
            teacher.takes(LessonKey(key, "visitor"))
            return teacher.lesson.counts()[int(key) - 1] > 7

        show(symbol, taken)
        teacher.takes(LessonKey(key, "visitor", down=False))
    show(13, lambda: part.engine.network.labels == ["A", "B"] and part.newest(0))
    show(13, lambda: np.argmax(part.newest(0).result.scores) == 1)
    part.forget(teacher)
    part.forget(part.teach(("A", "B", "C")))  # before another map is computed
    show(13, lambda: part.engine is untaught)
    part.stop()
