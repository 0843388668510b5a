"""Starts the exhibit: loads the configuration, opens log and window, runs.

A configuration that worked is copied. If a later version of the file is wrong, the copy is used and
the error reported, so that the exhibit still starts after a typing error.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from realtime_lrp import config
from realtime_lrp.commands.kiosk.check import wrong_settings
from realtime_lrp.commands.kiosk.folder import single_instance, state_folder
from realtime_lrp.commands.kiosk.last_good import GoodCopy, restore
from realtime_lrp.commands.kiosk.run import run
from realtime_lrp.config import Config, Settings
from realtime_lrp.errors import Error, UsageError, masked
from realtime_lrp.system import memory
from realtime_lrp.system.plain_text import PlainFormatter
from realtime_lrp.system.version import __version__
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.view.window.full_screen import FullScreen, NullWindow

LOG_BYTES, OLDER_LOGS = 256 * 1024, 4
"""Size of the log and of each previous one, and how many of these are kept."""

log = logging.getLogger(__name__)


def load(
    file: str | Path | None = None,
    sets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """`config.load` with all checks that need no network.

    If the file is wrong, the last good copy is used and the settings' `complaint` is set.

    Raises:
      Error: the configuration is wrong and there is no last good one.
    """
    try:
        return config.load(file, sets, options, wrong_settings, command="kiosk")
    except Error as error:
        if restored := restore(file, sets, options):
            return replace(restored, complaint=str(error))
        raise


def start(
    settings: Settings,
    duration_s: float | None,
    stats_file: Path | None,
    window: FullScreen | NullWindow | None = None,
    **kiosk_arguments: Any,
) -> list[str]:
    """Runs the exhibit; see `run`. The window is closed at the end.

    A configuration with which no map can be made is replaced by the last good one, in the same
    window.

    Args:
      settings: what `load` returned.
      duration_s: seconds from the first map, or None.
      stats_file: where the figures are written, or None.
      window: where the exhibit is shown; None: opened as the configuration says.
      kiosk_arguments: further arguments of `Kiosk`.

    Raises:
      UnavailableError: an exhibit is already running, or there is no display.
      Error: what `run` raises.
    """
    memory.limit_kept_memory()
    draw_in_one_thread()
    with single_instance():
        _open_log(state_folder() / "kiosk.log")
        shown = window or _open_window(settings.config)
        try:
            return _run(settings, duration_s, stats_file, {**kiosk_arguments, "window": shown})
        finally:
            shown.close()


def health_file(config: Config) -> Path:
    """Where the health file is written."""
    if config.kiosk.health:
        return Path(config.kiosk.health)
    runtime = os.environ.get("RUNTIME_DIRECTORY")
    return (Path(runtime) if runtime else state_folder()) / "health.json"


def _open_window(config: Config) -> FullScreen | NullWindow:
    return NullWindow() if config.live.display == "none" else FullScreen()


def _run(
    settings: Settings,
    duration_s: float | None,
    stats_file: Path | None,
    arguments: dict[str, Any],
) -> list[str]:
    attempt = _Attempt(settings)
    try:
        return attempt.run(duration_s, stats_file, arguments)
    except Error as error:
        if isinstance(error, UsageError):
            error = settings.located(error)
        good = None
        if not (attempt.worked or settings.complaint or attempt.copy.is_saved()):
            good = restore(*settings.given)
        if good is None:
            log.info("ended: %s", masked(str(error)))
            raise error from None
        attempt = _Attempt(replace(good, complaint=str(error)))
        return attempt.run(duration_s, stats_file, arguments)


class _Attempt:
    """One run with one configuration.

    Attributes:
      worked: whether there was a map and a picture of the camera.
      copy: saved once the configuration has worked.
    """

    def __init__(self, settings: Settings):
        self.worked = False
        self._settings = settings
        restored = bool(settings.complaint)
        self.copy = GoodCopy(None if restored else settings.given[0], settings.config)

    def run(
        self, duration_s: float | None, stats_file: Path | None, arguments: dict[str, Any]
    ) -> list[str]:
        settings, chosen = self._settings, self._settings.config
        if settings.complaint:
            log.error("%s\nUsing the last good configuration instead.", masked(settings.complaint))
        log.info(
            "realtime_lrp %s, process %d: %s, camera %s, %s",
            __version__, os.getpid(), chosen.model.name, masked(chosen.live.source),
            settings.given[0] or "no configuration file",
        )  # fmt: skip
        lines = run(
            chosen,
            health=health_file(chosen),
            duration_s=duration_s,
            stats_file=stats_file,
            complaint=settings.complaint,
            on_working=self._save_copy,
            **arguments,
        )
        log.info("ended: by staff, a signal or --duration")
        return lines

    def _save_copy(self) -> None:
        self.worked = True
        self.copy.save()


class _LossyHandler(RotatingFileHandler):
    """Ignores a line that cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def _open_log(path: Path) -> None:
    """Also writes the log to a file of limited size; while the disk is full its lines are lost."""
    with suppress(OSError):
        handler = _LossyHandler(path, maxBytes=LOG_BYTES, backupCount=OLDER_LOGS, encoding="utf-8")
        handler.setLevel(logging.INFO)
        handler.setFormatter(PlainFormatter("%(asctime)s %(message)s"))
        logging.getLogger().addHandler(handler)
    if logging.getLogger().isEnabledFor(logging.WARNING):
        logging.getLogger("realtime_lrp.commands.kiosk").setLevel(logging.INFO)
