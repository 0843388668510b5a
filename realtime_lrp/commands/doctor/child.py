"""The child process that runs a group of checks; each row is a line of JSON on stdout.

Its stdin holds the arguments with which the parent called `config.load`.
"""

import os
import sys
import traceback
from typing import Any

import msgspec

from realtime_lrp import config
from realtime_lrp.commands.doctor.checks import CHECKS
from realtime_lrp.commands.doctor.run import Mark, Row, failed_row


def main() -> None:
    """Runs the group that the command line names."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not between the rows
    group, mark, advice = sys.argv[1:]

    def send(row: Row) -> None:
        output.write(msgspec.json.encode(row) + b"\n")
        output.flush()

    given = tuple[str | None, tuple[str, ...], dict[str, Any]]
    file, sets, options = msgspec.json.decode(sys.stdin.buffer.read(), type=given)
    settings = config.load(file, sets, options, check=None)
    for name, check in CHECKS[group].items():
        try:
            for row in check(settings):
                send(row)
        except Exception as error:
            traceback.print_exc()
            libgl = isinstance(error, ImportError) and "libGL" in str(error)
            what_to_do = (
                "apt install libgl1, or your system's package of libGL" if libgl else advice
            )
            send(failed_row(msgspec.convert(mark, Mark), name, error, what_to_do))
            if isinstance(error, ImportError):
                break  # the others need that library too
    os._exit(0)  # everything is sent; libraries may crash while they are unloaded


if __name__ == "__main__":
    main()
