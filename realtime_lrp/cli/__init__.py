"""The command line: from words to options, a configuration and a command; errors to exit codes.

Everything heavy is imported inside a command, so that `--help` answers at once.
"""

from realtime_lrp.cli import commands, viewers
from realtime_lrp.cli.options import cli
from realtime_lrp.system import program


def main() -> None:
    """Runs the command line in `sys.argv` and raises SystemExit with its exit code."""
    program.run(lambda: cli.main(standalone_mode=False))


def process() -> None:
    """Runs the command line as the only work of this process, and ends the process."""
    program.end_process(main)


__all__ = ["cli", "commands", "main", "process", "viewers"]
