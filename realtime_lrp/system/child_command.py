"""The command line of child processes that run a module of this package; light to import."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

_ROOT = str(Path(__file__).parents[2])
_RUN = f"""
import runpy, sys
del sys.argv[0]
sys.path.insert(0, {_ROOT!r})  # the same package as here, even if another one is installed
import realtime_lrp
del sys.path[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module in a child process.

    Unlike `python -m` it imports nothing from the current folder, where somebody may have put a
    file with the name of a module.
    """
    return [sys.executable, "-P", "-c", _RUN, module, *arguments]


def output_of(module: str, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Runs a module on what a stranger wrote: it may crash or hang without harm here.

    Raises `subprocess.TimeoutExpired` after killing it.
    """
    return subprocess.run(
        module_command(module, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        env=dict(os.environ),  # as in `Child`
    )


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """The output and the input of a process that was started with pipes for both."""
    if process.stdout is None or process.stdin is None:
        raise ValueError("Expected a process with pipes.")
    return process.stdout, process.stdin
