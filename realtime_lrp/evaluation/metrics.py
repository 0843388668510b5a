"""The metrics of `evaluate`, the rows, the values of each row, and how sure they are.

`relevance/maps/measures.py` computes the metrics, docs/evaluation.md defines them. The keys
stand in the JSON and CSV files, which others read: do not change them.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.config import Config, names
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps import measures
from realtime_lrp.video.files import PICTURES

CONFIGURED = "configured"  # the row of the user's own composite with rules for particular layers
CHANCE = "chance"  # the row of what noise would score

ARRAS = "Arras, Osman, Samek 2022, CLEVR-XAI"
PETSIUK = "Petsiuk, Das, Saenko 2018, RISE"
ADEBAYO = "Adebayo et al. 2018, Sanity checks for saliency maps"
RANDOMISATION = "Model Parameter Randomisation Test"


@dataclass(frozen=True)
class Metric:
    """A figure that each row has, computed for each picture."""

    heading: str  # its column in the table
    name: str  # in the literature
    paper: str
    meaning: str
    high_is_good: bool
    of_maps: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """Maps and masks -> its values (chance gets the object's share of the area); None if it needs
    more than these."""

    @property
    def label(self) -> str:
        """Its name, and which values are good."""
        return f"{self.name}, {'high' if self.high_is_good else 'low'} is good"

    def described(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "of_maps"}


METRICS: dict[str, Metric] = {
    "pointing": Metric(
        "point", "Pointing Game",
        "Zhang et al. 2018, Top-down neural attention by excitation backprop",
        "share of pictures whose largest relevance is on the object", True, measures.pointing_game,
    ),
    "mass": Metric(
        "mass", "Relevance Mass Accuracy", ARRAS,
        "share of the relevance that is on the object", True, measures.mass_accuracy,
    ),
    "rank": Metric(
        "rank", "Relevance Rank Accuracy", ARRAS,
        "share of the K largest entries on the object, which has K pixels", True,
        measures.rank_accuracy,
    ),
    "deletion": Metric(
        "delete", "Deletion AUC", PETSIUK,
        "mean probability as patches blur, most relevant first", False,
    ),
    "insertion": Metric(
        "insert", "Insertion AUC", PETSIUK,
        "mean probability as blurred patches come back, most relevant first", True,
    ),
    "last_layer": Metric(
        "last", f"{RANDOMISATION}, output layer", ADEBAYO,
        "rank correlation with the map after the last layer was randomised", False,
    ),
    "all_layers": Metric(
        "all", f"{RANDOMISATION}, all layers", ADEBAYO,
        "the same after all layers: near 1, the map ignores what was learnt", False,
    ),
    "other_class": Metric(
        "other", "Random Logit Test",
        "Sixt, Granz, Landgraf 2020, When explanations lie",
        "rank correlation with the map of the next class: near 1, it ignores the class", False,
    ),
}  # fmt: skip
"""Key in the JSON file -> metric, in the order of the table's columns."""

Values = Mapping[str, np.ndarray]
"""Name of a figure -> float64 [n], its value for each of the first n samples, NaN if it has none.
`last_layer` and `all_layers` are measured on fewer samples than the other figures."""


@dataclass(frozen=True)
class MeasuredRow:
    """Everything that was measured of one composite or method, or of chance."""

    name: str
    values: Values
    curves: Mapping[str, np.ndarray]  # "deletion", "insertion" -> probabilities [points, N]
    flooded: int = 0  # how many maps explain nothing, because relevance grew too much


@dataclass(frozen=True)
class Measurement:
    """An evaluation of one network on one set of samples; chance is the last row."""

    network: str
    seed: int
    object: str  # what the masks show, in words
    samples: Sequence[str]  # the name of each; all differ
    classes: Sequence[str]  # the explained class of each
    patches_taken: np.ndarray  # int [points], how many are replaced at each point of the curves
    rows: Sequence[MeasuredRow]
    counted: tuple[str, str] = ("pictures", "photos")  # what samples are called, and what they show

    @property
    def photos(self) -> list[str]:
        return [photo_of(sample) for sample in self.samples]


def photo_of(sample: str) -> str:
    """The photo of a sample: "owl" of "owl.jpg", "owl.jpg: tawny owl", "owl: mirrored.jpg"."""
    photo = Path(sample.split(": ")[0])
    return photo.stem if photo.suffix.lower() in PICTURES else photo.name


def rows_to_measure(config: Config, only: str | None) -> list[str]:
    """The rows: every composite, then every other method; `only` some, with commas."""
    methods = [name for name in names.METHODS.known() if name != "lrp"]
    known = [*names.COMPOSITES.known(), *methods, *[CONFIGURED] * bool(config.lrp.layers)]
    if only is None:
        return known
    chosen = [*dict.fromkeys(filter(None, map(str.strip, only.split(","))))]
    if not chosen:
        raise UsageError(f"--only names no row. Known: {', '.join(known)}.")
    for name in [name for name in chosen if name not in known]:
        if name == CONFIGURED:
            raise UsageError(
                "The row 'configured' is for rules of your own. Give some: --set lrp.layers=..."
            )
        raise unknown("row", name, known, names.PANELS.aliases)
    return chosen


def explainer_settings(name: str) -> dict[str, Any]:
    """The arguments of `Explainer` for a row. Named composites have no rules of the user's."""
    if name == CONFIGURED:
        return {"method": "lrp"}
    if name in names.COMPOSITES.known():
        return {"method": "lrp", "composite": name, "layers": {}}
    return {"method": name, "layers": {}}


RESAMPLES = 2000
SEED = 95
LEVEL = 0.95

FEWEST_PHOTOS = 6
"""With fewer photos nothing can be said: five that agree do so by chance in 1 of 16 cases
(two-sided sign test)."""

LEAST_PHOTOS = 3  # fewest photos for an interval: with one or two it means nothing


def intervals(values: np.ndarray, photos: Sequence[str] | None = None) -> np.ndarray:
    """The ends of the interval of the mean of each column of values: float [columns, 2].

    Pictures are drawn anew, with replacement, `RESAMPLES` times; the middle 95 % of the means that
    this gives are the interval (percentile bootstrap, Efron and Tibshirani 1993). Pictures of one
    photo resemble each other, so they are drawn together; `photos` names the photo of each.

    The values are float [N, columns]; NaN is left out. All is NaN with fewer than `LEAST_PHOTOS`.
    """
    names = photos[: len(values)] if photos else range(len(values))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if len(numbers) < LEAST_PHOTOS:
        return np.full((values.shape[1], 2), np.nan)
    chances = np.full(len(numbers), 1 / len(numbers))
    by_photo = np.random.default_rng(SEED).multinomial(len(numbers), chances, RESAMPLES)
    drawn = by_photo[:, [numbers[name] for name in names]].astype(float)
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"), warnings.catch_warnings(action="ignore"):
        means = drawn @ np.where(known, values, 0.0) / (drawn @ known)
        return np.nanquantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0).T


def rounded(ends: np.ndarray) -> list[float]:
    """An interval for JSON; empty where there is none."""
    return [round(end, 4) for end in ends.tolist() if not np.isnan(end)]


def best_of(values: Mapping[str, np.ndarray], high_is_good: bool) -> str | None:
    """The name of the row with the best mean over its own pictures."""
    means = {name: np.nanmean(row) for name, row in values.items() if not np.isnan(row).all()}
    return (max if high_is_good else min)(means, key=means.__getitem__) if means else None


def compared(
    values: Mapping[str, np.ndarray],
    pairs: Iterable[tuple[str, str]],
    photos: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """How far pairs of rows, float [N], are apart on pictures with values of both."""
    pairs = list(pairs)
    if not pairs:
        return []
    differences = np.stack([values[first] - values[second] for first, second in pairs], axis=1)
    return [
        {
            "first": first,
            "second": second,
            "n": int((~np.isnan(column)).sum()),
            "difference": round(float(np.nanmean(column)), 4),
            "interval": rounded(ends),
        }
        for (first, second), column, ends in zip(
            pairs, differences.T, intervals(differences, photos), strict=True
        )
        if rounded(ends)
    ]
