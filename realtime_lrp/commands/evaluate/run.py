"""`evaluate`: checks the options, measures, and writes the table, the JSON file and the picture.

The measuring is in measuring.py, the pictures with known objects in samples.py.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.commands.evaluate.measuring import Evaluation
from realtime_lrp.commands.evaluate.report import map_sheet, table_lines
from realtime_lrp.commands.evaluate.samples import (
    Samples,
    drawn_samples,
    photo_samples,
    read_boxes,
)
from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import UsageError
from realtime_lrp.system.atomic import atomic_file, check_output
from realtime_lrp.video.pictures import write_picture

DRAWN_PICTURES = 60
"""How many pictures are drawn unless --count says otherwise: four of each symbol."""


@dataclass(frozen=True)
class EvaluateOptions:
    """The command's own options.

    Attributes:
      images: a folder of photos; None for drawn pictures. Goes together with `boxes`.
      boxes: the JSON file that says where the objects on the photos are, or None.
      count: how many pictures; None for `DRAWN_PICTURES` or all photos.
      seed: random seed of the drawn pictures and of the measures.
      json: the JSON file to write, or None.
      picture: the picture of all maps to write, or None.
      overwrite: whether existing files may be replaced.
    """

    images: Path | None = None
    boxes: Path | None = None
    count: int | None = None
    seed: int = 0
    json: Path | None = None
    picture: Path | None = None
    overwrite: bool = False


def run(config: Config, options: EvaluateOptions) -> list[str]:
    """Measures every composite and method.

    Args:
      config: the configuration; its method, composite and target are not used.
      options: the command's own options.

    Returns:
      The lines of a table with its explanation.

    Raises:
      UsageError: the options do not go together, or drawn pictures do not suit the network.
      MissingInputError: the photos or the boxes do not exist.
      DamagedInputError: the photos or the boxes cannot be used.
      OutputError: a file cannot be written.
    """
    _check_options(options)
    engine, samples = _load(config, options)
    evaluation = Evaluation(engine, samples, options.seed)
    report = {"network": engine.network.name, "seed": options.seed, **evaluation.run()}
    if options.json:
        with atomic_file(options.json, options.overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    if options.picture:
        sheet = map_sheet(config, samples.pictures, evaluation.maps, engine.explainer.stride)
        write_picture(options.picture, sheet, options.overwrite)
    return table_lines(report)


def _check_options(options: EvaluateOptions) -> None:
    for target in filter(None, (options.json, options.picture)):
        check_output(target, options.overwrite)
    if options.picture and options.picture.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise UsageError(f"{str(options.picture)!r}: expected a name that ends in .png or .jpg.")
    if (options.images is None) != (options.boxes is None):
        raise UsageError("--images DIR and --boxes FILE.json belong together. Give both or none.")


def _load(config: Config, options: EvaluateOptions) -> tuple[Engine, Samples]:
    if options.images and options.boxes:
        boxes = read_boxes(options.boxes, options.images)
        engine = Engine(config, keep_model=True)
        return engine, photo_samples(options.images, boxes, engine, options.count)
    _check_network_for_drawn_pictures(config)
    engine = Engine(config, keep_model=True)
    return engine, drawn_samples(options.count or DRAWN_PICTURES, options.seed)


def _check_network_for_drawn_pictures(config: Config) -> None:
    if config.model.name.lower() != "shapes":
        raise UsageError(
            f"The drawn pictures suit only the network shapes, not {config.model.name!r}. "
            "Give photos with --images DIR --boxes FILE.json, or leave --model out.",
            "model",
        )
