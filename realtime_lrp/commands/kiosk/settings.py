"""The exhibit's captions and settings: checked at the start, and kept if they worked.

The captions are one YAML file for each language. assets/captions/en.yaml is their schema: other
languages have its keys, its lists and, in the same texts, its placeholders, such as {seconds}.
This imports neither TensorFlow nor OpenCV: `realtime-lrp config` checks the exhibit with it.
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
from typing import Annotated, Any

from platformdirs import user_state_path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from realtime_lrp import config
from realtime_lrp.config import Config, KeyPath, Settings, errors_of, wrong_names
from realtime_lrp.config.schema import Kiosk
from realtime_lrp.errors import ConfigError, Error, first_line
from realtime_lrp.relevance.maps.targets import tidied
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of

log = logging.getLogger(__name__)

Captions = Mapping[str, Any]  # texts, lists and sections of one language, by the keys of en.yaml

INCLUDED = config.ASSETS / "captions"

OPTIONAL = [name for name, field in Kiosk.model_fields.items() if field.annotation is bool]
"""Sections that have to be there only if the key of `kiosk` with their name is true."""


def label(captions: Captions, name: str) -> str:
    """A class name in this language, or the untranslated name."""
    return captions["labels"].get(name, name)


def with_seconds(text: str, seconds: float) -> str:
    """Puts a whole number, at least 1, for `{seconds}`; its unit stays in the same line."""
    number = str(max(1, math.ceil(seconds)))
    return text.replace("{seconds} ", f"{number}\xa0").replace("{seconds}", number)


def captions_of(code: str, folder: str | None = None) -> Captions:
    """The captions of a language, such as "en", from CODE.yaml in a folder or the included ones.

    Raises:
      ConfigError: the language or a text cannot be used; the message lists what is wrong with it.
    """
    folders = [Path(folder), INCLUDED] if folder else [INCLUDED]
    if not re.fullmatch("[A-Za-z0-9_-]{1,40}", code):
        raise ConfigError(f"expected letters, digits, - and _; received {code!r}")
    files = [searched / f"{code}.yaml" for searched in folders]
    file = next(filter(Path.is_file, files), None)
    if not file:
        known = sorted({path.stem for searched in folders for path in searched.glob("*.yaml")})
        raise ConfigError(f"there is no {code}.yaml in {folders[0]}; there are {', '.join(known)}")
    # A test checks that the font draws the included texts, so OpenCV is not imported for them.
    schema = _schema(check_font=file.parent != INCLUDED)
    expected = "expected lines such as 'name: English'"
    found, _ = config.read_as(file, schema, expected, schema, texts=True)
    captions = found.model_dump(exclude_unset=True)
    labels = {tidied(name): text for name, text in captions.get("labels", {}).items()}
    return {**captions, "labels": labels}


@functools.cache
def _schema(check_font: bool) -> type[BaseModel]:
    english = config.read_file(INCLUDED / "en.yaml", texts=True).values
    labels = dict[str, _type_of("", check_font)]  # type: ignore[misc, valid-type]
    optional = {name: (_type_of(english[name], check_font), None) for name in OPTIONAL}
    return _type_of(english, check_font, labels=(labels, {}), **optional)


def _type_of(english: Any, check_font: bool, **fields: Any) -> Any:
    """The type of what stands for `english` in each language; further `fields` may be missing."""
    if isinstance(english, str):
        return Annotated[Any, AfterValidator(functools.partial(_checked, english, check_font))]
    if isinstance(english, list):
        texts = list[_type_of(" ".join(english), check_font)]  # type: ignore[misc, valid-type]
        return Annotated[texts, Field(min_length=1)]
    needed = {name: (_type_of(one, check_font), ...) for name, one in english.items()}
    return create_model("Captions", __config__=ConfigDict(extra="forbid"), **needed | fields)


def _checked(english: str, check_font: bool, text: Any) -> str:
    """A text in one line; it may have the placeholders of the English one."""
    if not isinstance(text, str) or not text:
        raise ValueError("expected a text, in quotes where it has a colon or a # in it")
    text = re.sub(r"[ \t\n]+", " ", text).strip(" ")
    placeholders = re.findall(r"{\w+}", english)
    rest = functools.reduce(lambda left, one: left.replace(one, ""), placeholders, text)
    if re.search("[{}\uff5b\uff5d]", rest):
        allowed = " other than " + " and ".join(placeholders) if placeholders else ""
        raise ValueError(f"expected no braces{allowed}")
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text):
        raise ValueError("text is drawn left to right; expected a script written that way")
    if check_font:
        from realtime_lrp.view.text import undrawable  # OpenCV, which only this needs

        if missing := undrawable(text):
            numbers = ((letter, f"U+{ord(letter):04X}") for letter in missing[:10])
            signs = (f"{sign} ({n})" if sign.isprintable() else n for sign, n in numbers)
            more = ", ..." if missing[10:] else ""
            raise ValueError(
                f"the font cannot draw {', '.join(signs)}{more}; expected other characters"
            )
    return text


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
    folder = chosen.kiosk.captions
    languages = chosen.kiosk.languages
    if folder and not (Path(folder).is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        languages = []
        told = f"expected a folder that can be read; received {folder}"
        yield ("kiosk", "captions"), ConfigError(told)
    for number, code in enumerate(languages):
        try:
            found = captions_of(code, folder)
            for name in OPTIONAL:
                if getattr(chosen.kiosk, name) and name not in found:
                    raise ConfigError(
                        f"the captions {code!r} have no section {name!r}, which kiosk.{name} "
                        "needs; copy it from en.yaml"
                    )
        except Error as error:
            yield ("kiosk", "languages", number), error
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
    config = settings.config
    file = settings.given[0]
    if not file or settings.complaint:
        return
    folder = _folder(settings.given)
    texts = {}
    if config.kiosk.captions:
        for code, one in zip(config.kiosk.languages, captions, strict=True):
            text = json.dumps(one, ensure_ascii=False)  # JSON is YAML
            texts[folder / "captions" / f"{code}.yaml"] = text
        config = config.changed(kiosk={"captions": str(folder / "captions")})
    texts[folder / "config.json"] = config.model_dump_json()
    if failure := replace_files(texts, mode=0o600):  # camera addresses may contain passwords
        log.warning("the working configuration could not be saved: %s", failure)


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


def replace_files(texts: Mapping[Path, str], mode: int = 0o666) -> str:
    """Writes files, or leaves the old ones; returns why it failed, "" if it did not."""
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, overwrite=True) as part:
                part.touch(mode)
                part.write_text(text, encoding="utf-8")
    except (Error, OSError) as error:
        cause = error.__cause__ or error  # its text does not say that nothing is left
        return (isinstance(cause, OSError) and cause.strerror) or first_line(cause)
    return ""
