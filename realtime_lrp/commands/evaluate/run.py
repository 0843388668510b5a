"""`evaluate`: measures, and writes the table, the JSON file and the picture.

The options are in options.py, the measuring in measuring.py, the pictures with known objects in
samples.py.
"""

import json
import logging
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from realtime_lrp.commands.evaluate.concepts.report import CONCEPT_FILES
from realtime_lrp.commands.evaluate.concepts.run import run_concepts
from realtime_lrp.commands.evaluate.curves import REPLACED
from realtime_lrp.commands.evaluate.finished import (
    FINGERPRINT,
    check_outputs,
    fingerprint_in,
    fingerprint_of,
    is_finished,
    reports,
)
from realtime_lrp.commands.evaluate.folder import FILES, write_report_folder
from realtime_lrp.commands.evaluate.kept import KeptRows, facts_of
from realtime_lrp.commands.evaluate.measured import CHANCE, MeasuredRow, Measurement
from realtime_lrp.commands.evaluate.measuring import SHOWN, Evaluation
from realtime_lrp.commands.evaluate.options import (
    DRAWN_PICTURES,
    EvaluateOptions,
    check_options,
)
from realtime_lrp.commands.evaluate.progress import EvaluationProgress
from realtime_lrp.commands.evaluate.report import table_lines
from realtime_lrp.commands.evaluate.rows import rows_to_measure
from realtime_lrp.commands.evaluate.samples import (
    Samples,
    check_labels,
    drawn_samples,
    known_labels,
    photo_samples,
    photos_without_boxes,
    read_boxes,
)
from realtime_lrp.commands.evaluate.search_report import SEARCH_FILES
from realtime_lrp.commands.evaluate.search_run import run_search
from realtime_lrp.commands.evaluate.sheet import best_and_worst, example_captions, map_sheet
from realtime_lrp.commands.evaluate.summary import summary
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.errors import DamagedInputError, Error, MissingInputError, UsageError
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.pictures import write_picture

log = logging.getLogger(__name__)


