"""The exhibit's page about single channels: when it is shown, what it says, how it looks."""

from types import SimpleNamespace

import numpy as np
from faults.clock import until
from galleries import gallery_of
from test_kiosk_loop import LABELS, Turns
from test_kiosk_parts import Thread
from viewer import engine_of

from realtime_lrp.commands.kiosk.pages import (
    ANSWER_S,
    CONCEPT_S,
    FORGIVEN_S,
    ConceptTurns,
    ShownConcept,
)
from realtime_lrp.engine import gallery as gallery_module
from realtime_lrp.engine.result import ConceptMap, ConceptRequest, ConceptResult
from realtime_lrp.view.exhibit import Pictures, TextBlock

CHANNELS = ((5, 0.4), (9, -0.3), (2, 0.2), (7, 0.1))


def shown_channel(channel, name=""):
    """A channel with six pictures, each of one colour."""
    pictures = (np.full((48, 48, 3), 30 * n, np.uint8) for n in range(1, 7))
    return ShownConcept(channel, name, Pictures(tuple(pictures)))


def course(turns, seconds, answer=0, channels=CHANNELS, start=0.0, step=0.5):
    """What is shown at each time: (when it began, the channel or None)."""
    found = []
    for now in np.arange(start, start + seconds, step):
        turns.update(answer(now) if callable(answer) else answer, channels, now)
        channel = turns.shown and turns.shown.channel
        if not found or found[-1][1] != channel:
            found.append((now, channel))
    return found


def test_the_two_largest_channels_take_turns_with_the_answer():
    """Only those that speak for it; each stays for some seconds."""
    first, second = ANSWER_S, ANSWER_S + CONCEPT_S
    again = second + CONCEPT_S
    assert course(ConceptTurns(shown_channel), again + 2 * ANSWER_S - 4) == [
        (0.0, None), (first, 5), (second, 2), (again, None), (again + ANSWER_S, 5),
    ]  # fmt: skip


def test_a_channel_stays_while_others_overtake_it():
    """The largest share changes with every map."""
    turns = ConceptTurns(shown_channel)
    course(turns, ANSWER_S + 1)
    assert turns.shown.channel == 5
    for number in range(10):
        turns.update(0, ((20 + number, 0.9),), ANSWER_S + 1 + number / 2)
        assert turns.shown.channel == 5


def test_without_channels_the_page_is_left_out_until_its_next_turn():
    """None come, none speaks for the answer, or none has a name or pictures."""
    for channels, describe in (((), shown_channel), (((5, -0.4),), shown_channel),
                               (CHANNELS, lambda channel: None)):  # fmt: skip
        turns = ConceptTurns(describe)
        assert course(turns, 3 * ANSWER_S, channels=channels) == [(0.0, None)]


def test_another_answer_ends_the_page_and_a_short_gap_does_not():
    """Hands move: an answer that is gone for a moment comes back."""
    turns = ConceptTurns(shown_channel)
    course(turns, ANSWER_S + 2)
    now = ANSWER_S + 2
    turns.update(None, (), now)
    turns.update(None, (), now + FORGIVEN_S - 0.6)
    assert turns.shown.channel == 5
    turns.update(0, CHANNELS, now + FORGIVEN_S)
    turns.update(1, CHANNELS, now + FORGIVEN_S + 0.1)
    assert turns.shown is None
    course(turns, ANSWER_S + 2, answer=1, start=now + FORGIVEN_S + 0.1)
    turns.update(None, (), now + ANSWER_S + 3 * FORGIVEN_S + 2)
    assert turns.shown is None


def texts_of(elements):
    """The texts above the buttons."""
    return [one.text for one in elements if isinstance(one, TextBlock)]


def own_map(channel, share, column):
    """The map of a channel that looks at one column."""
    strength = np.zeros((8, 8), np.int8)
    strength[:, column] = 127
    return ConceptMap(strength, 1.0, share, abs(share), lambda: None, channel, share, share)


class Visit(Turns):
    """An exhibit with a visitor who holds up a heart, in the state active."""

    def __init__(self, monkeypatch, gallery):
        def load(*words):
            if isinstance(gallery, Exception):
                raise gallery
            return gallery

        monkeypatch.setattr(gallery_module, "gallery_of", load)
        super().__init__(monkeypatch, "kiosk.concepts=true")
        engine = Thread.made[-1].engine = engine_of(LABELS)
        engine.concepts = SimpleNamespace(layers=("conv",))
        engine.explainer.channel_counts = lambda: {"conv": 16}
        self.turn(heart=1.0)
        until(lambda: self.turn(0.05, present=True, heart=1.0) == "active" and self.kiosk._shown)

    @property
    def asked(self):
        """The channels that the network is asked for."""
        return Thread.made[-1].request.concepts

    def until(self, condition, seconds):
        """Lets the visitor hold up the heart until something holds."""
        end = self.now + seconds
        while not condition():
            assert self.now < end
            self.turn(0.2, present=True, heart=1.0)

    def drawn(self):
        """The maps over the picture, or None."""
        return self.kiosk.screen.explained

    def words(self):
        """What the page says."""
        return texts_of(self.kiosk.screen.page.top)


def test_the_exhibit_asks_for_channels_and_shows_them(monkeypatch):
    """First the answer, then channel 5 with its own map over the picture, then 2 by its name."""
    visit = Visit(monkeypatch, gallery_of("conv", 16, names={2: "round strokes"}))
    assert visit.asked is None
    visit.until(lambda: visit.asked, ANSWER_S)
    assert visit.asked == ConceptRequest("conv", None)
    assert "heart" in visit.words()
    maps = own_map(9, -0.5, 0), own_map(7, 0.4, 1), own_map(5, 0.3, 2), own_map(2, 0.1, 6)
    visit.concepts = ConceptResult("conv", maps, 16)
    visit.until(lambda: visit.kiosk.page.request, ANSWER_S)
    assert visit.asked.channel == 5, "the largest that speaks for the answer and has pictures"
    assert visit.words()[1] == "what these pictures have in common"
    assert visit.drawn() is None, "no longer the map of the answer"
    visit.turn(0.2, present=True, heart=1.0)
    assert visit.drawn().panels[0].intensity.sum(0).argmax() == 2
    visit.until(lambda: visit.asked.channel == 2, CONCEPT_S + 1)
    assert visit.words()[1:3] == ["round strokes", "It took part in the answer “heart”."]
    visit.until(lambda: visit.asked is None, CONCEPT_S + 1)
    assert "heart" in visit.words() and visit.drawn() is None
    visit.turn(0.2, present=True, heart=1.0)
    assert visit.drawn().panels[0].intensity.max() == 0
    visit.kiosk.end()
