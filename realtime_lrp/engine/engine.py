"""The engine: pictures in, results out, and what happens where a device's memory is too small."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.config import Config, check_names
from realtime_lrp.config.names import AUTO, COMPOSITE, COMPOSITES
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.concept_pipelines import NEEDED, ConceptPipelines
from realtime_lrp.engine.device import Device, cpu, device
from realtime_lrp.engine.loading import build_explainer, load, load_configured, quickest_explainer
from realtime_lrp.engine.measured import each, pool
from realtime_lrp.engine.result import (
    Aim,
    Batch,
    ConceptRequest,
    FoundBox,
    MapKind,
    Result,
    fetch_results,
)
from realtime_lrp.engine.sight import Begun, PictureEngine, Sight
from realtime_lrp.engine.tensorflow import keras, tf
from realtime_lrp.errors import UnavailableError, UsageError, unknown
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.models.names import hashes, network_files
from realtime_lrp.models.network import Network
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps.account import State, flood_text
from realtime_lrp.relevance.maps.layer_views import LayerRecord
from realtime_lrp.relevance.maps.methods import composite_for
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.relevance.maps.targets import OneTarget
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.system.machine import core_count
from realtime_lrp.video.region import Region

TOLERANCE = 0.01  # `MapKind.tolerance` of LRP in float32
TOLERANCE_FAST = 0.05  # the same in the faster types, and of integrated gradients

log = logging.getLogger(__name__)


class Engine(PictureEngine):
    """A network with its explainer on a device, ready for pictures.

    Args:
      moving: whether the maps are watched as a moving picture. Only then may `auto` precision be
        the quicker one.
      keep_model: whether the Keras model stays if it is small, for `variant` and `with_config`.
        Otherwise these load it once more.
      also: methods or composites whose maps are computed as well.
      otherwise: what `lrp.composite: auto` is for networks without attention.
      named: whether somebody needs class names; else none are downloaded.
      by_channel: whether results hold the relevance of each channel of the concept layer, if there
        is one.

    Attributes:
      config: the configuration that it was built for; `lrp.composite` is what `auto` became.
      detects: whether the network is a detector, which explains each box by itself.
      segments: whether it gives classes for every place of a picture.
      auto_composite: what `lrp.composite: auto` is here.
      files: what the network was read from.
      sight: where it looks in pictures.
      scores_ready: whether `prepare_scores` is done.
      gallery: the pictures and names of channels, where they were loaded, see `gallery_of`.
      in_flight: how many batches may be begun before the results of the first are asked for.

    Raises:
      Error: what `load` and `Explainer` raise.
    """

    def __init__(
        self,
        config: Config,
        moving: bool = False,
        keep_model: bool = False,
        also: Sequence[str] = (),
        by_channel: bool = False,
        otherwise: str = COMPOSITE,
        named: bool = True,
    ):
        check_names(config)
        self.config = config
        self.gallery: Gallery | None = None
        self._moving = moving
        self._by_channel = by_channel
        self._keep_model = keep_model
        self._otherwise = otherwise
        self._named = named
        self.also = tuple(also)
        self._load(device())

    def with_config(self, config: Config, also: Sequence[str] = ()) -> "Engine":
        """An engine of the same network for other settings of `lrp` and `overlay`."""
        check_names(config)
        graph = build_graph(self.model, size=config.model.size)
        other = copy(self)
        other.config = config
        other.also = tuple(also)
        other._prepare(graph, self._device)
        return other

    def with_network(self, network: Network) -> "Engine":
        """An engine of another network of the same input, which has its Keras model."""
        other = copy(self)
        other.network = network
        return other.with_config(self.config, self.also)

    def variant(self, model: keras.Model | None = None, **changes: Any) -> Explainer:
        """An explainer as configured, in the engine's precision, with changed arguments."""
        arguments = {"composite": self.composite, "precision": self.precision, **changes}
        model = model or self.model
        return build_explainer(model, self.network, self.config, self._device, **arguments)

    def _load(self, on: Device) -> None:
        self.network, graph = load(self.config, self._keep_model, self._named)
        self.files = network_files(self.config)
        self._prepare(graph, on)
        self.sight = Sight(self.config.input, self.explainer.input_shape[:2], self.fit, on)

    def _prepare(self, graph: Graph, on: Device) -> None:
        """Builds the explainer and compiles the pipeline on a device; uses the graph up."""
        self.auto_composite = str(composite_for(AUTO, graph, self._otherwise))
        if self.config.lrp.composite == AUTO:
            self.config = self.config.changed(lrp={"composite": self.auto_composite})
        self.scores_ready = False
        config = self.config
        self.device = on.name
        self._device = on
        self._pool = None if on.is_gpu else pool()
        self.in_flight = 2 if on.is_gpu else core_count() if self._pool else 1
        by_channel = config.overlay.map == "rgb" and self.network.channels == 3

        def reduce(relevance: tf.Tensor) -> tuple[tf.Tensor, ...]:
            axes = [1, 2, 3]
            magnitude = tf.reduce_sum(tf.abs(relevance), axes)
            drawn = strength(relevance, by_channel, self.explainer.stride)
            return *drawn, tf.reduce_sum(relevance, axes), magnitude

        with tf.device(on.scope):
            self.explainer = quickest_explainer(
                graph, self.network, config, on, self._moving, self.also
            )
            self.detects = graph.boxes is not None
            self.segments = self.explainer.segments
            if self.config.input.at and not self.segments:
                gives = "boxes" if self.detects else "one answer for the whole picture"
                raise UsageError(
                    f"The network {self.network.name!r} gives {gives}. Leave --at out: it is for "
                    "segmentations.",
                    "at",
                )
            self._flooded: set[str] = set()  # names of maps that were warned of
            chosen = config.concepts.layer
            if chosen and chosen not in self.explainer.channel_counts():
                raise unknown("concept layer", chosen, self.explainer.concept_layers)
            layer = self.concept_layer if self._by_channel else None
            self._pipeline = self.explainer.compile_pipeline(self.network.prepare, reduce, layer)
        exact = self.precision == "float32"
        kinds = []
        facts = self.explainer.follows_rules, self.explainer.differences
        for name, by_rules, difference in zip((self.name, *self.also), *facts, strict=True):
            tolerance = TOLERANCE if exact and not difference else TOLERANCE_FAST
            accounted = difference or name in COMPOSITES.known()
            of_scores = self.explainer.classes > 1
            kinds.append(
                MapKind(name, by_rules, difference, of_scores, tolerance if accounted else None)
            )
        self.kinds = tuple(kinds)
        self.concepts = ConceptPipelines(
            self.explainer, self.concept_layer, self.network.prepare, reduce, on
        )

    @property
    def model(self) -> keras.Model:
        """The Keras model; loaded once more, and kept, where it was not kept."""
        if self.network.model is None:
            model = load_configured(self.config, named=False).model
            self.network = replace(self.network, model=model)
        return self.network.model

    @property
    def precision(self) -> str:
        """The type in which layers with weights compute: float32 or bfloat16."""
        return self.explainer.precision

    @property
    def computed(self) -> str:
        """Precision and device: "float32 on CPU"."""
        return f"{self.precision} on {self.device}"

    @property
    def concept_layer(self) -> str | None:
        """The layer whose channels are concepts; None without one, and for methods but LRP."""
        default = self.explainer.concept_layer if self.config.lrp.method == "lrp" else None
        return default and (self.config.concepts.layer or default)

    def on_device(
        self, function: Callable[..., Any], pictures: np.ndarray, *more: Any, **options: Any
    ) -> Any:
        """The output of an explainer's function for extracted regions, uint8 [B, h, w, 3]."""
        with tf.device(self._device.scope):
            return function(self.network.prepare(tf.constant(pictures)), *more, **options)

    def scores(self, pictures: np.ndarray, place: int | None = None) -> np.ndarray:
        """`Explainer.scores` of extracted regions, uint8 [B, h, w, 3]."""
        of_part = partial(self.on_device, self.explainer.scores, place=place)
        return np.concatenate(self.for_each_part(of_part, pictures))

    def prepare_scores(self) -> None:
        """Compiles `scores`, which takes seconds; where that fails, `scores` fails again."""
        black = np.zeros((1, *self.explainer.input_shape[:2], 3), np.uint8)
        with suppress(Exception):
            for place in (None, 0) if self.detects else (None,):
                self.scores(black, place)
        self.scores_ready = True

    def for_each_part(self, function: Callable[[np.ndarray], Any], batch: np.ndarray) -> list[Any]:
        """A function of each core's part of a batch, in order; of all where cores share a map."""
        return each(function, np.array_split(batch, self._parts(len(batch))))

    def _parts(self, count: int) -> int:
        return min(count, self.in_flight) if self._pool else 1

    def begin(
        self,
        pictures: Sequence[np.ndarray] | np.ndarray,
        targets: Sequence[OneTarget] | None = None,
        concepts: ConceptRequest | None = None,
        prior: np.ndarray | None = None,
        regions: Sequence[Region] | None = None,
        aim: Aim | None = None,
    ) -> Begun:
        """Starts to explain pictures, uint8 [H, W, 3] RGB; returns what waits for the results.

        A batch for which the memory is too small is split in halves. Where a GPU's memory is too
        small for one picture, the engine moves to the CPU.

        Each picture may have a target of its own instead of the engine's. With `concepts` the
        channels that are wanted come too; where they cannot be had, results say why. `prior`,
        float32 [2, channels of the layer], is added to shares, then multiplies them, before the
        largest are chosen; see `SteadyShares`. With `regions` the pictures are what the network
        sees of those, uint8 [B, h, w, 3]. A segmentation is explained where `aim` says.

        Raises:
          UnavailableError: the CPU's memory is too small for one picture.
          UsageError: the network does not see the configured place.
        """
        pictures, regions, read = self._seen(pictures, targets, regions)
        aims = [self._where(region, aim) for region in regions] if self.segments else []
        own = aim or Aim.of(self.config)
        where = {
            "region": np.stack(aims), "around": np.array([[not own.pixel]]),
            "contrast": np.array([[own.contrast]]),
        } if aims else {}  # fmt: skip
        batch = Batch(np.asarray(pictures), regions, read, concepts, prior, own, where)
        if self._pool is None:
            return Begun(self._begin(batch))

        def explain(part: Batch) -> list[Result]:
            return self._begin(part)()

        parts = batch.parts(self._parts(len(pictures)))
        begun = [self._pool.submit(explain, part) for part in parts]
        return Begun(
            lambda: [result for one in begun for result in one.result()],
            lambda: all(one.done() for one in begun),
        )

    def _where(self, region: Region, aim: Aim | None) -> np.ndarray:
        """The weights of places, float32 [h, w], see `TargetTensors`: 1 at what is explained."""
        rows, columns = self.explainer.places
        weights = np.full((rows, columns), -1, np.float32)
        at = (aim or Aim.of(self.config)).at
        weights[region.part_of((rows, columns))] = 0
        if at is None:
            return weights
        place = region.place_of(at)  # None for an `aim` that the network does not see
        if place is None and aim is None:
            raise UsageError(
                f"The network does not see the place {at[0]:g},{at[1]:g}: it sees the middle of "
                "the picture. Choose another place, or input.fit=letterbox.",
                "at",
            )
        if place is not None:
            weights[int(place[1] * rows), int(place[0] * columns)] = 1
        return weights

    def _begin(self, batch: Batch) -> Callable[[], list[Result]]:
        """`begin` in the thread that calls it."""
        on = self._device
        pipelines = self.concepts
        explainer = self.explainer
        count = len(batch.pictures)
        concepts = batch.concepts
        needed = count * (NEEDED if concepts else 1)
        fits = count == 1 or on.is_gpu or needed <= explainer.pictures_at_once() // self.in_flight
        output = None
        try:
            if fits:
                with tf.device(on.scope):
                    output = (
                        pipelines.run(batch, concepts)
                        if concepts
                        else self._pipeline(batch.pictures, batch.targets, **batch.where)
                    )
        except tf.errors.ResourceExhaustedError:
            pipelines.give_up(concepts)

        def results() -> list[Result]:
            try:
                if output:
                    layer = pipelines.layer(concepts) if concepts else ""
                    named = any(target.contrasts for target in batch.targets)
                    contrast = self.segments and (batch.aim.contrast or named)
                    kinds = self.kinds
                    if contrast:  # a contrast of maps is no share of what started
                        kinds = tuple(replace(kind, tolerance=None) for kind in kinds)
                    each = (explainer.signs_for(target, contrast) for target in batch.targets)
                    signed = list(zip(kinds, zip(*each, strict=True), strict=True))
                    return self._checked(batch, fetch_results(output, batch, signed, layer))
            except tf.errors.ResourceExhaustedError:
                pipelines.give_up(concepts)
            if not (concepts and fits):
                return self._with_less_memory(batch, on)
            why = pipelines.refusal(concepts)
            plain = self._begin(replace(batch, concepts=None))()
            return [replace(one, concepts=why) for one in plain]

        return results

    def warm_up(self) -> None:
        """Computes a map on each core that makes its own: the first takes several times as long."""

        def explain(picture: np.ndarray) -> None:
            with tf.device(self._device.scope), suppress(tf.errors.ResourceExhaustedError):
                self._pipeline(picture, None).scores.numpy()

        if self._pool:
            black = np.zeros((self.in_flight, *self.explainer.input_shape[:2], 3), np.uint8)
            self.for_each_part(explain, black)

    def leave_gpu(self, reason: str) -> None:
        """Moves from the GPU to the CPU; does nothing on a CPU."""
        if self._device.is_gpu:
            log.warning("the GPU %s is left (%s): computing on the CPU", self._device.name, reason)
            self._load(cpu())

    def _with_less_memory(self, batch: Batch, on: Device) -> list[Result]:
        """The results of a batch that did not fit into the memory of the device `on`."""
        if (count := len(batch.pictures)) > 1:
            log.info("the memory does not suffice for %d pictures at once: halved", count)
            return [result for half in batch.parts(2) for result in self._begin(half)()]
        if not on.is_gpu:
            raise UnavailableError(
                "The memory does not suffice to explain one picture. Choose fewer maps or samples, "
                "a smaller --size, or a smaller --model."
            )
        if self._device == on:  # only the first of several batches in flight moves the engine
            self.leave_gpu("its memory does not suffice")
        return self._begin(replace(batch, concepts=None))()

    def _checked(self, batch: Batch, results: list[Result]) -> list[Result]:
        """The results, after checking that they are finite; names maps that explain nothing."""
        sums = [(result.scores.sum(), *(m.total for m in result.maps)) for result in results]
        if not np.isfinite(sums).all():
            raise self.explainer.not_finite(self.network.prepare(batch.pictures), batch.targets)
        for picture, result in zip(batch.pictures, results, strict=True):
            for index, one in enumerate(result.maps):
                if one.state is State.FLOODED and one.name not in self._flooded:
                    self._flooded.add(one.name)
                    layers = self.layers(picture, result, index)
                    most = max(layers, key=lambda layer: layer.growth[0])
                    grown = one.magnitude / one.started_magnitude
                    advice = self.explainer.flood_advice(most.name, result.target)
                    growth = float(most.growth[0])
                    text = flood_text(grown, most.name, most.kind, growth, advice)
                    log.warning("%s: %s", one.name, text)
        return results

    def layers(self, picture: np.ndarray, result: Result, index: int = 0) -> list[LayerRecord]:
        """`Explainer.layers` of a result for uint8 [h, w, 3]; a box is explained by its class."""
        target: OneTarget = result.target
        place = None
        if isinstance(result, FoundBox):
            target = target if result.target.classes else result.label
            place = result.place
        return self.on_device(self.explainer.layers, picture[None], target, index, place)

    def provenance(self, config: Config | None = None, *further: str) -> Provenance:
        """How the maps are made, by its own or another configuration; waits for file hashes."""
        config = config or self.config
        if config.lrp.composite == AUTO:
            config = config.changed(lrp={"composite": self.composite})
        model = config.model
        lrp = config.lrp
        return msgspec.structs.replace(
            self.explainer.provenance(),
            model=ModelProvenance(
                name=model.name,
                weights=model.weights,
                preprocess=self.network.preprocess,
                labels=model.labels,
                sha256=hashes(self.files),
            ),
            composite=lrp.composite if lrp.method == "lrp" else None,
            target=lrp.target,
            device=self.device,
            settings=recorded_settings(config, *further),
        )
