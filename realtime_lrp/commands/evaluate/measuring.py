"""Measures the maps of every composite and method over the same pictures and classes.

Two questions: do the maps point at the object, and do they depend on what the network has learnt?
Shapes: pictures uint8 [N, h, w, 3] RGB as the network sees them, maps float32 [N, h, w], masks
bool [N, h, w]. The names of the figures are the keys of the JSON file: do not change them.
"""

import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from realtime_lrp.commands.evaluate import bootstrap
from realtime_lrp.commands.evaluate.randomising import randomise_in_stages, weaken_output_layer
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.relevance import measures
from realtime_lrp.relevance.account import FLOOD
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.methods import METHODS
from realtime_lrp.relevance.targets import TargetResolver
from realtime_lrp.video.libraries import cv2

BATCH = 32

GRID = 16
"""Patches per row and per column, for deletion and insertion."""

REPLACED = np.unique([0, *np.geomspace(1, GRID * GRID, 16).round()])
"""How many patches are replaced at each step of deletion and insertion; dense at the start."""

BLUR_SHARE = 1 / 16
"""Deviation of the blur that replaces a patch, as a share of the picture's shorter side."""

RANDOM_ORDERS = 3
"""How many random orders of the patches the row "chance" averages."""

COMPARED = 16
"""How many pictures are compared between the trained and the randomised network."""

LEAST_PROBABILITY = 1e-20
"""Below this probability float32 cannot hold the relevance of a class."""

PROGRESS_S = 10.0
"""Seconds between lines about the progress where there is no terminal."""

HIGH_IS_GOOD = {
    "pointing": True, "mass": True, "rank": True, "deletion": False, "insertion": True,
    "last_layer": False, "all_layers": False, "other_class": False,
}  # fmt: skip
"""Figure with an interval -> whether high is good."""

log = logging.getLogger(__name__)

Row = dict[str, Any]
"""The figures of one composite or method, by their names in the JSON file."""

Values = dict[str, np.ndarray]
"""Name of a figure -> float [N], its value for each picture."""


