"""The exhibit's settings: what the schema cannot see is checked, and what worked is kept.

A configuration that worked is saved with its captions. If a later version of the file is wrong,
what was saved is used and the error reported, so that the exhibit starts after a typing error.
Imports neither TensorFlow nor OpenCV: `realtime-lrp config` checks the exhibit with it.
"""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import Captions, missing_in_font, wrong_captions
from realtime_lrp.config import Config, KeyPath, Problem, Settings, as_error, errors_of, wrong_names
from realtime_lrp.errors import Error, first_line
from realtime_lrp.models.gallery import read_names
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of

TOLERATED = (
    ("kiosk", "clips"), ("live", "folder"), ("concepts", "gallery"), ("concepts", "names"),
)  # fmt: skip
"""Keys that may be wrong in a restored configuration: the exhibit runs without them."""

Given = tuple[str | Path | None, tuple[str, ...], Mapping[str, Any]]
"""File, assignments and options, as in `Settings.given`."""

log = logging.getLogger(__name__)


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """`config.load` with all checks that need no network.

    If the file is wrong, what last worked is used, if there is such, with a `complaint`.
    """
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
    if chosen.kiosk.concepts and chosen.concepts.names:
        yield from errors_of(("concepts", "names"), _check_names, chosen.concepts.names)
    for number, clip in enumerate(chosen.kiosk.clips):
        where = ("kiosk", "clips", number)
        yield from errors_of(where, inputs_of, [clip], PICTURES + VIDEOS, "clip")


def _check_names(path: str) -> None:
    """Refuses names of channels that cannot be read, or drawn."""
    file = read_names(Path(path))
    problems = [
        Problem(
            file.locations[layer, str(channel)],
            f"{channel}: the font cannot draw {missing}; expected other characters",
        )
        for layer, names in file.names.items()
        for channel, name in names.items()
        if (missing := missing_in_font(name))
    ]
    if problems:
        raise as_error(problems)


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
    """What worked with the same file, assignments and options; None if nothing still does."""
    try:
        text = (_folder(given) / "config.json").read_text(encoding="utf-8")
        chosen = Config.model_validate_json(text)
    except (OSError, ValueError):
        return None
    wrong = [where for where, _ in wrong_settings(chosen) if where[:2] not in TOLERATED]
    return None if wrong else Settings(chosen, {}, given, complaint, "kiosk")


def _folder(given: Given) -> Path:
    """Where the copy is."""
    file, sets, options = given
    words = repr((file and str(Path(file).absolute()), sets, sorted(options.items())))
    return state_folder() / f"good-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def write_failure(error: Exception) -> str:
    """Why an atomic write failed, without its remark that nothing is left: the old file is."""
    cause = error.__cause__ or error
    return (isinstance(cause, OSError) and cause.strerror) or first_line(cause)
