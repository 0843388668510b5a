"""The program, to which the files beside this one add commands, and the options that they share.

`--config OUTPUT`: the settings of an output become the configuration, which repeats the run.
"""

import logging
import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from realtime_lrp import config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import ConfigError, DamagedInputError, UsageError
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
CONCEPTS = "--gallery", "--names"  # options about the channels of a network

_MAY_BE_FILES = (
    "--model", "--also-model", "--weights", "--labels", "--source", "--gallery", "--names",
    "--lecture", "--follow",
)  # fmt: skip

log = logging.getLogger(__name__)

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
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


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="realtime-lrp")
def cli() -> None:
    """See, live, what a neural network looks at."""


cli.command_class = NoEmptyWords


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
                exact = given.get("sidecar") or given.get("maps")  # they write numbers, in float32
                auto = settings.config.lrp.precision == "auto"
                if exact and auto and recorded.precision != "float32":
                    log.warning(
                        "%s was computed in %s; --sidecar and --maps compute in float32, so the "
                        "output will not be the same: leave them out to repeat it",
                        config_file, recorded.precision,
                    )  # fmt: skip
            try:
                return command(settings, **given)
            except UsageError as error:
                raise settings.located(error) from error

        decorated: Command = configured_command
        for option in reversed([*_COMMON, *map(_key_option, names)]):
            decorated = option(decorated)
        return decorated

    return decorate


def recorded_in(file: str) -> Provenance | None:
    """How the output was made that stands for a configuration; None if it is a configuration."""
    path = Path(file)
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return None
    from realtime_lrp.results.provenance import READERS, find_provenance

    if not (suffix in READERS or os.path.isdir(path)):
        return None
    try:
        found = find_provenance(path)
    except DamagedInputError as error:
        raise ConfigError(str(error)) from None
    if found is None and suffix in READERS and suffix != ".json":  # a .json may be a configuration
        raise ConfigError(
            f"{file!r} holds no settings. Expected a YAML file, or an output of realtime-lrp that "
            "says how it was made: see realtime-lrp show."
        )
    if found and found.version != __version__:
        log.warning(
            "%s was made by version %s; this is %s, whose defaults may differ",
            file, found.version, __version__,
        )  # fmt: skip
    return found


def check_files(file: str, recorded: Provenance, settings: config.Settings) -> None:
    """Refuses to repeat a run with other files than it was made with, unless they were named."""
    from realtime_lrp.models.names import hashes, network_files

    keys = {"model": "model.name", "weights": "model.weights", "labels": "model.labels"}
    chosen = {key for key in keys.values() if settings.origins[key].startswith("--")}
    if "model.name" in chosen:
        return
    if "model.name" not in recorded.settings:
        raise ConfigError(f"{file!r} was made in Python. Say with --model which model it was.")
    model = settings.config.model
    now = hashes(network_files(settings.config))
    for kind, key in keys.items():
        then = recorded.model.sha256.get(kind)
        if key not in chosen and then and now.get(kind, then) != then:
            named = getattr(model, key.removeprefix("model."))
            choose = f"--{kind} {named}" if named else f"--model {model.name}"
            raise ConfigError(
                f"The {kind} of {named or model.name!r} changed since {file!r} was made: SHA-256 "
                f"{then[:12]}..., now {now[kind][:12]}...\n"
                f"To repeat the run, put the old file back. To use the new one, add {choose}."
            )


def complete_files(
    context: click.Context, option: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Lets the shell complete file names."""
    return [CompletionItem(typed, type="file")]


def _complete_names(
    key: str, files: bool, context: click.Context, option: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Completes the names that a key may have, and file names if it may also be a file."""
    names = [name for name in config.legal_values(key) if name.startswith(typed)]
    # bash forgets the items that come before a file item
    first = complete_files(context, option, typed) if files else []
    return first + [CompletionItem(name) for name in names]


def _variable(name: str) -> str:
    """The name under which click passes the option that sets a key."""
    return "key_" + name.removeprefix("--").replace("-", "_")


def _key_option(name: str) -> Decorator:
    key = config.OPTIONS[name]
    kind = config.option_type(key)
    text = config.describe(key).removeprefix("true or false: ").replace("null: ", "default: ")
    if kind is bool:
        return click.option(f"{name}/--no-{name[2:]}", _variable(name), default=None, help=text)
    complete = partial(_complete_names, key, name in _MAY_BE_FILES)
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
    """An option as help shows it, such as "--count N"; one without a second word is a flag."""
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

OVERWRITE = option("--overwrite", "replace files that exist")
STATS = option("--stats FILE", "write speed, ages and counts as JSON at the end")
