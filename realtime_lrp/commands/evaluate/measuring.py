"""Measures the maps of every composite and method over the same pictures and classes.

Two questions: do the maps point at the object, and do they depend on what the network has learnt?
Shapes: pictures uint8 [N, h, w, 3] RGB as the network sees them, maps float32 [N, h, w], masks
bool [N, h, w].
"""

import gc
import logging
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.curves import BATCH, GRID, REPLACED, CurveMeter, areas
from realtime_lrp.commands.evaluate.metrics import (
    CHANCE,
    CONFIGURED,
    METRICS,
    MeasuredRow,
    Measurement,
    Stage,
    Values,
    explainer_settings,
)
from realtime_lrp.commands.evaluate.randomising import RandomisedStages, score_function
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.in_flight import each
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps import measures
from realtime_lrp.relevance.maps.account import FLOOD
from realtime_lrp.relevance.maps.layer_views import ExplainTargets
from realtime_lrp.relevance.maps.targets import TargetResolver
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.system.progress import Progress

COMPARED = 16  # pictures that are compared between the trained and the randomised network
SHOWN = 3  # maps of a row that are kept for the picture of all maps

LEAST_PROBABILITY = 1e-20
"""Below this probability float32 cannot hold the relevance of a class."""

log = logging.getLogger(__name__)

OF_MAPS = {key: metric.of_maps for key, metric in METRICS.items() if metric.of_maps}


