"""The program itself, to which the files beside this one add commands."""

import click

from realtime_lrp.cli.options import Group
from realtime_lrp.system.version import __version__


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="realtime-lrp")
def cli() -> None:
    """See, live, what a neural network looks at."""
