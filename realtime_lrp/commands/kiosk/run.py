"""The exhibit from its start to its end: wires it, keeps it going, says how it is."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from realtime_lrp import __version__
from realtime_lrp.commands.kiosk.captions import captions_of
from realtime_lrp.commands.kiosk.health import Health
from realtime_lrp.commands.kiosk.loop import Kiosk, NullWindow
from realtime_lrp.commands.kiosk.restarts import PARTS
from realtime_lrp.commands.kiosk.service import ServiceNotifier
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, first_line, masked
from realtime_lrp.realtime.meter import Meter
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.view.window.full_screen import FullScreen

PAUSE_S = 0.5
"""After drawing failed it is tried again so much later."""

log = logging.getLogger(__name__)


def run(
    config: Config,
    health: Path,
    duration_s: float | None = None,
    stats: Path | None = None,
    complaint: str = "",
    works: Callable[[], None] = lambda: None,
    window: FullScreen | None = None,
    **parts: Any,
) -> list[str]:
    """Runs until it is left with the key or corner, SIGINT, SIGTERM or the end of the duration.

    Args:
      config: the effective configuration.
      health: the health file.
      duration_s: seconds from the first map, or None.
      stats: where the figures go, or None.
      complaint: what is wrong with the configuration that was to be used, told in the health file.
      works: is called once, when there was a map and a picture of the camera.
      window: an open `FullScreen`, or what stands for it, which stays open; None: one is opened
        where it is wanted.
      parts: further arguments of `Kiosk`.

    Returns:
      A line of figures.

    Raises:
      ConfigError: the captions are wrong.
      UnavailableError: there is no display.
      TemporaryError: a part had to be started again too often.
      Error: the network cannot be loaded, and never was.
    """
    captions = captions_of(config)
    if stats:
        check_output(stats, overwrite=True)
    _forbid_core_dumps()
    threading.excepthook = _log_ended_thread
    figures, service = Stats("", "", frames_dropped=None, reconnects=0), ServiceNotifier()
    report = _Report(Health(health), figures, config, complaint)
    with stop_signals() as stopped:
        shown: FullScreen | NullWindow = window or (
            NullWindow() if config.live.display == "none" else FullScreen()
        )
        kiosk = Kiosk(config, captions, shown, figures, **parts)
        try:
            _go_on(kiosk, figures, stopped, service, report, duration_s, works)
        finally:
            service.stopping()
            kiosk.end()
            report.tell(kiosk, ended=True)
            if shown is not window:
                shown.close()
    if engine := kiosk.network.engine:
        figures.device, figures.precision = engine.device, engine.precision
        figures.traces = engine.explainer.traces
        if stats:
            figures.write(stats, live=True)
    return [figures.summary()] if figures.maps else []


def _go_on(
    kiosk: Kiosk,
    figures: Stats,
    stopped: threading.Event,
    service: ServiceNotifier,
    report: "_Report",
    duration_s: float | None,
    works: Callable[[], None],
) -> None:
    worked = False
    while not (stopped.is_set() or kiosk.left):
        try:
            drawn = kiosk.step()
        except Error:
            raise
        except Exception as error:
            log.error("the screen could not be drawn: %s", first_line(error))
            kiosk.budget.spend("screen", first_line(error), time.monotonic())
            stopped.wait(PAUSE_S)
            continue
        if drawn:
            service.ready(kiosk.described)
            service.alive(time.monotonic())
            service.status(kiosk.described)
            report.tell(kiosk)
        if not worked and figures.maps and kiosk.camera.captured:
            worked = True
            works()
        if duration_s is not None and figures.seconds() >= duration_s:
            return


class _Report:
    """Fills the health file.

    Args:
      file: the health file.
      figures: the counts.
      config: the effective configuration.
      complaint: what is wrong with the configuration that was to be used.
    """

    def __init__(self, file: Health, figures: Stats, config: Config, complaint: str):
        self._file, self._figures, self._config = file, figures, config
        self._complaint = complaint
        self._shown, self._maps = Meter(), Meter()
        self._begun, self._process = time.monotonic(), psutil.Process()

    def tell(self, kiosk: Kiosk, ended: bool = False) -> None:
        """Writes it where it is due."""
        now, state = time.monotonic(), "ended" if ended else kiosk.described
        self._shown.reached(self._figures.frames_shown)
        self._maps.reached(self._figures.maps)
        if self._file.due(state, now):
            facts = self._facts(kiosk, now)
            self._file.write({**facts, "state": "ended"} if ended else facts, state, now)

    def _facts(self, kiosk: Kiosk, now: float) -> dict[str, Any]:
        config, engine, opens = self._config, kiosk.network.engine, kiosk.opens
        last, at = kiosk.budget.last_error or (None, now)
        error = last and {"what": last, "when": _moment(now - at)}
        return {
            "state": str(kiosk.state),
            "card": kiosk.card or None,
            "opens": opens and opens.isoformat(timespec="minutes"),
            "uptime_s": round(now - self._begun, 1),
            "fps": round(self._shown.rate(), 1),
            "maps_per_s": round(self._maps.rate(), 1),
            "restarts": {part: kiosk.budget.spent[part] for part in PARTS},
            "reconnects": kiosk.camera.reconnects,
            "last_error": error,
            "camera": f"{masked(config.live.source)}: {masked(kiosk.camera.described)}",
            "network": config.model.name,
            "computes": f"{engine.precision} on {engine.device}" if engine else None,
            "configuration": masked(self._complaint) or "as written",
            "temperature_c": kiosk.temperature,
            "memory_mib": round(self._process.memory_info().rss / 2**20),
            "version": __version__,
            "pid": self._process.pid,
            "written": _moment(0.0),
        }


def _moment(seconds_ago: float) -> str:
    moment = datetime.fromtimestamp(time.time() - seconds_ago).astimezone()
    return moment.isoformat(timespec="seconds")


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    """Says in a line that a thread ended; its part is started again."""
    name, error = ended.thread and ended.thread.name, ended.exc_value
    log.error("the thread %s ended: %s", name, first_line(error or ended.exc_type()))


def _forbid_core_dumps() -> None:
    """A core dump would hold visitors' pictures."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
