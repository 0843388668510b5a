"""The exhibit's settings: what the schema cannot see is checked, and what worked is kept.

A configuration that worked is copied with its captions. If a later version of the file is wrong,
the copy is used and the error reported, so that the exhibit still starts after a typing error.
Imports neither TensorFlow nor OpenCV: `realtime-lrp config` checks the exhibit with it.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import folder_of, missing_in_font, wrong_captions
from realtime_lrp.config import Config, KeyPath, Problem, Settings, errors_of, wrong_names
from realtime_lrp.config.names import KEYS
from realtime_lrp.errors import Error, first_line
from realtime_lrp.models.concept_names import read_names
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of

TOLERATED = (
    ("kiosk", "clips"), ("live", "folder"), ("concepts", "gallery"), ("concepts", "names"),
)  # fmt: skip
"""Keys that may be wrong in a restored configuration: the exhibit runs without them."""

log = logging.getLogger(__name__)


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """`config.load` with all checks that need no network.

    If the file is wrong, the last good copy is used, if there is one, with a `complaint`.
    """
    try:
        return config.load(file, sets, options, wrong_settings, command="kiosk")
    except Error as error:
        if restored := restore(file, sets, options, str(error)):
            return restored
        raise


def wrong_settings(chosen: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong in any section, the exhibit's included: the key, and the error."""
    yield from wrong_names(chosen)
    yield from wrong_in_kiosk(chosen)


def wrong_in_kiosk(chosen: Config) -> Iterator[tuple[KeyPath, Error]]:
    """Yields what is wrong in the section `kiosk`: the key, and the error."""
    yield from errors_of(("kiosk", "exit_key"), KEYS.check, chosen.kiosk.exit_key)
    yield from wrong_captions(chosen)
    if chosen.kiosk.concepts and chosen.concepts.names:
        yield from errors_of(("concepts", "names"), _check_names, chosen.concepts.names)
    for number, clip in enumerate(chosen.kiosk.clips):
        where = ("kiosk", "clips", number)
        yield from errors_of(where, inputs_of, [clip], PICTURES + VIDEOS, "clip")


def _check_names(path: str) -> None:
    """Refuses names of channels that cannot be read, or drawn."""
    file = read_names(Path(path))
    file.refuse(
        Problem(
            file.locations[layer, str(channel)],
            f"{channel}: the font cannot draw {missing}; expected other characters",
        )
        for layer, names in file.names.items()
        for channel, name in names.items()
        if (missing := missing_in_font(name))
    )


def state_folder() -> Path:
    """The folder of the service, or the user's own when started by hand; created if missing."""
    try:
        folder = Path(os.environ.get("STATE_DIRECTORY") or user_state_path("realtime-lrp"))
    except RuntimeError:  # a user without a home
        folder = Path(tempfile.gettempdir()) / "realtime-lrp"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


class GoodCopy:
    """A configuration file and its captions as they are now, to be saved once they have worked."""

    def __init__(self, settings: Settings):
        file, captions = settings.given[0], folder_of(settings.config)
        self._contents: dict[Path, bytes] = {}
        if file and not settings.complaint:  # else it is the copy already
            folder = _folder(file)
            sources = {folder / "config.yaml": Path(file)}
            for path in captions.glob("*.yaml") if captions else ():
                sources[folder / "captions" / path.name] = path
            self._contents = {copy: source.read_bytes() for copy, source in sources.items()}

    def save(self) -> None:
        """Writes the copy; if that fails, the log says so."""
        try:
            for path, data in self._contents.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(path, overwrite=True) as part:
                    part.touch(mode=0o600)  # camera addresses may contain passwords
                    part.write_bytes(data)
        except (Error, OSError) as error:
            log.warning("the working configuration could not be saved: %s", write_failure(error))

    def is_saved(self) -> bool:
        """Whether the saved copy has the same contents already."""
        try:
            return all(path.read_bytes() == data for path, data in self._contents.items())
        except OSError:
            return False


def restore(
    file: str | Path | None,
    sets: tuple[str, ...],
    options: Mapping[str, Any] | None,
    complaint: str,
) -> Settings | None:
    """The saved copy of a wrong configuration file, loaded; None if there is none that works."""
    if not file:
        return None
    folder = _folder(file)
    try:
        settings = config.load(folder / "config.yaml", sets, options, check=None, command="kiosk")
    except Error:
        return None
    if settings.config.kiosk.captions:
        captions = settings.config.changed(kiosk={"captions": str(folder / "captions")})
        settings = replace(settings, config=captions)
    wrong = [where for where, _ in wrong_settings(settings.config) if where[:2] not in TOLERATED]
    return None if wrong else replace(settings, complaint=complaint)


def _folder(file: str | Path) -> Path:
    """Where the copy of a configuration file is."""
    name = hashlib.sha256(str(Path(file).absolute()).encode()).hexdigest()[:12]
    return state_folder() / f"good-{name}"


def write_failure(error: Exception) -> str:
    """Why an atomic write failed, without its remark that nothing is left: the old file is."""
    cause = error.__cause__ or error
    return (isinstance(cause, OSError) and cause.strerror) or first_line(cause)
