"""The captions of the exhibit: one file of texts for each language, checked before they are shown.

A text is what stands in the file, whatever YAML would make of it ("no" is a word), with each run
of spaces and line ends as one space. assets/captions/en.yaml says what each text is for.
"""

import math
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from realtime_lrp import config
from realtime_lrp.config import Problem, Where, located_problems, read_file, refusal
from realtime_lrp.errors import ConfigError, Error, nearest

INCLUDED = config.ASSETS / "captions"

SECONDS = "{seconds}"
"""What a number of seconds is put for."""


def _counted(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a text, in quotes where it has a colon or a # in it")
    text = re.sub(r"[ \t\n]+", " ", value).strip(" ")
    if troubles := "; ".join(_troubles(text, bool(info.context))):
        raise ValueError(troubles)
    return text


def _plain(value: Any, info: ValidationInfo) -> str:
    text = _counted(value, info)
    if SECONDS in text:
        raise ValueError(f"there is no number to put for {SECONDS} here; write the text without it")
    return text


def _troubles(text: str, included: bool) -> Iterator[str]:
    """What keeps a text from being shown as it is meant.

    A test holds that the font draws the included texts, so OpenCV is not imported for them.
    """
    if re.search("[{}\uff5b\uff5d]", text.replace(SECONDS, "")):
        yield f"expected no braces other than {SECONDS}"
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text):
        yield "lines are set from left to right; expected a script that is written so"
    elif not included and (missing := _missing_in_font(text)):
        named = ", ".join(map(_named, missing[:10])) + (", ..." if missing[10:] else "")
        yield f"the font cannot draw {named}; expected other characters"


def _missing_in_font(text: str) -> str:
    """The characters that the font cannot draw; OpenCV, which knows, is imported only here."""
    from realtime_lrp.view.text import undrawable

    return undrawable(text)


def _named(letter: str) -> str:
    number = f"U+{ord(letter):04X}"
    return f"{letter} ({number})" if letter.isprintable() else number


