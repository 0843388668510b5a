"""What `evaluate` measured, picture by picture: plain data, of which reports are made.

A row is the unit that is kept on the disk and read again to go on with an unfinished evaluation.
The names of the figures are the keys of the JSON file: do not change them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from realtime_lrp.commands.evaluate.metrics import METRICS
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.video.files import PICTURES

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

    def save(self, file: Path) -> None:
        """Writes the row as an .npz file."""
        arrays: dict[str, Any] = {f"values.{key}": array for key, array in self.values.items()}
        arrays |= {f"curves.{key}": array for key, array in self.curves.items()}
        facts = json.dumps({"name": self.name, "flooded": self.flooded})
        with file.open("wb") as stream:
            np.savez(stream, forgetting=self.forgetting, maps=self.maps, facts=facts, **arrays)

    @classmethod
    def load(cls, file: Path, name: str) -> "MeasuredRow":
        """Reads what `save` wrote.

        Args:
          file: an .npz file.
          name: the row that is expected in it.

        Raises:
          DamagedInputError: the file cannot be read or is not this row.
        """
        try:
            with np.load(file, allow_pickle=False) as arrays:
                row = cls(
                    **json.loads(str(arrays["facts"])),
                    values=_group(arrays, "values."),
                    curves=_group(arrays, "curves."),
                    forgetting=arrays["forgetting"],
                    maps=arrays["maps"],
                )
        except Exception as error:  # zipfile, zlib, numpy and json have many ways to say it
            raise DamagedInputError(str(error) or type(error).__name__) from None
        if row.name != name or not row._has_expected_arrays():
            raise DamagedInputError("it holds something else")
        return row

    def _has_expected_arrays(self) -> bool:
        curves = [self.curves.get(name, np.empty(0)) for name in ("deletion", "insertion")]
        return (
            isinstance(self.flooded, int)
            and all(curve.dtype == np.float64 and curve.ndim == 2 for curve in curves)
            and curves[0].shape == curves[1].shape
            and {"deletion", "insertion"} <= self.values.keys() <= METRICS.keys()
            and all(value.dtype == np.float64 and value.ndim == 1 for value in self.values.values())
            and len(self.values["deletion"]) == curves[0].shape[1]
            and self.forgetting.dtype == np.float64
            and self.forgetting.ndim == 2
            and self.maps.dtype == np.float32
            and self.maps.ndim == 3
        )


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


def _group(arrays: Any, prefix: str) -> dict[str, np.ndarray]:
    return {key.removeprefix(prefix): arrays[key] for key in arrays.files if key.startswith(prefix)}
