"""What the exhibit draws, and how it reacts to keys and touches."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from viewer import LOOK

from realtime_lrp import config
from realtime_lrp.commands.kiosk.games import PAGES
from realtime_lrp.commands.kiosk.keys import PRIVACY_S, VisitorChoices
from realtime_lrp.commands.kiosk.pages import Moment, drawn_page
from realtime_lrp.commands.kiosk.settings import captions_of, wrong_settings
from realtime_lrp.commands.kiosk.states import KEEP, ScreenState, SeenThing, SmoothedAnswer
from realtime_lrp.config import Config, read_file
from realtime_lrp.config.problems import problems_of
from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.realtime.viewer.lecture import words_for
from realtime_lrp.relevance.maps.targets import TARGETS
from realtime_lrp.view import exhibit as exhibit_module
from realtime_lrp.view import keys
from realtime_lrp.view.exhibit import DRIFT, Screen, ScreenArtist
from realtime_lrp.view.text import text_width, undrawable
from realtime_lrp.view.window import Mouse

LANGUAGES = ("en", "de", "fr", "es", "zh")
CAPTIONS = [captions_of(language) for language in LANGUAGES]


class Pages:
    """The pages for a network that knows symbols, or objects, and has signed maps or not."""

    def __init__(self, drawing=True, signed=False):
        chosen = config.load(sets=(f"model.name={'shapes' if drawing else 'vgg16'}",)).config
        pages = [page(chosen) for page in PAGES if not page.setting]
        self._idle, self._answer, self._attract = pages
        self._engine = SimpleNamespace(explainer=SimpleNamespace(signed=signed))

    def drawn(self, page, language, state, now, **more):
        """A page as it is drawn, `now` seconds after the state began."""
        moment = Moment(now, state, 0.0, 10.0, "camera", CAPTIONS[language], self._engine, **more)
        page.update(moment)
        return drawn_page(page, moment, CAPTIONS)

    def attract(self, language, now):
        return self.drawn(self._attract, language, ScreenState.ATTRACT, now)

    def active(self, language, answer, seconds):
        return self.drawn(self._answer, language, ScreenState.ACTIVE, seconds, answer=answer)

    def idle(self, language):
        return self.drawn(self._idle, language, ScreenState.IDLE, 0.0)


@pytest.fixture(scope="module")
def exhibit():
    return Pages()


def answer(name, share):
    return SeenThing(0, name, share, share >= 0.5)


def every_page():
    """All pages in all languages, with the longest of their texts."""
    for one in (Pages(), Pages(drawing=False, signed=True)):
        for language in range(len(LANGUAGES)):
            yield from (one.attract(language, 6.0 * n) for n in range(5))
            yield from (one.active(language, answer("lightning", 0.5), 12.0 * n) for n in range(6))
            yield one.active(language, None, 0.0)
            yield one.active(language, answer("american staffordshire terrier, pit bull", 0.3), 0.0)
            yield one.idle(language)


@pytest.mark.parametrize("size", [(720, 1280), (480, 640), (1280, 720)])
def test_every_page_fits(size, monkeypatch):

    def uncut(text, width, letters):
        assert text_width(text, letters) <= width, text
        return text

    monkeypatch.setattr(exhibit_module, "fitted", uncut)
    _, box = exhibit_module.layout_of(size, margin=round(DRIFT * min(size)))
    x0, y0, x1, y1 = box
    canvas = np.zeros((*size, 3), np.uint8)
    for page in every_page():
        buttons = exhibit_module.draw_page(canvas, box, page)
        part = canvas[y0:y1, x0:x1]
        edges = part[:3], part[-3:], part[:, :3], part[:, -3:]
        assert all((edge == exhibit_module.BACKGROUND).all() for edge in edges), page
        assert len(buttons) == 1 + len(LANGUAGES)
        for left, top, right, bottom in buttons.values():
            assert x0 <= left < right <= x1 and y0 <= top < bottom <= y1


def view_of(exhibit, now, made=None, **more):
    picture = np.full((480, 640, 3), 90, np.uint8)
    picture[:, :320] = (0, 255, 0)
    return Screen(picture, made, exhibit.attract(0, now), **more)


def test_an_old_answer_is_marked(exhibit):
    now, old = (
        exhibit.drawn(
            exhibit._answer, 0, ScreenState.ACTIVE, 0.0, answer=answer("star", 0.9), old=old
        )
        for old in (False, True)
    )
    said = [
        [one for one in page.top if isinstance(one, exhibit_module.TextBlock)][:2]
        for page in (now, old)
    ]
    assert [(head.text, name.colour) for head, name in said] == [
        (CAPTIONS[0]["answer"], exhibit_module.ACCENT), (CAPTIONS[0]["before"], exhibit_module.SOFT)
    ]  # fmt: skip


def test_nothing_burns_in(exhibit):
    stage = ScreenArtist(replace(LOOK, colormap="fire", motion="hold"))
    dark = tuple(CAPTIONS[0]["cards"]["dark"].values())

    def mask(now, **more):
        canvas = stage.draw((720, 1280), view_of(exhibit, 0.0, **more), now)
        return (canvas == exhibit_module.ACCENT).all(-1)

    def places(**more):
        where = [np.argwhere(mask(now, **more)).mean(axis=0) for now in range(0, 600, 60)]
        return np.ptp(where, axis=0)

    assert (places() > 5).all()
    assert (places(card=dark) > 40).all()


def test_a_visitor_gets_the_language_of_the_last_touch_or_the_first():
    visitor = VisitorChoices(5, now=0.0)
    assert visitor.language(20.0) == 1
    visitor.visitor_came(20.0)
    assert [visitor.language(now) for now in (20.0, 500.0)] == [0, 0]
    visitor.handle(["4"], {}, 500.0)
    visitor.visitor_came(600.0)  # again, after a fault
    assert visitor.language(900.0) == 3
    visitor.visitor_left(1000.0)
    assert [visitor.language(now) for now in (1000.0, 1016.0)] == [0, 1]
    visitor.handle(["3"], {}, 1020.0)
    visitor.visitor_came(1030.0)
    assert visitor.language(2000.0) == 2, "chosen just before they were seen"
    visitor.visitor_left(3000.0)
    visitor.handle(["3"], {}, 3000.0)
    visitor.visitor_came(3100.0)
    assert visitor.language(3100.0) == 0, "chosen by somebody else"


def test_a_touch_beside_the_buttons_points_at_a_place_of_the_picture(exhibit):
    stage, picture = ScreenArtist(LOOK), np.zeros((120, 160, 3), np.uint8)
    picture[30:34, 100:104] = (0, 255, 0)
    screen = replace(view_of(exhibit, 0.0), picture=picture, explained=None)
    canvas = stage.draw((720, 1280), screen, 0.0)
    y, x = np.argwhere((canvas == (0, 255, 0)).all(-1)).mean(0).round().astype(int).tolist()
    assert stage.place_at(x, y) == pytest.approx((102 / 160, 32 / 120), abs=0.01)
    assert stage.place_at(1279, y) is None
    visitor = VisitorChoices(2, 0.0)
    visitor.handle([Mouse(60, 10, "left")], {"privacy": (50, 0, 100, 50)}, 1.0)
    assert visitor.beside is None
    visitor.handle([Mouse(60, 10, ""), Mouse(x, y, "left")], {}, 30.0)
    assert visitor.beside == (x, y)


def test_the_privacy_card_comes_and_goes():
    visitor, places = VisitorChoices(2, 0.0), {"privacy": (50, 0, 100, 50)}
    visitor.handle(["p"], places, 10.0)
    assert visitor.privacy(10.0 + PRIVACY_S - 0.1) and not visitor.privacy(10.0 + PRIVACY_S)
    visitor.handle(["x"], places, 11.0)
    assert not visitor.privacy(11.0)
    visitor.handle([Mouse(60, 10, "left"), Mouse(61, 10, "left")], places, 20.0)
    assert visitor.privacy(20.0)
    visitor.handle([Mouse(61, 10, "left"), Mouse(62, 10, ""), Mouse(5, 300, "left")], places, 21.0)
    assert not visitor.privacy(21.0)


def map_of(time_s, target="top1", **scores):
    labels = list(scores)
    found, network = np.array([*scores.values()], np.float32), SimpleNamespace(labels=labels)
    return SimpleNamespace(
        result=SimpleNamespace(found=None, segments=None, scores=found),
        frame=SimpleNamespace(time=time_s), request=SimpleNamespace(target=target, box=None),
        engine=SimpleNamespace(label=labels.__getitem__, network=network),
    )  # fmt: skip


def told(smoothed):
    """Name and sureness of the present answer, or None."""
    return smoothed.answer and (smoothed.answer.name, smoothed.answer.sure)


def test_a_sure_answer_comes_quickly_and_does_not_flicker():
    smoothed = SmoothedAnswer(0.5, None, True)
    for k in range(30):
        one_off = k == 15
        smoothed.update(map_of(k / 30, heart=0.1 if one_off else 0.9, star=0.9 if one_off else 0.1))
        assert told(smoothed) == ("heart", True)
    for k in range(30, 45):
        smoothed.update(map_of(k / 30, heart=0.1, star=0.9))
    assert told(smoothed) == ("star", True) and 0.5 < smoothed.answer.share < 0.9


def test_there_are_sure_answers_unsure_ones_and_none():
    for perhaps, scores, expected in (
        (None, {"cup": 0.5, "bottle": 0.2}, ("cup", True)),
        (None, {"cup": 0.49, "bottle": 0.2}, ("cup", False)),
        (None, {"cup": 0.1, "bottle": 0.05}, ("cup", False)),
        (None, {"cup": 0.099, "bottle": 0.05}, None),
        (0.02, {"cup": 0.03, "bottle": 0.01}, ("cup", False)),
        (1.0, {"cup": 0.49, "bottle": 0.01}, None),
        (None, {"heart": 0.51, "nothing": 0.49}, ("heart", True)),
        (None, {"heart": 0.49, "star": 0.26, "nothing": 0.25}, None),
        (0.3, {"heart": 0.49, "star": 0.26, "nothing": 0.25}, ("heart", False)),
        (0.3, {"heart": 0.2, "nothing": 0.8}, None),
        (0.3, {"heart": 0.4, "nothing": 0.45}, None),
    ):
        smoothed = SmoothedAnswer(0.5, perhaps, True)
        for seconds in (0.0, 1.0):  # nor does one that stays become another
            smoothed.update(map_of(seconds, **scores))
            assert told(smoothed) == expected, scores


def test_an_unsure_answer_stays_until_another_one_leads_by_half():
    smoothed = SmoothedAnswer(0.5, None, True)
    for k, (cup, bottle) in enumerate([(0.3, 0.2)] + [(0.2, 0.28)] * 200):
        smoothed.update(map_of(float(k), cup=cup, bottle=bottle))
        assert told(smoothed) == ("cup", False)
    for k in range(201, 400):
        smoothed.update(map_of(float(k), cup=0.2, bottle=0.32))
    assert told(smoothed) == ("bottle", False)


def test_unsure_answers_follow_a_change_within_two_seconds():
    smoothed = SmoothedAnswer(0.5, 0.1, True)
    times = iter(np.arange(0.0, 60.0, 1 / 15))

    def seconds_until(expected, **scores):
        begin = now = next(times)
        while told(smoothed) != expected:
            smoothed.update(map_of(now, **scores))
            now = next(times)
        return now - begin

    assert seconds_until(("cup", False), cup=0.2, bottle=0.01) < 0.1
    assert 0.3 < seconds_until(("bottle", False), cup=0.01, bottle=0.2) < 2.0
    assert 0.3 < seconds_until(None, cup=0.01, bottle=0.01) < 2.0
    assert seconds_until(("cup", False), cup=0.2, bottle=0.01) < 1.0
    for _ in range(60):
        smoothed.update(map_of(next(times), cup=0.1 * KEEP + 0.001, bottle=0.01))
    assert told(smoothed) == ("cup", False)
    assert seconds_until(None, cup=0.1 * KEEP - 0.001, bottle=0.01) < 10.0


def test_only_a_map_that_explains_the_answer_belongs_to_it():
    smoothed = SmoothedAnswer(0.5, None, True)
    last = map_of(9.0, cup=0.6, bottle=0.1)
    assert not smoothed.belongs_to(last) and not smoothed.belongs_to(None)
    smoothed.update(last)
    assert smoothed.belongs_to(last)
    assert not smoothed.belongs_to(map_of(9.1, cup=0.1, bottle=0.7))
    assert smoothed.belongs_to(map_of(9.1, "0", cup=0.1, bottle=0.7))
    assert not smoothed.belongs_to(map_of(9.1, "1", cup=0.6, bottle=0.1))
    assert smoothed.belongs_to(map_of(9.1, "all", cup=0.1, bottle=0.7))


def test_an_answer_is_what_its_map_explains():
    for follows in (True, False):
        smoothed = SmoothedAnswer(0.5, None, follows)
        smoothed.update(map_of(0.0, cup=0.3, bottle=0.1, pen=0.0))
        for time_s, late, seen, scores in (
            (9.0, "0", "bottle", (0.1, 0.3, 0.0)),
            (18.0, "1", "pen", (0.0, 0.1, 0.3)),
            (27.0, "2", "pen", (0.0, 0.1, 0.3)),
        ):
            explained = map_of(
                time_s, late, **dict(zip(("cup", "bottle", "pen"), scores, strict=True))
            )
            smoothed.update(explained)
            assert smoothed.seen.name == seen
            assert smoothed.answer.index == (int(late) if follows else smoothed.seen.index)
            assert smoothed.belongs_to(explained) == (follows or late == "2")


INCLUDED = Path(__file__).parents[1] / "assets" / "captions"
ENGLISH = (INCLUDED / "en.yaml").read_text(encoding="utf-8")


def flat(value, at=()):
    """The texts of captions: (names, number) -> text."""
    if isinstance(value, str):
        return {at: value}
    pairs = enumerate(value) if isinstance(value, list) else value.items()
    return {key: text for name, one in pairs for key, text in flat(one, (*at, name)).items()}


def told_of(folder, *languages):
    """The lines of the error about a folder, without its path."""
    chosen = Config().changed(kiosk={"languages": [*languages] or ["en"], "captions": str(folder)})
    found = [one for path, error in wrong_settings(chosen) for one in problems_of(path, error, {})]
    return [f"{one.location}: {one.text}".replace(f"{folder}/", "") for one in found]


def written(folder, old, new, name="en.yaml"):
    assert ENGLISH.count(old) == 1, old
    (folder / name).write_text(ENGLISH.replace(old, new), encoding="utf-8")
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_included_language_has_what_english_has(language):
    english, other = captions_of("en"), captions_of(language)
    texts = flat(other)
    assert texts.keys() == flat(english).keys()
    hints = "attract_drawing", "attract_objects", "try_drawing", "try_objects"
    assert min(len(other[name]) for name in hints) >= 2
    counted = {key for key, text in flat(english).items() if "{seconds}" in text}
    assert {key for key, text in texts.items() if "{seconds}" in text} == counted
    assert not undrawable("".join(texts.values()))
    assert [*other["labels"]] == [*CLASSES[:-1]]
    if language != "en":
        same = {key for key in texts if texts[key] == flat(english)[key]}
        assert same <= {("labels", "smiley"), ("labels", "triangle")}


def test_a_folder_overrides_only_its_languages(tmp_path):
    written(tmp_path, "name: English", "name: Plain English")
    written(tmp_path, "name: English", "name: Wienerisch", "de-AT.yaml")
    captions = [captions_of(language, str(tmp_path)) for language in ("en", "de-AT", "de")]
    assert [one["name"] for one in captions] == ["Plain English", "Wienerisch", "Deutsch"]


def test_a_mistake_is_reported_with_its_line_and_key(tmp_path):
    for old, new, message in (
        ("nothing: Nothing", "nothing: # Nothing", "nothing: expected a text, in quotes where"),
        ("- Come closer", "- Come: closer", "attract: expected a text, in quotes where"),
        ("wave: Wave!", "wave: Wave {name}", "wave: expected no braces other than {seconds};"),
        ("button: Privacy", "button: \u4f60\u597d \u0e01 and \U0001f600\U0001f600",
         "privacy.button: the font cannot draw \u0e01 (U+0E01), \U0001f600 (U+1F600); expected"),
        ("heart: heart", "heart: \u05dc\u05d1", "labels.heart: text is drawn left to right"),
        ("star: star", "heart: sun", "labels.heart: is set twice; keep one of them"),
    ):  # fmt: skip
        written(tmp_path, old, new)
        where = ENGLISH.index("heart: heart" if "twice" in message else old)
        line = ENGLISH[:where].count("\n") + 1
        (told,) = told_of(tmp_path)
        assert told.startswith(f"en.yaml:{line}: {message}")


def test_a_lecture_names_each_channel_and_class_of_the_included_networks_in_its_language():
    assets = INCLUDED.parent
    named = read_file(assets / "shapes.names.yaml", texts=True).values
    for file in (assets / "words").glob("*.yaml"):
        table = read_file(file, texts=True).values
        assert not {name for layer in named.values() for name in layer.values()} - set(table)
        assert all(english.count("{}") == text.count("{}") for english, text in table.items())
        assert not undrawable("".join(table.values()))
        words = words_for(file.stem)
        known = {words(name) for name in CLASSES}
        assert known == set(captions_of(file.stem)["labels"].values()) | {words("nothing")}


def test_a_lecture_has_each_command_and_button_in_its_language_and_finds_them_there():
    words = words_for("de")
    known = [one for one in keys.commands(TARGETS) if one.action != "composite"]
    told = [one.meaning for one in known] + [one.button for one in known if one.button]
    assert [text for text in told if words(text) == text] == []
    german = [replace(one, meaning=words(one.meaning)) for one in known]
    assert keys.find("Umriss", german)[0].name == "style:contour"
