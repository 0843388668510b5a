"""`image`: pictures to overlaid pictures or raw maps, and what is kept beside them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine.colouring import colour, painter_for
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import Result
from realtime_lrp.engine.wording import best_label, score_list, top_scores
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    NotFiniteError,
    OutputError,
)
from realtime_lrp.results.companions import Companions, OpenCompanions
from realtime_lrp.results.records import map_record, raw_map_arrays
from realtime_lrp.results.summary import Timeline, write_summary
from realtime_lrp.system.atomic import (
    atomic_file,
)
from realtime_lrp.video.files import PICTURES, inputs_of, outputs_for
from realtime_lrp.video.pictures import mirrored, read_picture, write_picture
from realtime_lrp.video.region import resize
from realtime_lrp.view.overlay import lay_over

OUTPUTS = (".png", ".jpg", ".jpeg", ".npz")
TOGETHER = "pictures"
"""The name of what is kept of several pictures together."""

THUMBNAIL = (240, 320)
"""Rows and columns at most."""
MOST_THUMBNAILS = 48

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImageOptions:
    """What is asked for besides the configuration.

    Attributes:
      inputs: files, folders, globs.
      output: .png, .jpg, .npz, or a folder, which gets PNG files.
      overwrite: existing outputs may be replaced.
      sidecar: JSON lines beside the outputs.
      summary: a picture of them all beside the outputs.
      maps: the folder that gets a folder of raw maps, or None.
    """

    inputs: Sequence[str]
    output: str
    overwrite: bool = False
    sidecar: bool = False
    summary: bool = False
    maps: Path | None = None


def run(config: Config, options: ImageOptions) -> list[str]:
    """Explains each picture and writes it; damaged ones among several are left out and named.

    Returns:
      One line for each picture: its name, its best labels, where the output is.

    Raises:
      DamagedInputError: no picture can be read, or explained.
    """
    sources = inputs_of(options.inputs, PICTURES, "picture")
    targets = outputs_for(sources, options.output, ".png", OUTPUTS, options.overwrite)
    beside = _beside(options, targets)
    engine, lines = None, []
    with ExitStack() as stack:
        kept = _Kept(beside.open(stack, options.overwrite))
        for source, target, picture in _readable(sources, targets):
            engine = engine or Engine(config)
            try:
                result = _explained(config, engine, picture, target, options.overwrite)
            except NotFiniteError as error:
                if len(sources) == 1:
                    raise
                log.warning("%s is left out: %s", source.name, error)
                continue
            kept.take(config, engine, source, picture, result)
            best = score_list(top_scores(engine, result.scores, 3))
            passes = engine.explainer.passes
            note = f" (mean of {passes} passes)" if passes else ""
            lines.append(f"{source.name}: {best} -> {target}{note}")
        if engine is None or not lines:
            raise DamagedInputError(f"None of the {len(sources)} pictures can be explained.")
        kept.finish(config, engine)
    return lines


def _beside(options: ImageOptions, targets: Sequence[Path]) -> Companions:
    """What is made beside the pictures, once it is sure that it can be.

    Raises:
      OutputError: it cannot be made, or is the output of a picture.
    """
    together = targets[0].parent / TOGETHER if len(targets) > 1 else targets[0]
    beside = Companions.named_after(together, options.sidecar, options.summary, options.maps)
    beside.check(options.overwrite)
    for one in beside.paths:
        if one in targets:
            raise OutputError(f"{str(one)!r} is the output of a picture. Rename that.")
    return beside


def _readable(
    sources: Sequence[Path], targets: Sequence[Path]
) -> Iterator[tuple[Path, Path, np.ndarray]]:
    for source, target in zip(sources, targets, strict=True):
        try:
            picture = read_picture(source)
        except (DamagedInputError, MissingInputError) as error:
            if len(sources) == 1:
                raise
            log.warning("%s", error)
            continue
        yield source, target, picture


class _Kept:
    """What is kept of the maps besides their pictures."""

    def __init__(self, opened: OpenCompanions):
        self._opened = opened
        self._timeline = Timeline("pictures, in their order", "o")
        self._thumbnails: list[tuple[str, np.ndarray]] = []
        self._count = 0

    def take(
        self, config: Config, engine: Engine, source: Path, picture: np.ndarray, result: Result
    ) -> None:
        """Takes a picture and its map."""
        if not self._opened.wanted:
            return
        row = map_record(engine, config.lrp.target, result)
        self._opened.write({"file": str(source), **row})
        self._opened.keep(result, str(source))
        if self._opened.summary:
            self._count += 1
            self._timeline.add(self._count, row)
            drawn = _drawn(config, engine, picture, result)
            scale = min(rows / side for rows, side in zip(THUMBNAIL, drawn.shape, strict=False))
            height, width = (max(1, round(side * scale)) for side in drawn.shape[:2])
            best = best_label(top_scores(engine, result.scores, 1))
            self._thumbnails.append((f"{source.name}: {best}", resize(drawn, (height, width))))

    def finish(self, config: Config, engine: Engine) -> None:
        """Draws the summary."""
        if self._opened.summary:
            how = engine.composite if config.lrp.method == "lrp" else config.lrp.method
            title = f"{self._count} pictures, {engine.network.name}, {how}"
            title += f", target {config.lrp.target}"
            write_summary(
                self._opened.summary, title, self._thumbnails, self._timeline, MOST_THUMBNAILS
            )


def _drawn(config: Config, engine: Engine, picture: np.ndarray, result: Result) -> np.ndarray:
    overlay = colour(painter_for(engine, 0.0), result)
    return lay_over(mirrored(picture, config.input.mirror), overlay)


def _explained(
    config: Config,
    engine: Engine,
    picture: np.ndarray,
    target: Path,
    overwrite: bool,
) -> Result:
    (result,) = engine.explain([mirrored(picture, config.input.mirror)])
    if not result.maps[0].scale:
        log.warning("%s: the map is zero everywhere; nothing is drawn", target.name)
    if target.suffix.lower() == ".npz":
        _write_map(config, engine, result, target, overwrite)
    else:
        write_picture(target, _drawn(config, engine, picture, result), overwrite)
    return result


def _write_map(
    config: Config, engine: Engine, result: Result, target: Path, overwrite: bool
) -> None:
    with atomic_file(target, overwrite) as part, part.open("wb") as file:
        np.savez_compressed(file, **raw_map_arrays(engine, config.lrp.target, result))