def run(config: Config, options: EvaluateOptions) -> Iterable[str]:
    """Measures every composite and method, or searches for a composite.

    Args:
      config: the configuration; its method and target are not used.
      options: the command's own options.

    Returns:
      The lines of a table with its explanation, or of what the search found.

    Raises:
      UsageError: the options do not go together, or drawn pictures do not suit the network.
      MissingInputError: the photos or the boxes do not exist.
      DamagedInputError: the photos or the boxes cannot be used.
      OutputError: a file cannot be written.
    """
    files = CONCEPT_FILES if options.concepts else SEARCH_FILES if options.search else FILES
    may_be_finished = options.resume and any(map(fingerprint_in, reports(options)))
    if not may_be_finished:
        check_outputs(options, files)
    check_options(options)
    names = rows_to_measure(config, options.only)
    engine, samples = _load(config, options)
    if options.only is None:
        names = [name for name in names if name not in engine.explainer.unsuited]
    provenance = _provenance(engine)
    if options.search:
        return run_search(engine, samples, options, provenance)
    if options.concepts:
        return run_concepts(engine, samples, options, provenance)
    facts = facts_of(engine, samples, options.seed, forgetting=options.forgetting)
    fingerprint, kept = fingerprint_of(facts, names, config), KeptRows(facts, MeasuredRow.load)
    if may_be_finished:
        if not kept.names() and is_finished(options, fingerprint, files):
            target = options.output or options.json
            return [f"{engine.network.name}: finished before -> {target}"]
        check_outputs(options, files)
    if options.resume:
        kept.check_resumable()
    evaluation = Evaluation(engine, samples, options.seed, options.forgetting)
    rows = _measure_rows(evaluation, names, kept, options.resume)
    if all(row.name == CHANCE for row in rows):
        raise DamagedInputError("No row could be measured. The lines above say why.")
    measurement = _measurement(engine, samples, evaluation, options.seed, rows)
    report = {
        **summary(measurement), FINGERPRINT: fingerprint, KEY: msgspec.to_builtins(provenance)
    }  # fmt: skip
    description = provenance.as_json()
    if options.json:
        with atomic_file(options.json, options.overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    if options.output:
        examples = _examples(config, engine, samples, evaluation, measurement)
        write_report_folder(
            options.output, measurement, report, examples, description, options.overwrite
        )
    if options.picture:
        maps = {row.name: row.maps for row in measurement.rows if len(row.maps)}
        sheet = map_sheet(config, samples.pictures[:SHOWN], maps, engine.explainer.stride)
        write_picture(options.picture, sheet, options.overwrite, description)
    kept.remove()
    return table_lines(report)


def _provenance(engine: Engine) -> Provenance:
    """How the figures were made; every row has its own method, every picture its class."""
    made = provenance_of(engine)
    return msgspec.structs.replace(made, method=None, composite=None, layers=None, target=None)


def _examples(
    config: Config,
    engine: Engine,
    samples: Samples,
    evaluation: Evaluation,
    measurement: Measurement,
) -> np.ndarray:
    """The pictures with the best and the worst maps, uint8 [H, W, 3] RGB; explains them again."""
    best, worst = chosen = best_and_worst(measurement)
    names = [row.name for row in measurement.rows if row.name != CHANCE]
    maps = {name: evaluation.maps_of(name, [*best, *worst]) for name in names}
    captions = example_captions(measurement, chosen)
    stride = engine.explainer.stride
    return map_sheet(config, samples.pictures[[*best, *worst]], maps, stride, captions)


def _measure_rows(
    evaluation: Evaluation, names: Sequence[str], kept: KeptRows[MeasuredRow], resume: bool
) -> list[MeasuredRow]:
    """Measures the rows that are not kept, and keeps them; chance is the last."""
    rows: list[MeasuredRow] = []
    with EvaluationProgress("row", len(names), evaluation.parts, further=1) as progress:
        try:
            for name in (*names, CHANCE):
                progress.begin(name)
                row = kept.load(name) if resume else None
                if row is None:
                    row = _measure_row(evaluation, name, progress)
                if row:
                    rows.append(row)
                    kept.save(row)
                progress.end()
        except (KeyboardInterrupt, SystemExit):
            kept.tell_how_to_go_on(names, "row")
            raise
    return rows


def _measure_row(
    evaluation: Evaluation, name: str, progress: EvaluationProgress
) -> MeasuredRow | None:
    try:
        if name == CHANCE:
            return evaluation.measure_chance(progress.step)
        return evaluation.measure(name, progress.step)
    except Error as error:
        log.warning("%s is left out: %s", name, error)
        return None


def _measurement(
    engine: Engine,
    samples: Samples,
    evaluation: Evaluation,
    seed: int,
    rows: Sequence[MeasuredRow],
) -> Measurement:
    return Measurement(
        engine.network.name,
        seed,
        samples.object,
        samples.names,
        [engine.label(index) for index in evaluation.classes],
        REPLACED,
        evaluation.stages,
        rows,
    )


def _load(config: Config, options: EvaluateOptions) -> tuple[Engine, Samples]:
    if options.images and options.boxes:
        boxes = read_boxes(options.boxes, options.images)
        if labels := known_labels(config):
            check_labels(boxes, len(labels), labels)
        engine = Engine(config, keep_model=True)
        check_labels(boxes, engine.explainer.classes, engine.network.labels)
        return engine, photo_samples(options.images, boxes, engine, options.photos, options.seed)
    if options.images:
        if not options.images.is_dir():
            raise MissingInputError(f"There is no folder {str(options.images)!r}.")
        engine = Engine(config, keep_model=True)
        return engine, photos_without_boxes(options.images, engine, options.photos, options.seed)
    _check_network_for_drawn_pictures(config)
    engine = Engine(config, keep_model=True)
    return engine, drawn_samples(options.count or DRAWN_PICTURES, options.seed)


def _check_network_for_drawn_pictures(config: Config) -> None:
    if config.model.name.lower() not in EMBEDDED:
        raise UsageError(
            f"The drawn pictures suit only the networks {' and '.join(EMBEDDED)}, not "
            f"{config.model.name!r}. "
            "Give photos with --images DIR --boxes FILE.json, or leave --model out.",
            "model",
        )
