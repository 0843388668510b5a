"""The commands that show a view until they are ended: their options and help."""

import getpass
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from realtime_lrp import config
from realtime_lrp.cli.options import (
    CONCEPTS,
    EXPLAIN,
    OVERWRITE,
    PATH,
    SEEN,
    STATS,
    ConfigFile,
    Number,
    Whole,
    cli,
    complete_files,
    configured,
    option,
)
from realtime_lrp.errors import ConfigError, UsageError
from realtime_lrp.system.program import print_lines

PAGE = "--host", "--port", "--token-file", "--https", "--cert", "--key"  # options of the web page
DURATION = option("--duration SECONDS", "stop this many seconds after the first map")
NEW_TOKEN = option(
    "--new-token", "make a new token and certificate for the web page; old addresses stop working"
)
SERVE = option("--serve", "also show it as a web page, as serve does", name="serves")


@contextmanager
def _exit_0_if_stopped() -> Iterator[None]:
    """Ctrl-C and SIGTERM end a viewer, even a starting one, with 0; not the printing of a unit."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stopped:
        normal = getattr(stopped, "code", 130) in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        if not normal or click.get_current_context().params.get("print_unit"):
            raise
        sys.exit(0)


@cli.command()
@option(
    "-o FILE", "write a video and a contact sheet instead", click.STRING,
    name="output", shell_complete=complete_files,
)  # fmt: skip
@OVERWRITE
@DURATION
@configured(*EXPLAIN, "--display", "--concepts", *CONCEPTS)
def demo(
    settings: config.Settings, output: str | None, overwrite: bool, duration: float | None
) -> None:
    """Show the embedded network on the included clip.

    It needs no camera and no download. Without a display it writes demo.mp4 and demo.png.
    """
    from realtime_lrp.engine.measured import share_cores
    from realtime_lrp.view.window import display_reachable

    share_cores(settings.config.model.name)
    windowed = settings.config.live.display == "window" and display_reachable()
    if output is None and windowed:
        with _exit_0_if_stopped():
            from realtime_lrp.commands.demo import in_window

            print_lines(in_window(settings.config, duration))
    else:
        from realtime_lrp.commands.demo import to_file

        print_lines(to_file(settings.config, Path(output or "demo.mp4"), overwrite))


@cli.command()
@_exit_0_if_stopped()
@DURATION
@STATS
@option("--record FILE", "record what is shown (.mp4, .mov, .mkv)")
@OVERWRITE
@SERVE
@NEW_TOKEN
@configured(
    "--source", *EXPLAIN, *SEEN, "--also-model", "--motion", "--display", "--lecture", *PAGE,
    "--concepts", *CONCEPTS,
)  # fmt: skip
def live(settings: config.Settings, duration: float | None, **options: Any) -> None:
    """Show a camera, stream or file with the relevance over it.

    It runs until q is pressed twice in the window, Ctrl-C, or --duration; a file starts again at
    its end. Press h in the window to find all commands. With --serve the web page shows and
    controls the same view; its address is printed.
    """
    _check_page(settings, options)
    from realtime_lrp.commands.live.run import run

    print_lines(run(settings.config, duration, **options))


def _check_page(settings: config.Settings, options: dict[str, Any]) -> None:
    of_page = [name for name in PAGE if settings.origins[config.OPTIONS[name]] == name]
    wrong = [*of_page, *["--new-token"] * options["new_token"]]
    if wrong and not options["serves"]:
        raise UsageError(f"{wrong[0]} belongs to the web page. Add --serve, or leave it out.")


@cli.command()
@_exit_0_if_stopped()
@DURATION
@STATS
@NEW_TOKEN
@configured("--source", *PAGE, *EXPLAIN, *SEEN, "--also-model", "--motion", "--concepts", *CONCEPTS)
def serve(settings: config.Settings, duration: float | None, **options: Any) -> None:
    """Show the live view as a web page.

    It prints the address to open. Whoever opens it controls the view; the page gives another
    address for those who only watch. It runs until Ctrl-C or --duration.
    """
    from realtime_lrp.commands.live.run import run

    print_lines(run(settings.config, duration, window=None, serves=True, **options))


@cli.command()
@click.argument("folder", metavar="[FOLDER]", required=False, type=PATH)
@option("-o FILE", "the network", name="output", required=True)
@option(
    "--classes NAMES",
    "live: names of up to 9 things, separated by commas (more for a network that was taught); "
    "default: 1,2,3",
)
@option("--keep FOLDER", "live: keep the pictures in this folder")
@SERVE
@NEW_TOKEN
@DURATION
@option(
    "--every SECONDS",
    "with a folder: time between the frames taken from a recording; default: 0.5",
    Number(min=0.04, max=3600),
)
@option("--seed N", "with a folder: random seed of the slight changes; default: 0", Whole(0, 2**31))
@option("--json FILE", "with a folder: write every figure as JSON")
@OVERWRITE
@configured(
    "--model", "--weights", "--preprocess", "--source", "--method", "--composite",
    "--target", "--mirror", "--colormap", "--opacity", "--display", *PAGE,
)  # fmt: skip
def teach(
    settings: config.Settings, folder: Path | None, output: Path, overwrite: bool, **options: Any
) -> None:
    """Teach a network a few things of your own.

    Live: hold the key of a thing, 1 to 9, while you show it, and 0 for the empty scene; BackSpace
    undoes the last showing, Delete takes its class away. With --serve the page has a button for
    each. FOLDER has a subfolder of pictures and recordings for each thing; one called "nothing"
    shows the empty scene.

    A dense layer is trained on the features of --model: mobilenet_v2 where its weights are there,
    else shapes. Every command takes the file; with --model FILE a live lesson goes on where that
    file ended.
    """
    if output.suffix != ".keras":
        raise UsageError(f"{str(output)!r} has another ending. Expected a name such as mine.keras.")
    useless = ("classes", "keep", "duration") if folder else ("every", "seed", "json")
    wrong = [name for name in useless if options[name] is not None]
    if wrong := [*wrong, *["serve"] * bool(folder and options["serves"])]:
        how = "with" if folder else "without"
        raise UsageError(f"--{wrong[0]} has no effect {how} FOLDER. Leave it out.")
    _check_page(settings, options)
    page = {name: options.pop(name) for name in ("serves", "new_token")}
    from realtime_lrp.config.applications import APPLICATIONS

    given = {name: value for name, value in options.items() if value is not None}
    chosen = settings.config
    if not settings.is_set("model.name"):
        quick = "mobilenet_v2" if APPLICATIONS["mobilenet_v2"].weights.exists() else "shapes"
        chosen = chosen.changed(model={"name": quick})
    from realtime_lrp.commands.teach import from_folder, live

    if folder:
        print_lines(from_folder(chosen, folder, output, overwrite, **given))
    else:
        with _exit_0_if_stopped():
            print_lines(live(chosen, output, overwrite, **given, **page))


def _hash_pin(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:  # as when a shell completes a word
        from realtime_lrp.commands.kiosk.keys import hash_pin

        pin = click.prompt(
            "PIN (4 to 12 digits)", hide_input=True, confirmation_prompt=True, err=True
        )
        try:
            click.echo(hash_pin(pin))
        except ValueError as error:
            raise UsageError(str(error)) from None
        context.exit()


def _load_for_kiosk(
    file: ConfigFile, sets: tuple[str, ...], options: dict[str, Any], command: str
) -> config.Settings:
    """Loads the exhibit's settings: the last good ones if the file is wrong."""
    if isinstance(file, config.Tree):
        raise UsageError(
            "The exhibit takes a YAML file. Make one of an output: "
            "realtime-lrp config --config OUTPUT > exhibit.yaml"
        )
    from realtime_lrp.commands.kiosk.settings import load

    return load(file, sets, options)


