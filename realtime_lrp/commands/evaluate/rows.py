"""The rows of an evaluation: which there are, and what was measured of each.

The names of the figures are the keys of the JSON file: do not change them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from realtime_lrp.config import Config, names
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.video.files import PICTURES

CONFIGURED = "configured"
"""Name of the row of the user's own composite with rules for particular layers."""

CHANCE = "chance"
"""Name of the row of what noise would score."""

Values = Mapping[str, np.ndarray]
"""Name of a figure -> float64 [n], its value for each of the first n samples, NaN if it has none.
`last_layer` and `all_layers` are measured on fewer samples than the other figures."""


class Stage(NamedTuple):
    """A stage of randomisation.

    Attributes:
      layers: how many layers are randomised.
      down_to: the one that is nearest to the input.
    """

    layers: int
    down_to: str


@dataclass(frozen=True)
class MeasuredRow:
    """Everything that was measured of one composite or method, or of chance.

    Attributes:
      name: of the row.
      values: figure -> its value for each sample.
      curves: "deletion" and "insertion" -> float64 [steps, N], the probability of each sample's
        class.
      forgetting: float64 [stages, n], how similar the maps of the first n samples are to those of
        the trained network; no stages where this was not measured.
      flooded: how many maps explain nothing, because relevance grew too much.
      maps: float32 [n, h, w], the maps of the first samples, for pictures of them.
    """

    name: str
    values: Values
    curves: Mapping[str, np.ndarray]
    forgetting: np.ndarray
    flooded: int
    maps: np.ndarray


@dataclass(frozen=True)
class Measurement:
    """An evaluation of one network on one set of samples.

    Attributes:
      network: its name.
      seed: the random seed.
      object: what the masks show, in words.
      samples: the name of each sample; all differ.
      classes: the name of the explained class of each sample.
      patches_taken: int [steps], how many patches are replaced at each point of the curves.
      stages: the stages of randomisation; none where they were not measured.
      rows: in the order of the table; chance is the last.
    """

    network: str
    seed: int
    object: str
    samples: Sequence[str]
    classes: Sequence[str]
    patches_taken: np.ndarray
    stages: Sequence[Stage]
    rows: Sequence[MeasuredRow]

    @property
    def photos(self) -> list[str]:
        """The photo of each sample."""
        return [photo_of(sample) for sample in self.samples]


def photo_of(sample: str) -> str:
    """The photo of a sample: its name up to a colon and a blank, without the ending of a picture.

    "owl.jpg", "owl.jpg: great grey owl" and "owl: mirrored.jpg" are all of the photo "owl".
    """
    photo = Path(sample.split(": ")[0])
    return photo.stem if photo.suffix.lower() in PICTURES else photo.name


def rows_to_measure(config: Config, only: str | None) -> list[str]:
    """The names of the rows, in the order of the table.

    Args:
      config: has a row of its own where it has rules for particular layers.
      only: names separated by commas, which gives the order; None for all.

    Raises:
      UsageError: there is no such row, or no name is given.
    """
    known = measured_names()
    if config.lrp.layers:
        known.append(CONFIGURED)
    if only is None:
        return known
    stripped = [name.strip() for name in only.split(",")]
    chosen = list(dict.fromkeys(filter(None, stripped)))
    if not chosen:
        raise UsageError(f"--only names no row. Known: {', '.join(known)}.")
    for name in [name for name in chosen if name not in known]:
        if name == CONFIGURED:
            raise UsageError(
                "The row 'configured' is for rules of your own. Give some: --set lrp.layers=..."
            )
        raise unknown("row", name, known, names.panels().aliases)
    return chosen


def measured_names() -> list[str]:
    """The named rows: every composite of LRP, then every other method."""
    methods = [name for name in names.METHODS.known() if name != "lrp"]
    return [*names.COMPOSITES.known(), *methods]


def explainer_settings(config: Config, name: str) -> dict[str, Any]:
    """The arguments of `Explainer` for a row. Named composites have no rules of the user's."""
    if name == CONFIGURED:
        return {"method": "lrp"}
    if name in names.COMPOSITES.known():
        return {"method": "lrp", "composite": name, "layers": {}}
    return {"method": name, "layers": {}}