class Evaluation:
    """Measures one network on one set of samples. The network is randomised by `run`.

    Attributes:
      maps: name of a row -> float32 [COMPARED, h, w], the maps of the first samples.
    """

    def __init__(self, engine: Engine, samples: Samples, seed: int):
        self._engine, self._samples, self._seed = engine, samples, seed
        self._rng = np.random.default_rng(seed)
        self._scores = score_function(engine)
        deviation = min(samples.masks.shape[1:]) * BLUR_SHARE
        blurred = [cv2.GaussianBlur(picture, (0, 0), deviation) for picture in samples.pictures]
        self._blurred = np.stack(blurred)
        scores = self._scores(samples.pictures)
        self._classes, self._others = choose_classes(samples, scores, engine.network.labels)
        probabilities = scores[np.arange(len(scores)), self._others]
        self._other_has_relevance = probabilities >= LEAST_PROBABILITY
        self.maps: dict[str, np.ndarray] = {}
        self._flooded = 0  # maps of the row that explain nothing, because relevance grew too much
        self._values: dict[str, Values] = {}  # name of a row -> what its means are made of
        self._reported = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Measures everything; returns the figures by their names in the JSON file."""
        rows = {}
        for name in self._with_progress(measured_names(), "maps"):
            try:
                rows[name] = self._measure(name)
            except Error as error:
                log.warning("%s is left out: %s", name, error)
        chance = self._measure_chance()
        stages = self._compare_with_randomised(rows)
        self._add_intervals({**rows, "chance": chance})
        return {
            "pictures": len(self._classes),
            "object": self._samples.object,
            "patches_taken": REPLACED.astype(int).tolist(),
            "resamples": bootstrap.RESAMPLES,
            "forgetting": stages,
            "rows": [*rows.values(), chance],
        }

    def _measure(self, name: str) -> Row:
        explainer = self._explainer(name)
        self._flooded = 0
        maps, other = (self._maps(explainer, name, c) for c in (self._classes, self._others))
        self.maps[name] = maps[:COMPARED]
        masks = self._samples.masks
        curves = self._curves(measures.patch_ranks(maps, GRID, self._rng))
        other_class = measures.spearman(maps, other)
        other_class[~self._other_has_relevance] = np.nan
        self._values[name] = {
            "pointing": measures.pointing_game(maps, masks),
            "mass": measures.mass_accuracy(maps, masks),
            "rank": measures.rank_accuracy(maps, masks),
            **_areas(curves),
            "other_class": other_class,
        }
        return {
            "name": name,
            **_means(self._values[name]),
            **_mean_curves(curves),
            "forgetting": [],
            "flooded": self._flooded,
        }

    def _measure_chance(self) -> Row:
        """What noise would score: the object's share of the area, and random patch orders."""
        masks = self._samples.masks
        area = masks.mean(axis=(1, 2))
        orders = [
            self._curves(measures.patch_ranks(np.zeros(masks.shape), GRID, self._rng))
            for _ in range(RANDOM_ORDERS)
        ]
        curves = {name: np.mean([order[name] for order in orders], axis=0) for name in orders[0]}
        self._values["chance"] = {"pointing": area, "mass": area, "rank": area, **_areas(curves)}
        return {"name": "chance", **_means(self._values["chance"]), **_mean_curves(curves)}

    def _add_intervals(self, rows: dict[str, Row]) -> None:
        """Adds to each row the intervals of its figures, and how far it is behind the best one."""
        for figure, high_is_good in HIGH_IS_GOOD.items():
            values = {
                name: self._values[name][figure] for name in rows if figure in self._values[name]
            }
            if not values:
                continue
            found = bootstrap.intervals(np.stack([*values.values()], axis=1))
            behind = bootstrap.differences(values, high_is_good)
            for name, interval in zip(values, found, strict=True):
                if interval:
                    rows[name].setdefault("intervals", {})[figure] = _rounded(*interval)
                if name in behind:
                    difference, ends = behind[name]
                    gap = {"difference": round(difference, 4), "interval": _rounded(*ends)}
                    rows[name].setdefault("from_best", {})[figure] = gap

    def _compare_with_randomised(self, rows: dict[str, Row]) -> list[dict[str, Any]]:
        """Randomises the network layer by layer; adds to each row how similar its maps remain.

        Returns:
          The stages: how many layers are randomised and which one is the last.
        """
        stages = []
        for stage in randomise_in_stages(self._engine.model, self._seed):
            stages.append(stage)
            self._keep_classes_probable()
            gc.collect()  # frees explainers and their copies of the weights
            for name in self._with_progress(rows, f"without {stage['down_to']}"):
                maps = self._maps(self._explainer(name), name, self._classes[:COMPARED])
                similarity = measures.spearman(self.maps[name], maps)
                self._values[name].setdefault("last_layer", similarity)
                self._values[name]["all_layers"] = similarity
                rows[name]["forgetting"].append(_mean(similarity))
        for row in rows.values():
            row["last_layer"], row["all_layers"] = row["forgetting"][0], row["forgetting"][-1]
        return stages

    def _keep_classes_probable(self) -> None:
        """Halves the output layer's weights until each explained class is probable enough.

        The large outputs of a randomised network saturate its softmax. Half the weights give each
        class the same map at half the strength.
        """
        pictures, classes = self._samples.pictures[:COMPARED], self._classes[:COMPARED]
        for _ in range(64):
            if self._probability(pictures, classes).min() >= LEAST_PROBABILITY:
                return
            weaken_output_layer(self._engine.model)

    def _curves(self, turns: np.ndarray) -> dict[str, np.ndarray]:
        """Deletion and insertion: the probabilities of the classes, float64 [steps, N] each."""
        pictures, blurred = self._samples.pictures, self._blurred
        curves = {}
        for name, ends in (("deletion", (pictures, blurred)), ("insertion", (blurred, pictures))):
            steps = (measures.replace_patches(*ends, turns, count) for count in REPLACED)
            probabilities = [self._probability(step, self._classes) for step in steps]
            curves[name] = np.array(probabilities, np.float64)
        return curves

    def _probability(self, pictures: np.ndarray, classes: np.ndarray) -> np.ndarray:
        return self._scores(pictures)[np.arange(len(classes)), classes]

    def _with_progress(self, names: Iterable[str], description: str) -> Iterator[str]:
        """Yields the names; shows a bar in a terminal, else a line now and then."""
        console, names = Console(stderr=True), list(names)
        if console.is_terminal:
            hidden = not log.isEnabledFor(logging.WARNING)
            yield from track(names, description, console=console, transient=True, disable=hidden)
            return
        for number, name in enumerate(names, 1):
            if time.monotonic() - self._reported >= PROGRESS_S:
                self._reported = time.monotonic()
                log.warning("evaluating: %s, %d of %d (%s)", description, number, len(names), name)
            yield name

    def _explainer(self, name: str) -> Explainer:
        """An explainer of the network as it is now, for a composite or a method."""
        if name in COMPOSITES:
            return self._engine.variant(method="lrp", composite=name, target="top1")
        return self._engine.variant(method=name, target="top1")

    def _maps(self, explainer: Explainer, name: str, classes: np.ndarray) -> np.ndarray:
        """The maps of the first samples, each for its class; only the part that counts."""
        maps = np.empty(self._samples.masks[: len(classes)].shape, np.float32)
        for class_index in np.unique(classes):
            (samples,) = np.nonzero(classes == class_index)
            for batch in np.split(samples, range(BATCH, len(samples), BATCH)):
                x = self._engine.network.prepare(self._samples.pictures[batch])
                explanation = explainer(x, target=int(class_index))
                relevance = explanation.relevance
                if name in COMPOSITES:
                    magnitude = np.abs(relevance).sum((1, 2, 3), dtype=np.float64)
                    started = explanation.scores[:, class_index]
                    self._flooded += int((magnitude > FLOOD * started).sum())
                maps[batch] = measures.supporting_relevance(relevance, name)
        return maps