@cli.command()
@_exit_0_if_stopped()
@DURATION
@STATS
@option(
    "--print-unit",
    "check the configuration and print a systemd unit that starts the exhibit at boot",
)
@option(
    "--hash-pin", "ask for a PIN and print the value for kiosk.pin",
    expose_value=False, is_eager=True, callback=_hash_pin,
)  # fmt: skip
@configured("--source", *EXPLAIN, *SEEN, "--motion", "--display", load=_load_for_kiosk)
def kiosk(
    settings: config.Settings, duration: float | None, stats: Path | None, print_unit: bool
) -> None:
    """Run the exhibit: full screen, without supervision.

    To end it, hold q or the upper left corner of the screen for 5 seconds.
    """
    from realtime_lrp.commands.kiosk.start import start, unit

    if not print_unit:
        print_lines(start(settings, duration, stats))
        return
    file, *others = settings.given
    if settings.complaint:
        raise ConfigError(settings.complaint)
    if any(others):
        raise UsageError("--print-unit takes only --config. Put the other settings into that file.")
    user = getpass.getuser()
    if user == "root":
        click.echo("realtime-lrp: this unit runs as root; print it as another user.", err=True)
    installed = Path(sys.executable).with_name("realtime-lrp")
    program = installed if installed.exists() else Path(sys.argv[0]).absolute()
    click.echo(unit(Path(file).absolute() if file else None, user, str(program)), nl=False)
