"""Measures the maps of every composite and method over the same pictures and classes.

Do the maps point at the object, and do they depend on what the network has learnt?
Shapes: pictures uint8 [N, h, w, 3] RGB as the network sees them, maps float32 [N, h, w], masks
bool [N, h, w].
"""

import gc
import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.measured import each
from realtime_lrp.engine.tensorflow import keras
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.evaluation import metrics
from realtime_lrp.evaluation.samples import BATCH, MOST_IN_SCENE, BoxSamples, Samples, batches
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps import measures
from realtime_lrp.relevance.maps.account import has_flooded
from realtime_lrp.relevance.maps.targets import TargetResolver
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.libraries import cv2

COMPARED = 16  # pictures that are compared between the trained and the randomised network
LEAST_PROBABILITY = 1e-20  # float32 cannot hold the relevance of a less probable class
GRID = 16  # patches per row and per column
STEPS = 10  # points of a curve; docs/evaluation.md says how exact the areas are

REPLACED = np.rint(GRID**2 * (np.arange(STEPS + 1) / STEPS) ** 2).astype(int)
"""How many patches are replaced at each point of a curve; dense at the start."""

AREA_WEIGHTS = measures.area_weights(REPLACED / REPLACED[-1])  # weight of each point in the area
BLUR_SHARE = 1 / 16  # deviation of the blur of a patch, as a share of the picture's shorter side
MOST_HALVINGS = 64  # most halvings of a randomised output layer's weights
SEED_OFFSET = 90210  # keeps new weights apart from those that training began with (seeds 1 to 3)

OF_MAPS = [(key, metric.of_maps) for key, metric in metrics.METRICS.items() if metric.of_maps]

log = logging.getLogger(__name__)


class Evaluation:
    """Measures a network on samples; `scores` gives float32 [N, ...], `classes` are int [N]."""

    def __init__(
        self, engine: Engine, samples: Samples, seed: int,
        scores: Callable[[np.ndarray], np.ndarray], classes: np.ndarray, labels: Sequence[str],
    ):  # fmt: skip
        self._engine = engine
        self._samples = samples
        self._seed = seed
        self.classes = classes
        self._labels = labels
        self._curves = CurveMeter(scores, samples.pictures, classes)
        self._on_part: Callable[[], None] = lambda: None  # called after each part of a row
        self._randomised: Mapping[str, keras.Model] = {}

    def measure(self, name: str) -> metrics.MeasuredRow:
        explainer = self._explainer(name)
        return self._row(name, lambda samples: (self._maps(explainer, name, samples), {}))

    def _maps(self, explainer: Explainer, name: str, samples: np.ndarray) -> np.ndarray:
        """The measured part of the samples' maps, float32 [n, h, w]."""
        raise NotImplementedError

    def run(self, names: Sequence[str]) -> metrics.Measurement:
        """Measures rows, then chance; rows that cannot be measured are left out and named."""
        rows: list[metrics.MeasuredRow] = []
        parts = -(-len(self.classes) // BATCH) + len(self._randomised)
        with Progress(1, unit="steps", logged=True) as progress:
            progress.begin("evaluating", (len(names) + 1) * parts)

            def begin(number: int, name: str) -> None:
                steps = count(number * parts + 1)
                self._on_part = lambda: progress.step(next(steps), name)

            for number, name in enumerate(names):
                begin(number, name)
                try:
                    rows.append(self.measure(name))
                except Error as error:
                    log.warning("%s is left out: %s", name, error)
            if not rows:
                raise DamagedInputError("No row could be measured. The lines above say why.")
            begin(len(names), metrics.CHANCE)
            rows.append(self.chance())
        samples = self._samples
        network = self._engine.network.name
        described = samples.object, samples.names, self._labels
        return metrics.Measurement(network, self._seed, *described, REPLACED, rows, samples.counted)

    def chance(self) -> metrics.MeasuredRow:
        """The scores of noise: the object's share of the area, and a random patch order."""
        return self._row(
            metrics.CHANCE, lambda some: (np.zeros(self._samples.masks[some].shape), {})
        )

    def maps_of(self, name: str, samples: Sequence[int] | np.ndarray) -> np.ndarray:
        """The maps of the classes of some samples, float32 [n, h, w]; only the part that counts."""
        return self._maps(self._explainer(name), name, np.asarray(samples))

    def _row(
        self, name: str, measured: Callable[[np.ndarray], tuple[np.ndarray, metrics.Values]]
    ) -> metrics.MeasuredRow:
        """The values and curves of all samples; `measured` gives maps and further values."""
        # the order of equal patches does not depend on which rows were measured before
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        parts: list[metrics.Values] = []
        for samples in batches(np.arange(len(self.classes))):
            maps, more = measured(samples)
            curves = self._curves.measure(measures.patch_ranks(maps, GRID, rng), samples)
            masks = self._samples.masks[samples]
            located = {key: measure(maps, masks) for key, measure in OF_MAPS}
            parts.append({**located, **curves, **more})
            self._on_part()
        found = {key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]}
        curves = {key: found[key] for key in CURVES}
        areas = {key: AREA_WEIGHTS @ curve for key, curve in curves.items()}
        return metrics.MeasuredRow(name, found | areas, curves)

    def _explainer(self, name: str, model: keras.Model | None = None) -> Explainer:
        return self._engine.variant(model, target="top1", **metrics.explainer_settings(name))

    def _in_parts(
        self, function: Callable[[np.ndarray], Any], samples: np.ndarray, explainer: Explainer
    ) -> list[Any]:
        """A function of samples: one by one if each has many copies, so that Ctrl-C ends soon."""
        if explainer.passes:
            return each(function, np.split(samples, range(1, len(samples))))
        return self._engine.for_each_part(function, samples)


