"""From pictures to explanations: a network, its explainer and the region it sees."""

import gc
import logging
import os
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from realtime_lrp.config import Config, Where, refusals
from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    MissingInputError,
    UnavailableError,
    UsageError,
    unknown,
)
from realtime_lrp.system.quiet import captured_stderr, ensure_temporary_folder
from realtime_lrp.video.region import Region, region_of
from realtime_lrp.view.colormaps import COLORMAPS, by_sign, colormap_named
from realtime_lrp.view.keys import key_names
from realtime_lrp.view.overlay import SMOOTHING, Overlay, Painter

log = logging.getLogger(__name__)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ensure_temporary_folder()
try:
    with captured_stderr() as said:
        import keras
        import tensorflow as tf

        tf.config.list_physical_devices()
        tf.constant(0) + 0
except Exception:
    log.error("%s", "\n".join(said))
    raise

from realtime_lrp.engine.device import Device, computes_bfloat16, cpu, device  # noqa: E402
from realtime_lrp.models.networks import Network, check_model_name, load_network  # noqa: E402
from realtime_lrp.models.preprocessing import COLOUR_ONLY  # noqa: E402
from realtime_lrp.models.size import refuse_beyond_memory  # noqa: E402
from realtime_lrp.relevance.composites import COMPOSITES, composite_named  # noqa: E402
from realtime_lrp.relevance.explainer import Explainer  # noqa: E402
from realtime_lrp.relevance.graph import Graph, build_graph  # noqa: E402
from realtime_lrp.relevance.methods import ELSEWHERE, METHODS  # noqa: E402
from realtime_lrp.relevance.rules import RULES, rule_named  # noqa: E402
from realtime_lrp.relevance.strength import strength  # noqa: E402

DEFAULT_MODEL = "vgg16"
DEFAULT_COMPOSITE = "zplus"
VIEWER_COMPOSITE = "epsilon_plus_flat"
"""What `live` and `demo` use: by `evaluate` it points as well as z+ at the same cost, and depends
on the class, which z+ does not (README, "Does the map point at the object?")."""


LEGAL: dict[str, Collection[str]] = {
    "lrp.method": METHODS,
    "lrp.composite": COMPOSITES,
    "lrp.layers": RULES,
    "overlay.colormap": COLORMAPS,
    "live.panels": ChainMap[str, Any](COMPOSITES, METHODS),
    "kiosk.exit_key": key_names(),
}
"""Keys of the configuration -> the names that they may have; of `lrp.layers`, the rules."""


@dataclass(frozen=True)
class ResultMap:
    """One map of one picture.

    Attributes:
      strength: int8 [h, w] or [h, w, C] at the network's input, see `relevance.strength`.
      scale: the relevance of full strength.
      total: the sum of the raw map.
    """

    strength: np.ndarray
    scale: float
    total: float
    _relevance: Callable[[], np.ndarray]

    @property
    def relevance(self) -> np.ndarray:
        """float32 [h, w, C] at the network's input, raw; fetched from the device when asked for."""
        return self._relevance()


@dataclass(frozen=True)
class Result:
    """One picture's explanation; all its numbers are finite.

    Attributes:
      scores: float32 [classes].
      explained: the relevance that began at the output, summed, and summed by its magnitude.
      region: which part of the picture it belongs to.
      maps: the map, then the further ones of the engine.
    """

    scores: np.ndarray
    explained: tuple[float, float]
    region: Region
    maps: tuple[ResultMap, ...]

    @property
    def relevance(self) -> np.ndarray:
        """That of the first map."""
        return self.maps[0].relevance


def _results(begun: tuple[Any, ...], regions: Sequence[Region]) -> list[Result]:
    scores, explained, made, relevance = begun
    by_map = [_maps_of(tensors, raw) for tensors, raw in zip(made, relevance, strict=True)]
    rows = zip(scores.numpy(), map(tuple, explained.numpy().tolist()), regions, strict=True)
    return [Result(*row, maps) for row, maps in zip(rows, zip(*by_map, strict=True), strict=True)]


