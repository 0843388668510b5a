"""`image`: explains pictures and writes overlaid pictures or raw maps, and files beside them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine.colouring import colour, painter_for
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.provenance import begin_hashing, provenance_of
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
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.files import PICTURES, inputs_of, outputs_for
from realtime_lrp.video.pictures import mirrored, read_picture, write_picture
from realtime_lrp.video.region import resize
from realtime_lrp.view.overlay import lay_over

OUTPUTS = (".png", ".jpg", ".jpeg", ".npz")
COMPANION_NAME = "pictures"
"""The name, without ending, of the files beside several pictures."""

THUMBNAIL = (240, 320)
"""Rows and columns at most."""

MAX_THUMBNAILS = 48

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImageOptions:
    """The command's own options.

    Attributes:
      inputs: files, folders or glob patterns.
      output: a .png, .jpg or .npz file, or a folder for PNG files.
      overwrite: whether existing files may be replaced.
      sidecar: whether JSON lines are written beside the outputs.
      summary: whether a picture of all results is written beside the outputs.
      maps: the folder in which a folder of raw maps is created, or None.
    """

    inputs: Sequence[str]
    output: str
    overwrite: bool = False
    sidecar: bool = False
    summary: bool = False
    maps: Path | None = None


def run(config: Config, options: ImageOptions) -> list[str]:
    """Explains each picture and writes the result.

    Of several pictures, those that are damaged or cannot be explained are named and left out.

    Returns:
      One line for each picture: its name, its best labels, where the output is.

    Raises:
      DamagedInputError: no picture can be read or explained.
      OutputError: an output cannot be written.
    """
    sources = inputs_of(options.inputs, PICTURES, "picture")
    targets = outputs_for(sources, options.output, ".png", OUTPUTS, options.overwrite)
    companions = _checked_companions(options, targets)
    lines: list[str] = []
    with ExitStack() as stack:
        open_companions = companions.open(stack, options.overwrite)
        job: _Job | None = None
        for source, target, picture in _readable(sources, targets):
            job = job or _Job(config, options.overwrite, open_companions)
            try:
                lines.append(job.process(source, target, picture))
            except NotFiniteError as error:
                if len(sources) == 1:
                    raise
                log.warning("%s is left out: %s", source.name, error)
        if job is None or not lines:
            raise DamagedInputError(f"None of the {len(sources)} pictures can be explained.")
        job.write_summary()
    return lines


def _checked_companions(options: ImageOptions, targets: Sequence[Path]) -> Companions:
    """The files beside the pictures, after checking that they can be written.

    Raises:
      OutputError: one of them cannot be written, or is the output of a picture.
    """
    name = targets[0].parent / COMPANION_NAME if len(targets) > 1 else targets[0]
    companions = Companions.named_after(name, options.sidecar, options.summary, options.maps)
    companions.check(options.overwrite)
    for path in companions.paths:
        if path in targets:
            raise OutputError(f"{str(path)!r} is also the output of a picture. Rename the picture.")
    return companions


def _readable(
    sources: Sequence[Path], targets: Sequence[Path]
) -> Iterator[tuple[Path, Path, np.ndarray]]:
    """Source, target and picture; of several sources, those that cannot be read are left out."""
    for source, target in zip(sources, targets, strict=True):
        try:
            picture = read_picture(source)
        except (DamagedInputError, MissingInputError) as error:
            if len(sources) == 1:
                raise
            log.warning("%s", error)
            continue
        yield source, target, picture


class _Job:
    """Explains pictures one after the other and writes what belongs to each."""

    def __init__(self, config: Config, overwrite: bool, companions: OpenCompanions):
        self._config = config
        self._overwrite = overwrite
        self._companions = companions
        begin_hashing(config)
        self._engine = Engine(config)
        self._provenance = provenance_of(self._engine)
        companions.describe(self._provenance)
        self._timeline = Timeline("pictures, in their order", "o")
        self._thumbnails: list[tuple[str, np.ndarray]] = []
        self._count = 0

    def process(self, source: Path, target: Path, picture: np.ndarray) -> str:
        """Explains a picture, writes its outputs and returns the line that reports it.

        Raises:
          NotFiniteError: the network computes NaN or Inf.
        """
        picture = mirrored(picture, self._config.input.mirror)
        (result,) = self._engine.explain([picture])
        if not result.maps[0].scale:
            log.warning("%s: the map is zero everywhere; nothing is drawn", target.name)
        if target.suffix.lower() == ".npz":
            self._write_map(target, result)
        else:
            overlaid = self._overlaid(picture, result)
            write_picture(target, overlaid, self._overwrite, self._provenance.as_json())
        if self._companions.wanted:
            self._add_to_companions(source, picture, result)
        best = score_list(top_scores(self._engine, result.scores, 3))
        passes = self._engine.explainer.passes
        note = f" (mean of {passes} passes)" if passes else ""
        if self._engine.is_flooded(result):
            note = " (explains nothing: relevance grew without limit)"
        return f"{source.name}: {best} -> {target}{note}"

    def write_summary(self) -> None:
        """Draws the picture of all results, if it is wanted."""
        if self._companions.summary:
            title = (
                f"{self._count} pictures, {self._engine.network.name}, {self._engine.name}, "
                f"target {self._config.lrp.target}"
            )
            write_summary(
                self._companions.summary, title, self._thumbnails, self._timeline,
                self._provenance.as_json(), MAX_THUMBNAILS,
            )  # fmt: skip

    def _write_map(self, target: Path, result: Result) -> None:
        target_text = self._config.lrp.target
        arrays = raw_map_arrays(self._engine, target_text, result, self._provenance)
        with atomic_file(target, self._overwrite) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def _overlaid(self, picture: np.ndarray, result: Result) -> np.ndarray:
        return lay_over(picture, colour(painter_for(self._engine, 0.0), result))

    def _add_to_companions(self, source: Path, picture: np.ndarray, result: Result) -> None:
        record = map_record(self._engine, self._config.lrp.target, result)
        self._companions.write({"file": str(source), **record})
        self._companions.keep(result, str(source))
        if self._companions.summary:
            self._count += 1
            self._timeline.add(self._count, record)
            best = best_label(top_scores(self._engine, result.scores, 1))
            thumbnail = _thumbnail(self._overlaid(picture, result))
            self._thumbnails.append((f"{source.name}: {best}", thumbnail))


def _thumbnail(picture: np.ndarray) -> np.ndarray:
    """The picture made to fit into `THUMBNAIL`."""
    scale = min(most / side for most, side in zip(THUMBNAIL, picture.shape, strict=False))
    rows, columns = (max(1, round(side * scale)) for side in picture.shape[:2])
    return resize(picture, (rows, columns))