class Evaluation:
    """Measures one network on one set of samples, row by row.

    The engine's Keras model is randomised while `measure` runs, unless `forgetting` is False.

    Attributes:
      classes: int [N], the class that is explained of each sample.
      stages: the stages of randomisation.
    """

    def __init__(self, engine: Engine, samples: Samples, seed: int, forgetting: bool = True):
        self._engine, self._samples, self._seed = engine, samples, seed
        scores = np.concatenate([engine.scores(batch) for batch in _batches(samples.pictures)])
        self.classes, self._others = choose_classes(samples, scores, engine.network.labels)
        probabilities = scores[np.arange(len(scores)), self._others]
        self._other_has_relevance = probabilities >= LEAST_PROBABILITY
        self._curves = CurveMeter(engine.scores, samples.pictures, self.classes)
        self.stages: Sequence[Stage] = ()
        if forgetting:
            self._randomised = RandomisedStages(engine.model, seed)
            self._present_scores = score_function(engine)
            self.stages = self._randomised.stages

    def run(self, names: Sequence[str]) -> Measurement:
        """Measures rows, then chance; rows that cannot be measured are left out and named."""
        rows: list[MeasuredRow] = []
        parts = -(-len(self.classes) // BATCH) + len(self.stages)
        done = 0
        with Progress(1, unit="steps", logged=True) as progress:
            progress.begin("evaluating", (len(names) + 1) * parts)

            def step() -> None:
                nonlocal done
                done += 1
                progress.step(done, name)

            for number, name in enumerate(names, 1):
                try:
                    rows.append(self.measure(name, step))
                except Error as error:
                    log.warning("%s is left out: %s", name, error)
                done = number * parts
            if not rows:
                raise DamagedInputError("No row could be measured. The lines above say why.")
            name = CHANCE
            rows.append(self.measure_chance(step))
        samples, classes = self._samples, [self._engine.label(index) for index in self.classes]
        return Measurement(
            self._engine.network.name, self._seed, samples.object, samples.names, classes,
            REPLACED, self.stages, rows,
        )  # fmt: skip

    def measure(self, name: str, on_part: Callable[[], None] = lambda: None) -> MeasuredRow:
        """Measures a composite or a method; calls `on_part` after each part of the work."""
        explainer, rng = self._explainer(name), self._rng(name)
        explain = explainer.compile_for_targets(2)
        measured, compared, flooded = [], [], 0
        for samples in _batches(np.arange(len(self.classes))):
            pairs = partial(self._map_pairs, explain, name)
            found = self._in_parts(pairs, samples, explainer)
            maps, others = (np.concatenate(each) for each in list(zip(*found, strict=True))[:2])
            flooded += sum(extra for _, _, extra in found)
            measured.append(self._measure_maps(maps, others, samples, rng))
            compared.append(maps[: max(0, COMPARED - samples[0])])
            on_part()
        values, curves = (_joined(each) for each in zip(*measured, strict=True))
        trained = np.concatenate(compared)
        forgetting = self._forgetting(name, trained, on_part)
        if self.stages:
            values |= {"last_layer": forgetting[0], "all_layers": forgetting[-1]}
        return MeasuredRow(name, values, curves, forgetting, flooded, trained[:SHOWN].copy())

    def measure_chance(self, on_part: Callable[[], None] = lambda: None) -> MeasuredRow:
        """What noise would score: the object's share of the area, and a random patch order."""
        rng, measured = self._rng(CHANCE), []
        for samples in _batches(np.arange(len(self.classes))):
            masks = self._samples.masks[samples]
            ranks = measures.patch_ranks(np.zeros(masks.shape), GRID, rng)
            area = dict.fromkeys(OF_MAPS, masks.mean(axis=(1, 2)))
            measured.append((area, self._curves.measure(ranks, samples)))
            on_part()
        values, curves = (_joined(each) for each in zip(*measured, strict=True))
        nothing = np.empty((0, *self._samples.masks.shape[1:]), np.float32)
        return MeasuredRow(CHANCE, values | areas(curves), curves, np.empty((0, 0)), 0, nothing)

    @property
    def stride(self) -> tuple[int, int]:
        """The period of the maps' raster, see `strength`."""
        return self._engine.explainer.stride

    def faithfulness(self, explainer: Explainer, samples: Sequence[int]) -> Values:
        """Deletion and insertion of an explainer that follows rules, for some samples."""
        rng, found = self._rng("lrp"), []
        for batch in _batches(np.asarray(samples)):
            maps = self._maps(explainer, "lrp", batch)
            ranks = measures.patch_ranks(maps, GRID, rng)
            found.append(areas(self._curves.measure(ranks, batch)))
        return _joined(found)

    def maps_of(self, name: str, samples: Sequence[int]) -> np.ndarray:
        """The maps of the classes of some samples, float32 [n, h, w]; only the part that counts."""
        explainer, chosen = self._explainer(name), np.asarray(samples)
        return np.concatenate([self._maps(explainer, name, batch) for batch in _batches(chosen)])

    def _measure_maps(
        self, maps: np.ndarray, others: np.ndarray, samples: np.ndarray, rng: np.random.Generator
    ) -> tuple[Values, Values]:
        """The values and the curves of a batch of maps, but for what needs randomised weights."""
        masks = self._samples.masks[samples]
        curves = self._curves.measure(measures.patch_ranks(maps, GRID, rng), samples)
        other_class = measures.spearman(maps, others)
        other_class[~self._other_has_relevance[samples]] = np.nan
        of_maps = {key: measure(maps, masks) for key, measure in OF_MAPS.items()}
        return of_maps | areas(curves) | {"other_class": other_class}, curves

    def _forgetting(self, name: str, maps: np.ndarray, on_part: Callable[[], None]) -> np.ndarray:
        """How similar maps are to those of the randomised network, float64 [stages, n]."""
        samples = np.arange(len(maps))
        similarities = np.empty((len(self.stages), len(maps)))
        for number, stage in enumerate(self.stages):
            with self._randomised.enter(stage, lambda: self._is_probable(samples)):
                gc.collect()  # frees explainers and their copies of the weights
                changed = self._maps(self._explainer(name), name, samples)
                similarities[number] = measures.spearman(maps, changed)
            on_part()
        return similarities

    def _is_probable(self, samples: np.ndarray) -> bool:
        """Whether the model, as it is now, gives the classes enough probability."""
        scores = self._present_scores(self._samples.pictures[samples])
        probabilities = scores[np.arange(len(samples)), self.classes[samples]]
        return bool(probabilities.min() >= LEAST_PROBABILITY)

    def _rng(self, name: str) -> np.random.Generator:
        """The random numbers of a row; they do not depend on which rows were measured before."""
        return np.random.default_rng([self._seed, zlib.crc32(name.encode())])

    def _explainer(self, name: str) -> Explainer:
        """An explainer of the network as it is now."""
        return self._engine.variant(target="top1", **explainer_settings(name))

    def _map_pairs(
        self,
        explain: ExplainTargets,
        name: str,
        samples: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """The maps of the class and of the other class of some samples, float32 [n, h, w] twice.

        Then how many of them explain nothing because relevance grew too much.
        """
        maps, flooded = [], 0
        x = self._engine.network.prepare(self._samples.pictures[samples])
        targets = [self.classes[samples], self._others[samples]]
        scores, both = explain(x, targets)
        for classes, relevance in zip(targets, both, strict=True):
            maps.append(measures.supporting_relevance(relevance, name))
            if name in COMPOSITES or name == CONFIGURED:
                magnitude = np.abs(relevance).sum((1, 2, 3), dtype=np.float64)
                flooded += int((magnitude > FLOOD * scores[range(len(classes)), classes]).sum())
        return maps[0], maps[1], flooded

    def _maps(self, explainer: Explainer, name: str, samples: np.ndarray) -> np.ndarray:
        def maps_of(few: np.ndarray) -> np.ndarray:
            x = self._engine.network.prepare(self._samples.pictures[few])
            relevance = explainer(x, self.classes[few]).relevance
            return measures.supporting_relevance(relevance, name)

        return np.concatenate(self._in_parts(maps_of, samples, explainer))

    def _in_parts(
        self, function: Callable[[np.ndarray], Any], samples: np.ndarray, explainer: Explainer
    ) -> list[Any]:
        """A function of samples: one by one if each has many copies, so that Ctrl-C ends soon."""
        if explainer.passes:
            return each(function, np.split(samples, range(1, len(samples))))
        return self._engine.for_each_part(function, samples)


def choose_classes(
    samples: Samples, scores: np.ndarray, names: list[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """What is explained, int [N] twice: the class of each sample, its most probable other class.

    A sample without a label is explained for the network's answer. `scores` are float32
    [N, classes].
    """
    if scores.shape[1] < 2:
        raise UsageError("The network has one output. Expected at least two classes to compare.")
    class_index = TargetResolver(scores.shape[1], names).index
    order = np.argsort(-scores, axis=1)
    classes = np.array([
        best if label is None else class_index(label)
        for label, best in zip(samples.labels, order[:, 0], strict=True)
    ])  # fmt: skip
    return classes, np.where(order[:, 0] == classes, order[:, 1], order[:, 0])


def _batches(array: np.ndarray) -> list[np.ndarray]:
    return np.split(array, range(BATCH, len(array), BATCH))


def _joined(parts: Sequence[Values]) -> dict[str, np.ndarray]:
    """The values of all batches, by figure; samples are on the last axis."""
    return {key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]}