def _maps_of(tensors: Sequence[tf.Tensor], raw: tf.Tensor) -> list[ResultMap]:
    strengths, scales, totals = (tensor.numpy() for tensor in tensors)
    rows = zip(strengths, scales.tolist(), totals.tolist(), strict=True)
    return [ResultMap(*row, partial(_fetched, raw, number)) for number, row in enumerate(rows)]


def _fetched(raw: tf.Tensor, number: int) -> np.ndarray:
    return raw[number].numpy()


class Engine:
    """A network that is ready to be asked.

    Args:
      config: the effective configuration.
      composite: which one to use where the configuration names none.
      moving: the maps are looked at in moving pictures, not kept as figures: `auto` precision may
        be the quicker one.
      keep_model: whether the Keras model stays, a second copy of the weights, for `explainer_for`
        and `with_settings`.
      also: methods or composites whose maps are made as well.

    Attributes:
      settings: the configuration that it was made for.
      also: the further maps, methods or composites.
      network: what is explained.
      explainer: explains it as configured.
      composite: the one that LRP uses.
      device: "CPU" or the GPU's name.
      in_flight: how many batches may be begun before the first of them is asked for. A GPU copies
        one while it computes the next; a CPU has finished when `begin` returns.

    Raises:
      Error: what `load_network` and `Explainer` raise.
    """

    def __init__(
        self,
        config: Config,
        composite: str = DEFAULT_COMPOSITE,
        moving: bool = False,
        keep_model: bool = False,
        also: Sequence[str] = (),
    ):
        check_names(config)
        if config.lrp.method != "lrp" and (config.lrp.composite or config.lrp.layers):
            log.warning("composite and layers play no part in the method %s", config.lrp.method)
        self.settings = config
        self.composite = config.lrp.composite or composite
        self._moving = moving
        self._keep_model = keep_model
        self.also = tuple(also)
        self._load(device())

    def with_settings(self, config: Config, also: Sequence[str] = ()) -> "Engine":
        """An engine for other settings of `lrp` and `overlay`, of the kept model.

        Raises:
          UsageError: what `Explainer` raises.
        """
        check_names(config)
        other = copy(self)
        other.settings, other.also = config, tuple(also)
        other.composite = config.lrp.composite or self.composite
        other._prepare(build_graph(self.model, config.lrp.pool), self._on)
        return other

    def _load(self, on: Device) -> None:
        config = self.settings
        network = load_network(
            config.model.name or DEFAULT_MODEL,
            config.model.weights,
            config.model.labels,
            config.model.preprocess,
        )
        graph = build_graph(network.model, config.lrp.pool)
        if config.model.size:
            _refuse_too_large(graph, config.model.size)
        _check_channels(network)
        self.network = network if self._keep_model else replace(network, model=None)
        del network
        gc.collect()  # Keras models hold on to themselves
        self._prepare(graph, on)

    def _prepare(self, graph: Graph, on: Device) -> None:
        config, lrp = self.settings, self.settings.lrp
        self.device, self.in_flight, self._on = on.name, 2 if on.is_gpu else 1, on
        precision = _precision(config, self._moving, on)
        if precision == "float16" and not on.is_gpu:
            log.warning("float16 is slow on a CPU: it is meant for GPUs without bfloat16")
        by_channel = config.overlay.map == "rgb" and self.network.channels == 3
        with tf.device(on.scope):
            self.explainer = self._explainer(
                graph, lrp.method, self.composite, lrp.target, precision, self.also
            )
            self._explain = self.explainer.between(
                self.network.prepare,
                lambda relevance: (
                    *strength(relevance, by_channel), tf.reduce_sum(relevance, [1, 2, 3])
                ),
            )  # fmt: skip

    @property
    def model(self) -> keras.Model:
        """The kept Keras model."""
        return self.network.model

    @property
    def precision(self) -> str:
        """In which the layers with weights compute: float32, bfloat16 or float16."""
        return self.explainer.precision

    def explainer_for(self, method: str, composite: str, target: str | int) -> Explainer:
        """An explainer of the kept model, its weights as they are now; the rest as configured."""
        return self._explainer(self.model, method, composite, target, self.precision)

    def variant(
        self,
        precision: str,
        model: keras.Model | None = None,
        also: Sequence[str] = (),
        size: tuple[int, int] | None = None,
        xla: bool | None = None,
    ) -> Explainer:
        """As configured, in another precision; of the kept model or one like it of another size."""
        lrp = self.settings.lrp
        return self._explainer(
            model or self.model, lrp.method, self.composite, lrp.target, precision,
            also, size, xla,
        )  # fmt: skip

    def _explainer(
        self,
        model: keras.Model | Graph,
        method: str,
        composite: str,
        target: str | int,
        precision: str,
        also: Sequence[str] = (),
        size: tuple[int, int] | None = None,
        xla: bool | None = None,
    ) -> Explainer:
        lrp = self.settings.lrp
        return Explainer(
            model,
            method,
            composite,
            target,
            precision,
            also=also,
            layers=lrp.layers,
            absorb_bias=lrp.absorb_bias,
            keep=lrp.keep,
            guided=lrp.guided,
            samples=lrp.samples,
            pool=lrp.pool,
            labels=self.network.labels,
            size=size or self.settings.model.size,
            fast=self._on.fast_precision,
            xla=lrp.xla if xla is None else xla,
            **self.network.box(),
        )

    @property
    def computed(self) -> str:
        """In which precision, and on what."""
        return f"{self.precision} on {self.device}"

    def explain(self, pictures: Sequence[np.ndarray]) -> list[Result]:
        """Explains pictures, uint8 [H, W, 3] RGB each, as one batch."""
        return self.begin(pictures)()

    def begin(self, pictures: Sequence[np.ndarray]) -> Callable[[], list[Result]]:
        """Begins to explain pictures; what it returns waits for the results.

        Where the memory does not suffice for all of them, they are explained in halves; where a
        GPU's does not suffice for one, the CPU goes on from there.

        Raises:
          NotFiniteError: the network computes NaN or Inf.
          UnavailableError: the memory does not suffice for one picture.
        """
        regions = [self.region(picture.shape[:2]) for picture in pictures]
        views = [region.extract(p) for region, p in zip(regions, pictures, strict=True)]
        return self.begin_views(np.stack(views), regions)

    def begin_views(
        self, batch: np.ndarray, regions: Sequence[Region]
    ) -> Callable[[], list[Result]]:
        """Begins to explain what the network sees of pictures, uint8 [B, rows, columns, 3]."""
        on = self._on
        try:
            begun = self._begin(batch)
        except tf.errors.ResourceExhaustedError:
            begun = None

        def results() -> list[Result]:
            try:
                if begun:
                    return self._finite(batch, _results(begun, regions))
            except tf.errors.ResourceExhaustedError:
                pass
            return self._with_less_memory(batch, regions, on)

        return results

    def _begin(self, batch: np.ndarray) -> tuple[Any, ...]:
        with tf.device(self._on.scope):
            return self._explain(batch)

    def _with_less_memory(
        self, batch: np.ndarray, regions: Sequence[Region], on: Device
    ) -> list[Result]:
        """The results of a batch that did not fit into the memory of the device `on`."""
        if len(batch) > 1:
            log.info("the memory does not suffice for %d pictures at once: halved", len(batch))
            half = len(batch) // 2
            first = self.begin_views(batch[:half], regions[:half])()
            return first + self.begin_views(batch[half:], regions[half:])()
        if not on.is_gpu:
            raise UnavailableError(
                "The memory does not suffice to explain one picture. Choose fewer maps or samples, "
                "a smaller --size, or a smaller --model."
            )
        if self._on == on:  # batches in flight fail together, the first of them changes the device
            self.leave_gpu("its memory does not suffice")
        return self.begin_views(batch, regions)()

    def leave_gpu(self, why: str) -> None:
        """Goes on on the CPU, where it was on a GPU."""
        if self._on.is_gpu:
            log.warning("the GPU %s is left (%s): computing on the CPU", self._on.name, why)
            self._load(cpu())

    def _finite(self, batch: np.ndarray, results: list[Result]) -> list[Result]:
        """The results, where all their numbers are finite."""
        sums = [(result.scores.sum(), *(one.total for one in result.maps)) for result in results]
        if not np.isfinite(sums).all():
            raise self.explainer.not_finite(self.network.prepare(batch))
        return results

    def scores(self, pictures: np.ndarray) -> np.ndarray:
        """The scores alone, float32 [B, classes], of what the network sees: uint8 [B, h, w, 3]."""
        with tf.device(self._on.scope):
            return self.explainer.scores(self.network.prepare(tf.constant(pictures)))

    def layer(self, painter: Painter, result: Result) -> Overlay:
        """A result as a layer over its picture."""
        first, region = result.maps[0], result.region
        return painter(first.strength, first.scale, region.box, region.inner)

    def painter(self, smoothing: float = SMOOTHING) -> Painter:
        """What draws this engine's maps; `smoothing` as in `Painter`."""
        return Painter(self.colormap, self.settings.overlay.opacity, smoothing)

    @property
    def colormap(self) -> str:
        """The colour map of this engine's maps: the chosen one, else by their signs."""
        return self.settings.overlay.colormap or by_sign(self.explainer.signed)

    def region(self, size: tuple[int, int]) -> Region:
        """The region that the network sees of a picture of (rows, columns)."""
        return region_of(size, self.explainer.input_shape[:2], self.settings.input.fit)

    def top(self, scores: np.ndarray, count: int = 5) -> list[tuple[str, float]]:
        """The highest scores as (label, score), best first."""
        best = np.argsort(-scores)[:count]
        return [(self.label(index), float(scores[index])) for index in best]

    def line(self, result: Result) -> str:
        """The best label with its score, as shown on a picture, and the count of further passes."""
        passes = self.explainer.passes
        best = label_line(self.top(result.scores, 1))
        return f"{best}   (mean of {passes} passes)" if passes else best

    @property
    def name(self) -> str:
        """Of the map: its composite, or its method where that is not LRP."""
        method = self.settings.lrp.method
        return self.composite if method == "lrp" else method

    def label(self, index: int) -> str:
        """The name of a class."""
        labels = self.network.labels
        return labels[index] if labels else f"class {index}"


