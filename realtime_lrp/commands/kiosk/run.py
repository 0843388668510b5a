"""Runs the exhibit until it ends; reports its state to systemd and the health file."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from realtime_lrp.commands.kiosk.captions import captions_of
from realtime_lrp.commands.kiosk.health import HealthReport
from realtime_lrp.commands.kiosk.loop import Kiosk
from realtime_lrp.commands.kiosk.service import ServiceNotifier
from realtime_lrp.commands.kiosk.states import broken
from realtime_lrp.config import Config
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.errors import Error, first_line
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.view.window.full_screen import FullScreen, NullWindow

log = logging.getLogger(__name__)


def run(
    config: Config,
    window: FullScreen | NullWindow,
    health: Path,
    duration_s: float | None = None,
    stats_file: Path | None = None,
    complaint: str = "",
    on_working: Callable[[], None] = lambda: None,
    **kiosk_arguments: Any,
) -> list[str]:
    """Runs until staff leave, SIGINT, SIGTERM or the end of the duration.

    Args:
      config: the effective configuration.
      window: where the exhibit is shown; it stays open.
      health: the health file.
      duration_s: seconds from the first map, or None.
      stats_file: where the figures are written, or None.
      complaint: what is wrong with the configuration that should have been used, or "".
      on_working: called once, when there was a map and a picture of the camera.
      kiosk_arguments: further arguments of `Kiosk`.

    Returns:
      A line of figures.

    Raises:
      ConfigError: the captions are wrong.
      TemporaryError: a part is broken; another process may mend it.
      Error: the network never loaded, and only another configuration can mend that.
    """
    captions = captions_of(config)
    if stats_file:
        check_output(stats_file, overwrite=True)
    _forbid_core_dumps()
    threading.excepthook = _log_ended_thread
    stats, service = Stats("", "", frames_dropped=None, reconnects=0), ServiceNotifier()
    report = HealthReport(health, config, complaint)
    with stop_signals() as stopped:
        kiosk = Kiosk(config, captions, window, stats, **kiosk_arguments)
        try:
            _loop(kiosk, stats, stopped, service, report, duration_s, on_working)
        finally:
            service.stopping()
            kiosk.end()
            report.write(kiosk, ended=True)
    if engine := kiosk.network.engine:
        stats.device, stats.precision = engine.device, engine.precision
        stats.traces = engine.explainer.traces
        if stats_file:
            stats.write(stats_file, live=True, provenance=provenance_of(engine))
    return [stats.summary()] if stats.maps else []


def _loop(
    kiosk: Kiosk,
    stats: Stats,
    stopped: threading.Event,
    service: ServiceNotifier,
    report: HealthReport,
    duration_s: float | None,
    on_working: Callable[[], None],
) -> None:
    working = False
    while not (stopped.is_set() or kiosk.left):
        try:
            drawn = kiosk.step()
        except Error:
            raise
        except Exception as error:
            raise broken("screen", first_line(error)) from error
        if drawn:
            service.ready(kiosk.described)
            service.alive(time.monotonic())
            service.status(kiosk.described)
            report.write(kiosk)
        if not working and stats.maps and kiosk.camera.captured:
            working = True
            on_working()
        if duration_s is not None and stats.seconds() >= duration_s:
            return


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    """Logs one line for a thread that ended with an exception; the loop notices."""
    name, error = ended.thread and ended.thread.name, ended.exc_value
    log.error("the thread %s ended: %s", name, first_line(error or ended.exc_type()))


def _forbid_core_dumps() -> None:
    """A core dump would contain pictures of visitors."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
