"""The exhibit's page about single channels: when it is shown, what it says, how it looks."""

import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import load_captions, wrong_captions
from realtime_lrp.commands.kiosk.concepts import (
    ANSWER_S,
    CONCEPT_S,
    FORGIVEN_S,
    WAIT_S,
    ConceptTurns,
    ShownConcept,
)
from realtime_lrp.commands.kiosk.pages import PageBuilder
from realtime_lrp.config import ASSETS
from realtime_lrp.view import elements as elements_module
from realtime_lrp.view.elements import Pictures, TextBlock
from realtime_lrp.view.exhibit import PageArtist, layout_of
from realtime_lrp.view.text import text_width

LANGUAGES = ("en", "de", "fr", "es", "zh")
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


def test_channels_are_computed_only_while_the_page_is_due():
    """Not without an answer, and not while the answer's own page is shown."""
    turns = ConceptTurns(shown_channel)
    assert not turns.wanted(1000.0)
    turns.update(0, (), 0.0)
    assert [turns.wanted(now) for now in (0.0, 5.0, ANSWER_S - 1, ANSWER_S)] == [0, 0, 1, 1]
    course(turns, ANSWER_S + 2 * CONCEPT_S + 1)
    assert not turns.wanted(ANSWER_S + 2 * CONCEPT_S + 1)


def test_without_channels_the_page_is_left_out_until_its_next_turn():
    """None come, none speaks for the answer, or none has a name or pictures."""
    long = ANSWER_S + WAIT_S + 1
    for channels, describe in (((), shown_channel), (((5, -0.4),), shown_channel),
                               (CHANNELS, lambda channel: None)):  # fmt: skip
        turns = ConceptTurns(describe)
        assert course(turns, long, channels=channels) == [(0.0, None)]
        assert not turns.wanted(long)


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


@pytest.fixture(scope="module")
def pages():
    """The pages in all languages."""
    return PageBuilder(load_captions(LANGUAGES, None), True, "fire", False)


def texts_of(page):
    """The texts above the buttons."""
    return [one.text for one in page.top if isinstance(one, TextBlock)]


def test_the_page_says_what_the_channel_answers_to(pages):
    """By its name, or by its pictures; a curator's captions translate names."""
    assert texts_of(pages.concept(0, shown_channel(5, "round strokes"))) == [
        "This part of the network answers to:",
        "round strokes",
        "The bright colours show where it found that in your picture.",
    ]
    assert texts_of(pages.concept(0, shown_channel(5)))[1] == "what these pictures have in common"
    german = pages.captions[1]
    texts = german.concepts.model_copy(update={"names": {"round strokes": "runde Striche"}})
    translated = PageBuilder(
        (german.model_copy(update={"concepts": texts}),), True, "fire", False
    ).concept(0, shown_channel(5, "round strokes"))
    assert texts_of(translated)[1] == "runde Striche"


@pytest.mark.parametrize("size", [(1080, 1920), (1920, 1080), (480, 640), (600, 1024)])
def test_the_page_fits_and_shows_all_six_pictures(pages, size, monkeypatch):
    """In all languages, with long names; pictures keep their colours and do not overlap."""

    def uncut(text, width, letters):
        assert text_width(text, letters) <= width, text
        return text

    monkeypatch.setattr(elements_module, "fitted", uncut)
    layout = layout_of(size, swapped=False)
    x0, y0, x1, y1 = layout.text
    for language in range(len(LANGUAGES)):
        for name in ("", "rim", "whiskers and other thin hair"):
            canvas, artist = np.zeros((*size, 3), np.uint8), PageArtist()
            artist.draw(canvas, layout, pages.concept(language, shown_channel(5, name)))
            part = canvas[y0:y1, x0:x1]
            areas = [int((part == 30 * n).all(-1).sum()) for n in range(1, 7)]
            assert min(areas) > 0.95 * max(areas) > (min(size) / 16) ** 2
            assert len(artist.buttons) == 1 + len(LANGUAGES)


def test_captions_of_ones_own_need_the_texts_only_with_the_page(tmp_path):
    """As those about phones; the message says what to copy."""
    english = (ASSETS / "captions" / "en.yaml").read_text(encoding="utf-8")
    begin, end = english.index("concepts:\n"), english.index("# Phones")
    (tmp_path / "en.yaml").write_text(english[:begin] + english[end:])

    def problems(*sets):
        sets = "kiosk.languages=[en]", f"kiosk.captions={tmp_path}", *sets
        chosen = config.load(sets=sets, command="kiosk").config
        return [str(error) for _, error in wrong_captions(chosen)]

    assert problems() == []
    assert problems("kiosk.concepts=true") == [
        "the captions 'en' have no section 'concepts', which kiosk.concepts needs; copy it from "
        "en.yaml"
    ]