def with_demo_network(config: Config) -> Config:
    """The configuration with the embedded network, unless it names another one."""
    model = config.model.model_copy(update={"name": config.model.name or "shapes"})
    return config.model_copy(update={"model": model})


def check_names(config: Config) -> None:
    """Refuses names that no room knows; the class needs the network and is not looked at.

    Raises:
      UsageError: an unknown method, composite, colour map or model.
      MissingInputError: there is no such file of a model or of labels, or no such folder.
      UnavailableError: there is no such file of weights.
    """
    for _, error in wrong_names(config):
        raise error


def wrong_names(config: Config) -> Iterator[tuple[Where, Error]]:
    """Yields each name that `check_names` refuses: where it stands, and the refusal."""
    lrp = config.lrp
    yield from refusals(("model", "name"), check_model_name, config.model.name or DEFAULT_MODEL)
    if config.model.weights not in (None, "", "imagenet", "random"):
        yield from refusals(("model", "weights"), _check_weights, config.model.weights)
    if config.model.labels:
        yield from refusals(("model", "labels"), _check_labels, config.model.labels)
    yield from refusals(("lrp", "method"), _check, "method", lrp.method, METHODS)
    yield from refusals(("lrp", "composite"), composite_named, lrp.composite or DEFAULT_COMPOSITE)
    for pattern, rule in lrp.layers.items():
        yield from refusals(("lrp", "layers", pattern), rule_named, rule)
    if config.overlay.colormap is not None:
        yield from refusals(("overlay", "colormap"), colormap_named, config.overlay.colormap)
    for place, name in enumerate(config.live.panels):
        yield from refusals(("live", "panels", place), _check, "panel", name, LEGAL["live.panels"])
    yield from refusals(("live", "folder"), _check_folder, config.live.folder)


