"""`evaluate`: measures, and writes the table, the JSON file and the picture.

The options are in options.py, the measuring in measuring.py, the pictures with known objects in
samples.py.
"""

import json
import logging
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from realtime_lrp.commands.evaluate.curves import REPLACED
from realtime_lrp.commands.evaluate.measuring import SHOWN, Evaluation
from realtime_lrp.commands.evaluate.options import (
    DRAWN_PICTURES,
    EvaluateOptions,
    check_options,
)
from realtime_lrp.commands.evaluate.paper import FILES, check_report_folder, write_report_folder
from realtime_lrp.commands.evaluate.report import summary, table_lines
from realtime_lrp.commands.evaluate.rows import (
    CHANCE,
    MeasuredRow,
    Measurement,
    rows_to_measure,
)
from realtime_lrp.commands.evaluate.samples import (
    Samples,
    check_labels,
    drawn_samples,
    photo_samples,
    read_boxes,
)
from realtime_lrp.commands.evaluate.search import run_search
from realtime_lrp.commands.evaluate.search_report import SEARCH_FILES
from realtime_lrp.commands.evaluate.sheet import best_and_worst, example_captions, map_sheet
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.errors import DamagedInputError, Error, MissingInputError, UsageError
from realtime_lrp.system.atomic import atomic_file, check_output
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.pictures import write_picture

log = logging.getLogger(__name__)


def run(config: Config, options: EvaluateOptions) -> Iterable[str]:
    """Measures every composite and method, or searches for a composite.

    The method and the target of the configuration are not used.

    Returns:
      The lines of a table with its explanation, or of what the search found.

    Raises:
      UsageError: the options do not go together, or drawn pictures do not suit the network.
      MissingInputError: the photos or the boxes do not exist.
      DamagedInputError: the photos or the boxes cannot be used.
      OutputError: a file cannot be written.
    """
    if options.output:
        files = SEARCH_FILES if options.search else FILES
        check_report_folder(options.output, options.overwrite, files)
    for target in filter(None, (options.json, options.picture)):
        check_output(target, options.overwrite)
    check_options(options)
    names = rows_to_measure(config, options.only)
    engine, samples = _load(config, options)
    made = provenance_of(engine)  # every row has its own method, every picture its class
    made = msgspec.structs.replace(made, method=None, composite=None, layers=None, target=None)
    if options.search:
        return run_search(engine, samples, options, made)
    if options.only is None:
        names = [name for name in names if name not in engine.explainer.unsuited]
    evaluation = Evaluation(engine, samples, options.seed, options.forgetting)
    measurement = Measurement(
        engine.network.name,
        options.seed,
        samples.object,
        samples.names,
        [engine.label(index) for index in evaluation.classes],
        REPLACED,
        evaluation.stages,
        _measure_rows(evaluation, names),
    )
    report = {**summary(measurement), KEY: msgspec.to_builtins(made)}
    _write(config, options, samples, evaluation, measurement, report, made)
    return table_lines(report)


def _load(config: Config, options: EvaluateOptions) -> tuple[Engine, Samples]:
    if not options.images:
        _check_network_for_drawn_pictures(config)
        samples = drawn_samples(options.count or DRAWN_PICTURES, options.seed)
        return Engine(config, keep_model=True), samples
    if not options.images.is_dir():
        raise MissingInputError(f"There is no folder {str(options.images)!r}.")
    boxes = read_boxes(options.boxes, options.images) if options.boxes else None
    engine = Engine(config, keep_model=True)
    if boxes is not None:
        check_labels(boxes, engine.explainer.classes, engine.network.labels)
    return engine, photo_samples(options.images, boxes, engine, options.photos, options.seed)


def _check_network_for_drawn_pictures(config: Config) -> None:
    if config.model.name.lower() not in EMBEDDED:
        raise UsageError(
            f"The drawn pictures suit only the networks {' and '.join(EMBEDDED)}, not "
            f"{config.model.name!r}. "
            "Give photos with --images DIR --boxes FILE.json, or leave --model out.",
            "model",
        )


def _measure_rows(evaluation: Evaluation, names: Sequence[str]) -> list[MeasuredRow]:
    """Measures the rows; chance is the last."""
    rows: list[MeasuredRow] = []
    with Progress(1, unit="steps", logged=True) as progress:
        progress.begin("evaluating", (len(names) + 1) * evaluation.parts)
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            progress.step(done, name)

        for number, name in enumerate(names):
            try:
                rows.append(evaluation.measure(name, step))
            except Error as error:
                log.warning("%s is left out: %s", name, error)
            done = (number + 1) * evaluation.parts
        if not rows:
            raise DamagedInputError("No row could be measured. The lines above say why.")
        name = CHANCE
        rows.append(evaluation.measure_chance(step))
    return rows


def _write(
    config: Config,
    options: EvaluateOptions,
    samples: Samples,
    evaluation: Evaluation,
    measurement: Measurement,
    report: dict[str, object],
    made: Provenance,
) -> None:
    """Writes the files that are asked for."""
    description = made.as_json()
    if options.json:
        with atomic_file(options.json, options.overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    if options.output:
        examples = _examples(config, samples, evaluation, measurement)
        write_report_folder(
            options.output, measurement, report, examples, description, options.overwrite
        )
    if options.picture:
        maps = {row.name: row.maps for row in measurement.rows if len(row.maps)}
        sheet = map_sheet(config, samples.pictures[:SHOWN], maps, evaluation.stride)
        write_picture(options.picture, sheet, options.overwrite, description)


def _examples(
    config: Config, samples: Samples, evaluation: Evaluation, measurement: Measurement
) -> np.ndarray:
    """The pictures with the best and the worst maps, uint8 [H, W, 3] RGB; explains them again."""
    best, worst = chosen = best_and_worst(measurement)
    names = [row.name for row in measurement.rows if row.name != CHANCE]
    maps = {name: evaluation.maps_of(name, [*best, *worst]) for name in names}
    captions = example_captions(measurement, chosen)
    return map_sheet(config, samples.pictures[[*best, *worst]], maps, evaluation.stride, captions)
