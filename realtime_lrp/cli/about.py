"""The commands that explain no pictures but tell about machine, settings, networks and outputs."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import click

from realtime_lrp import config
from realtime_lrp.cli.options import PATH, cli, complete_files, configured
from realtime_lrp.errors import Error
from realtime_lrp.system.program import print_lines, set_verbosity


@cli.command()
@configured(
    "--source", "--display", load=partial(config.load, check=None)
)  # wrong names are a finding
def doctor(settings: config.Settings) -> None:
    """Check what works on this machine.

    It says what to do about the rest. The exit code is 0 if the demo runs and files can be
    processed, otherwise 69. With --source, that source has to give pictures too.
    """
    from realtime_lrp.commands.doctor.run import run

    print_lines(run(settings))


def _print_schema(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(config.json_schema(), nl=False)
        context.exit()


def _wrong_settings(chosen: config.Config) -> Iterable[tuple[config.KeyPath, Error]]:
    from realtime_lrp.commands.kiosk.settings import wrong_settings

    return wrong_settings(chosen)


@cli.command("config")
@click.option(
    "--schema",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_schema,
    help="print the schema for editors (JSON Schema) instead",
)
@configured(*config.OPTIONS, load=partial(config.load, check=_wrong_settings))
def config_command(settings: config.Settings) -> None:
    """Check the configuration and print it.

    The output is a file to start from: every key with its value, what it means, and where the
    value came from.
    """
    click.echo(config.schema_line() + config.as_yaml(settings), nl=False)


@cli.command()
def models() -> None:
    """List the networks that --model knows."""
    from realtime_lrp.commands.models import run

    print_lines(run())


@cli.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=PATH, shell_complete=complete_files
)
@click.option("--json", "as_json", is_flag=True, help="print a JSON line for each output")
def show(files: tuple[Path, ...], as_json: bool) -> None:
    """Say how outputs were made.

    Network, method, target, settings and versions are printed. FILE is any file that this program
    wrote, or a folder: one line for each output in it. With --config FILE, other commands take
    their settings from an output.
    """
    from realtime_lrp.commands.show import run

    set_verbosity(0, quiet=False)
    print_lines(run(files, as_json))
