"""Captions: every language complete and drawable, every mistake reported with its line."""

from pathlib import Path

import pytest

from realtime_lrp.commands.kiosk.settings import load_captions, wrong_captions
from realtime_lrp.config import Config, read_file
from realtime_lrp.config.problems import problems_of
from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.realtime.viewer.words import words_for
from realtime_lrp.view.text import undrawable

LANGUAGES = ("en", "de", "fr", "es", "zh")
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
    found = [one for path, error in wrong_captions(chosen) for one in problems_of(path, error, {})]
    return [f"{one.location}: {one.text}".replace(f"{folder}/", "") for one in found]


def written(folder, old, new, name="en.yaml"):
    """Writes the English captions with one change."""
    assert ENGLISH.count(old) == 1, old
    (folder / name).write_text(ENGLISH.replace(old, new), encoding="utf-8")
    return folder


def line_of(text):
    """The line of a text in the English file."""
    return ENGLISH[: ENGLISH.index(text)].count("\n") + 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_included_language_has_what_english_has(language):
    """The same keys, enough hints, all symbols, `{seconds}` in the same texts, all drawable."""
    english, other = load_captions(["en", language], None)
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
    """Also new ones; the others are the included captions."""
    written(tmp_path, "name: English", "name: Plain English")
    written(tmp_path, "name: English", "name: Wienerisch", "de-AT.yaml")
    captions = load_captions(["en", "de-AT", "de"], str(tmp_path))
    assert [one["name"] for one in captions] == ["Plain English", "Wienerisch", "Deutsch"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nothing: Nothing", "nothing: # Nothing", "nothing: expected a text, in quotes where"),
        ("- Come closer", "- Come: closer", "attract: expected a text, in quotes where"),
        ("wave: Wave!", "wave: Wave {name}", "wave: expected no braces other than {seconds};"),
        ("button: Privacy", "button: \u4f60\u597d \u0e01 and \U0001f600\U0001f600",
         "privacy.button: the font cannot draw \u0e01 (U+0E01), \U0001f600 (U+1F600); expected"),
        ("heart: heart", "heart: \u05dc\u05d1", "labels.heart: text is drawn left to right"),
        ("star: star", "heart: sun", "labels.heart: is set twice; keep one of them"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line_and_key(tmp_path, old, new, message):
    """One line that says what was expected."""
    written(tmp_path, old, new)
    line = line_of("heart: heart" if "twice" in message else old)
    (told,) = told_of(tmp_path)
    assert told.startswith(f"en.yaml:{line}: {message}")


def test_a_lecture_names_each_channel_and_class_of_the_included_networks_in_its_language():
    """Each translation has the places of the English text and can be drawn."""
    assets = INCLUDED.parent
    named = read_file(assets / "shapes.names.yaml", texts=True).values
    for file in (assets / "words").glob("*.yaml"):
        table = read_file(file, texts=True).values
        channels = {name for layer in named.values() for name in layer.values()}
        assert not channels - set(table)
        assert all(english.count("{}") == text.count("{}") for english, text in table.items())
        assert not undrawable("".join(table.values()))
        words = words_for(file.stem)
        known = {words(name) for name in CLASSES}
        assert known == set(load_captions([file.stem])[0]["labels"].values()) | {words("nothing")}
