"""`video`: recorded files to overlaid files, every frame in order.

    decode (a thread) -> explain in batches (a thread) -> draw, encode (the main thread)

Each stage runs ahead of the next by a bounded number of batches.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from realtime_lrp.config import Config
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.modes.engine import Engine, Result, turned
from realtime_lrp.modes.pipeline import ahead
from realtime_lrp.modes.stats import Stats
from realtime_lrp.video.files import VIDEOS, check_output, completed, inputs_of, outputs_for
from realtime_lrp.video.recorded import CONTAINERS, TimedFrame, VideoReader, VideoWriter
from realtime_lrp.view.overlay import lay_over
from realtime_lrp.view.text import draw_lines

BATCH = 8
WAITING = 2  # batches that may be ready before the next stage takes them

log = logging.getLogger(__name__)


def run(
    config: Config, inputs: Sequence[str], output: str, overwrite: bool, stats: Path | None
) -> list[str]:
    """Overlays each file; damaged ones among several are left out and named.

    Args:
      config: the effective configuration.
      inputs: files, folders, globs.
      output: a file, or a folder, which gets MP4 files.
      overwrite: whether existing outputs may be replaced.
      stats: where the figures go, or None.

    Returns:
      One line for each file: its name, how many frames, where the output is.

    Raises:
      DamagedInputError: nothing can be decoded.
    """
    sources = inputs_of(inputs, VIDEOS, "video")
    targets = outputs_for(sources, output, ".mp4", tuple(CONTAINERS), overwrite)
    if stats:
        check_output(stats, overwrite=True)
    _check_first(sources)
    engine = Engine(config, moving=True)
    figures = Stats(engine.device, engine.precision)
    lines = []
    for source, target in zip(sources, targets, strict=True):
        try:
            frames = overlay_file(engine, config, source, target, overwrite, figures)
        except DamagedInputError as error:
            if len(sources) == 1:
                raise
            log.warning("%s", error)
            continue
        lines.append(f"{source.name}: {frames} frames -> {target} ({engine.computed})")
    if not lines:
        raise DamagedInputError(f"None of the {len(sources)} videos can be decoded.")
    if stats:
        figures.traces = engine.explainer.traces
        figures.write(stats, live=False)
    return lines


def overlay_file(
    engine: Engine,
    config: Config,
    source: Path,
    target: Path,
    overwrite: bool,
    figures: Stats,
    watch: Callable[[np.ndarray], None] = lambda picture: None,
) -> int:
    """Overlays one file and returns how many frames it has.

    Args:
      engine: what explains.
      config: how relevance is drawn.
      source: a video file.
      target: .mp4, .mov or .mkv.
      overwrite: whether the target may be replaced.
      figures: counts what is done.
      watch: gets each finished frame, uint8 [H, W, 3] RGB.
    """
    with VideoReader(source) as reader, completed(target, overwrite) as part:
        before = figures.frames_shown
        with (
            closing(_overlaid(engine, config.input.mirror, iter(reader), figures)) as frames,
            VideoWriter(part, target.suffix.lower(), reader.fps, reader.time_base) as writer,
        ):
            for frame in _with_progress(frames, reader, source.name):
                writer.write(frame.picture, frame.pts)
                figures.frames_shown += 1
                watch(frame.picture)
    return figures.frames_shown - before


def _check_first(sources: Sequence[Path]) -> None:
    """Refuses a single file that is no video before the network is loaded."""
    if len(sources) == 1:
        with VideoReader(sources[0]):
            pass


def _overlaid(
    engine: Engine, mirror: bool, frames: Iterator[TimedFrame], figures: Stats
) -> Iterator[TimedFrame]:
    painter = engine.painter()
    with (
        closing(ahead(_batches(frames, mirror), WAITING)) as batches,
        closing(ahead(_explained(engine, batches, figures), WAITING)) as explained,
    ):
        for frame, result in chain.from_iterable(explained):
            layer = engine.layer(painter, result)
            drawn = lay_over(frame.picture, layer)
            draw_lines(drawn, [engine.line(result)], layer.box, bottom=True)
            yield TimedFrame(drawn, frame.pts)


def _batches(frames: Iterator[TimedFrame], mirror: bool) -> Iterator[list[TimedFrame]]:
    while batch := [replace(f, picture=turned(f.picture, mirror)) for f in islice(frames, BATCH)]:
        yield batch


def _explained(
    engine: Engine, batches: Iterator[list[TimedFrame]], figures: Stats
) -> Iterator[list[tuple[TimedFrame, Result]]]:
    for batch in batches:
        figures.frames_captured += len(batch)
        begin = time.monotonic()
        results = engine.explain([frame.picture for frame in batch])
        figures.map_made(len(batch), time.monotonic() - begin)
        yield list(zip(batch, results, strict=True))


def _with_progress(
    frames: Iterator[TimedFrame], reader: VideoReader, name: str
) -> Iterator[TimedFrame]:
    """Passes frames on and moves a progress bar, where a person can see it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.1f} frames/s"), TimeRemainingColumn(),
    )  # fmt: skip
    shown = console.is_terminal and log.isEnabledFor(logging.WARNING)
    with Progress(*columns, console=console, disable=not shown, transient=True) as progress:
        task = progress.add_task(name, total=reader.frames or None, rate=0.0)
        begin = time.monotonic()
        for count, frame in enumerate(frames, start=1):
            yield frame
            rate = count / max(time.monotonic() - begin, 1e-9)
            progress.update(task, completed=count, rate=rate)
