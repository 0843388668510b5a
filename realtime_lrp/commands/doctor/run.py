"""`doctor`: checks what works on this machine, and says what to do about the rest.

Each group of checks runs in a child process: one that hangs or crashes does not harm the others.
Nothing heavy is imported here: a missing library is a finding.
"""

import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console

from realtime_lrp import config
from realtime_lrp.commands.doctor import checks
from realtime_lrp.commands.doctor.checks import Check, Finding, Mark, failed_row
from realtime_lrp.config import Settings
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.child import module_command
from realtime_lrp.system.terminal import in_columns

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckGroup:
    """Checks that run in one child process, by the names of their rows."""

    name: str
    timeout_s: float  # all its checks share this time
    mark: Mark  # stands before what fails
    advice: str
    checks: Mapping[str, Check]


SYSTEM = CheckGroup(
    "system", 20, "warning",
    "look for a folder, disk or network drive that is missing or does not respond",
    {
        "program": checks.program,
        "packages": checks.libraries,
        "films": checks.films,
        "downloads": checks.downloads,
    },
)  # fmt: skip
CAMERAS = CheckGroup(
    "cameras", 90, "warning",
    "use another source: --source URL, --source screen or --source synthetic",
    {"camera": checks.every_camera},
)  # fmt: skip
DISPLAY = CheckGroup(
    "display", 20, "warning", "do without a window: --display none", {"display": checks.display}
)
NETWORK = CheckGroup(
    "network", 180, "missing",
    "reinstall TensorFlow (pip install --force-reinstall tensorflow), or what is named here",
    {
        "processor": checks.processor,
        "GPU": checks.gpu,
        "network": checks.network,
        "weights": checks.weights,
    },
)  # fmt: skip
MEDIA = CheckGroup(
    "media", 90, "missing",
    "reinstall OpenCV and PyAV (pip install --force-reinstall opencv-python av), or what is "
    "named here",
    {"codecs": checks.codecs},
)  # fmt: skip


def run(settings: Settings) -> Iterator[str]:
    """Runs all checks; yields the report, then raises UnavailableError if something is missing."""
    rows: list[Finding] = []
    shown = log.isEnabledFor(logging.WARNING)
    with Console(stderr=True, quiet=not shown).status("") as status:
        for group in groups(settings):
            status.update(group.name)
            rows += run_group(group, settings)
    cells: list[tuple[str, str, str]] = []
    for row in rows:
        cells.append((row.mark, row.name, row.found))
        if row.advice:
            cells.append(("", "", f"-> {row.advice}"))
    yield from in_columns([""] * 3, cells, left=3, width=100)
    missing = [row.name for row in rows if row.mark == "missing"]
    if missing:
        raise UnavailableError(
            f"Something needed is missing: {', '.join(dict.fromkeys(missing))}. "
            "The lines above that begin with -> say what to do."
        )
    yield ""
    yield "The demo runs on this machine, and files can be processed."


def groups(settings: Settings) -> list[CheckGroup]:
    """The groups in the order of the report; a source that is set is tried instead of cameras."""
    source = CAMERAS
    if settings.is_set("live.source"):
        on_command_line = settings.origins["live.source"].startswith("--")
        mark: Mark = "missing" if on_command_line else "warning"
        advice = "check it, or choose another one with --source"
        source = CheckGroup("source", 30, mark, advice, {"source": checks.chosen_source})
    return [SYSTEM, source, DISPLAY, NETWORK, MEDIA]


def run_group(group: CheckGroup, settings: Settings) -> list[Finding]:
    """The rows of a group, and one more if its process failed."""
    given = msgspec.json.encode(settings.given, enc_hook=str)
    failure = ""
    process = subprocess.Popen(
        module_command("realtime_lrp.commands.doctor.run", group.name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is handled by the parent
    )
    try:
        output, errors = process.communicate(given, group.timeout_s)
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        errors = late.stderr or b""
        failure = f"it did not finish within {group.timeout_s:g} seconds"
    finally:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # it is stuck in the kernel
            process.wait(1.0)
    lines = [line for line in errors.decode(errors="replace").split("\n") if line.strip()]
    for line in lines:
        log.info("%s: %s", group.name, line)
    whole, _, _ = output.rpartition(b"\n")
    rows = [msgspec.json.decode(line, type=Finding) for line in whole.splitlines()]
    if (code := process.returncode) and not failure:
        how = signal.Signals(-code).name if code < 0 else f"the exit code {code}"
        said = f" ({lines[-1].strip()[:200]})" if lines else ""
        failure = f"it ended with {how}{said}"
    if failure:
        rows.append(Finding(group.mark, f"failed: {failure}", group.advice, group.name))
    return rows


def check_group() -> None:
    """The child: runs the group in `sys.argv`; stdin has the arguments of `config.load`."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not between the rows
    given = tuple[str | None, tuple[str, ...], dict[str, Any]]
    file, sets, options = msgspec.json.decode(sys.stdin.buffer.read(), type=given)
    settings = config.load(file, sets, options)
    group = next(group for group in groups(settings) if group.name == sys.argv[1])

    def send(name: str, row: Finding) -> None:
        output.write(msgspec.json.encode(msgspec.structs.replace(row, name=name)) + b"\n")
        output.flush()

    for name, check in group.checks.items():
        try:
            for row in check(settings):
                send(name, row)
        except Exception as error:
            traceback.print_exc()
            advice = group.advice
            if isinstance(error, ImportError) and "libGL" in str(error):
                advice = "apt install libgl1, or your system's package of libGL"
            send(name, failed_row(group.mark, error, advice))
            if isinstance(error, ImportError):
                break  # the others need that library too
    os._exit(0)  # everything is sent; libraries may crash while they are unloaded


if __name__ == "__main__":
    check_group()
