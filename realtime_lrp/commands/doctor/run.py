"""Runs the groups of checks in child processes and prints their rows.

Nothing heavy is imported here: a library that is missing or crashes is one of the findings.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import msgspec
from rich.console import Console

from realtime_lrp.commands.doctor.rows import Mark, Row, failed_row, table
from realtime_lrp.config import Settings
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.child_command import module_command
from realtime_lrp.system.temporary import temporary_folder

ON_COMMAND_LINE = ("--source", "--set")

KILL_WAIT_S = 1.0
"""Seconds to wait for a killed process; one that is stuck in the kernel is left behind."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Group:
    """Checks that run in one child process.

    Attributes:
      name: that of their module, and of the row if they all fail.
      timeout_s: seconds that they may take in all.
      mark: that of a check that fails.
      advice: what to do about a check that fails.
    """

    name: str
    timeout_s: float
    mark: Mark
    advice: str


SYSTEM = Group(
    "system", 20, "warning",
    "look for a folder, disk or network drive that is missing or does not respond",
)  # fmt: skip
CAMERAS = Group(
    "cameras", 90, "warning",
    "use another source: --source URL, --source screen or --source synthetic",
)  # fmt: skip
SOURCE = Group("source", 30, "warning", "check it, or choose another one with --source")
DISPLAY = Group("display", 20, "warning", "do without a window: --display none")
NETWORK = Group(
    "network", 180, "missing",
    "reinstall TensorFlow (pip install --force-reinstall tensorflow), or what is named here",
)  # fmt: skip
MEDIA = Group(
    "media", 90, "missing",
    "reinstall OpenCV and PyAV (pip install --force-reinstall opencv-python av), or what is "
    "named here",
)  # fmt: skip


def run(settings: Settings) -> Iterator[str]:
    """Runs all checks.

    Args:
      settings: what the user will run with. A source that is set there is tried instead of all
        cameras; one that is set on the command line has to give pictures.

    Yields:
      The report, line by line.

    Raises:
      UnavailableError: something that is needed is missing; raised after the last line.
    """
    rows: list[Row] = []
    shown = log.isEnabledFor(logging.WARNING)
    with Console(stderr=True, quiet=not shown).status("") as status:
        for group in _groups(settings):
            status.update(group.name)
            rows += _run_group(group, settings)
    yield from table(rows)
    missing = [row.name for row in rows if row.mark == "missing"]
    if missing:
        raise UnavailableError(
            f"Something needed is missing: {', '.join(dict.fromkeys(missing))}. "
            "The lines above that begin with -> say what to do."
        )
    yield ""
    yield "The demo runs on this machine, and files can be processed."


def _groups(settings: Settings) -> list[Group]:
    source = CAMERAS
    if settings.is_set("live.source"):
        origin = settings.origins["live.source"]
        mark: Mark = "missing" if origin in ON_COMMAND_LINE else "warning"
        source = Group(SOURCE.name, SOURCE.timeout_s, mark, SOURCE.advice)
    return [SYSTEM, source, DISPLAY, NETWORK, MEDIA]


def _run_group(group: Group, settings: Settings) -> list[Row]:
    """The rows of a group, and one more if its process failed."""
    with ExitStack() as stack:
        environment = dict(os.environ)
        if group is not SYSTEM:  # which reports the user's folder
            with suppress(OSError):  # without a folder the child process says so
                environment["TMPDIR"] = str(stack.enter_context(temporary_folder()))
        return _run_child(group, settings, environment)


def _run_child(group: Group, settings: Settings, environment: dict[str, str]) -> list[Row]:
    """Runs a group's child process. What it leaves in TMPDIR when it is killed is the caller's."""
    command = module_command(
        "realtime_lrp.commands.doctor.child", group.name, group.mark, group.advice
    )
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is handled by the parent
            env=environment,
        )
    except OSError as error:
        return [failed_row(group.mark, group.name, error, group.advice)]
    failure = ""
    try:
        output, errors = process.communicate(
            msgspec.json.encode(settings.given, enc_hook=str), group.timeout_s
        )
    except subprocess.TimeoutExpired as late:
        output, errors = late.stdout or b"", late.stderr or b""
        failure = f"it did not finish within {group.timeout_s:g} seconds"
    finally:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # it is stuck in the kernel
            process.wait(KILL_WAIT_S)
    lines = errors.decode(errors="replace").split("\n")
    for line in filter(None, lines):
        log.info("%s: %s", group.name, line)
    whole, _, _ = output.rpartition(b"\n")
    rows = [msgspec.json.decode(line, type=Row) for line in whole.splitlines()]
    failure = failure or _crash(process.returncode, lines)
    if failure:
        rows.append(Row(group.mark, group.name, f"failed: {failure}", group.advice))
    return rows


def _crash(code: int | None, lines: list[str]) -> str:
    """How a process crashed, with the last line it printed; "" if it ended normally."""
    if not code:
        return ""
    how = f"it ended with {signal.Signals(-code).name if code < 0 else f'the exit code {code}'}"
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"{how} ({last.strip()[:200]})" if last else how
