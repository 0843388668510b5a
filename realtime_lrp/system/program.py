"""A run of the program: signals, verbosity, what is printed, and exceptions to exit codes.

The codes follow sysexits, see `errors`; tests/test_modes.py asserts each of them.
"""

import errno
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import NoReturn

import click

from realtime_lrp.errors import Error, InternalError, TransferError
from realtime_lrp.system.files import remove_temporary
from realtime_lrp.system.signals import ignore_stops, raise_on_signals, stops
from realtime_lrp.system.terminal import PlainFormatter, plain, write_error

NAME = "realtime-lrp"

try:
    __version__ = version(NAME)
except PackageNotFoundError:  # run from a checkout, not installed
    __version__ = "0+checkout"

TRACING = threading.Lock()  # held while a layer is traced, which changes TensorFlow's settings

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_verbosity = 0


def run(command: Callable[[], int | None]) -> NoReturn:
    """Runs a command; raises SystemExit with its exit code, after the message if it failed."""
    raise_on_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names may hold bytes that no encoding knows
            stream.reconfigure(errors="backslashreplace")
    logging.raiseExceptions = False  # a log that cannot be written is no reason for a traceback
    try:
        code = command() or 0
        if number := stops.discarded:  # the command was done before the stop was raised again
            code = 128 + number
    except SystemExit as ended:
        if ended.code == 1:  # click raises it when the reader of its output has gone
            sys.exit(TransferError.exit_code)
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        path = context.command_path if context else NAME
        message = error.format_message()
        stop = "" if message.endswith((".", "?", "?)")) else "."
        _fail(f"{message}{stop} See '{path} --help'.", error.exit_code)
    except Error as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(TransferError.exit_code)
    except Exception as error:
        if getattr(error, "errno", None) in _DISK_ERRORS:
            _fail(f"Writing failed ({error}).", TransferError.exit_code)
        bug = InternalError(f"Unexpected {type(error).__name__}: {error}")
        _fail(str(bug), bug.exit_code)
    sys.exit(code)


def end_process(main: Callable[[], None]) -> NoReturn:
    """Runs `main` and ends this process with its exit code.

    A thread that still computes, or a stream that cannot be flushed, would abort the interpreter on
    its way down, with another exit code: then the process ends without cleaning it up. Temporary
    folders are removed before. A signal that comes after `main` changes nothing.
    """
    code = 0
    try:
        try:
            main()
        finally:
            ignore_stops()
    except KeyboardInterrupt:  # while `main` printed its message or returned
        code = 128 + signal.SIGINT
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    remove_temporary()
    flushed = True
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            flushed = False
    if flushed and threading.active_count() == 1:
        sys.exit(code)
    os._exit(code)


def set_verbosity(verbose: int, quiet: bool) -> None:
    """Sets up the log on stderr; 1 is for progress as well, 2 also for tracebacks."""
    global _verbosity
    _verbosity = verbose
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    handler = _ErrorHandler()
    handler.setFormatter(PlainFormatter(f"{NAME}: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def shows_tracebacks() -> bool:
    """Whether -vv is given."""
    return _verbosity > 1


class _ErrorHandler(logging.Handler):
    """Writes the log to standard error, also while TensorFlow's lines are kept away from it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write_error(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


def print_lines(lines: Iterable[str], secrets: bool = False) -> None:
    """Prints what a command reports on stdout, line by line; nothing with -q."""
    for line in lines:
        if logging.getLogger().isEnabledFor(logging.WARNING):
            try:
                click.echo(line if secrets else plain(line))
            except BrokenPipeError:  # click would turn it into exit code 1
                sys.exit(TransferError.exit_code)


def _fail(message: str, code: int) -> NoReturn:
    told = [traceback.format_exc()] * shows_tracebacks() + [f"{NAME}: {message}"]
    with suppress(OSError, ValueError):
        for text in told:
            write_error(plain(text.rstrip()) + "\n")
    sys.exit(code)
