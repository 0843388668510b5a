"""Starts the exhibit: opens log and window, and runs until staff leave or a signal comes."""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from realtime_lrp.commands.kiosk.loop import Kiosk
from realtime_lrp.commands.kiosk.report import Report
from realtime_lrp.commands.kiosk.settings import keep, restore, state_folder
from realtime_lrp.commands.kiosk.states import broken
from realtime_lrp.config import Settings
from realtime_lrp.errors import Error, UnavailableError, UsageError, first_line, masked
from realtime_lrp.realtime.stats import Stats, write_figures
from realtime_lrp.system import machine
from realtime_lrp.system.files import check_output
from realtime_lrp.system.program import __version__
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.system.terminal import PlainFormatter
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.view.full_screen import FullScreen, NullWindow

LOG_BYTES, OLDER_LOGS = 256 * 1024, 4
"""Size of the log and of each previous one, and how many of these are kept."""

log = logging.getLogger(__name__)


def start(
    settings: Settings,
    duration_s: float | None,
    stats_file: Path | None,
    window: FullScreen | NullWindow | None = None,
    **kiosk_arguments: Any,
) -> list[str]:
    """Runs the exhibit until staff leave, SIGINT, SIGTERM, or `duration_s` after the first map.

    A configuration with which no map can be made is replaced by the last good one, in the same
    window, which is closed at the end. Returns a line of figures.

    Raises:
      TemporaryError: a part is broken; another process may mend it.
      Error: another exhibit is running, there is no display, or the configuration is wrong.
    """
    machine.limit_kept_memory()
    draw_in_one_thread()
    with single_instance():
        _open_log(state_folder() / "kiosk.log")
        headless = settings.config.live.display == "none"
        shown = window or (NullWindow() if headless else FullScreen())
        worked = threading.Event()
        arguments = duration_s, stats_file, worked, {"window": shown, **kiosk_arguments}
        try:
            return _run(settings, *arguments)
        except Error as error:
            located = settings.located(error) if isinstance(error, UsageError) else error
            replaceable = not (worked.is_set() or settings.complaint)
            good = restore(settings.given, str(located)) if replaceable else None
            if good is None:
                log.info("ended: %s", masked(str(located)))
                raise located from None
            return _run(good, *arguments)
        finally:
            shown.close()


def _run(
    settings: Settings,
    duration_s: float | None,
    stats_file: Path | None,
    worked: threading.Event,
    arguments: dict[str, Any],
) -> list[str]:
    config = settings.config
    if settings.complaint:
        log.error("%s\nUsing the last good configuration instead.", masked(settings.complaint))
    log.info(
        "realtime_lrp %s, process %d: %s, camera %s, %s",
        __version__, os.getpid(), config.model.name, masked(config.live.source),
        settings.given[0] or "no configuration file",
    )  # fmt: skip
    if stats_file:
        check_output(stats_file, overwrite=True)
    _forbid_core_dumps()
    threading.excepthook = _log_ended_thread
    stats = Stats(frames_dropped=None, reconnects=0)
    report = Report(settings, state_folder())
    with stop_signals() as stopped:
        kiosk = Kiosk(config, stats=stats, **arguments)
        try:
            while not (stopped.is_set() or kiosk.left):
                if kiosk.step():
                    report.drawn(kiosk, time.monotonic())
                if not worked.is_set() and stats.maps and kiosk.camera.captured:
                    worked.set()
                    keep(settings, kiosk.captions)
                if duration_s is not None and stats.seconds() >= duration_s:
                    break
        except Error:
            raise
        except Exception as error:  # only a new process mends it
            raise broken("screen", first_line(error)) from error
        finally:
            report.ended(kiosk)
            kiosk.end()
    if engine := kiosk.network.engine:
        stats.note_engine(engine)
        if stats_file:
            write_figures(stats_file, stats.as_dict(live=True), engine.provenance())
    log.info("ended: by staff, a signal or --duration")
    return [stats.summary()] if stats.maps else []


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    """Logs one line for a thread that ended with an exception; the loop notices."""
    name, error = ended.thread and ended.thread.name, ended.exc_value
    log.error("the thread %s ended: %s", name, first_line(error or ended.exc_type()))


def _forbid_core_dumps() -> None:
    """A core dump would contain pictures of visitors."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def single_instance() -> Iterator[None]:
    """Refuses to start if another exhibit uses the state folder; its lock names the process.

    Where files cannot be locked (Windows, some file systems), nothing is refused.
    """
    with ExitStack() as stack:
        try:
            import fcntl  # not on every system

            file = stack.enter_context((state_folder() / "running").open("a+", encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except BlockingIOError:
            file.seek(0)
            raise UnavailableError(
                f"The exhibit is already running (process {file.read()}). "
                "Stop that one first, with its exit key or SIGTERM."
            ) from None
        except (ImportError, OSError) as error:  # also no space for a number
            log.debug("nothing is locked: %s", error)
        yield


def _open_log(path: Path) -> None:
    """Also writes the log to a file of limited size; while the disk is full its lines are lost."""
    with suppress(OSError):
        handler = RotatingFileHandler(
            path, maxBytes=LOG_BYTES, backupCount=OLDER_LOGS, encoding="utf-8"
        )
        handler.handleError = lambda record: None  # type: ignore[method-assign]
        handler.setLevel(logging.INFO)
        handler.setFormatter(PlainFormatter("%(asctime)s %(message)s"))
        logging.getLogger().addHandler(handler)
    if logging.getLogger().isEnabledFor(logging.WARNING):
        logging.getLogger("realtime_lrp.commands.kiosk").setLevel(logging.INFO)