def _check_weights(name: str) -> None:
    if not os.path.isfile(name):
        raise UnavailableError(
            f"There are no weights {name!r}. Expected imagenet, random or a file."
        )


def _check_labels(name: str) -> None:
    if not os.path.isfile(name):
        raise MissingInputError(f"There is no file of labels {name!r}. Expected class names.")


def _check_folder(name: str) -> None:
    if name and not os.path.isdir(name):
        raise MissingInputError(f"There is no folder {name!r}. Make it, or name another one.")


def _check(kind: str, name: str, legal: Collection[str]) -> None:
    if name not in legal:
        raise unknown(kind, name, legal, ELSEWHERE)


def _check_channels(network: Network) -> None:
    channels, preprocessing = network.channels, network.preprocessing
    if channels not in (1, 3):
        raise DamagedInputError(
            f"The model reads {channels} channels. Expected 3 (RGB) or 1 (luminance)."
        )
    if channels == 1 and preprocessing in COLOUR_ONLY:
        raise UsageError(
            f"--preprocess {preprocessing} is for colour. This model reads luminance: use tf "
            "(-1 to 1), rescale (0 to 1) or none (0 to 255).",
            "preprocess",
        )


def _refuse_too_large(graph: Graph, size: tuple[int, int]) -> None:
    try:
        activations = graph.activations(size)
    except (ValueError, tf.errors.InvalidArgumentError):
        return  # the explainer says what is wrong
    refuse_beyond_memory(4 * activations, f"{graph.name!r} with pictures of {size[0]} x {size[1]}")


