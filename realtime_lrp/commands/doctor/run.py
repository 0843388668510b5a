"""Starts the checks, and makes a page of what they tell.

Nothing heavy is imported here: a library that is missing or crashes is one of the things to tell.
"""

import logging
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from rich.console import Console

from realtime_lrp.commands.doctor.rows import Mark, Row, failed, page
from realtime_lrp.config import Settings
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system import children

ON_COMMAND_LINE = ("--source", "--set")
CLOSING_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Group:
    """Checks that go through one process.

    Attributes:
      name: of their module, and of the row where they fail together.
      seconds: so long they may take.
      mark: what it means where they fail.
      advice: what to do then.
    """

    name: str
    seconds: float
    mark: Mark
    advice: str


SYSTEM = Group(
    "system", 20, "warning",
    "look for a folder, disk or network drive that is gone or does not answer",
)  # fmt: skip
CAMERAS = Group(
    "cameras", 90, "warning",
    "go on without one: --source URL, --source screen or --source synthetic",
)  # fmt: skip
SOURCE = Group("source", 30, "warning", "check it, or choose another one with --source")
DISPLAY = Group("display", 20, "warning", "go on without a window: --display none")
NETWORK = Group(
    "network", 180, "missing",
    "install TensorFlow again (pip install --force-reinstall tensorflow), or what is named here",
)  # fmt: skip
MEDIA = Group(
    "media", 90, "missing",
    "install OpenCV and PyAV again (pip install --force-reinstall opencv-python av), or what is "
    "named here",
)  # fmt: skip


def run(settings: Settings) -> Iterator[str]:
    """Looks at everything.

    Args:
      settings: what the user will run with. A source that is set there is tried instead of all
        cameras; one that the command line names has to give pictures.

    Yields:
      The page, line by line.

    Raises:
      UnavailableError: something is missing that is needed, after the last line.
    """
    rows: list[Row] = []
    shown = log.isEnabledFor(logging.WARNING)
    with Console(stderr=True, quiet=not shown).status("") as status:
        for group in _groups(settings):
            status.update(group.name)
            rows += _told(group, settings)
    yield from page(rows)
    missing = [row.name for row in rows if row.mark == "missing"]
    if missing:
        raise UnavailableError(
            f"Something needed is missing: {', '.join(dict.fromkeys(missing))}. "
            "What to do stands in the page that realtime-lrp doctor prints."
        )
    yield ""
    yield "The demo runs here, and files can be processed."


def _groups(settings: Settings) -> list[Group]:
    pictures = CAMERAS
    if settings.is_set("live.source"):
        origin = settings.origins["live.source"]
        mark: Mark = "missing" if origin in ON_COMMAND_LINE else "warning"
        pictures = Group(SOURCE.name, SOURCE.seconds, mark, SOURCE.advice)
    return [SYSTEM, pictures, DISPLAY, NETWORK, MEDIA]


def _told(group: Group, settings: Settings) -> list[Row]:
    """What a group tells, and what became of its process where that did not end well."""
    words = children.command(
        "realtime_lrp.commands.doctor.child", group.name, group.mark, group.advice
    )
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent to answer
        )
    except OSError as error:
        return [failed(group.mark, group.name, error, group.advice)]
    ended = ""
    try:
        told, said = process.communicate(
            msgspec.json.encode(settings.given, enc_hook=str), group.seconds
        )
    except subprocess.TimeoutExpired as late:
        told, said = late.stdout or b"", late.stderr or b""
        ended = f"it did not answer within {group.seconds:g} seconds"
    finally:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # the kernel itself hangs
            process.wait(CLOSING_S)
    lines = said.decode(errors="replace").split("\n")
    for line in filter(None, lines):
        log.info("%s: %s", group.name, line)
    whole, _, _ = told.rpartition(b"\n")
    rows = [msgspec.json.decode(line, type=Row) for line in whole.splitlines()]
    ended = ended or _end(process.returncode, lines)
    if ended:
        rows.append(Row(group.mark, group.name, f"failed: {ended}", group.advice))
    return rows


def _end(code: int | None, lines: list[str]) -> str:
    """How a process ended that crashed, with the last that it said; else ""."""
    if not code:
        return ""
    how = f"it ended with {signal.Signals(-code).name if code < 0 else f'the exit code {code}'}"
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"{how} ({last.strip()[:200]})" if last else how
