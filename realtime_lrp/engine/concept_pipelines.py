"""Compiled functions of an engine that explain pictures and the channels of a layer in one run."""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from realtime_lrp.engine.device import Device
from realtime_lrp.engine.result import TOP, Batch, ConceptRequest, ConceptResult
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import Error, first_line
from realtime_lrp.relevance.concepts.channels import no_prior
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps.compiled import Explained

KEPT = 3  # layers whose compiled functions stay in memory, each as large as a graph
NEEDED = 3  # pictures whose memory a picture with its channels takes, see `PER_PICTURE` of concepts
CERTAIN = 1e6  # added to the share of a channel that is wanted in any case; shares are 1 at most
REST_S = 300.0  # seconds before a layer is tried again that did not fit into memory

NO_LAYERS = "this network has no layer with rows and columns whose channels could be shown"
NOT_LRP = "single channels are defined for LRP only: choose a composite (h, then type LRP)"
NO_MEMORY = "the memory does not suffice for the maps of single channels"

log = logging.getLogger(__name__)


class ConceptPipelines:
    """Compiles and keeps a function for each of the last layers; meanwhile others may compute."""

    def __init__(
        self, explainer: Explainer, default: str | None, prepare: Callable[[tf.Tensor], tf.Tensor],
        reduce: Callable[[tf.Tensor], Any], on: Device,
    ) -> None:  # fmt: skip
        self._explainer = explainer
        self._prepare = prepare
        self._reduce = reduce
        self._default = default
        self._on = on
        self.layers = explainer.concept_layers if default else ()
        self._ready: OrderedDict[str, Callable[..., Explained]] = OrderedDict()
        self._problems: dict[str, tuple[str, float]] = {}  # why, and until when it is not tried
        self._lock = threading.Lock()

    def layer(self, wanted: ConceptRequest) -> str:
        """The layer of a request; "" where there is none to choose."""
        return (wanted.layer or self._default or "") if self.layers else ""

    def is_ready(self, wanted: ConceptRequest) -> bool:
        """Whether a request can be answered at once, be it with the problem."""
        layer = self.layer(wanted)
        _, until = self._problems.get(layer, ("", 0.0))
        return not layer or layer in self._ready or time.monotonic() < until

    def refusal(self, wanted: ConceptRequest) -> ConceptResult:
        """Says why there are no channels of a layer."""
        layer = self.layer(wanted)
        none = NO_LAYERS if not self._explainer.concept_layers else NOT_LRP
        problem, _ = self._problems.get(layer, (none, 0.0))
        return ConceptResult(layer, problem=problem)

    def compile(self, wanted: ConceptRequest) -> None:
        """Compiles the function of a layer and runs it once; a failure becomes its problem."""
        if self.is_ready(wanted):
            return
        explainer = self._explainer
        layer = self.layer(wanted)
        try:
            # the memory of a GPU is known when it does not suffice
            if not self._on.is_gpu and explainer.pictures_at_once() < NEEDED:
                return self.give_up(wanted)
            with tf.device(self._on.scope):
                run = explainer.compile_pipeline(self._prepare, self._reduce, layer, TOP)
                run(np.zeros((1, *explainer.input_shape[:2], 3), np.uint8))
        except tf.errors.ResourceExhaustedError:
            return self.give_up(wanted)
        except Exception as error:
            if not isinstance(error, Error):
                log.error("preparing channels of %s failed: %s", layer, first_line(error))
            self._problems[layer] = first_line(error), math.inf
            return
        with self._lock:
            self._ready[layer] = run
            while len(self._ready) > KEPT:
                self._ready.popitem(last=False)

    def run(self, batch: Batch, wanted: ConceptRequest) -> Explained | None:
        """The tensors of a batch, which the device may still be computing; None with a problem."""
        self.compile(wanted)
        layer = self.layer(wanted)
        with self._lock:
            run = self._ready.get(layer)
            if run is None:
                return None
            self._ready.move_to_end(layer)
        prior = batch.prior
        if wanted.channel is not None:
            channels = self._explainer.channel_counts()[layer]
            prior = no_prior(channels) if prior is None else prior.copy()
            prior[0, wanted.channel : wanted.channel + 1] = CERTAIN
        near = np.zeros((len(batch.regions), 4), np.float32)
        if wanted.near is not None:
            near[:] = [region.in_input(wanted.near) for region in batch.regions]
        return run(batch.pictures, batch.targets, prior, near, **batch.where)

    def give_up(self, wanted: ConceptRequest | None) -> None:
        """Computes no channels of a layer for `REST_S`, because the memory did not suffice."""
        if wanted is not None:
            layer = self.layer(wanted)
            self._problems[layer] = NO_MEMORY, time.monotonic() + REST_S
            with self._lock:
                self._ready.pop(layer, None)
