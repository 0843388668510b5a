"""Measures the maps of every composite and method over the same pictures and classes.

Two questions: do the maps point at the object, and do they depend on what the network has learnt?
Shapes: pictures uint8 [N, h, w, 3] RGB as the network sees them, maps float32 [N, h, w], masks
bool [N, h, w].
"""

import gc
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from realtime_lrp.commands.evaluate.measured import CHANCE, MeasuredRow, Stage, Values
from realtime_lrp.commands.evaluate.randomising import RandomisedStages
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import DamagedInputError, UsageError
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

REPLACED = np.unique([0, *np.geomspace(1, GRID * GRID, 16).round()]).astype(int)
"""How many patches are replaced at each step of deletion and insertion; dense at the start."""

BLUR_SHARE = 1 / 16
"""Deviation of the blur that replaces a patch, as a share of the picture's shorter side."""

RANDOM_ORDERS = 3
"""How many random orders of the patches the row "chance" averages."""

COMPARED = 16
"""How many pictures are compared between the trained and the randomised network."""

SHOWN = 3
"""How many maps of a row are kept for the picture of all maps."""

LEAST_PROBABILITY = 1e-20
"""Below this probability float32 cannot hold the relevance of a class."""


class Evaluation:
    """Measures one network on one set of samples, row by row.

    Args:
      engine: the network; its Keras model is randomised while `measure` runs.
      samples: the pictures.
      seed: random seed of the random orders, and of the randomised weights.

    Attributes:
      classes: int [N], the class that is explained of each sample.
      stages: the stages of randomisation.
    """

    def __init__(self, engine: Engine, samples: Samples, seed: int):
        self._engine, self._samples, self._seed = engine, samples, seed
        self._scores = score_function(engine)
        deviation = min(samples.masks.shape[1:]) * BLUR_SHARE
        blurred = [cv2.GaussianBlur(picture, (0, 0), deviation) for picture in samples.pictures]
        self._blurred = np.stack(blurred)
        scores = self._scores(samples.pictures)
        self.classes, self._others = choose_classes(samples, scores, engine.network.labels)
        probabilities = scores[np.arange(len(scores)), self._others]
        self._other_has_relevance = probabilities >= LEAST_PROBABILITY
        self._randomised = RandomisedStages(engine.model, seed)
        self.stages: Sequence[Stage] = self._randomised.stages

    def measure(self, name: str) -> MeasuredRow:
        """Measures one row.

        Args:
          name: a composite of LRP or a method.

        Raises:
          Error: the network cannot be explained in this way.
        """
        explainer = self._explainer(name)
        maps, flooded = self._maps(explainer, name, self.classes)
        others, others_flooded = self._maps(explainer, name, self._others)
        masks = self._samples.masks
        curves = self._curves(measures.patch_ranks(maps, GRID, self._rng(name)))
        other_class = measures.spearman(maps, others)
        other_class[~self._other_has_relevance] = np.nan
        values: Values = {
            "pointing": measures.pointing_game(maps, masks),
            "mass": measures.mass_accuracy(maps, masks),
            "rank": measures.rank_accuracy(maps, masks),
            **_areas(curves),
            "other_class": other_class,
        }
        forgetting = self._forgetting(name, maps[:COMPARED])
        if self.stages:
            values = {**values, "last_layer": forgetting[0], "all_layers": forgetting[-1]}
        return MeasuredRow(
            name, values, curves, forgetting, flooded + others_flooded, maps[:SHOWN].copy()
        )

    def measure_chance(self) -> MeasuredRow:
        """What noise would score: the object's share of the area, and random patch orders."""
        masks, rng = self._samples.masks, self._rng(CHANCE)
        area = masks.mean(axis=(1, 2))
        orders = [
            self._curves(measures.patch_ranks(np.zeros(masks.shape), GRID, rng))
            for _ in range(RANDOM_ORDERS)
        ]
        curves = {name: np.mean([order[name] for order in orders], axis=0) for name in orders[0]}
        values = {"pointing": area, "mass": area, "rank": area, **_areas(curves)}
        nothing = np.empty((0, *masks.shape[1:]), np.float32)
        return MeasuredRow(CHANCE, values, curves, np.empty((0, 0)), 0, nothing)

    def maps_of(self, name: str, samples: Sequence[int]) -> np.ndarray:
        """The maps of the classes of some samples, float32 [n, h, w]; only the part that counts."""
        maps, _ = self._maps(self._explainer(name), name, self.classes, samples)
        return maps

    def _forgetting(self, name: str, maps: np.ndarray) -> np.ndarray:
        """How similar maps are to those of the randomised network, float64 [stages, n]."""
        pictures, classes = self._samples.pictures[: len(maps)], self.classes[: len(maps)]

        def is_probable() -> bool:
            return bool(self._probability(pictures, classes).min() >= LEAST_PROBABILITY)

        similarities = np.empty((len(self.stages), len(maps)))
        for number, stage in enumerate(self.stages):
            with self._randomised.enter(stage, is_probable):
                gc.collect()  # frees explainers and their copies of the weights
                changed, _ = self._maps(self._explainer(name), name, classes)
                similarities[number] = measures.spearman(maps, changed)
        return similarities

    def _rng(self, name: str) -> np.random.Generator:
        """The random numbers of a row; they do not depend on which rows were measured before."""
        return np.random.default_rng([self._seed, zlib.crc32(name.encode())])

    def _curves(self, turns: np.ndarray) -> dict[str, np.ndarray]:
        """Deletion and insertion: the probabilities of the classes, float64 [steps, N] each."""
        pictures, blurred = self._samples.pictures, self._blurred
        curves = {}
        for name, ends in (("deletion", (pictures, blurred)), ("insertion", (blurred, pictures))):
            steps = (measures.replace_patches(*ends, turns, count) for count in REPLACED)
            probabilities = [self._probability(step, self.classes) for step in steps]
            curves[name] = np.array(probabilities, np.float64)
        return curves

    def _probability(self, pictures: np.ndarray, classes: np.ndarray) -> np.ndarray:
        return self._scores(pictures)[np.arange(len(classes)), classes]

    def _explainer(self, name: str) -> Explainer:
        """An explainer of the network as it is now, for a composite or a method."""
        if name in COMPOSITES:
            return self._engine.variant(method="lrp", composite=name, target="top1")
        return self._engine.variant(method=name, target="top1")

    def _maps(
        self,
        explainer: Explainer,
        name: str,
        classes: np.ndarray,
        samples: Sequence[int] | None = None,
    ) -> tuple[np.ndarray, int]:
        """The maps of samples, each for its class; only the part that counts.

        Args:
          explainer: of this row.
          name: of the row.
          classes: the class of each of the first samples.
          samples: the numbers of the samples; None for all that have a class.

        Returns:
          float32 [n, h, w], and how many of them explain nothing because relevance grew too much.
        """
        wanted = np.arange(len(classes)) if samples is None else np.asarray(samples)
        maps = np.empty((len(wanted), *self._samples.masks.shape[1:]), np.float32)
        flooded = 0
        for class_index in np.unique(classes[wanted]):
            (positions,) = np.nonzero(classes[wanted] == class_index)
            for batch in np.split(positions, range(BATCH, len(positions), BATCH)):
                x = self._engine.network.prepare(self._samples.pictures[wanted[batch]])
                explanation = explainer(x, target=int(class_index))
                relevance = explanation.relevance
                if name in COMPOSITES:
                    magnitude = np.abs(relevance).sum((1, 2, 3), dtype=np.float64)
                    started = explanation.scores[:, class_index]
                    flooded += int((magnitude > FLOOD * started).sum())
                maps[batch] = measures.supporting_relevance(relevance, name)
        return maps, flooded


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


def _areas(curves: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The area under the curve of each picture, for curves [steps, N]."""
    positions = REPLACED / REPLACED[-1]
    return {name: measures.area_under(positions, curve) for name, curve in curves.items()}
