"""The child process that runs a group of checks; each row is a line of JSON on stdout.

Its stdin holds the arguments with which the parent called `config.load`.
"""

import importlib
import os
import re
import sys
import traceback
from typing import Any

import msgspec

from realtime_lrp import config
from realtime_lrp.commands.doctor.rows import Check, Mark, Row, failed_row

Given = tuple[str | None, tuple[str, ...], dict[str, Any]]

PACKAGES = {
    "tensorflow": "tensorflow", "keras": "keras", "cv2": "opencv-python", "av": "av",
    "numpy": "numpy",
}  # fmt: skip
"""Module of a library -> name of its package for pip."""


def _advice(error: Exception, otherwise: str) -> str:
    """What to do about a library that cannot be loaded; `otherwise` for other errors."""
    if not isinstance(error, ImportError):
        return otherwise
    if found := re.search(r"lib[\w.+-]*?\.so", str(error)):
        return f"install the system package that contains {found[0]} (libGL.so: apt install libgl1)"
    frames = traceback.walk_tb(error.__traceback__)
    modules = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in frames]
    packages = [PACKAGES[module] for module in modules if module in PACKAGES]
    return f"pip install --force-reinstall {packages[-1]}" if packages else otherwise


def main() -> None:
    """Runs the group that the command line names."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not between the rows
    group, mark, advice = sys.argv[1:]

    def send(row: Row) -> None:
        output.write(msgspec.json.encode(row) + b"\n")
        output.flush()

    def send_failure(name: str, error: Exception) -> None:
        traceback.print_exc()
        send(failed_row(msgspec.convert(mark, Mark), name, error, _advice(error, advice)))

    file, sets, options = msgspec.json.decode(sys.stdin.buffer.read(), type=Given)
    settings = config.load(file, sets, options, check=None)
    checks: dict[str, Check] = {}
    try:
        checks = importlib.import_module(f"realtime_lrp.commands.doctor.{group}").CHECKS
    except Exception as error:  # a library that cannot be loaded
        send_failure(group, error)
    for name, check in checks.items():
        try:
            for row in check(settings):
                send(row)
        except Exception as error:
            send_failure(name, error)
    os._exit(0)  # everything is sent; libraries may crash while they are unloaded


if __name__ == "__main__":
    main()
