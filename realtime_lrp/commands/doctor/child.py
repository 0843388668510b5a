"""The child process that runs a group of checks."""

import os
import sys
import traceback
from typing import Any

import msgspec

from realtime_lrp import config
from realtime_lrp.commands.doctor.checks import CHECKS
from realtime_lrp.commands.doctor.run import Mark, failed_row


def main() -> None:
    """Runs the group that the command line names; each row is a line of JSON on stdout.

    Stdin holds the arguments with which the parent called `config.load`.
    """
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not between the rows
    group, mark, advice = sys.argv[1:]
    given = tuple[str | None, tuple[str, ...], dict[str, Any]]
    file, sets, options = msgspec.json.decode(sys.stdin.buffer.read(), type=given)
    settings = config.load(file, sets, options, check=None)
    for name, check in CHECKS[group].items():
        try:
            for row in check(settings):
                output.write(msgspec.json.encode(row) + b"\n")
                output.flush()
        except Exception as error:
            traceback.print_exc()
            if isinstance(error, ImportError) and "libGL" in str(error):
                advice = "apt install libgl1, or your system's package of libGL"
            row = failed_row(msgspec.convert(mark, Mark), name, error, advice)
            output.write(msgspec.json.encode(row) + b"\n")
            output.flush()
            if isinstance(error, ImportError):
                break  # the others need that library too
    os._exit(0)  # everything is sent; libraries may crash while they are unloaded


if __name__ == "__main__":
    main()
