"""The exhibit's captions and settings: checked at the start, and kept if they worked.

The captions are one YAML file for each language. assets/captions/en.yaml is their schema: other
languages have its keys, its lists and, in the same texts, its placeholders, such as {seconds}. All
values are read as text ("no" is a word, not false); spaces and line ends become one space.

A configuration that worked is saved with its captions. If a later version of the file is wrong,
what was saved is used and the error reported, so that the exhibit starts after a typing error.
Imports neither TensorFlow nor OpenCV: `realtime-lrp config` checks the exhibit with it.
"""

import functools
import hashlib
import json
import logging
import math
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from realtime_lrp import config
from realtime_lrp.config import (
    Config,
    KeyPath,
    Problem,
    Settings,
    as_error,
    errors_of,
    key_of,
    read_file,
    wrong_names,
)
from realtime_lrp.config.problems import showable
from realtime_lrp.config.schema import Kiosk
from realtime_lrp.errors import ConfigError, Error, first_line, nearest
from realtime_lrp.relevance.maps.targets import tidied
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of

log = logging.getLogger(__name__)

Captions = Mapping[str, Any]  # texts, lists and sections of one language, by the keys of en.yaml

INCLUDED = config.ASSETS / "captions"

LABELS = "labels"  # the section whose keys are free: names of what the network knows

OPTIONAL = [name for name, field in Kiosk.model_fields.items() if field.annotation is bool]
"""Sections that have to be there only if the key of `kiosk` with their name is true."""


def load_captions(languages: Sequence[str], folder: str | None = None) -> tuple[Captions, ...]:
    """The captions of some languages, such as "en", in the same order.

    A folder is searched first for LANGUAGE.yaml; languages that it lacks are the included ones.

    Raises:
      ConfigError: a language or a text cannot be used; the message lists what is wrong with it.
    """
    return tuple(_captions(code, folder) for code in languages)


