"""The program, to which the files beside this one add commands, and the options that they share."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from realtime_lrp import config
from realtime_lrp.cli.repeat import check_files, recorded_in, warn_of_precision
from realtime_lrp.errors import UsageError
from realtime_lrp.system.program import __version__, set_verbosity

NETWORK = (
    "--model", "--weights", "--labels", "--preprocess", "--size", "--output",
    "--output-activation", "--scores",
)  # fmt: skip
"""The options that say which network is explained."""

EXPLAIN = (
    *NETWORK, "--method", "--composite", "--target", "--at", "--contrast", "--pool", "--precision",
    "--mirror", "--map",
    "--colormap", "--opacity",
)  # fmt: skip
"""The options of every command that explains pictures."""

SEEN = "--region", "--follow"  # the options that say what the network sees of a picture
PAGE = "--host", "--port", "--token-file", "--https", "--cert", "--key"  # options of the web page
CONCEPTS = "--gallery", "--names"  # options about the channels of a network

_MAY_BE_FILES = (
    "--model", "--also-model", "--weights", "--labels", "--source", "--gallery", "--names",
    "--lecture", "--follow",
)  # fmt: skip

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
ConfigFile = str | config.Tree | None  # --config: a YAML file, or an output's settings
Load = Callable[..., config.Settings]  # takes what `config.load` takes, and the `command`'s name


class NoEmptyWords(click.Command):
    """A command that refuses empty words, which an unset variable of the shell leaves behind."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line. Raises `click.BadParameter` for an empty word."""
        if not ctx.resilient_parsing:  # as when a shell completes a word
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            for parameter in self.get_params(ctx):
                value = given.get(parameter.name or "")
                if "" in (value if isinstance(value, tuple | list) else (value,)):
                    raise click.BadParameter(
                        "it is empty. Expected a word; is a variable of the shell not set?",
                        ctx, parameter,
                    )  # fmt: skip
        return super().parse_args(ctx, args)


class Group(click.Group):
    """The commands; none takes empty words."""

    command_class = NoEmptyWords


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="realtime-lrp")
def cli() -> None:
    """See, live, what a neural network looks at."""


def configured(*names: str, load: Load | None = None) -> Decorator:
    """Adds --config, --set, -v, -q and options of `config.OPTIONS`; the command gets `settings`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def configured_command(
            config_file: str | None, sets: tuple[str, ...], verbose: int, quiet: bool, **given: Any
        ) -> Any:
            set_verbosity(verbose, quiet)
            values = {name: given.pop(_variable(name)) for name in names}
            options = {name: value for name, value in values.items() if value is not None}
            name = click.get_current_context().info_name or ""
            file: ConfigFile = config_file
            recorded = recorded_in(config_file) if config_file else None
            if config_file and recorded:
                file = config.settings_tree(recorded.settings, config_file)
            settings = (load or config.load)(file, sets, options, command=name)
            if config_file and recorded:
                check_files(config_file, recorded, settings)
                exact = any(map(given.get, ("sidecar", "maps")))
                warn_of_precision(config_file, recorded, settings, exact)
            try:
                return command(settings, **given)
            except UsageError as error:
                raise settings.located(error) from error

        decorated: Command = configured_command
        for option in reversed([*_COMMON, *map(_key_option, names)]):
            decorated = option(decorated)
        return decorated

    return decorate


def complete_files(
    context: click.Context, option: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Lets the shell complete file names."""
    return [CompletionItem(typed, type="file")]


def _complete_names(key: str, files: bool) -> Complete:
    """Completes the names that a key may have, and file names if it may also be a file."""

    def complete(
        context: click.Context, option: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        names = [name for name in config.legal_values(key) if name.startswith(typed)]
        # bash forgets the items that come before a file item
        first = complete_files(context, option, typed) if files else []
        return first + [CompletionItem(name) for name in names]

    return complete


def _variable(name: str) -> str:
    """The name under which click passes the option that sets a key."""
    return "key_" + name.removeprefix("--").replace("-", "_")


def _key_option(name: str) -> Decorator:
    key = config.OPTIONS[name]
    kind = config.option_type(key)
    text = config.describe(key).removeprefix("true or false: ").replace("null: ", "default: ")
    if kind is bool:
        return click.option(f"{name}/--no-{name[2:]}", _variable(name), default=None, help=text)
    complete = _complete_names(key, files=name in _MAY_BE_FILES)
    if name == "--also-model":
        return click.option(
            name, _variable(name), multiple=True, metavar="NAME", shell_complete=complete,
            callback=lambda context, option, given: list(given) or None,
            help="explain the same pictures with this network too, in its own part of the window; "
            "up to 3 times",
        )  # fmt: skip
    alone: dict[str, Any] = {"is_flag": False, "flag_value": "en"} if name == "--lecture" else {}
    return click.option(
        name, _variable(name), type=kind, shell_complete=complete, help=text, **alone
    )  # fmt: skip


class Whole(click.IntRange):
    """A whole number; click's own name of it is "integer range"."""

    name = "whole number"


class Number(click.FloatRange):
    """A number; click's own name of it is "float range"."""

    name = "number"


PATH = click.Path(path_type=Path)
_KINDS = {"FILE": PATH, "FOLDER": PATH, "DIR": PATH, "SECONDS": Number(min=0), "N": Whole(min=1)}


def option(words: str, text: str, kind: Any = None, *, name: str | None = None, **more: Any) -> Any:
    """An option as help shows it, such as "--count N"; one without a second word is a flag.

    What the word stands for is its type, if no `kind` says otherwise. The command gets it as
    `name`, which is the option's own if it is None.
    """
    spelling, _, word = words.partition(" ")
    names = (spelling, name) if name else (spelling,)
    if not word:
        return click.option(*names, is_flag=True, help=text, **more)
    return click.option(*names, type=kind or _KINDS.get(word), metavar=word, help=text, **more)


_COMMON = (
    option(
        "--config FILE", "configuration file (YAML), or an output of this program to repeat",
        click.STRING, name="config_file", shell_complete=complete_files,
    ),
    option(
        "--set KEY=VALUE",
        "set a key of the configuration, for example lrp.samples=10; may be repeated",
        name="sets", multiple=True,
    ),
    click.option("-v", "verbose", count=True, help="print more; -vv also prints tracebacks"),
    option("-q", "print errors only", name="quiet"),
)  # fmt: skip

INPUTS = click.argument(
    "inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=complete_files
)
OUTPUT = option(
    "-o FILE_OR_FOLDER", "output file, or a folder",
    name="output", required=True, shell_complete=complete_files,
)  # fmt: skip
OVERWRITE = option("--overwrite", "replace files that exist")
RESUME = option("--resume", "skip files that are finished with the same settings")
DURATION = option("--duration SECONDS", "stop this many seconds after the first map")
STATS = option("--stats FILE", "write speed, ages and counts as JSON at the end")
NEW_TOKEN = option(
    "--new-token", "make a new token and certificate for the web page; old addresses stop working"
)
SERVE = option("--serve", "also show it as a web page, as serve does", name="serves")
MAPS = option("--maps FOLDER", "also write the raw maps to this folder (.npz)")
