"""The captions of the exhibit: one YAML file for each language, checked when they are loaded.

All values are read as text ("no" is a word, not false); spaces and line ends become one space.
assets/captions/en.yaml says what each text is for.
"""

import math
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from realtime_lrp import config
from realtime_lrp.config import (
    KeyPath,
    Problem,
    as_error,
    problems_of,
    read_file,
    schema_problem,
)
from realtime_lrp.errors import ConfigError, Error

INCLUDED = config.ASSETS / "captions"

SECONDS, TIME, DAY, LABEL = "{seconds}", "{time}", "{day}", "{label}"
"""Placeholders: a number of seconds, a time such as 10:00, a day of the week, an answer."""


def _text_with(*placeholders: str) -> BeforeValidator:
    """Reads a text that may contain some placeholders.

    A test checks that the font draws the included texts, so OpenCV is not imported for them.
    """

    def read(value: Any, info: ValidationInfo) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError("expected a text, in quotes where it has a colon or a # in it")
        text = rest = re.sub(r"[ \t\n]+", " ", value).strip(" ")
        for placeholder in placeholders:
            rest = rest.replace(placeholder, "")
        if re.search("[{}\uff5b\uff5d]", rest):
            allowed = " other than " + " and ".join(placeholders) if placeholders else ""
            raise ValueError(f"expected no braces{allowed}")
        if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text):
            raise ValueError("text is drawn left to right; expected a script written that way")
        if not info.context and (missing := missing_in_font(text)):
            names = ", ".join(map(_character, missing[:10])) + (", ..." if missing[10:] else "")
            raise ValueError(f"the font cannot draw {names}; expected other characters")
        return text

    return BeforeValidator(read)


def missing_in_font(text: str) -> str:
    """The characters that the font cannot draw; OpenCV, which knows, is imported only here."""
    from realtime_lrp.view.text import undrawable

    return undrawable(text)


def _character(letter: str) -> str:
    number = f"U+{ord(letter):04X}"
    return f"{letter} ({number})" if letter.isprintable() else number


