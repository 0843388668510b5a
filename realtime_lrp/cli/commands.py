"""The commands that end by themselves: their options and help; files of `commands` do the work."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import click

from realtime_lrp import config
from realtime_lrp.cli.options import (
    CONCEPTS,
    EXPLAIN,
    NETWORK,
    OVERWRITE,
    PATH,
    SEEN,
    STATS,
    Number,
    Whole,
    cli,
    complete_files,
    configured,
    option,
)
from realtime_lrp.errors import Error
from realtime_lrp.system.program import print_lines, set_verbosity

INPUTS = click.argument(
    "inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=complete_files
)
OUTPUT = option(
    "-o FILE_OR_FOLDER", "output file, or a folder",
    name="output", required=True, shell_complete=complete_files,
)  # fmt: skip
RESUME = option("--resume", "skip files that are finished with the same settings")
MAPS = option("--maps FOLDER", "also write the raw maps to this folder (.npz)")


@cli.command()
@INPUTS
@OUTPUT
@OVERWRITE
@STATS
@option("--start SECONDS", "start at this time")
@option("--end SECONDS", "stop before this time")
@RESUME
@option("--sidecar", "also write the answer of each frame (.jsonl)")
@option("--summary", "also write a picture of the whole recording (.summary.png)")
@MAPS
@option("--workers N", "share recordings among N processes (Ray)", Whole(1, 1024))
@option(
    "--ray ADDRESS", "share recordings among workers of a running Ray cluster; its address, or auto"
)  # fmt: skip
@configured(
    *EXPLAIN, *SEEN, "--layout", "--stride", "--batch", "--codec", "--quality", "--audio",
    "--names",
)  # fmt: skip
def video(settings: config.Settings, **options: Any) -> None:
    """Write recordings with the relevance over them.

    Times and sound are kept. With --workers or --ray, inputs and output may be addresses of
    object stores, such as s3://BUCKET/FOLDER.
    """
    from realtime_lrp.engine.measured import share_cores

    if not (options["workers"] or options["ray"]):
        share_cores(settings.config.model.name)
    from realtime_lrp.commands.video.run import run
    from realtime_lrp.commands.video.task import VideoOptions

    print_lines(run(settings.config, VideoOptions(**options)))


@cli.command()
@INPUTS
@OUTPUT
@OVERWRITE
@RESUME
@option("--sidecar", "also write the answer for each picture (.jsonl)")
@MAPS
@configured(*EXPLAIN, *SEEN)
def image(settings: config.Settings, **options: Any) -> None:
    """Write pictures with the relevance over them, or raw maps.

    Pictures are written as .png or .jpg, raw maps as .npz.
    """
    from realtime_lrp.commands.image import ImageOptions, run

    print_lines(run(settings.config, ImageOptions(**options)))


@cli.command()
@click.argument("picture", metavar="INPUT", type=PATH)
@option(
    "--logdir DIR", "TensorBoard's folder; the run is written to a new folder in it", required=True
)
@OVERWRITE
@configured(*EXPLAIN)
def inspect(settings: config.Settings, picture: Path, logdir: Path, overwrite: bool) -> None:
    """Write every layer's relevance to TensorBoard, for one picture.

    Activations are written too. It also prints a table: the relevance that each layer gets, hands
    down and loses, and for each max pool the tensors that it reads and writes.
    """
    from realtime_lrp.commands.inspect import run

    print_lines(run(settings.config, picture, logdir, overwrite))


def _load_for_evaluate(file: Any, sets: Any, options: Any, command: str) -> config.Settings:
    """Loads the settings; the defaults of `evaluate` are those for drawn pictures."""
    photos = click.get_current_context().params["images"]
    return config.load(file, sets, options, command="" if photos else command)


@cli.command()
@option("--images DIR", "folder of photos; default: drawn symbols")
@option("--boxes FILE", "the boxes of the photos' objects (JSON)")
@option("--photos N", "take only N photos, chosen at random")
@option("--count N", "how many drawn symbols, up to 300; default: 60")
@option(
    "--seed N", "random seed of photos, symbols and new weights; default: 0", Whole(0, 2**31),
    default=0,
)  # fmt: skip
@option("--only NAMES", "measure only these rows, such as zplus,grad_cam")
@option(
    "--no-forgetting", "skip the comparison with randomised networks, which takes most of the time",
    name="forgetting", flag_value=False, default=True,
)  # fmt: skip
@option("-o FOLDER", "write figures, tables (JSON, LaTeX) and plots for a paper", name="output")
@option("--json FILE", "write every figure as JSON")
@option("--picture FILE", "write a picture of all maps")
@OVERWRITE
@configured(
    *NETWORK, "--composite", "--pool", "--precision", "--colormap", "--opacity",
    load=_load_for_evaluate,
)  # fmt: skip
def evaluate(settings: config.Settings, **options: Any) -> None:
    """Measure how well maps point at the object.

    Every composite and every method is measured; so is your own composite if you give rules for
    layers (lrp.layers).

    Without --images the embedded network is measured on symbols drawn for it, shapes_detector on
    scenes of them. With --images DIR and --boxes FILE photos are used. FILE holds for each photo a
    box, or a list of boxes, in pixels: {"cat.jpg": {"box": [x0, y0, x1, y1], "label": "tabby"}}.
    Without a label the network's answer is explained.
    """
    from realtime_lrp.engine.measured import share_cores

    share_cores(settings.config.model.name)
    from realtime_lrp.commands.evaluate.run import EvaluateOptions, run

    print_lines(run(settings.config, EvaluateOptions(**options)))


@cli.command()
@click.argument("inputs", nargs=-1, metavar="[INPUT]...", shell_complete=complete_files)
@option("--images DIR", "folder of photos; the same as an INPUT")
@option("-o FILE", "the gallery that is made (.concepts)", name="output")
@option(
    "--layers NAMES",
    "layers with commas between them; default: concepts.layer, mostly the last convolution",
)
@option(
    "--every SECONDS", "time between the frames taken from a recording; default: 1",
    Number(min=0.04, max=3600), default=1.0,
)  # fmt: skip
@option("--count N", "how many drawn symbols, for an embedded network, up to 300; default: all")
@option("--sheet FILE", "also write a picture of the whole gallery")
@OVERWRITE
@configured(*NETWORK, "--composite", "--target", "--pool", "--precision", *CONCEPTS)
def concepts(settings: config.Settings, **options: Any) -> None:
    """Choose pictures for the channels of a network.

    For each channel: the pictures in which it carries most relevance, and those that activate it
    most, each cut out around the place that the channel looks at. INPUT are pictures and
    recordings: files, folders or globs; without INPUT symbols are drawn, for the embedded networks.

    --names FILE writes a file in which you name channels; names in it stay. Without -o, --names and
    --sheet use the gallery of --gallery, or the embedded one.
    """
    from realtime_lrp.commands.concepts import ConceptOptions, run

    given = settings.is_set("model.name")
    print_lines(run(settings.config, ConceptOptions(**options, network_given=given)))


@cli.command()
@option("-o PATH", "FILE.onnx, or a folder for a web page", name="output", kind=PATH, required=True)
@option(
    "--runtime FOLDER",
    "onnxruntime-web for a web page, to be copied; default: from its CDN",
    kind=PATH,
)
@OVERWRITE
@configured(*NETWORK, "--method", "--composite", "--target", "--pool", "--precision")
def export(settings: config.Settings, output: Path, runtime: Path | None, overwrite: bool) -> None:
    """Write forward pass and map of a network as one ONNX file, or as a web page.

    The file needs onnxruntime alone, in any language. The commands live, image, video, serve and
    kiosk run it without TensorFlow: --model FILE.onnx. With --target it explains this target only,
    else it has an input for the weight of each class. The page computes on the visitor's device,
    behind any static file server, and sends nothing.
    """
    from realtime_lrp.commands.export.run import run

    fixed = settings.is_set("lrp.target")
    print_lines(run(settings.config, output, fixed, overwrite, runtime))


@cli.command()
@option("--quick", "take half a minute: fewer batches and tables")
@option("--json FILE", "write every figure as JSON", name="json_file")
@OVERWRITE
@configured(*NETWORK, "--method", "--composite", "--pool")
def bench(settings: config.Settings, quick: bool, json_file: Path | None, overwrite: bool) -> None:
    """Measure the speed of this machine.

    Measures maps, what limits them, and the handling of pictures, with VGG16 and random weights
    unless --model names another network. Run nothing else meanwhile.
    """
    from realtime_lrp.commands.bench.run import run

    print_lines(run(settings.config, quick, json_file, overwrite))


@cli.command()
@configured("--source", "--display")
def doctor(settings: config.Settings) -> None:
    """Check what works on this machine.

    It says what to do about the rest. The exit code is 0 if the demo runs and files can be
    processed, otherwise 69. With --source, that source has to give pictures too.
    """
    from realtime_lrp.commands.doctor.run import run

    print_lines(run(settings))


def _print_schema(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(config.json_schema(), nl=False)
        context.exit()


def _wrong_settings(chosen: config.Config) -> Iterable[tuple[config.KeyPath, Error]]:
    from realtime_lrp.commands.kiosk.settings import wrong_settings

    return wrong_settings(chosen)


@cli.command("config")
@option(
    "--schema", "print the schema for editors (JSON Schema) instead",
    expose_value=False, is_eager=True, callback=_print_schema,
)  # fmt: skip
@configured(*config.OPTIONS, load=partial(config.load, check=_wrong_settings))
def config_command(settings: config.Settings) -> None:
    """Check the configuration and print it.

    The output is a file to start from: every key with its value, what it means, and where the
    value came from.
    """
    schema = (config.ASSETS / "config.schema.json").absolute().as_uri()  # where an editor finds it
    click.echo(f"# yaml-language-server: $schema={schema}\n{config.as_yaml(settings)}", nl=False)


@cli.command()
def models() -> None:
    """List the networks that --model knows."""
    from realtime_lrp.commands.models import run

    print_lines(run())


@cli.command()
@click.argument("file", metavar="FILE", type=PATH, shell_complete=complete_files)
def show(file: Path) -> None:
    """Say how an output was made.

    Network, method, target, settings and versions are printed. FILE is anything that this program
    wrote. With --config FILE, other commands take their settings from an output.
    """
    from realtime_lrp.commands.show import run

    set_verbosity(0, quiet=False)
    print_lines(run(file))
