"""How a child process that runs a module of ours is started."""

import subprocess
import sys
from pathlib import Path
from typing import IO

_ROOT = str(Path(__file__).parents[2])
_RUN = f"""
import runpy, sys
del sys.argv[0]
sys.path.insert(0, {_ROOT!r})  # the same package as here, though another one may be installed
import realtime_lrp
del sys.path[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def command(module: str, *words: str) -> list[str]:
    """The words that run a module in a process of its own.

    Unlike `python -m` it takes nothing from the current folder, where somebody may have put a file
    that is called like a module of ours.

    Args:
      module: such as "realtime_lrp.models.untrusted.hdf5_check".
      words: what follows on the command line.
    """
    return [sys.executable, "-P", "-c", _RUN, module, *words]


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """The output and the input of a process that was started with pipes for both."""
    if process.stdout is None or process.stdin is None:
        raise ValueError("Expected a process with pipes.")
    return process.stdout, process.stdin
