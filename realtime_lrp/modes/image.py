"""`image`: pictures to overlaid pictures or raw maps, and what is kept beside them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    NotFiniteError,
    OutputError,
    UsageError,
)
from realtime_lrp.modes.engine import Engine, Result, label_line, turned
from realtime_lrp.modes.live.snapshot import redrawn
from realtime_lrp.modes.records import MAPS_MARK, Lines, Maps, described, raw_map
from realtime_lrp.modes.summary import Timeline, write_summary
from realtime_lrp.video.files import (
    PICTURES,
    check_folder,
    check_output,
    completed,
    completed_folder,
    inputs_of,
    outputs_for,
    refuse_link,
)
from realtime_lrp.video.pictures import read_picture, write_picture
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
class Request:
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


def run(config: Config, request: Request) -> list[str]:
    """Explains each picture and writes it; damaged ones among several are left out and named.

    Returns:
      One line for each picture: its name, its best labels, where the output is.

    Raises:
      DamagedInputError: no picture can be read, or explained.
    """
    sources = inputs_of(request.inputs, PICTURES, "picture")
    targets = outputs_for(sources, request.output, ".png", OUTPUTS, request.overwrite)
    if all(source.suffix.lower() == ".npz" for source in sources):
        return [_drawn_again(*pair, request) for pair in zip(sources, targets, strict=True)]
    together = targets[0].parent / TOGETHER if len(targets) > 1 else targets[0]
    engine, lines = None, []
    with ExitStack() as stack:
        kept = _Kept(request, together, targets, stack)
        for source, target, picture in _readable(sources, targets):
            engine = engine or Engine(config)
            try:
                result = _explained(config, engine, picture, target, request.overwrite)
            except NotFiniteError as error:
                if len(sources) == 1:
                    raise
                log.warning("%s is left out: %s", source.name, error)
                continue
            kept.take(config, engine, source, picture, result)
            best = ", ".join(f"{name} {score:.2g}" for name, score in engine.top(result.scores, 3))
            passes = engine.explainer.passes
            note = f" (mean of {passes} passes)" if passes else ""
            lines.append(f"{source.name}: {best} -> {target}{note}")
        if not lines:
            raise DamagedInputError(f"None of the {len(sources)} pictures can be explained.")
        kept.finish(config, engine)
    return lines


def _drawn_again(source: Path, target: Path, request: Request) -> str:
    if target.suffix.lower() not in PICTURES:
        raise UsageError(f"{str(target)!r}: a kept view becomes a picture, .png or .jpg.")
    write_picture(target, redrawn(source), request.overwrite)
    return f"{source.name}: drawn again -> {target}"


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

    def __init__(self, request: Request, together: Path, targets: Sequence[Path], stack: ExitStack):
        replace = request.overwrite
        sidecar, summary = together.with_suffix(".jsonl"), together.with_suffix(".summary.png")
        maps = request.maps / together.stem if request.maps else None
        for wanted, path in ((request.sidecar, sidecar), (request.summary, summary)):
            if wanted:
                refuse_link(path)
                check_output(path, replace)
                if path in targets:
                    raise OutputError(f"{str(path)!r} is the output of a picture. Rename that.")
        if maps:
            refuse_link(maps)
            check_folder(maps, replace, MAPS_MARK)
        self._lines = self._maps = self._summary = None
        if request.sidecar:
            self._lines = stack.enter_context(
                Lines(stack.enter_context(completed(sidecar, replace)))
            )
        if maps:
            folder = stack.enter_context(completed_folder(maps, replace, MAPS_MARK))
            self._maps = stack.enter_context(Maps(folder))
        if request.summary:
            self._summary = stack.enter_context(completed(summary, replace))
        self._timeline = Timeline("pictures, in their order", "o")
        self._thumbnails: list[tuple[str, np.ndarray]] = []
        self._count = 0

    def take(
        self, config: Config, engine: Engine, source: Path, picture: np.ndarray, result: Result
    ) -> None:
        """Takes a picture and its map."""
        if not (self._lines or self._maps or self._summary):
            return
        row = described(engine, config.lrp.target, result)
        if self._lines:
            self._lines.write({"file": str(source), **row})
        if self._maps:
            self._maps.add(result, str(source))
        if self._summary:
            self._count += 1
            self._timeline.add(self._count, row)
            drawn = _drawn(config, engine, picture, result)
            scale = min(rows / side for rows, side in zip(THUMBNAIL, drawn.shape, strict=False))
            size = tuple(max(1, round(side * scale)) for side in drawn.shape[:2])
            best = label_line(engine.top(result.scores, 1))
            self._thumbnails.append((f"{source.name}: {best}", resize(drawn, size)))

    def finish(self, config: Config, engine: Engine) -> None:
        """Draws the summary."""
        if self._summary:
            how = engine.composite if config.lrp.method == "lrp" else config.lrp.method
            title = f"{self._count} pictures, {engine.network.name}, {how}"
            title += f", target {config.lrp.target}"
            write_summary(self._summary, title, self._thumbnails, self._timeline, MOST_THUMBNAILS)


def _drawn(config: Config, engine: Engine, picture: np.ndarray, result: Result) -> np.ndarray:
    layer = engine.layer(engine.painter(0.0), result)
    return lay_over(turned(picture, config.input.mirror), layer)


def _explained(
    config: Config,
    engine: Engine,
    picture: np.ndarray,
    target: Path,
    overwrite: bool,
) -> Result:
    (result,) = engine.explain([turned(picture, config.input.mirror)])
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
    with completed(target, overwrite) as part, part.open("wb") as file:
        np.savez_compressed(file, **raw_map(engine, config.lrp.target, result))
