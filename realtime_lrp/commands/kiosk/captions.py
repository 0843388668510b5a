"""The captions of the exhibit: one YAML file for each language, checked when they are loaded.

assets/captions/en.yaml is the schema: other languages have its keys, its lists and, in the same
texts, its placeholders, such as {seconds}. All values are read as text ("no" is a word, not false);
spaces and line ends become one space.
"""

import functools
import keyword
import math
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
)

from realtime_lrp import config
from realtime_lrp.config import (
    KeyPath,
    Problem,
    as_error,
    read_file,
    schema_problem,
)
from realtime_lrp.config.schema import Kiosk
from realtime_lrp.errors import ConfigError, Error

INCLUDED = config.ASSETS / "captions"

TRANSLATIONS = ("labels", "names")
"""Sections whose keys are free: names of what the network knows."""


def _text_with(placeholders: Sequence[str]) -> Any:
    """A text that may contain some placeholders.

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

    return Annotated[str, BeforeValidator(read)]


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


def _week(value: Any) -> Any:
    if isinstance(value, list) and len(value) != 7:
        raise ValueError(f"expected 7 days, from Monday to Sunday; there are {len(value)}")
    return _list(value)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Captions(_Section):
    """The captions of one language, by the keys of en.yaml; `try` and `for` end with `_` here."""

    def label(self, name: str) -> str:
        """A class name in this language; untranslated ones as they are, underscores as spaces."""
        return self.labels.get(name, name.replace("_", " "))


@functools.cache
def _schema() -> type[Captions]:
    return _section("Captions", read_file(INCLUDED / "en.yaml", texts=True).values, Captions)


def _section(name: str, english: Mapping[str, Any], base: type[_Section]) -> Any:
    """The schema of a section; one that a switch of the exhibit needs may be missing."""
    fields: dict[str, Any] = {}
    for key, value in english.items():
        attribute = f"{key}_" if keyword.iskeyword(key) else key
        if key in TRANSLATIONS:
            fields[attribute] = dict[str, _text_with(())], {}  # type: ignore[misc]
        elif base is Captions and key in OPTIONAL:
            fields[attribute] = _schema_of(key, value) | None, None
        else:
            fields[attribute] = _schema_of(key, value), Field(alias=key)
    return create_model(name, __base__=base, **fields)


def _schema_of(key: str, english: Any) -> Any:
    if isinstance(english, Mapping):
        return _section(key, english, _Section)
    text = _text_with(re.findall(r"{\w+}", str(english)))
    if isinstance(english, str):
        return text
    texts: Any = tuple[text, ...]  # type: ignore[valid-type]
    return Annotated[texts, BeforeValidator(_week if key == "days" else _list)]


OPTIONAL = [name for name, field in Kiosk.model_fields.items() if field.annotation is bool]
"""Sections that have to be there only if the key of `kiosk` with their name is true."""


def load_captions(languages: Sequence[str], folder: Path | None = None) -> tuple[Captions, ...]:
    """The captions of some languages, such as "en", in the same order.

    A folder is searched first for LANGUAGE.yaml; languages that it lacks are the included ones.

    Raises:
      ConfigError: a language or a text cannot be used; the message lists what is wrong with it.
    """
    return tuple(_captions(code, folder) for code in languages)


def captions_of(chosen: config.Config) -> tuple[Captions, ...]:
    """The captions that a configuration names."""
    return load_captions(chosen.kiosk.languages, folder_of(chosen))


def folder_of(chosen: config.Config) -> Path | None:
    """The folder of captions that a configuration names, or None."""
    return Path(chosen.kiosk.captions) if chosen.kiosk.captions else None


def wrong_captions(chosen: config.Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong with a configuration's captions: the key, and the error."""
    folder = folder_of(chosen)
    if folder and not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        yield (
            ("kiosk", "captions"),
            ConfigError(f"expected a folder that can be read; received {folder}"),
        )
        return
    for number, code in enumerate(chosen.kiosk.languages):
        try:
            found = _captions(code, folder)
            for name in OPTIONAL:
                if getattr(chosen.kiosk, name) and getattr(found, name) is None:
                    raise ConfigError(
                        f"the captions {code!r} have no section {name!r}, which kiosk.{name} "
                        "needs; copy it from en.yaml"
                    )
        except Error as error:
            yield ("kiosk", "languages", number), error


def with_seconds(text: str, seconds: float) -> str:
    """Replaces `{seconds}` by a number: whole, rounded up, at least 1.

    A no-break space keeps the number and its unit in one line.
    """
    number = str(max(1, math.ceil(seconds)))
    return text.replace("{seconds} ", f"{number}\xa0").replace("{seconds}", number)


def opening_text(captions: Captions, opens: datetime | None, now: datetime) -> str:
    """When the exhibit opens again, with the day if that is not today; "" if it never does."""
    if opens is None:
        return ""
    closed, time = captions.closed, f"{opens:%H:%M}"
    if opens.date() == now.date():
        return closed.today.format(time=time)
    return closed.later.format(day=closed.days[opens.weekday()], time=time)


def _captions(code: str, folder: Path | None) -> Captions:
    folders = [folder, INCLUDED] if folder else [INCLUDED]
    if not re.fullmatch("[A-Za-z0-9_-]{1,40}", code):
        raise ConfigError(f"expected letters, digits, - and _; received {code!r}")
    files = [searched / f"{code}.yaml" for searched in folders]
    file = next(filter(Path.is_file, files), None)
    if not file:
        known = sorted({path.stem for searched in folders for path in searched.glob("*.yaml")})
        raise ConfigError(f"there is no {code}.yaml in {folders[0]}; there are {', '.join(known)}")
    tree, schema = read_file(file, texts=True), _schema()
    start, problems = tree.locations.get((), str(file)), tree.problems
    if isinstance(tree.values, dict):
        try:
            captions = schema.model_validate(tree.values, context=file.parent == INCLUDED)
        except ValidationError as error:
            found = [schema_problem(one, tree.locations, schema) for one in error.errors()]
            problems += [replace(one, location=one.location or start) for one in found]
    elif not problems:
        problems.append(Problem(start, "expected keys such as 'nothing:' followed by texts"))
    if problems:
        raise as_error(problems)
    return captions
