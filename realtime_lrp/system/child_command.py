"""The command line of child processes that run a module of this package; light to import."""

import sys
from pathlib import Path

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