def measured_names() -> list[str]:
    """The rows: every composite of LRP, then every other method."""
    return [*COMPOSITES, *(method for method in METHODS if method != "lrp")]


def choose_classes(
    samples: Samples, scores: np.ndarray, names: list[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses what is explained: for each sample its class and the most probable other class.

    Args:
      samples: their labels; a sample without one is explained for the network's answer.
      scores: float32 [N, classes].
      names: the names of the classes, or None.

    Returns:
      Two int arrays [N].

    Raises:
      UsageError: the network has only one output.
      DamagedInputError: a label names no class.
    """
    if scores.shape[1] < 2:
        raise UsageError("The network has one output. Expected at least two classes to compare.")
    class_index = TargetResolver(scores.shape[1], names).index
    order = np.argsort(-scores, axis=1)
    try:
        classes = np.array([
            best if label is None else class_index(label)
            for label, best in zip(samples.labels, order[:, 0], strict=True)
        ])  # fmt: skip
    except UsageError as error:
        raise DamagedInputError(f"A label in the boxes is wrong: {error}") from None
    return classes, np.where(order[:, 0] == classes, order[:, 1], order[:, 0])


def score_function(engine: Engine) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from pictures to scores, float32 [N, classes], of the model as it is.

    It runs the Keras model alone, so that it follows when the weights change.
    """
    network, model = engine.network, engine.model
    forward = tf.function(lambda x: model(x, training=False), reduce_retracing=True)
    blank = network.prepare(np.zeros((1, *engine.explainer.input_shape[:2], 3), np.uint8))
    expected, outputs = engine.explainer(blank).scores, forward(blank)
    is_logits = np.abs(tf.nn.softmax(outputs) - expected).max() < np.abs(outputs - expected).max()

    def scores(pictures: np.ndarray) -> np.ndarray:
        batches = np.split(pictures, range(BATCH, len(pictures), BATCH))
        outputs = np.concatenate([forward(network.prepare(batch)) for batch in batches])
        return tf.nn.softmax(outputs).numpy() if is_logits else outputs

    return scores


def _mean(values: np.ndarray) -> float | None:
    """The mean of the values that are not NaN, or None if all are."""
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if known.size else None


def _areas(curves: dict[str, np.ndarray]) -> Values:
    """The area under the curve of each picture, for curves [steps, N]."""
    positions = REPLACED / REPLACED[-1]
    return {name: measures.area_under(positions, curve) for name, curve in curves.items()}


def _mean_curves(curves: dict[str, np.ndarray]) -> Row:
    return {f"{n}_curve": curve.mean(axis=1).round(4).tolist() for n, curve in curves.items()}


def _means(values: Values) -> Row:
    return {name: _mean(value) for name, value in values.items()}


def _rounded(*ends: float) -> list[float]:
    return [round(end, 4) for end in ends]