class AnswerEvaluation(Evaluation):
    """Measures maps of answers, or of named classes; `forgetting`: of randomised networks too."""

    def __init__(self, engine: Engine, samples: Samples, seed: int, forgetting: bool = True):
        scores = np.concatenate([engine.scores(batch) for batch in batches(samples.pictures)])
        classes, self._others = choose_classes(samples, scores, engine.network.labels)
        labels = [engine.label(index) for index in classes]
        super().__init__(engine, samples, seed, engine.scores, classes, labels)
        probabilities = scores[np.arange(len(scores)), self._others]
        self._other_has_relevance = probabilities >= LEAST_PROBABILITY
        self._compared = np.arange(min(len(classes), COMPARED))
        if forgetting:
            self._randomised = randomised(engine.model, seed, self._knows_classes)

    def measure(self, name: str) -> metrics.MeasuredRow:
        explainer = self._explainer(name)
        compared: list[np.ndarray] = []

        def pairs(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            """The maps of the class and of the next one; how many of both explain nothing."""
            x = self._engine.network.prepare(self._samples.pictures[samples])
            targets = [self.classes[samples], self._others[samples]]
            both = [explainer(x, classes.tolist()) for classes in targets]
            floods = np.zeros(len(samples), int)
            for classes, one in zip(targets, both, strict=True):
                magnitude = np.abs(one.relevance).sum((1, 2, 3), dtype=np.float64)
                floods += has_flooded(magnitude, one.scores[range(len(samples)), classes])
            maps, others = (measures.supporting_relevance(one.relevance, name) for one in both)
            return maps, others, floods

        def measured(samples: np.ndarray) -> tuple[np.ndarray, metrics.Values]:
            found = self._in_parts(pairs, samples, explainer)
            maps, others, floods = map(np.concatenate, zip(*found, strict=True))
            compared.append(maps[: max(0, COMPARED - samples[0])])
            other = measures.spearman(maps, others)
            other[~self._other_has_relevance[samples]] = np.nan
            return maps, {"other_class": other, "flooded": floods}

        row = self._row(name, measured)
        values = dict(row.values)
        flooded = int(values.pop("flooded").sum())
        for key, model in self._randomised.items():
            gc.collect()  # frees explainers and their copies of the weights
            others = self._maps(self._explainer(name, model), name, self._compared)
            values[key] = measures.spearman(np.concatenate(compared), others)
            self._on_part()
        of_rules = name in COMPOSITES or name == metrics.CONFIGURED
        return replace(row, values=values, flooded=flooded if of_rules else 0)

    def _knows_classes(self, model: keras.Model) -> bool:
        """Whether a model gives the classes that are compared enough probability."""
        x = self._engine.network.prepare(self._samples.pictures[self._compared])
        scores = self._engine.variant(model).scores(x)
        probabilities = scores[self._compared, self.classes[self._compared]]
        return bool(probabilities.min() >= LEAST_PROBABILITY)

    def _maps(self, explainer: Explainer, name: str, samples: np.ndarray) -> np.ndarray:
        def maps_of(few: np.ndarray) -> np.ndarray:
            x = self._engine.network.prepare(self._samples.pictures[few])
            relevance = explainer(x, self.classes[few]).relevance
            return measures.supporting_relevance(relevance, name)

        parts = (self._in_parts(maps_of, batch, explainer) for batch in batches(samples))
        return np.concatenate([maps for part in parts for maps in part])


class BoxEvaluation(Evaluation):
    """Measures maps of a detector's boxes; curves follow the class's score at the box's place."""

    def __init__(self, engine: Engine, samples: BoxSamples, seed: int):
        def scores(pictures: np.ndarray) -> np.ndarray:
            answer = engine.model.predict_on_batch(engine.network.prepare(pictures))
            return np.reshape(answer["scores"], (len(pictures), -1))

        self._boxes = samples.boxes
        classes = np.array([box.score for box in samples.boxes])
        labels = samples.labels
        super().__init__(engine, samples, seed, scores, classes, [*map(str, labels)])

    def _maps(self, explainer: Explainer, name: str, samples: np.ndarray) -> np.ndarray:
        boxes = [self._boxes[sample] for sample in samples]
        scenes = [box.scene for box in boxes]
        _, first, scene = np.unique(scenes, return_index=True, return_inverse=True)
        x = self._engine.network.prepare(self._samples.pictures[samples[first]])
        maps = explainer.detections(x, MOST_IN_SCENE).maps[scene, [box.number for box in boxes]]
        return measures.supporting_relevance(maps, name)


def choose_classes(
    samples: Samples, scores: np.ndarray, names: list[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The explained class of each sample, its own or the best, and the most probable other one."""
    if scores.shape[1] < 2:
        raise UsageError("The network has one output. Expected at least two classes to compare.")
    class_index = TargetResolver(scores.shape[1], names).index
    order = np.argsort(-scores, axis=1)
    classes = np.array([
        best if label is None else class_index(label)
        for label, best in zip(samples.labels, order[:, 0], strict=True)
    ])  # fmt: skip
    return classes, np.where(order[:, 0] == classes, order[:, 1], order[:, 0])


CURVES = ("deletion", "insertion")


class CurveMeter:
    """Deletion and insertion: how the probability of a class changes as patches are replaced.

    Pictures are uint8 [N, h, w, 3]; `scores` and `measure` take up to `BATCH` of them.
    """

    def __init__(
        self, scores: Callable[[np.ndarray], np.ndarray], pictures: np.ndarray, classes: np.ndarray
    ):
        self._scores = scores
        self._pictures = pictures
        self._classes = classes
        deviation = min(pictures.shape[1:3]) * BLUR_SHARE
        self._blurred = np.stack(
            [cv2.GaussianBlur(picture, (0, 0), deviation) for picture in pictures]
        )
        self._whole, self._all_blurred = (
            np.concatenate([
                self._probabilities(np.bool_(blurred), part)
                for part in batches(np.arange(len(pictures)))
            ])
            for blurred in (False, True)
        )  # fmt: skip

    def measure(self, ranks: np.ndarray, samples: np.ndarray) -> dict[str, np.ndarray]:
        """The `CURVES` of some pictures, float64 [points, n], for `patch_ranks`, int [n, h, w]."""
        taken = ranks < REPLACED[:, None, None, None]
        return {"deletion": self._curve(taken, samples), "insertion": self._curve(~taken, samples)}

    def _curve(self, blurred: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """One curve of each sample; `blurred`, bool [points, n, h, w], says where."""
        ends = self._whole[samples], self._all_blurred[samples]
        first, last = ends[:: -1 if blurred[0].any() else 1]
        between = [self._probabilities(where[..., None], samples) for where in blurred[1:-1]]
        return np.stack([first, *between, last], dtype=np.float64)

    def _probabilities(self, blurred: np.ndarray | np.bool, samples: np.ndarray) -> np.ndarray:
        pictures = np.where(blurred, self._blurred[samples], self._pictures[samples])
        return self._scores(pictures)[np.arange(len(samples)), self._classes[samples]]


def randomised(
    model: keras.Model, seed: int, is_probable: Callable[[keras.Model], bool]
) -> dict[str, keras.Model]:
    """Copies of a model that have forgotten what the output layer has learnt, and all layers.

    The cascading randomisation of Adebayo et al. 2018, "Sanity checks for saliency maps", and of
    Sixt et al. 2020, "When explanations lie": layers get new weights from their own initialisers.
    The large outputs of a randomised network saturate its softmax, and a class of probability 0 has
    no relevance. So the weights of the output layer are halved until every class that is explained
    is probable enough. That gives each class the same map at half the strength.
    """
    keras.utils.set_random_seed(SEED_OFFSET + seed)
    copies = {key: keras.models.clone_model(model) for key in ("all_layers", "last_layer")}
    fresh = [layer.get_weights() for layer in layers_with_weights(copies["all_layers"])]
    for key, copy in copies.items():
        copy.set_weights(model.get_weights())  # a Normalization keeps its own
        layers = [*layers_with_weights(copy)]
        forgetful = slice(-1, None) if key == "last_layer" else slice(None)
        for layer, weights in zip(layers[forgetful], fresh[forgetful], strict=True):
            layer.set_weights(weights)
        for _ in range(MOST_HALVINGS):
            if is_probable(copy):
                break
            layers[-1].set_weights([weights / 2 for weights in layers[-1].get_weights()])
    return copies


def layers_with_weights(model: keras.Model) -> Iterator[keras.Layer]:
    """The layers with trained weights, from input to output, those in nested models too."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from layers_with_weights(layer)
        elif layer.weights and type(layer).__name__ != "Normalization":
            yield layer
