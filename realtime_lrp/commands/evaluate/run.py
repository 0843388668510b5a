"""`evaluate`: measures, and writes the table, the JSON file and the picture."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from realtime_lrp.commands.evaluate.plots import SHOWN, Captions, best_and_worst, map_sheet
from realtime_lrp.commands.evaluate.report import FILES, summary, table_lines, write_report
from realtime_lrp.config import Config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import MissingInputError, UsageError
from realtime_lrp.evaluation.measuring import AnswerEvaluation, BoxEvaluation, Evaluation
from realtime_lrp.evaluation.metrics import CHANCE, rows_to_measure
from realtime_lrp.evaluation.samples import (
    BoxSamples,
    Samples,
    box_samples,
    check_labels,
    drawn_samples,
    photo_samples,
    read_boxes,
)
from realtime_lrp.models.drawings import check_known
from realtime_lrp.realtime.stats import write_figures
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.system.files import atomic_folder, check_output
from realtime_lrp.video.pictures import write_picture

DETECTOR = "shapes_detector"  # the network that is measured on scenes of drawn symbols
DRAWN_PICTURES = 60  # drawn pictures without --count: four of each symbol


@dataclass(frozen=True)
class EvaluateOptions:
    """The command's own options."""

    images: Path | None = None  # a folder of photos; None for drawn pictures
    boxes: Path | None = None  # the JSON file that says where the objects on the photos are
    count: int | None = None  # number of drawn pictures; None for `DRAWN_PICTURES`
    photos: int | None = None  # how many photos, chosen at random; None: all
    seed: int = 0  # draws pictures, chooses photos, and measures with it
    only: str | None = None  # the rows to measure, separated by commas; None for all
    forgetting: bool = True  # whether maps are compared with those of randomised networks
    output: Path | None = None  # the folder to write with figures, tables and plots
    json: Path | None = None
    picture: Path | None = None  # the picture with all maps
    overwrite: bool = False


def run(config: Config, options: EvaluateOptions) -> Iterator[str]:
    """Measures every composite and method, whatever is configured; yields lines to print."""
    for target in filter(None, (options.json, options.picture)):
        check_output(target, options.overwrite)
    _check_options(options)
    names = rows_to_measure(config, options.only)
    with ExitStack() as stack:
        folder = None
        if options.output:  # begun now: one that cannot be made costs no time
            folder = stack.enter_context(atomic_folder(options.output, options.overwrite, FILES))
        engine, samples = _load(config, options)
        made = engine.provenance()  # every row has its own method, every picture its class
        made = msgspec.structs.replace(made, method=None, composite=None, layers=None, target=None)
        lines = _measure(engine, samples, names, options, folder, made)
    yield from lines


def _measure(
    engine: Engine, samples: Samples, names: list[str], options: EvaluateOptions,
    folder: Path | None, made: Provenance,
) -> list[str]:  # fmt: skip
    if options.only is None:
        left_out = {*engine.explainer.unsuited}
        if isinstance(samples, BoxSamples):
            left_out |= {name for name, method in METHODS.items() if method.perturb}
        names = [name for name in names if name not in left_out]
    evaluation: Evaluation
    if isinstance(samples, BoxSamples):
        evaluation = BoxEvaluation(engine, samples, options.seed)
    else:
        evaluation = AnswerEvaluation(engine, samples, options.seed, options.forgetting)
    measurement = evaluation.run(names)
    report = summary(measurement)
    if options.json:
        write_figures(options.json, report, made, options.overwrite)

    def sheet(chosen: list[int], captions: Captions | None = None) -> np.ndarray:
        shown = [row.name for row in measurement.rows if row.name != CHANCE]
        maps = {name: evaluation.maps_of(name, chosen) for name in shown}
        pictures = samples.pictures[chosen]
        stride = engine.explainer.stride
        return map_sheet(engine.config, pictures, maps, stride, captions)

    if folder:
        write_report(folder, measurement, report, sheet(*best_and_worst(measurement)), made)
    if options.picture:
        first = sheet([*range(min(SHOWN, len(samples.names)))])
        write_picture(options.picture, first, options.overwrite, made.as_json())
    return table_lines(report, engine.config.lrp.absorb_bias)


def _check_options(options: EvaluateOptions) -> None:
    if options.picture and options.picture.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise UsageError(f"{str(options.picture)!r}: expected a name that ends in .png or .jpg.")
    if (options.images is None) != (options.boxes is None):
        raise UsageError("--images DIR and --boxes FILE.json belong together. Give both or none.")
    if options.images and options.count:
        raise UsageError("--count N is for drawn symbols. Choose among photos with --photos N.")
    if options.photos and not options.images:
        raise UsageError("--photos N goes with --images. For drawn symbols give --count N.")


def _load(config: Config, options: EvaluateOptions) -> tuple[Engine, Samples]:
    if not options.images:
        count = options.count or DRAWN_PICTURES
        if config.model.name.lower() == DETECTOR:
            engine = Engine(config, keep_model=True)
            return engine, box_samples(engine, count, options.seed)
        check_known(
            config.model.name, "photos with --images DIR --boxes FILE.json, or leave --model out"
        )
        return Engine(config, keep_model=True), drawn_samples(count, options.seed)
    if not options.images.is_dir():
        raise MissingInputError(f"There is no folder {str(options.images)!r}.")
    boxes = read_boxes(options.boxes, options.images) if options.boxes else None
    engine = Engine(config, keep_model=True)
    if boxes is not None:
        check_labels(boxes, engine.explainer.classes, engine.network.labels)
    return engine, photo_samples(options.images, boxes, engine, options.photos, options.seed)
