"""The process that goes through a group of checks: a line of JSON for each row, as soon as it is.

It gets what the program that started it gave to `config.load`.
"""

import importlib
import os
import re
import sys
import traceback
from typing import Any

import msgspec

from realtime_lrp import config
from realtime_lrp.commands.doctor.rows import Check, Mark, Row, failed

Given = tuple[str | None, tuple[str, ...], dict[str, Any]]

DISTRIBUTIONS = {
    "tensorflow": "tensorflow", "keras": "keras", "cv2": "opencv-python", "av": "av",
    "numpy": "numpy",
}  # fmt: skip
"""What the modules of the libraries are installed as."""


def _advice(error: Exception, otherwise: str) -> str:
    """What to do about a library that cannot be loaded, by which it is; else what is given."""
    if not isinstance(error, ImportError):
        return otherwise
    if found := re.search(r"lib[\w.+-]*?\.so", str(error)):
        return f"install the system's package that has {found[0]} (libGL.so: apt install libgl1)"
    running = traceback.walk_tb(error.__traceback__)
    modules = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in running]
    at_fault = [DISTRIBUTIONS[module] for module in modules if module in DISTRIBUTIONS]
    return f"pip install --force-reinstall {at_fault[-1]}" if at_fault else otherwise


def main() -> None:
    """Tells the rows of the group that the command line names."""
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the rows
    group, mark, advice = sys.argv[1:]

    def tell(row: Row) -> None:
        outgoing.write(msgspec.json.encode(row) + b"\n")
        outgoing.flush()

    def refused(name: str, error: Exception) -> None:
        traceback.print_exc()
        tell(failed(msgspec.convert(mark, Mark), name, error, _advice(error, advice)))

    file, sets, options = msgspec.json.decode(sys.stdin.buffer.read(), type=Given)
    settings = config.load(file, sets, options, check=None)
    checks: dict[str, Check] = {}
    try:
        checks = importlib.import_module(f"realtime_lrp.commands.doctor.{group}").CHECKS
    except Exception as error:  # a library that cannot be loaded
        refused(group, error)
    for name, check in checks.items():
        try:
            for row in check(settings):
                tell(row)
        except Exception as error:
            refused(name, error)
    os._exit(0)  # all is told; libraries that are taken down may crash


if __name__ == "__main__":
    main()
