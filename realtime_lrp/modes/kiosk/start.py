"""Which configuration holds, and all that the exhibit keeps on the disk: log, health, last good.

A configuration file that made a first map is copied; where a later one is wrong, the copy is used
and the fault told, so that the exhibit comes up after a typing error.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from realtime_lrp import config
from realtime_lrp.config import Config, Settings
from realtime_lrp.errors import Error, UsageError, first_line
from realtime_lrp.modes.engine import check_names, with_demo_network
from realtime_lrp.modes.kiosk.captions import load_captions
from realtime_lrp.modes.kiosk.lock import check_key
from realtime_lrp.modes.kiosk.parts import WRONG
from realtime_lrp.modes.kiosk.run import run
from realtime_lrp.video.files import PICTURES, VIDEOS, check_output, completed, inputs_of

LOG_BYTES = 256 * 1024
"""Size of the log and of the one before it."""

log = logging.getLogger(__name__)


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """`config.load`, checked as far as that goes without loading the network.

    Where the file is wrong the last good one is used, and the fault is the settings' `complaint`.

    Raises:
      Error: the configuration is wrong and there is no last good one.
    """
    try:
        return _checked(config.load(file, sets, options))
    except Error as error:
        if restored := _restored(file, sets, options):
            log.error("%s\nThe last good configuration is used instead.", error)
            return replace(restored, complaint=str(error))
        raise


def start(settings: Settings, duration_s: float | None, stats: Path | None, **parts: Any):
    """Runs the exhibit; see `run`.

    Raises:
      Error: what `run` raises.
    """
    _log_to(state_folder() / "kiosk.log")
    try:
        return _run(settings, duration_s, stats, parts)
    except WRONG as error:
        good = None if settings.complaint else _restored(*settings.given)
        if good is None:
            raise
        log.error("%s\nThe last good configuration is used instead.", error)
        return _run(replace(good, complaint=str(error)), duration_s, stats, parts)


def state_folder() -> Path:
    """Where log, health file and last good configuration are: the service's folder, or the user's.

    It is made where there is none.
    """
    folder = Path(os.environ.get("STATE_DIRECTORY") or user_state_path("realtime-lrp"))
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def health_file(config: Config) -> Path:
    """The health file."""
    if config.kiosk.health:
        return Path(config.kiosk.health)
    runtime = os.environ.get("RUNTIME_DIRECTORY")
    return (Path(runtime) if runtime else state_folder()) / "health.json"


def _run(
    settings: Settings, duration_s: float | None, stats: Path | None, parts: dict
) -> list[str]:
    chosen = with_demo_network(settings.config)
    return run(
        chosen,
        health_file(chosen),
        duration_s,
        stats,
        complaint=settings.complaint,
        works=lambda: _keep(settings),
        **parts,
    )


def check(chosen: Config) -> None:
    """Refuses what the schema cannot see in the section `kiosk`.

    Raises:
      UsageError: there is no such key.
      ConfigError: a language or a caption is wrong.
      MissingInputError: there is no such clip.
      OutputError: the health file cannot be made.
    """
    check_key(chosen.kiosk.exit_key)
    load_captions(chosen.kiosk.languages, _captions_folder(chosen))
    inputs_of(chosen.kiosk.clips, PICTURES + VIDEOS, "clip")
    if chosen.kiosk.health:
        check_output(Path(chosen.kiosk.health), overwrite=True)


def _checked(settings: Settings) -> Settings:
    chosen = with_demo_network(settings.config)
    try:
        check_names(chosen)
        check(chosen)
    except UsageError as error:
        raise settings.located(error) from error
    return settings


def _captions_folder(chosen: Config) -> Path | None:
    return Path(chosen.kiosk.captions) if chosen.kiosk.captions else None


def _good_folder(file: str | Path) -> Path:
    """Where the copy of a configuration file is."""
    name = hashlib.sha256(str(Path(file).absolute()).encode()).hexdigest()[:12]
    return state_folder() / f"good-{name}"


def _keep(settings: Settings) -> None:
    """Copies the configuration file and the captions that it names."""
    if not settings.given[0] or settings.complaint:
        return
    folder = _good_folder(settings.given[0])
    try:
        (folder / "captions").mkdir(parents=True, exist_ok=True)
        captions = _captions_folder(settings.config)
        for one in captions.glob("*.yaml") if captions else ():
            _copy(one, folder / "captions" / one.name)
        _copy(Path(settings.given[0]), folder / "config.yaml")
    except (Error, OSError) as error:
        log.warning(
            "the configuration could not be kept as the last good one: %s", first_line(error)
        )


def _copy(source: Path, target: Path) -> None:
    data = source.read_bytes()
    with completed(target, overwrite=True) as part:
        part.write_bytes(data)


def _restored(
    file: str | Path | None, sets: tuple[str, ...], options: Mapping[str, Any] | None
) -> Settings | None:
    """The last good configuration of a file, None where there is none that holds."""
    if not file:
        return None
    folder = _good_folder(file)
    try:
        settings = config.load(folder / "config.yaml", sets, options)
        if settings.config.kiosk.captions:
            kiosk = settings.config.kiosk.model_copy(update={"captions": str(folder / "captions")})
            changed = settings.config.model_copy(update={"kiosk": kiosk})
            settings = replace(settings, config=changed)
        return _checked(settings)
    except Error:
        return None


def _log_to(path: Path) -> None:
    """Writes the log to a file of limited size as well; a full disk costs its lines."""
    with suppress(OSError):
        handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        handler.handleError = lambda record: None
        logging.getLogger().addHandler(handler)
    if logging.getLogger().isEnabledFor(logging.WARNING):
        logging.getLogger("realtime_lrp.modes.kiosk").setLevel(logging.INFO)
