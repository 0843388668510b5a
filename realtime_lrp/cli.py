"""The commands, thin: words to a configuration, errors to exit codes.

Everything heavy is imported inside a command, so that `--help` answers at once.
"""

import errno
import getpass
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import click
from click.shell_completion import CompletionItem

from realtime_lrp import __version__, config
from realtime_lrp.errors import ConfigError, Error, UsageError
from realtime_lrp.system.messages import PlainFormatter, plain
from realtime_lrp.system.signals import discarded_stop, raise_on_signals

EXPLAIN = (
    "--model", "--weights", "--labels", "--preprocess", "--size", "--method", "--composite",
    "--target", "--pool", "--precision", "--mirror", "--map", "--colormap", "--opacity",
)  # fmt: skip
"""The options of every command that explains something."""

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_verbosity = 0


def main() -> None:
    """Runs a command and ends the process with the contract's exit code."""
    raise_on_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files may hold what no encoding knows
            stream.reconfigure(errors="backslashreplace")
    logging.raiseExceptions = False  # nobody reads that the log cannot be written
    try:
        code = _ran()
        if number := discarded_stop():  # the command was done before it could be raised again
            sys.exit(128 + number)
        sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        where = context.command_path if context else "realtime-lrp"
        _fail(Error(f"{error.format_message()} See '{where} --help'."), error.exit_code)
    except Error as error:
        _fail(error, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(74)
    except Exception as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            _fail(Error(f"Writing failed ({error})."), 74)
        kind = type(error).__name__
        _fail(Error(f"Unexpected {kind}: {error}\nThis is a fault of ours; -vv shows where."), 70)


def _ran() -> int:
    try:
        return cli.main(standalone_mode=False) or 0
    except SystemExit as ended:
        if ended.code == 1:  # click's way to say that nobody reads what it prints
            return 74
        raise


def process() -> None:
    """`main` for a process of its own.

    A thread that still computes would abort it while the interpreter is taken down, with another
    exit code, as would a stream that cannot be written: then the process ends without that.
    """
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    flushed = [_flushed(stream) for stream in (sys.stdout, sys.stderr)]
    if all(flushed) and threading.active_count() == 1:
        sys.exit(code)
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _flushed(stream: TextIO | None) -> bool:
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        return False
    return True


def _fail(error: Exception, code: int) -> None:
    if _verbosity > 1:
        _tell(traceback.format_exc())
    _tell(f"realtime-lrp: {error}")
    sys.exit(code)


def _tell(text: str) -> None:
    with suppress(OSError, ValueError):
        click.echo(plain(text.rstrip()), err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="realtime-lrp")
def cli() -> None:
    """See, live, what a neural network looks at."""


def configured(*names: str, load: Callable[..., config.Settings] = config.load) -> Decorator:
    """Adds the options that set a key; the command gets `settings: config.Settings`.

    Args:
      names: options out of `config.OPTIONS`.
      load: makes the settings, like `config.load`.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(
            config_file: str | None, sets: tuple[str, ...], verbose: int, quiet: bool, **given: Any
        ) -> Any:
            _set_verbosity(verbose, quiet)
            options = {n: given.pop(_variable(n)) for n in names}
            chosen = {n: value for n, value in options.items() if value is not None}
            settings = load(config_file, sets, chosen, command=_command())
            try:
                return command(settings, **given)
            except UsageError as error:
                raise settings.located(error) from error

        made: Command = wrapped
        for added in reversed([*_COMMON, *map(_key_option, names)]):
            made = added(made)
        return made

    return decorate


def _command() -> str:
    """The command whose defaults hold; photos are evaluated with those of no command."""
    context = click.get_current_context()
    name = context.info_name or ""
    return "" if name == "evaluate" and context.params["images"] else name


def _variable(name: str) -> str:
    return "key_" + name.removeprefix("--")


def _files(context: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(begun, type="file")]


def _names(key: str, files: bool) -> Completion:
    """Completes the names that a key may have; files where none of them fits."""

    def complete(
        context: click.Context, option: click.Parameter, begun: str
    ) -> list[CompletionItem]:
        names = [name for name in config.legal_values(key) if name.startswith(begun)]
        first = _files(context, option, begun) if files else []  # bash drops what comes before it
        return first + [CompletionItem(name) for name in names]

    return complete


def _assignments(
    context: click.Context, option: click.Parameter, begun: str
) -> list[CompletionItem]:
    key, equals, _ = begun.partition("=")
    if not equals:
        keys = [key for key in config.legal_keys() if key.startswith(begun)]
        return [CompletionItem(f"{key}=", help=config.describe(key)) for key in keys]
    values = [f"{key}={value}" for value in config.legal_values(key)]
    return [CompletionItem(value) for value in values if value.startswith(begun)]


def _key_option(name: str) -> Decorator:
    key = config.OPTIONS[name]
    if name == "--mirror":
        return click.option(
            "--mirror/--no-mirror", _variable(name), default=None, help="left and right swapped"
        )
    complete = _names(key, files=name in ("--model", "--weights", "--labels", "--source"))
    return click.option(
        name, _variable(name), type=config.kind_of(key), help=config.describe(key),
        shell_complete=complete,
    )  # fmt: skip


_COMMON: tuple[Decorator, ...] = (
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        help="a configuration file (YAML)",
        shell_complete=_files,
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="sets section.key",
        shell_complete=_assignments,
    ),
    click.option("-v", "verbose", count=True, help="says more; -vv shows tracebacks"),
    click.option("-q", "quiet", is_flag=True, help="says nothing but errors"),
)
_PATH = click.Path(path_type=Path)
_OVERWRITE = click.option("--overwrite", is_flag=True, help="replaces files that exist")
_DURATION = click.option(
    "--duration",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="ends so long after the first map",
)
_SECONDS = click.FloatRange(min=0)
_STATS = click.option("--stats", type=_PATH, metavar="FILE", help="writes figures as JSON")
_MAPS = click.option("--maps", type=_PATH, metavar="FOLDER", help="keeps the raw maps (.npz)")
_INPUTS = click.argument(
    "inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=_files
)
_OUTPUT = click.option(
    "-o", "output", required=True, metavar="FILE_OR_FOLDER", help="the output",
    shell_complete=_files,
)  # fmt: skip


def _set_verbosity(verbose: int, quiet: bool) -> None:
    global _verbosity
    _verbosity = verbose
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("realtime-lrp: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        if logging.getLogger().isEnabledFor(logging.WARNING):
            try:
                click.echo(plain(line))
            except BrokenPipeError:  # which click would make an exit code of its own
                sys.exit(74)


def _ends_with_0(run: Callable[[], Any]) -> Any:
    """What `run` gives; a viewer that is told to stop has done its work."""
    try:
        return run()
    except KeyboardInterrupt:
        sys.exit(0)
    except SystemExit as stopped:
        if stopped.code != 128 + signal.SIGTERM:
            raise
        sys.exit(0)


@cli.command()
@click.option(
    "-o", "output", metavar="FILE", help="writes a video and a contact sheet instead",
    shell_complete=_files,
)  # fmt: skip
@_OVERWRITE
@_DURATION
@configured(*EXPLAIN, "--display")
def demo(
    settings: config.Settings, output: str | None, overwrite: bool, duration: float | None
) -> None:
    """The embedded network on the embedded clip: no camera, no download."""
    from realtime_lrp.commands import demo as mode
    from realtime_lrp.view.window.window import display_reachable

    windowed = settings.config.live.display == "window" and display_reachable()
    if output is None and windowed:
        _ends_with_0(lambda: _say(mode.in_window(settings.config, duration)))
    else:
        _say(mode.to_file(settings.config, Path(output or "demo.mp4"), overwrite))


@cli.command()
@_DURATION
@_STATS
@click.option(
    "--record", type=_PATH, metavar="FILE", help="writes what is shown (.mp4, .mov, .mkv)"
)
@_OVERWRITE
@configured("--source", *EXPLAIN, "--follow", "--display")
def live(
    settings: config.Settings,
    duration: float | None,
    stats: Path | None,
    record: Path | None,
    overwrite: bool,
) -> None:
    """A camera, URL or file with the network's relevance over it.

    It runs until q or ESC in the window, Ctrl-C or --duration; a file starts again at its end. In
    the window h shows what all keys do.
    """

    def run() -> None:
        from realtime_lrp.commands.live.run import run as run_live

        _say(run_live(settings.config, duration, stats, record, overwrite))

    _ends_with_0(run)


def _hash_pin(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:  # as when a shell completes a word
        from realtime_lrp.commands.kiosk.lock import hash_pin

        pin = click.prompt(
            "PIN (4 to 12 digits)", hide_input=True, confirmation_prompt=True, err=True
        )
        try:
            click.echo(hash_pin(pin))
        except ValueError as error:
            raise UsageError(str(error)) from None
        context.exit()


def _load_for_kiosk(*given: Any, command: str) -> config.Settings:
    """The exhibit's settings: the last good ones if the file is wrong."""
    from realtime_lrp.commands.kiosk.start import load

    return load(*given)


def _program() -> str:
    """The path of realtime-lrp in this environment."""
    installed = Path(sys.executable).with_name("realtime-lrp")
    return str(installed if installed.exists() else Path(sys.argv[0]).absolute())


@cli.command()
@_DURATION
@_STATS
@click.option(
    "--print-unit",
    is_flag=True,
    help="checks the configuration, prints a systemd unit that starts the exhibit with the machine",
)
@click.option(
    "--hash-pin",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_hash_pin,
    help="asks for a PIN and prints what kiosk.pin needs",
)
@configured("--source", *EXPLAIN, "--follow", "--display", load=_load_for_kiosk)
def kiosk(
    settings: config.Settings,
    duration: float | None,
    stats: Path | None,
    print_unit: bool,
) -> None:
    """The exhibit: full screen, for months, without a keeper.

    It ends when its key (kiosk.exit_key, q) or a corner of the screen is held for 5 seconds.
    """
    if print_unit:
        from realtime_lrp.commands.kiosk.service import unit

        file, *others = settings.given
        if settings.complaint:
            raise ConfigError(settings.complaint)
        if any(others):
            raise UsageError(
                "--print-unit takes --config alone: put the other settings into that file."
            )
        user = getpass.getuser()
        if user == "root":
            click.echo("realtime-lrp: this unit runs as root; print it as another user.", err=True)
        chosen = Path(file).absolute() if file else None
        click.echo(unit(chosen, user, _program()), nl=False)
        return

    def run() -> None:
        from realtime_lrp.commands.kiosk.start import start

        _say(start(settings, duration, stats))

    _ends_with_0(run)


@cli.command()
@_INPUTS
@_OUTPUT
@_OVERWRITE
@_STATS
@click.option("--start", type=_SECONDS, metavar="SECONDS", help="leaves out what comes before")
@click.option(
    "--end", type=_SECONDS, metavar="SECONDS", help="leaves out this frame and all behind"
)
@click.option("--resume", is_flag=True, help="skips what is finished: same source, same settings")
@click.option("--sidecar", is_flag=True, help="writes what each frame shows as JSON lines (.jsonl)")
@click.option("--summary", is_flag=True, help="writes a picture of each recording (.summary.png)")
@_MAPS
@click.option("--json", is_flag=True, help="tells its progress as JSON lines on stdout")
@configured(*EXPLAIN, "--layout", "--stride", "--batch", "--codec", "--quality", "--audio")
def video(settings: config.Settings, **request: Any) -> None:
    """Recorded files to overlaid files, with their times and their sound."""
    from realtime_lrp.commands.video import run as mode

    _say(mode.run(settings.config, mode.Request(**request)))


@cli.command()
@_INPUTS
@_OUTPUT
@_OVERWRITE
@click.option("--sidecar", is_flag=True, help="writes what each picture shows as JSON lines")
@click.option("--summary", is_flag=True, help="writes a picture of them all (.summary.png)")
@_MAPS
@configured(*EXPLAIN)
def image(settings: config.Settings, **options: Any) -> None:
    """Pictures to overlaid pictures (.png, .jpg) or raw maps (.npz)."""
    from realtime_lrp.commands import image as mode

    _say(mode.run(settings.config, mode.ImageOptions(**options)))


@cli.command()
@click.argument("picture", metavar="INPUT", type=_PATH)
@click.option(
    "--logdir",
    required=True,
    type=_PATH,
    metavar="DIR",
    help="TensorBoard's folder; the run becomes a folder in it",
)
@_OVERWRITE
@configured(*EXPLAIN)
def inspect(settings: config.Settings, picture: Path, logdir: Path, overwrite: bool) -> None:
    """Every layer's activation and relevance of one picture to TensorBoard.

    It also prints them as a table: what each layer gets, hands down and loses, and for each max
    pool the tensor that it reads and the one that it writes.
    """
    from realtime_lrp.commands.inspect import run as mode

    _say(mode.run(settings.config, picture, logdir, overwrite))


@cli.command()
@click.option("--images", type=_PATH, metavar="DIR", help="photos; without it: drawn symbols")
@click.option("--boxes", type=_PATH, metavar="FILE", help="where the photos' objects are (JSON)")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="how many; else 60 drawn or all photos"
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, help="of all chance")
@click.option("--json", type=_PATH, metavar="FILE", help="writes every figure as JSON")
@click.option("--picture", type=_PATH, metavar="FILE", help="writes a picture of all maps")
@_OVERWRITE
@configured(
    "--model", "--weights", "--labels", "--preprocess", "--size", "--pool", "--precision",
    "--colormap", "--opacity",
)  # fmt: skip
def evaluate(settings: config.Settings, **options: Any) -> None:
    """Measures how well the maps of every composite and method point at the object.

    Without --images: the embedded network on symbols drawn for it. With --images and --boxes:
    photos, where FILE holds {"cat.jpg": {"box": [x0, y0, x1, y1], "label": "tabby"}}, the box in
    pixels, or a list of such boxes. Without a label the network's answer is explained.
    """
    from realtime_lrp.commands.evaluate import run as mode

    _say(mode.run(settings.config, mode.EvaluateOptions(**options)))