def turned(picture: np.ndarray, mirror: bool | None) -> np.ndarray:
    """The picture uint8 [H, W, 3], with left and right swapped where `mirror` says so."""
    return np.ascontiguousarray(picture[:, ::-1]) if mirror else picture


def label_line(top: Sequence[tuple[str, float]]) -> str:
    """The best label with its score, as shown on a picture."""
    name, score = top[0]
    share = f"{score:.0%}" if score >= 0.01 else "<1%"
    return f"{name.replace('_', ' ')}  {share}"


def target_words(
    engine: Engine, target: str | int, scores: Sequence[tuple[str, float]] = ()
) -> str:
    """A target as people read it: classes by name, the best one with its name."""
    if target == "top1" and scores:
        return f"the best: {scores[0][0]}"
    words = {"all": "all classes", "top1": "the best", "top5": "the five best"}.get(str(target))
    if words:
        return words
    sides = [side.strip() for side in str(target).split(" - ")]
    classes = engine.explainer.classes
    named = [engine.label(int(s)) if s.isdecimal() and int(s) < classes else s for s in sides]
    return " - ".join(named)


def _precision(config: Config, moving: bool, on: Device) -> str:
    """The precision to ask the explainer for; `auto` where quicker maps may be tried.

    Raises:
      UnavailableError: bfloat16 is asked for and the processor cannot compute in it.
    """
    precision = config.lrp.precision
    if precision == "bfloat16" and not computes_bfloat16():
        raise UnavailableError(
            "This processor cannot compute in bfloat16. Use --precision float32 or auto."
        )
    if precision != "auto":
        return precision
    return "auto" if moving else "float32"
