"""Starts the exhibit, runs it until staff leave or a signal comes, and reports its state.

docs/kiosk.md lists the keys of the health file, which says nothing about visitors.
"""

import json
import logging
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from realtime_lrp.commands.kiosk.loop import Exhibit
from realtime_lrp.commands.kiosk.parts import broken
from realtime_lrp.commands.kiosk.settings import keep, replace_files, restore, state_folder
from realtime_lrp.config import ASSETS, Settings
from realtime_lrp.errors import Error, UnavailableError, UsageError, first_line, masked
from realtime_lrp.realtime.stats import Stats, write_figures
from realtime_lrp.system import machine
from realtime_lrp.system.files import check_output
from realtime_lrp.system.program import __version__
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.system.terminal import PlainFormatter
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.view.window import FullScreen, NullWindow

log = logging.getLogger(__name__)

LOG_BYTES, OLDER_LOGS = 256 * 1024, 4  # size of each log, and how many previous ones are kept


def start(
    settings: Settings,
    duration_s: float | None,
    stats_file: Path | None,
    **exhibit_arguments: Any,
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
        window = NullWindow() if settings.config.live.display == "none" else FullScreen()
        worked = threading.Event()
        made = partial(Exhibit, window=window, **exhibit_arguments)
        arguments = made, duration_s, stats_file, worked
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
            window.close()


def _run(
    settings: Settings, made: Callable[..., Exhibit], duration_s: float | None,
    stats_file: Path | None, worked: threading.Event,
) -> list[str]:  # fmt: skip
    config = settings.config
    if settings.complaint:
        log.error("%s\nUsing the last good configuration instead.", masked(settings.complaint))
    log.info(
        "realtime_lrp %s, process %d: %s, source %s, %s",
        __version__, os.getpid(), config.model.name, masked(config.live.source),
        settings.given[0] or "no configuration file",
    )  # fmt: skip
    if stats_file:
        check_output(stats_file, overwrite=True)
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would contain visitors' pictures
    threading.excepthook = _log_ended_thread
    stats = Stats(frames_dropped=None, reconnects=0)
    report = Heartbeat(settings, state_folder())
    with stop_signals() as stopped:
        kiosk = made(config, stats=stats)
        try:
            while not (stopped.is_set() or kiosk.lock.opened):
                if kiosk.step():
                    report.drawn(kiosk, time.monotonic())
                if not worked.is_set() and stats.maps and kiosk.camera.frames.count:
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
    name = ended.thread and ended.thread.name
    error = ended.exc_value
    log.error("the thread %s ended: %s", name, first_line(error or ended.exc_type()))


@contextmanager
def single_instance() -> Iterator[None]:
    """Refuses a second exhibit with the same state folder, where files can be locked."""
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
                "Stop that one first: hold q, or send SIGTERM."
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


TEMPLATE = ASSETS / "realtime-lrp.service.in"

REPORT_S = 5.0  # seconds after which the exhibit reports again though its state is the same


class Heartbeat:
    """Tells the service manager and the health file what the exhibit does.

    `environ` has NOTIFY_SOCKET, where systemd listens, and WATCHDOG_USEC, its timeout. What cannot
    be sent or written now is tried again with the next report; the exhibit goes on.
    """

    def __init__(self, settings: Settings, folder: Path, environ: Mapping[str, str] = os.environ):
        usual = Path(environ.get("RUNTIME_DIRECTORY") or folder) / "health.json"
        self._file = Path(settings.config.kiosk.health or usual)
        self._settings = settings
        self._failing = False
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        timeout_us = environ.get("WATCHDOG_USEC", "")
        twice_s = int(timeout_us) / 2e6 if timeout_us.isdecimal() else REPORT_S
        self._period_s = min(REPORT_S, twice_s)
        self._reported_at = -math.inf
        self._state = ""
        self._warnings = _LastWarning(logging.WARNING)
        logging.getLogger("realtime_lrp").addHandler(self._warnings)

    def drawn(self, kiosk: Exhibit, now: float) -> None:
        """The screen was drawn: reports every few seconds, and when the state changes."""
        if kiosk.described != self._state or now - self._reported_at >= self._period_s:
            self._reported_at = now
            self._state = kiosk.described
            self._report(kiosk, kiosk.state, f"READY=1\nSTATUS={self._state}\nWATCHDOG=1")

    def ended(self, kiosk: Exhibit) -> None:
        self._report(kiosk, "ended", "STOPPING=1")
        logging.getLogger("realtime_lrp").removeHandler(self._warnings)

    def _report(self, kiosk: Exhibit, state: str, message: str) -> None:
        if self._address:
            with suppress(OSError):
                self._socket.sendto(message.encode("utf-8", "replace"), self._address)
        config = self._settings.config
        camera = kiosk.camera
        source = masked(config.live.source)
        told = masked("released" if camera.rests else camera.trouble or camera.source.described)
        facts = {
            "state": state,
            "card": kiosk.card or None,
            "last_warning": self._warnings.last,
            "camera": told if source in told else f"{source}: {told}".rstrip(": "),
            "network": config.model.name,
            "configuration": masked(self._settings.complaint) or "as written",
            "written": _local_time(),
        }
        failure = replace_files({self._file: json.dumps(facts, indent=2) + "\n"})
        if failure and not self._failing:
            log.warning("the health file is not updated until it can be written again: %s", failure)
        self._failing = bool(failure)


class _LastWarning(logging.Handler):
    """Keeps the newest warning or error of the log, and when it came."""

    last: dict[str, str] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.last = {"what": masked(record.getMessage()), "when": _local_time()}


def _local_time() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "$": "$$", "%": "%%"})
"""How systemd writes signs of a quoted word; elsewhere it expands only the percent sign."""


def unit(config_file: Path | None, user: str, program: str) -> str:
    """A systemd unit that runs the exhibit on a computer without a desktop; paths are absolute."""
    command = [program, "kiosk", *(("--config", str(config_file)) if config_file else ())]
    values = {
        "@USER@": user.replace("%", "%%"),
        "@FOLDER@": str(config_file.parent).replace("%", "%%") if config_file else "/",
        "@COMMAND@": " ".join(f'"{word.translate(QUOTED)}"' for word in command),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("@[A-Z]+@", lambda found: values[found[0]], template)
