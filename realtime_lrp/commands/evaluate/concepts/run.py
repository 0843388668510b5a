"""Runs `evaluate --concepts`: masks channels, looks at recordings, prints, writes."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from realtime_lrp.commands.evaluate.concepts.masking import (
    BATCH,
    MaskedLayer,
    measure_layer,
    parts_of,
    study_layers,
)
from realtime_lrp.commands.evaluate.concepts.report import (
    CONCEPT_FILES,
    concept_lines,
    concept_report,
    write_concept_folder,
)
from realtime_lrp.commands.evaluate.concepts.stability import (
    Steadiness,
    SteadinessStudy,
    shares_of_frames,
)
from realtime_lrp.commands.evaluate.finished import (
    FINGERPRINT,
    check_outputs,
    fingerprint_of,
    is_finished,
)
from realtime_lrp.commands.evaluate.kept import KeptRows, facts_of
from realtime_lrp.commands.evaluate.measuring import choose_classes
from realtime_lrp.commands.evaluate.options import EvaluateOptions
from realtime_lrp.commands.evaluate.progress import EvaluationProgress
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.config import ASSETS
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.channel_masks import ChannelMasks
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.files import VIDEOS, inputs_of

CLIP = ASSETS / "demo.mp4"

log = logging.getLogger(__name__)


def run_concepts(
    engine: Engine, samples: Samples, options: EvaluateOptions, provenance: Provenance
) -> Iterable[str]:
    """Measures how far the top channels carry the answer, and how steady they are.

    Args:
      engine: the network, explained by LRP.
      samples: the pictures.
      options: the random seed, the recordings, and what is written.
      provenance: how the figures are made.

    Returns:
      The lines of the tables.

    Raises:
      UsageError: the network has no such layer, or the method is not LRP.
      MissingInputError: there is no such recording.
      DamagedInputError: a recording cannot be decoded.
      OutputError: a file cannot be written.
    """
    if engine.config.lrp.method != "lrp":
        raise UsageError("Concepts are defined for LRP only. Leave lrp.method at lrp.", "method")
    recordings = _recordings(engine, options.recordings)
    masks = _masks(engine, samples)
    layers = [*masks]
    facts = facts_of(engine, samples, options.seed, study="concepts")
    kept = KeptRows(facts, MaskedLayer.load)
    shown = [*options.recordings] if options.recordings else [file.name for file in recordings]
    fingerprint = fingerprint_of(facts, [*layers, *map(_digest, recordings)], engine.config)
    if options.resume:
        if not kept.names() and is_finished(options, fingerprint, CONCEPT_FILES):
            return [f"{engine.network.name}: finished before -> {options.output or options.json}"]
        kept.check_resumable()
    check_outputs(options, CONCEPT_FILES)
    with EvaluationProgress("layer", len(layers), parts_of(samples.pictures)) as progress:
        steady = _steadiness(engine, recordings, layers, progress)  # first: a file may be damaged
        classes = _classes(engine, samples)
        measured = _measure(engine, samples, classes, masks, kept, options, progress)
    report = concept_report(
        engine.network.name, samples.names, measured, steady,
        {"seed": options.seed, "target": str(engine.explainer.target), "recordings": shown},
    )  # fmt: skip
    report |= {FINGERPRINT: fingerprint, KEY: msgspec.to_builtins(provenance)}
    if options.json:
        with atomic_file(options.json, options.overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    if options.output:
        named = [engine.label(index) for index in classes]
        pairs = list(zip(samples.names, named, strict=True))
        write_concept_folder(
            options.output, report, pairs, measured, provenance.as_json(), options.overwrite
        )
    kept.remove()
    return concept_lines(report)


def _masks(engine: Engine, samples: Samples) -> dict[str, ChannelMasks]:
    """Layer -> its masks; without layers that no relevance reaches, unless one is configured."""
    found = {}
    for layer in study_layers(engine):
        try:
            masks = ChannelMasks(engine.explainer, layer)
            masks.shares(engine.network.prepare(samples.pictures[:1]))
        except UsageError as error:
            if engine.config.concepts.layer:
                raise
            log.warning("%s is left out: %s", layer, error)
        else:
            found[layer] = masks
    if not found:
        raise UsageError("No layer of the network can be studied.")
    return found


def _measure(
    engine: Engine,
    samples: Samples,
    classes: np.ndarray,
    masks: Mapping[str, ChannelMasks],
    kept: KeptRows[MaskedLayer],
    options: EvaluateOptions,
    progress: EvaluationProgress,
) -> list[MaskedLayer]:
    """Measures the layers that are not kept, and keeps them."""
    measured = []
    try:
        for layer, one in masks.items():
            progress.begin(layer)
            row = kept.load(layer) if options.resume else None
            if row is None:
                row = measure_layer(
                    engine, layer, one, samples.pictures, classes, options.seed, progress.step
                )
            measured.append(row)
            kept.save(row)
            progress.end()
    except (KeyboardInterrupt, SystemExit):
        kept.tell_how_to_go_on([*masks], "layer")
        raise
    return measured


def _steadiness(
    engine: Engine,
    recordings: Sequence[Path],
    layers: Sequence[str],
    progress: EvaluationProgress,
) -> list[Steadiness]:
    """How steady the top channels are, by layer and average; nothing without a recording."""
    study = SteadinessStudy(layers)
    for file in recordings:
        progress.show(file.name)
        study.add(file.name, shares_of_frames(engine, file, layers))
    return study.results() if recordings else []


def _classes(engine: Engine, samples: Samples) -> np.ndarray:
    """The class that is explained of each picture, int [N]."""
    parts = np.split(samples.pictures, range(BATCH, len(samples.pictures), BATCH))
    scores = np.concatenate([engine.scores(part) for part in parts])
    return choose_classes(samples, scores, engine.network.labels)[0]


def _recordings(engine: Engine, words: Sequence[str]) -> list[Path]:
    """The recordings that are asked for; else the demo's clip, if the network is the demo's."""
    if words:
        return inputs_of(words, VIDEOS, "video")
    return [CLIP] if engine.config.model.name.lower() in EMBEDDED else []


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