def wrong_captions(chosen: config.Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong with a configuration's captions: the key, and the error."""
    folder = chosen.kiosk.captions
    if folder and not (Path(folder).is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        yield (
            ("kiosk", "captions"),
            ConfigError(f"expected a folder that can be read; received {folder}"),
        )
        return
    for number, code in enumerate(chosen.kiosk.languages):
        try:
            found = _captions(code, folder)
            for name in OPTIONAL:
                if getattr(chosen.kiosk, name) and name not in found:
                    raise ConfigError(
                        f"the captions {code!r} have no section {name!r}, which kiosk.{name} "
                        "needs; copy it from en.yaml"
                    )
        except Error as error:
            yield ("kiosk", "languages", number), error


def label(captions: Captions, name: str) -> str:
    """A class name in this language, or the untranslated name."""
    return captions["labels"].get(name, name)


def with_seconds(text: str, seconds: float) -> str:
    """Puts a whole number, at least 1, for `{seconds}`; its unit stays in the same line."""
    number = str(max(1, math.ceil(seconds)))
    return text.replace("{seconds} ", f"{number}\xa0").replace("{seconds}", number)


def _captions(code: str, folder: str | None) -> Captions:
    folders = [Path(folder), INCLUDED] if folder else [INCLUDED]
    if not re.fullmatch("[A-Za-z0-9_-]{1,40}", code):
        raise ConfigError(f"expected letters, digits, - and _; received {code!r}")
    files = [searched / f"{code}.yaml" for searched in folders]
    file = next(filter(Path.is_file, files), None)
    if not file:
        known = sorted({path.stem for searched in folders for path in searched.glob("*.yaml")})
        raise ConfigError(f"there is no {code}.yaml in {folders[0]}; there are {', '.join(known)}")
    tree = read_file(file, texts=True)
    captions: Any = _in_one_line(tree.values)
    # A test checks that the font draws the included texts, so OpenCV is not imported for them.
    for at, wrong in () if tree.problems else _wrong(captions, _english(), file.parent != INCLUDED):
        around = (at[:length] for length in range(len(at), -1, -1))
        where = next((tree.locations[one] for one in around if one in tree.locations), str(file))
        tree.problems.append(Problem(where, f"{key_of(at)}: {wrong}" if at else wrong))
    if tree.problems:
        raise as_error(tree.problems)
    labels = {tidied(name): text for name, text in captions.get(LABELS, {}).items()}
    return {**captions, LABELS: labels}


@functools.cache
def _english() -> Any:
    return read_file(INCLUDED / "en.yaml", texts=True).values


def _in_one_line(value: Any) -> Any:
    """The same with one space for each run of spaces and line ends."""
    if isinstance(value, dict):
        return {key: _in_one_line(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_in_one_line(one) for one in value]
    return re.sub(r"[ \t\n]+", " ", value).strip(" ") if isinstance(value, str) else value


def _wrong(
    value: Any, english: Any, check_font: bool, at: KeyPath = ()
) -> Iterator[tuple[KeyPath, str]]:
    """Yields what does not fit what stands there in English: the key, and a sentence."""
    if isinstance(english, str):
        yield from ((at, text) for text in _wrong_in_text(value, english, check_font))
    elif isinstance(english, list):
        if not isinstance(value, list) or not value:
            yield at, "expected a list of texts, each in a line that begins with a dash"
        else:
            allowed = " ".join(english)
            for number, one in enumerate(value):
                yield from _wrong(one, allowed, check_font, (*at, number))
    elif not isinstance(value, dict):
        yield at, "expected lines such as 'title: Closed'"
    elif at == (LABELS,):
        for key, one in value.items():
            yield from _wrong(one, "", check_font, (*at, key))
    else:
        for key in english:
            if key not in value and (at or key not in (LABELS, *OPTIONAL)):
                yield (*at, key), "is missing"
        for key in value:
            if key in english:
                yield from _wrong(value[key], english[key], check_font, (*at, key))
            else:
                close = nearest(key, english)
                meant = f"did you mean {close!r}?" if close else f"there are {', '.join(english)}"
                yield (*at, key), f"there is no such key; {meant}"


def _wrong_in_text(text: Any, english: str, check_font: bool) -> Iterator[str]:
    """Yields what is wrong with a text; it may have the placeholders of the English one."""
    if not isinstance(text, str) or not text:
        yield "expected a text, in quotes where it has a colon or a # in it"
        return
    placeholders, rest = re.findall(r"{\w+}", english), text
    for placeholder in placeholders:
        rest = rest.replace(placeholder, "")
    if re.search("[{}\uff5b\uff5d]", rest):
        allowed = " other than " + " and ".join(placeholders) if placeholders else ""
        yield f"expected no braces{allowed}; received {showable(text)}"
    elif any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text):
        yield "text is drawn left to right; expected a script written that way"
    elif check_font:
        from realtime_lrp.view.text import undrawable  # OpenCV, which only this needs

        if missing := undrawable(text):
            numbers = ((letter, f"U+{ord(letter):04X}") for letter in missing[:10])
            signs = (f"{one} ({n})" if one.isprintable() else n for one, n in numbers)
            more = ", ..." if missing[10:] else ""
            yield f"the font cannot draw {', '.join(signs)}{more}; expected other characters"


TOLERATED = ("kiosk", "clips"), ("live", "folder"), ("concepts", "gallery"), ("concepts", "names")
"""Keys that may be wrong in a restored configuration: the exhibit runs without them."""

Given = tuple[str | Path | None, tuple[str, ...], Mapping[str, Any]]  # as in `Settings.given`


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """`config.load` with all checks; for a wrong file what last worked, with a `complaint`."""
    try:
        return config.load(file, sets, options, wrong_settings, command="kiosk")
    except Error as error:
        if restored := restore((file, sets, options or {}), str(error)):
            return restored
        raise


def wrong_settings(chosen: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong in any section, the exhibit's included: the key, and the error."""
    yield from wrong_names(chosen)
    yield from wrong_captions(chosen)
    for number, clip in enumerate(chosen.kiosk.clips):
        where = ("kiosk", "clips", number)
        yield from errors_of(where, inputs_of, [clip], PICTURES + VIDEOS, "clip")


def state_folder() -> Path:
    """The folder of the service, or the user's own when started by hand; created if missing."""
    try:
        folder = Path(os.environ.get("STATE_DIRECTORY") or user_state_path("realtime-lrp"))
    except RuntimeError:  # a user without a home
        folder = Path(tempfile.gettempdir()) / "realtime-lrp"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep(settings: Settings, captions: Sequence[Captions]) -> None:
    """Saves a configuration file that has worked, with its captions; or the log says why not."""
    config, file = settings.config, settings.given[0]
    if not file or settings.complaint:
        return
    folder, texts = _folder(settings.given), {}
    if config.kiosk.captions:
        for code, one in zip(config.kiosk.languages, captions, strict=True):
            text = json.dumps(one, ensure_ascii=False)  # JSON is YAML
            texts[folder / "captions" / f"{code}.yaml"] = text
        config = config.changed(kiosk={"captions": str(folder / "captions")})
    texts[folder / "config.json"] = config.model_dump_json()
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, overwrite=True) as part:
                part.touch(mode=0o600)  # camera addresses may contain passwords
                part.write_text(text, encoding="utf-8")
    except (Error, OSError) as error:
        log.warning("the working configuration could not be saved: %s", write_failure(error))


def restore(given: Given, complaint: str) -> Settings | None:
    """The last settings that worked with the same words, without keys that are gone, or None."""
    try:
        kept = json.loads((_folder(given) / "config.json").read_text(encoding="utf-8"))
        known = {
            name: {key: kept[name][key] for key in type(own).model_fields if key in kept[name]}
            for name, own in Config()
            if name in kept
        }
        chosen = Config.model_validate_json(json.dumps(known))
    except (OSError, TypeError, ValueError):
        return None
    wrong = [where for where, _ in wrong_settings(chosen) if where[:2] not in TOLERATED]
    return None if wrong else Settings(chosen, {}, given, complaint, "kiosk")


def _folder(given: Given) -> Path:
    file, sets, options = given
    words = repr((file and str(Path(file).absolute()), sets, sorted(options.items())))
    return state_folder() / f"good-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def write_failure(error: Exception) -> str:
    """Why an atomic write failed, without its remark that nothing is left: the old file is."""
    cause = error.__cause__ or error
    return (isinstance(cause, OSError) and cause.strerror) or first_line(cause)
