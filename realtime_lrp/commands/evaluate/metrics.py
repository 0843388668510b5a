"""The metrics of `evaluate`: their names in the literature, and which values are good.

`relevance/maps/measures.py` computes them, docs/evaluation.md defines them. The keys are those of
the JSON and CSV files, which others read: do not change them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """A figure that each row has, computed for each picture.

    Attributes:
      heading: its column in the table.
      name: its name in the literature.
      paper: where it was defined.
      meaning: what the number is.
      high_is_good: whether high is good.
    """

    heading: str
    name: str
    paper: str
    meaning: str
    high_is_good: bool

    @property
    def direction(self) -> str:
        """Which values are good: "high" or "low"."""
        return "high" if self.high_is_good else "low"


ARRAS = "Arras, Osman, Samek 2022, CLEVR-XAI"
PETSIUK = "Petsiuk, Das, Saenko 2018, RISE"
ADEBAYO = "Adebayo et al. 2018, Sanity checks for saliency maps"
RANDOMISATION = "Model Parameter Randomisation Test"

METRICS: dict[str, Metric] = {
    "pointing": Metric(
        "point", "Pointing Game",
        "Zhang et al. 2018, Top-down neural attention by excitation backprop",
        "share of pictures whose largest relevance is on the object", True,
    ),
    "mass": Metric(
        "mass", "Relevance Mass Accuracy", ARRAS,
        "share of the relevance that is on the object", True,
    ),
    "rank": Metric(
        "rank", "Relevance Rank Accuracy", ARRAS,
        "share of the K largest entries on the object, which has K pixels", True,
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


def described() -> dict[str, Mapping[str, Any]]:
    """The metrics for the JSON file: key -> name, paper, meaning and whether high is good."""
    return {key: asdict(metric) for key, metric in METRICS.items()}