def _list(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of texts, each in a line that begins with a dash")
    return tuple(value)


Text = Annotated[str, BeforeValidator(_plain)]
Counted = Annotated[str, BeforeValidator(_counted)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_list)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Card(_Part):
    """What is wrong, in plain words, and when it will be over."""

    title: Text
    text: Text


class CountedCard(Card):
    """A card whose text may have `{seconds}`."""

    text: Counted


class Cards(_Part):
    """The card of each trouble."""

    starting: Card
    camera: CountedCard
    staff: Card
    frozen: Card
    dark: Card
    slow: CountedCard
    hot: CountedCard
    network: CountedCard


class Privacy(_Part):
    """The privacy card, and the words that lead to it."""

    button: Text
    title: Text
    text: Text


class Leave(_Part):
    """What the staff reads."""

    title: Text
    pin: Text
    wrong: Text
    wait: Counted


class _File(_Part):
    name: Text
    attract: Texts
    attract_drawing: Texts
    attract_objects: Texts
    answer: Text
    nothing: Text
    colours: Text
    colours_signed: Text
    little: Text
    much: Text
    against: Text
    try_: Text = Field(alias="try")
    try_drawing: Texts
    try_objects: Texts
    still_there: Text
    wave: Counted
    cards: Cards
    privacy: Privacy
    leave: Leave
    labels: dict[str, Text]


class Captions(_File):
    """The captions of a language; `try` of the file is `try_`.

    Attributes:
      code: the language, as its file is called.
    """

    code: str

    def label(self, name: str) -> str:
        """The name of a class in this language, or as it is, underscores as spaces."""
        return self.labels.get(name, name.replace("_", " "))


def load_captions(languages: Sequence[str], folder: Path | None) -> tuple[Captions, ...]:
    """The captions of some languages, in their order.

    Args:
      languages: their codes, such as "en".
      folder: where LANGUAGE.yaml is looked for first; None, or a language that it lacks: among
        the included ones.

    Raises:
      ConfigError: a language or a text cannot be used; the message lists every problem.
    """
    found = list(_each(languages, folder))
    if wrong := [(where, one) for where, one in found if isinstance(one, Error)]:
        raise refusal([problem for one in wrong for problem in located_problems(*one)])
    return tuple(one for _, one in found if isinstance(one, Captions))


def wrong_captions(chosen: config.Config) -> Iterator[tuple[Where, Error]]:
    """Yields what `captions_of` refuses, and where that stands in the configuration."""
    for where, one in _each(chosen.kiosk.languages, folder_of(chosen)):
        if isinstance(one, Error):
            yield where, one


def folder_of(chosen: config.Config) -> Path | None:
    """The folder of captions that a configuration names, or None."""
    return Path(chosen.kiosk.captions) if chosen.kiosk.captions else None


def captions_of(chosen: config.Config) -> tuple[Captions, ...]:
    """`load_captions` of what a configuration names."""
    return load_captions(chosen.kiosk.languages, folder_of(chosen))


def with_seconds(text: str, seconds: float) -> str:
    """A text with a number for `{seconds}`: whole, rounded up, at least 1.

    What stands behind it, its unit, stays in the same line.
    """
    number = str(max(1, math.ceil(seconds)))
    return text.replace(f"{SECONDS} ", f"{number}\xa0").replace(SECONDS, number)


def _each(
    languages: Sequence[str], folder: Path | None
) -> Iterator[tuple[Where, Captions | Error]]:
    """Yields where a language stands in the configuration, and its captions or their refusal."""
    if folder and not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        error = ConfigError(f"expected a folder that can be read; received {folder}")
        yield ("kiosk", "captions"), error
        return
    for number, code in enumerate(languages):
        try:
            captions: Captions | Error = _captions(code, folder)
        except Error as error:
            captions = error
        yield ("kiosk", "languages", number), captions


def _captions(code: str, folder: Path | None) -> Captions:
    folders = [one for one in (folder, INCLUDED) if one]
    if not re.fullmatch("[A-Za-z0-9_-]{1,40}", code):
        raise ConfigError(f"expected letters, digits, - and _; received {code!r}")
    file = next((f for one in folders if (f := one / f"{code}.yaml").is_file()), None)
    if not file:
        known = sorted({one.stem for folder in folders for one in folder.glob("*.yaml")})
        raise ConfigError(f"there is no {code}.yaml in {folders[0]}; there are {', '.join(known)}")
    return Captions.model_construct(code=code, **dict(_read(file)))


def _read(file: Path) -> _File:
    """The texts of a file.

    Raises:
      ConfigError: it lists all that is wrong with them.
    """
    tree = read_file(file, texts=True)
    problems, places = tree.problems, tree.places
    if not isinstance(tree.values, dict):
        words = "expected names such as 'nothing:' with texts behind them"
        raise refusal(problems or [Problem(places[()], words)])
    try:
        texts = _File.model_validate(tree.values, context=file.parent == INCLUDED)
    except ValidationError as error:
        problems += [_problem(detail, places) for detail in error.errors()]
    if problems:
        raise refusal(problems)
    return texts


def _problem(detail: Mapping[str, Any], places: Mapping[Where, str]) -> Problem:
    """One error of pydantic's."""
    at, key = detail["loc"], config.key_of(detail["loc"])
    place = next(places[at[:n]] for n in range(len(at), -1, -1) if at[:n] in places)
    if detail["type"] == "extra_forbidden":
        close = nearest(key, _legal_keys(_File))
        hint = f"; did you mean {close!r}?" if close else ""
        return Problem(place, f"there is no key {key!r}{hint}")
    if detail["type"] == "missing":
        return Problem(place, f"{key}: is missing")
    if detail["type"] in ("model_type", "dict_type"):
        return Problem(place, f"{key}: is a section; expected keys under it")
    return Problem(place, f"{key}: {detail['msg'].removeprefix('Value error, ')}")


def _legal_keys(part: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in part.model_fields.items():
        key = prefix + (field.alias or name)
        yield key
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _legal_keys(field.annotation, f"{key}.")
