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

from realtime_lrp import __version__, config
from realtime_lrp.commands.kiosk.captions import folder_of
from realtime_lrp.commands.kiosk.check import wrong_settings
from realtime_lrp.commands.kiosk.folder import single_instance, state_folder
from realtime_lrp.commands.kiosk.health import why_not_written
from realtime_lrp.commands.kiosk.run import run
from realtime_lrp.config import Config, Settings
from realtime_lrp.errors import Error, UsageError, masked
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.messages import PlainFormatter
from realtime_lrp.view.window.full_screen import FullScreen

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
        return config.load(file, sets, options, wrong_settings, command="kiosk")
    except Error as error:
        if restored := _restored(file, sets, options):
            return replace(restored, complaint=str(error))
        raise


def start(
    settings: Settings,
    duration_s: float | None,
    stats: Path | None,
    window: FullScreen | None = None,
    **parts: Any,
) -> list[str]:
    """Runs the exhibit; see `run`. The window is closed at the end.

    A configuration that cannot make a map gives way to the last good one, in the same window.

    Raises:
      UnavailableError: the exhibit already runs.
      Error: what `run` raises.
    """
    try:
        with single_instance():
            _log_to(state_folder() / "kiosk.log")
            return _run(settings, duration_s, stats, {**parts, "window": window})
    finally:
        if window:
            window.close()


def _run(
    settings: Settings, duration_s: float | None, stats: Path | None, parts: dict[str, Any]
) -> list[str]:
    attempt = _Attempt(settings)
    try:
        return attempt.run(duration_s, stats, parts)
    except Error as error:
        if isinstance(error, UsageError):
            error = settings.located(error)
        good = None if attempt.works or settings.complaint else _restored(*settings.given)
        if good is None or attempt.is_kept():
            log.info("ends: %s", masked(str(error)))
            raise error from None
        return _Attempt(replace(good, complaint=str(error))).run(duration_s, stats, parts)


class _Attempt:
    """A run with one configuration.

    Attributes:
      works: whether it made a map and had a picture of the camera.
    """

    def __init__(self, settings: Settings):
        self.works = False
        self._settings = settings
        file = settings.given[0]
        self._kept = _copies(file, settings.config) if file and not settings.complaint else {}

    def run(self, duration_s: float | None, stats: Path | None, parts: dict[str, Any]) -> list[str]:
        settings, chosen = self._settings, self._settings.config
        if settings.complaint:
            log.error(
                "%s\nThe last good configuration is used instead.", masked(settings.complaint)
            )
        log.info(
            "realtime_lrp %s, process %d: %s, camera %s, %s",
            __version__, os.getpid(), chosen.model.name, masked(chosen.live.source),
            settings.given[0] or "no configuration file",
        )  # fmt: skip
        lines = run(
            chosen, health_file(chosen), duration_s, stats,
            settings.complaint, self._note_that_it_works, **parts,
        )  # fmt: skip
        log.info("ends: left by the staff, or told to stop")
        return lines

    def is_kept(self) -> bool:
        """Whether this configuration is the last good one already."""
        try:
            return all(path.read_bytes() == data for path, data in self._kept.items())
        except OSError:
            return False

    def _note_that_it_works(self) -> None:
        """Keeps the configuration as it was at the start."""
        self.works = True
        try:
            for path, data in self._kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(path, overwrite=True) as part:
                    part.touch(mode=0o600)  # addresses of cameras hold passwords
                    part.write_bytes(data)
        except (Error, OSError) as error:
            log.warning("the configuration could not be kept: %s", why_not_written(error))


def _copies(file: str | Path, chosen: Config) -> dict[Path, bytes]:
    """The configuration file and the captions that it names, by where they are kept."""
    folder, captions = _good_folder(file), folder_of(chosen)
    sources = {folder / "config.yaml": Path(file)}
    for one in captions.glob("*.yaml") if captions else ():
        sources[folder / "captions" / one.name] = one
    return {target: source.read_bytes() for target, source in sources.items()}


def health_file(config: Config) -> Path:
    """The health file."""
    if config.kiosk.health:
        return Path(config.kiosk.health)
    runtime = os.environ.get("RUNTIME_DIRECTORY")
    return (Path(runtime) if runtime else state_folder()) / "health.json"


def _good_folder(file: str | Path) -> Path:
    """Where the copy of a configuration file is."""
    name = hashlib.sha256(str(Path(file).absolute()).encode()).hexdigest()[:12]
    return state_folder() / f"good-{name}"


def _restored(
    file: str | Path | None, sets: tuple[str, ...], options: Mapping[str, Any] | None
) -> Settings | None:
    """The last good configuration of a file, None where there is none that holds."""
    if not file:
        return None
    folder = _good_folder(file)
    try:
        settings = config.load(folder / "config.yaml", sets, options, check=None, command="kiosk")
    except Error:
        return None
    if settings.config.kiosk.captions:
        kiosk = settings.config.kiosk.model_copy(update={"captions": str(folder / "captions")})
        settings = replace(settings, config=settings.config.model_copy(update={"kiosk": kiosk}))
    found = wrong_settings(settings.config)
    spared = (("kiosk", "clips"), ("live", "folder"))
    wrong = [where for where, _ in found if where[:2] not in spared]
    return None if wrong else settings


class _LossyHandler(RotatingFileHandler):
    """Says nothing of a line that cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def _log_to(path: Path) -> None:
    """Writes the log to a file of limited size as well; a full disk costs its lines."""
    with suppress(OSError):
        handler = _LossyHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
        handler.setLevel(logging.INFO)
        handler.setFormatter(PlainFormatter("%(asctime)s %(message)s"))
        logging.getLogger().addHandler(handler)
    if logging.getLogger().isEnabledFor(logging.WARNING):
        logging.getLogger("realtime_lrp.commands.kiosk").setLevel(logging.INFO)