@cli.command()
@click.option("--quick", is_flag=True, help="half a minute: fewer batches, no growth tables")
@click.option("--json", "json_file", type=_PATH, metavar="FILE", help="writes every figure as JSON")
@_OVERWRITE
@configured(
    "--model", "--weights", "--preprocess", "--size", "--method", "--composite", "--pool"
)  # fmt: skip
def bench(settings: config.Settings, quick: bool, json_file: Path | None, overwrite: bool) -> None:
    """Measures this machine: maps, what limits them, and the pictures around them.

    VGG16 with random weights unless --model says otherwise. Leave the machine alone meanwhile.
    """
    from realtime_lrp.commands.bench import run as mode

    _say(mode.run(settings.config, quick, json_file, overwrite))


def _load_unchecked(
    file: str | None, sets: tuple[str, ...], options: dict[str, Any], command: str
) -> config.Settings:
    """The settings; names that do not exist are one of the things that `doctor` reports."""
    return config.load(file, sets, options, check=None, command=command)


@cli.command()
@configured("--source", "--display", load=_load_unchecked)
def doctor(settings: config.Settings) -> None:
    """Tells what works on this machine, and what to do about the rest.

    It ends with 0 where the demo runs and files can be processed, else with 69. A --source has to
    give pictures.
    """
    from realtime_lrp.commands.doctor import run as mode

    _say(mode.run(settings))


def _print_schema(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(config.json_schema(), nl=False)
        context.exit()


def _load_and_check_all(
    file: str | None, sets: tuple[str, ...], options: dict[str, Any], command: str
) -> config.Settings:
    from realtime_lrp.commands.kiosk.check import wrong_settings

    return config.load(file, sets, options, check=wrong_settings)


@cli.command("config")
@click.option(
    "--schema",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_schema,
    help="prints the schema for editors instead (JSON Schema)",
)
@configured(*config.OPTIONS, load=_load_and_check_all)
def config_command(settings: config.Settings) -> None:
    """Checks and prints the effective configuration as a file to start from."""
    click.echo(config.schema_line() + config.as_yaml(settings), nl=False)


@cli.command()
def models() -> None:
    """Lists the networks that have a name."""
    from realtime_lrp.commands import models as mode

    _say(mode.run())
