"""Opens and measures every camera of this machine; on systems other than Linux, the first one."""

import getpass
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from realtime_lrp.commands.doctor.measuring import describe, judge, measure
from realtime_lrp.commands.doctor.rows import Check, Row, failed_row
from realtime_lrp.config import Settings
from realtime_lrp.errors import Error
from realtime_lrp.video import cameras

NODES = Path("/dev")
"""The folder of Linux's camera devices."""

INSTEAD = "--source URL (http, rtsp), --source screen, a file, or --source synthetic"


def every_camera(settings: Settings) -> Iterator[Row]:
    """A row for each camera, or one that says that there is none."""
    found = False
    for node, name in (_nodes() if cameras.LINUX else {"0": "the first camera"}).items():
        try:
            offers = _offered(node)
            if offers is None:
                continue
            yield _row(settings, node, name, offers)
        except (Error, OSError) as error:
            yield _failed_row(node, name, error)
        found = True
    if not found:
        yield Row(
            "warning", "camera", "none found",
            f"plug one in, or pass it to this virtual machine or container; without one: {INSTEAD}",
        )  # fmt: skip


def _nodes() -> dict[str, str]:
    """Path -> name of each camera, including devices that the system does not list."""
    found = cameras.names()
    for node in sorted(NODES.glob("video[0-9]*")):
        if not (cameras.SYSTEM / node.name).exists():
            found[str(node)] = "a camera without a name"
    return found


def _offered(node: str) -> list[str] | None:
    """The formats that a camera offers, if the system knows them; None if it is not a camera."""
    if not cameras.LINUX:
        return []
    from realtime_lrp.commands.doctor import formats

    return formats.offered(node)


def _row(settings: Settings, node: str, name: str, offers: list[str]) -> Row:
    measurement = measure(node, settings)
    mark, advice = judge(measurement, settings)
    found = f"{name} ({node}): {describe(measurement)}"
    if offers:
        found += f"; it offers {', '.join(offers)}"
    return Row(mark, "camera", found, advice)


def _failed_row(node: str, name: str, error: Error | OSError) -> Row:
    found = failed_row("warning", "camera", error).found
    advice = f"close other programs that use it (fuser -v {node} lists them), or replug it"
    if isinstance(error, PermissionError):
        user = "USER"
        with suppress(OSError, KeyError):  # an account without a name
            user = getpass.getuser()
        found = "you have no permission to use it"
        advice = f"sudo usermod -aG {_group(node)} {user}, then log out and in again"
    elif isinstance(error, FileNotFoundError):
        found = f"there is no {node}"
        advice = f"pass it to this container, for example with docker run --device {node}"
    return Row("warning", "camera", f"{name} ({node}): {found}", advice)


def _group(node: str) -> str:
    """The group that may use a camera device."""
    with suppress(OSError, KeyError, ImportError):
        import grp

        status = os.stat(node)
        if status.st_mode & stat.S_IRGRP and status.st_gid:
            return grp.getgrgid(status.st_gid).gr_name
    return "video"


CHECKS: dict[str, Check] = {"camera": every_camera}