def _list(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of texts, each in a line that begins with a dash")
    return tuple(value)


def _seven(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) != 7:
        raise ValueError(f"expected 7 days, from Monday to Sunday; there are {len(value)}")
    return value


Text = Annotated[str, _text_with()]
TextWithSeconds = Annotated[str, _text_with(SECONDS)]
TextWithTime = Annotated[str, _text_with(TIME)]
TextWithLabel = Annotated[str, _text_with(LABEL)]
TextWithDayAndTime = Annotated[str, _text_with(DAY, TIME)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_list)]
Days = Annotated[tuple[Text, ...], BeforeValidator(_list), AfterValidator(_seven)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Card(_Section):
    """Explains a fault: what is wrong, and when it should be over."""

    title: Text
    text: Text


class CountdownCard(Card):
    """A card whose text may contain `{seconds}`."""

    text: TextWithSeconds


class Cards(_Section):
    """The card of each fault."""

    starting: Card
    camera: CountdownCard
    staff: Card
    frozen: Card
    dark: Card
    slow: CountdownCard
    hot: CountdownCard
    network: CountdownCard


class Closed(_Section):
    """The card outside the opening hours: when it opens, on the same day or later."""

    title: Text
    today: TextWithTime
    later: TextWithDayAndTime
    days: Days


class Privacy(_Section):
    """The privacy card, and the button that shows it."""

    button: Text
    title: Text
    text: Text


class Concepts(_Section):
    """The texts about one channel of the network, and translations of the channels' names."""

    part: Text
    nameless: Text
    took_part: TextWithLabel
    where: Text
    names: dict[str, Text] = {}


class Leave(_Section):
    """The texts of the PIN pad."""

    title: Text
    pin: Text
    wrong: Text
    wait: TextWithSeconds


class Captions(_Section):
    """The captions of one language; its keys `try` and `for` end with `_` here."""

    name: Text
    attract: Texts
    attract_drawing: Texts
    attract_objects: Texts
    answer: Text
    perhaps: Text
    nothing: Text
    colours: Text
    colours_signed: Text
    little: Text
    much: Text
    against: Text
    for_: Text = Field(alias="for")
    try_: Text = Field(alias="try")
    try_drawing: Texts
    try_answer_drawing: Texts
    try_objects: Texts
    try_answer_objects: Texts
    still_there: Text
    wave: TextWithSeconds
    cards: Cards
    closed: Closed
    privacy: Privacy
    concepts: Concepts | None = None
    leave: Leave
    labels: dict[str, Text]

    def label(self, name: str) -> str:
        """A class name in this language; untranslated ones as they are, underscores as spaces."""
        return self.labels.get(name, name.replace("_", " "))


def load_captions(languages: Sequence[str], folder: Path | None) -> tuple[Captions, ...]:
    """The captions of some languages, such as "en", in the same order.

    A folder is searched first for LANGUAGE.yaml; languages that it lacks are the included ones.

    Raises:
      ConfigError: a language or a text cannot be used; the message lists every problem.
    """
    loaded: list[Captions] = []
    problems: list[Problem] = []
    for where, result in _load_each(languages, folder):
        if isinstance(result, Captions):
            loaded.append(result)
        else:
            problems += problems_of(where, result)
    if problems:
        raise as_error(problems)
    return tuple(loaded)


def wrong_captions(chosen: config.Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong with a configuration's captions: the key, and the error.

    An optional section has to be there if the key of `kiosk` with its name is true.
    """
    for where, result in _load_each(chosen.kiosk.languages, folder_of(chosen)):
        if isinstance(result, Error):
            yield where, result
            continue
        for name, field in Captions.model_fields.items():
            wanted = not field.is_required() and getattr(chosen.kiosk, name)
            if wanted and getattr(result, name) is None:
                code = chosen.kiosk.languages[where[-1]]
                needs = f"which kiosk.{name} needs; copy it from en.yaml"
                yield where, ConfigError(f"the captions {code!r} have no section {name!r}, {needs}")


def folder_of(chosen: config.Config) -> Path | None:
    """The folder of captions that a configuration names, or None."""
    return Path(chosen.kiosk.captions) if chosen.kiosk.captions else None


def captions_of(chosen: config.Config) -> tuple[Captions, ...]:
    """The captions that a configuration names; see `load_captions`."""
    return load_captions(chosen.kiosk.languages, folder_of(chosen))


def with_seconds(text: str, seconds: float) -> str:
    """Replaces `{seconds}` by a number: whole, rounded up, at least 1.

    A no-break space keeps the number and its unit in one line.
    """
    number = str(max(1, math.ceil(seconds)))
    return text.replace(f"{SECONDS} ", f"{number}\xa0").replace(SECONDS, number)


def opening_text(captions: Captions, opens: datetime | None, now: datetime) -> str:
    """When the exhibit opens again, with the day if that is not today; "" if it never does."""
    if opens is None:
        return ""
    closed, time = captions.closed, f"{opens:%H:%M}"
    if opens.date() == now.date():
        return closed.today.replace(TIME, time)
    return closed.later.replace(DAY, closed.days[opens.weekday()]).replace(TIME, time)


def _load_each(
    languages: Sequence[str], folder: Path | None
) -> Iterator[tuple[tuple[Any, ...], Captions | Error]]:
    """Yields the configuration's key for each language, and its captions or the error."""
    if folder and not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        error = ConfigError(f"expected a folder that can be read; received {folder}")
        yield ("kiosk", "captions"), error
        return
    for number, code in enumerate(languages):
        where = ("kiosk", "languages", number)
        try:
            yield where, _captions(code, folder)
        except Error as error:
            yield where, error


def _captions(code: str, folder: Path | None) -> Captions:
    folders = [folder, INCLUDED] if folder else [INCLUDED]
    if not re.fullmatch("[A-Za-z0-9_-]{1,40}", code):
        raise ConfigError(f"expected letters, digits, - and _; received {code!r}")
    files = [searched / f"{code}.yaml" for searched in folders]
    file = next(filter(Path.is_file, files), None)
    if not file:
        known = sorted({path.stem for searched in folders for path in searched.glob("*.yaml")})
        raise ConfigError(f"there is no {code}.yaml in {folders[0]}; there are {', '.join(known)}")
    tree = read_file(file, texts=True)
    start, problems = tree.locations.get((), str(file)), tree.problems
    if isinstance(tree.values, dict):
        try:
            captions = Captions.model_validate(tree.values, context=file.parent == INCLUDED)
        except ValidationError as error:
            found = [schema_problem(one, tree.locations, Captions) for one in error.errors()]
            problems += [replace(one, location=one.location or start) for one in found]
    elif not problems:
        problems.append(Problem(start, "expected keys such as 'nothing:' followed by texts"))
    if problems:
        raise as_error(problems)
    return captions
