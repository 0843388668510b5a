"""Explains one picture after the other and writes what belongs to each."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine.accounting import Losses, has_vanished
from realtime_lrp.engine.colouring import colour, painter_for
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.engine.result import Result
from realtime_lrp.engine.wording import best_label, passes_note, score_list, top_scores
from realtime_lrp.results.companions import OpenCompanions
from realtime_lrp.results.records import map_record, raw_map_arrays
from realtime_lrp.results.summary import Timeline, write_summary
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.pictures import mirrored, write_picture
from realtime_lrp.video.region import resize
from realtime_lrp.view.overlay import lay_over

THUMBNAIL = (240, 320)
"""Rows and columns at most."""

MAX_THUMBNAILS = 48

log = logging.getLogger(__name__)


class Job:
    """A network that explains pictures, with the files beside them.

    Args:
      config: which network, and how it is explained.
      overwrite: whether existing outputs are replaced.
      companions: the files beside the outputs.

    Raises:
      Error: what `Engine` raises.
    """

    def __init__(self, config: Config, overwrite: bool, companions: OpenCompanions):
        self._config = config
        self._overwrite = overwrite
        self._companions = companions
        self._engine = Engine(config)
        self._provenance = provenance_of(self._engine)
        companions.describe(self._provenance)
        self._timeline = Timeline("pictures, in their order", "o")
        self._thumbnails: list[tuple[str, np.ndarray]] = []
        self._count = 0
        self._losses = Losses(self._engine)

    def process(
        self,
        name: str,
        target: Path,
        picture: np.ndarray,
        before_publishing: Callable[[Path], None],
    ) -> str:
        """Explains a picture, writes its outputs and returns the line that reports it.

        Args:
          name: path of the picture, with the number of its page if there are several.
          target: the output.
          picture: what is explained.
          before_publishing: as `atomic_file` takes it.

        Raises:
          NotFiniteError: the network computes NaN or Inf.
        """
        picture = mirrored(picture, self._config.input.mirror)
        (result,) = self._engine.explain([picture])
        lost_in = self._losses.add(result.region.extract(picture), result)
        if not result.maps[0].scale:
            log.warning("%s: the map is zero everywhere; nothing is drawn", target.name)
        if target.suffix.lower() == ".npz":
            self._write_map(target, result, before_publishing)
        else:
            overlaid = self._overlaid(picture, result)
            description = self._provenance.as_json()
            write_picture(target, overlaid, self._overwrite, description, before_publishing)
        if self._companions.parts:
            self._add_to_companions(name, picture, result, lost_in)
        best = score_list(top_scores(self._engine, result.scores, 3))
        note = passes_note(self._engine, result)
        if self._engine.is_flooded(result):
            note = "(explains nothing: relevance grew without limit)"
        elif has_vanished(self._engine, result):
            note = "(shows almost nothing: relevance was lost)"
        return f"{Path(name).name}: {best} -> {target} {note}".rstrip()

    def warn_of_losses(self) -> None:
        """Says how many maps lost relevance, where, and what to do."""
        for note in self._losses.notes:
            log.warning("%s", note)

    def write_summary(self) -> None:
        """Draws the picture of all results, if it is wanted."""
        if summary := self._companions.parts.get("summary"):
            title = (
                f"{self._count} pictures, {self._engine.network.name}, {self._engine.name}, "
                f"target {self._config.lrp.target}"
            )
            write_summary(
                summary, title, self._thumbnails, self._timeline,
                self._provenance.as_json(), MAX_THUMBNAILS,
            )  # fmt: skip

    def _write_map(
        self, target: Path, result: Result, before_publishing: Callable[[Path], None]
    ) -> None:
        target_text = self._config.lrp.target
        arrays = raw_map_arrays(self._engine, target_text, result, self._provenance)
        publishing = atomic_file(target, self._overwrite, before_publishing)
        with publishing as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def _overlaid(self, picture: np.ndarray, result: Result) -> np.ndarray:
        return lay_over(picture, colour(painter_for(self._engine, 0.0), result))

    def _add_to_companions(
        self, name: str, picture: np.ndarray, result: Result, lost_in: str | None
    ) -> None:
        record = map_record(self._engine, self._config.lrp.target, result)
        record["lost_in"] = lost_in
        self._companions.write({"file": name, **record})
        self._companions.keep(result, name)
        if "summary" in self._companions.parts:
            self._count += 1
            self._timeline.add(self._count, record)
            best = best_label(top_scores(self._engine, result.scores, 1))
            thumbnail = _thumbnail(self._overlaid(picture, result))
            self._thumbnails.append((f"{Path(name).name}: {best}", thumbnail))


def _thumbnail(picture: np.ndarray) -> np.ndarray:
    """The picture made to fit into `THUMBNAIL`."""
    scale = min(most / side for most, side in zip(THUMBNAIL, picture.shape, strict=False))
    rows, columns = (max(1, round(side * scale)) for side in picture.shape[:2])
    return resize(picture, (rows, columns))
