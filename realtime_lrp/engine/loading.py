"""Loads the network that a configuration names and builds its explainer."""

import gc
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.config.schema import Followed
from realtime_lrp.engine.device import TIMES, Device, computes_bfloat16, cpu, shortest_times
from realtime_lrp.engine.measured import Kept, each, network_here, pool
from realtime_lrp.engine.tensorflow import keras, tf
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models.network import Network
from realtime_lrp.models.networks import load_network
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps.targets import VERSUS
from realtime_lrp.relevance.network.checks import refuse_beyond_memory
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.reading.building import CHECKED, build_graph
from realtime_lrp.system.geometry import FloatBox
from realtime_lrp.system.machine import core_count
from realtime_lrp.video.region import region_of

MAX_KEPT_WEIGHTS = 50_000_000
"""Larger Keras models are not kept but loaded again: VGG16 would take 0.5 GiB all the time, for
another method that may never be chosen."""


# the networks by name whose layers were compared with their steps here: once for each Keras
COMPARED = Kept("compared.json", bool)

log = logging.getLogger(__name__)


def load(config: Config, keep_model: bool, named: bool = True) -> tuple[Network, Graph]:
    """Loads the configured network; makes a graph, and, unless `keep_model`, frees its model."""
    network = load_configured(config, named)
    model: keras.Model = network.model
    graph = build_graph(model, size=config.model.size)
    if (what := _named_by_keras(config)) and not COMPARED.get(what):
        COMPARED.add(what, True)
    if size := config.model.size:  # the explainer reports what is wrong with a size
        with suppress(ValueError, tf.errors.InvalidArgumentError):
            needed = 4 * graph.activations(size)
            refuse_beyond_memory(needed, f"{graph.name!r} with pictures of {size[0]} x {size[1]}")
    if network.channels not in (1, 3):
        raise DamagedInputError(
            f"The model reads {network.channels} channels. Expected 3 (RGB) or 1 (luminance)."
        )
    if not (keep_model and model.count_params() <= MAX_KEPT_WEIGHTS):
        network = replace(network, model=None)
        model = None
        gc.collect()  # reference cycles keep Keras models alive
    return network, graph


def load_configured(config: Config, named: bool = True) -> Network:
    """Loads the configured network with its Keras model; raises what `load` raises."""
    wanted = config.model
    labels: str | list[str] | None = wanted.labels if named else []
    network = load_network(
        wanted.name, wanted.weights, labels, wanted.preprocess,
        size=wanted.size, output=wanted.output,
    )  # fmt: skip
    if (what := _named_by_keras(config)) and COMPARED.get(what):
        CHECKED.add(network.model)
    return network


def _named_by_keras(config: Config) -> str:
    """A network of keras.applications and the version of Keras that builds it; "" for others."""
    name = config.model.name.lower()
    return f"{name}, Keras {keras.__version__}" if name in APPLICATIONS else ""


def build_explainer(
    model: keras.Model | Graph, network: Network, config: Config, device: Device, **changes: Any
) -> Explainer:
    """Builds the explainer that a configuration describes, with `changes` of its arguments."""
    arguments: dict[str, Any] = {
        **dict(config.lrp),  # its keys are arguments
        "labels": network.labels,
        "size": config.model.size,
        "output_activation": config.model.output_activation,
        "scores": config.model.scores,
        "fast": device.fast_precision,
        **network.box(),
    }
    return Explainer(model, **arguments | changes)


def quickest_explainer(
    graph: Graph, network: Network, config: Config, on: Device, moving: bool, also: Sequence[str]
) -> Explainer:
    """The explainer as configured; `auto` is float32 if maps or typical layers are quicker."""
    precision = choose_precision(config, moving)
    lrp = config.lrp
    timed = precision == "auto" and not on.is_gpu
    maps = ", ".join((lrp.method, lrp.composite, *also))
    maps += " of a contrast" if VERSUS in lrp.target else " of classes"
    size = config.model.size or "its size"
    what = f"{maps}, {network_here(config.model.name)}, {size}, TensorFlow {tf.__version__}"
    times = TIMES.get(what) if timed else None
    if times and times.faster == "float32":
        precision = "float32"
    settings = {"composite": lrp.composite, "also": also}
    explainer = build_explainer(graph, network, config, on, **settings, precision=precision)
    known = times or not timed or explainer.precision == "float32"
    if known or explainer.weights > MAX_KEPT_WEIGHTS:
        return explainer
    model = network.model or load_configured(config, named=False).model
    exact = build_explainer(model, network, config, on, **settings, precision="float32")
    black = network.prepare(np.zeros((1, *explainer.input_shape[:2], 3), np.uint8))
    at_once = [black] * (core_count() if pool() else 1)  # cores share the way to the memory
    times = shortest_times(lambda: each(exact, at_once), lambda: each(explainer, at_once))
    TIMES.add(what, times)
    log.info("%s: %s", what, times)
    return exact if times.faster == "float32" else explainer


def choose_precision(config: Config, moving: bool) -> str:
    """The precision to ask the explainer for; "auto" only for moving pictures."""
    precision = config.lrp.precision
    if precision == "bfloat16" and not computes_bfloat16():
        raise UnavailableError(
            "This processor cannot compute in bfloat16. Use --precision float32 or auto."
        )
    return "float32" if precision == "auto" and not moving else precision


class Finder:
    """The detector of `input.follow`: finds things of a class, or of any, without a map."""

    def __init__(self, followed: Followed, on: Device | None = None) -> None:
        on = on or cpu()
        model = {key: value for key, value in followed if key != "label"}
        config = Config().changed(model=model, lrp={"method": "gradient"})
        try:
            self._network, graph = load(config, keep_model=False)
            if graph.boxes is None:
                raise UsageError("it finds no boxes. Expected a detector.")
            explainer = build_explainer(graph, self._network, config, on, precision="float32")
            self._target = explainer.read_target(followed.label or "all")
        except UsageError as error:
            error.args = (f"--follow {followed.name}: {error}",)
            error.about = "follow"  # it is no setting of the network that is explained
            raise
        self._explainer = explainer
        self._device = on

    def __call__(
        self, pictures: Sequence[np.ndarray] | np.ndarray, aspect: float = 1.0
    ) -> list[list[FloatBox]]:
        """The boxes of the things in each picture, uint8 [H, W, 3] RGB, the largest first."""
        size = self._explainer.input_shape[:2]
        fit = self._network.fit
        regions = [region_of(picture.shape[:2], size, fit, aspect) for picture in pictures]
        seen = np.stack([one.extract(p) for one, p in zip(regions, pictures, strict=True)])
        with tf.device(self._device.scope):
            found = self._explainer.boxes(self._network.prepare(seen), self._target)
        rows, boxes, sure = (one.numpy() for one in (found.pictures, found.boxes, found.sure))
        order = np.argsort(-np.prod(boxes[:, 2:] - boxes[:, :2], 1), kind="stable")
        things: list[list[FloatBox]] = [[] for _ in regions]
        for n in order[sure[order]]:
            things[rows[n]].append(regions[rows[n]].in_picture(tuple(boxes[n].tolist())))
        return things
