"""The part of the explainer that looks inside the network: layers, sums and channels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import NotFiniteError
from realtime_lrp.relevance.concepts.concept_pipeline import (
    BothOutputs,
    concept_pipeline,
    no_prior,
)
from realtime_lrp.relevance.concepts.concepts import ConceptMaps, Concepts
from realtime_lrp.relevance.concepts.references import Peaks, References, in_parts
from realtime_lrp.relevance.maps.account import LayerFlow, layer_flows
from realtime_lrp.relevance.maps.compiled import Lazy, compile_once
from realtime_lrp.relevance.maps.layer_records import LayerRecord, layer_records
from realtime_lrp.relevance.maps.methods import Explain
from realtime_lrp.relevance.maps.not_finite import first_not_finite, one_pair
from realtime_lrp.relevance.maps.targets import Target, TargetResolver, Targets
from realtime_lrp.relevance.network import checks
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.rules.rules import Rule


class LayerViews:
    """What an `Explainer` tells about layers and channels; it sets the attributes."""

    check_batch: checks.BatchCheck
    _graph: Graph
    _rules: Mapping[int, Rule]
    _flows: Sequence[Callable[..., tf.Tensor]]
    _layers: Lazy
    _concepts: ConceptMaps
    _methods: Sequence[Explain]
    _xla: bool
    input_shape: tuple[int, int, int]
    classes: int
    follows_rules: tuple[bool, ...]
    _references: References
    _default: tuple[tf.Tensor, ...]
    _resolve: TargetResolver

    def pictures_at_once(self) -> int:
        """How many pictures of a batch are explained together, as the free memory allows now."""
        raise NotImplementedError

    def not_finite(self, x: tf.Tensor, target: Targets | None = None) -> NotFiniteError:
        """The error for pictures x whose scores or maps are not finite."""
        raise NotImplementedError

    def layers(self, x: np.ndarray | tf.Tensor, target: Targets | None = None) -> list[LayerRecord]:
        """What every layer computed and handed down, from the output to the input.

        SmoothGrad and integrated gradients show the gradient at the picture itself. Branches that
        the output does not use are left out.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.
        """
        tensors = self._layers(*self._pairs(self.check_batch(x), target))
        return layer_records(self._graph, self._rules, tensors)

    def relevance_sums(
        self, x: np.ndarray | tf.Tensor, target: Targets | None = None
    ) -> dict[str, np.ndarray]:
        """The sum of relevance that each layer hands down to its inputs, from output to input.

        Each sum is that at a layer's input end, not at its output.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.

        Returns:
          Layer name -> float64 [B].
        """
        return {record.name: record.sums() for record in self.layers(x, target)}

    def layer_flows(
        self, x: np.ndarray | tf.Tensor, index: int = 0, target: Targets | None = None
    ) -> list[LayerFlow]:
        """Sums of relevance layer by layer, from the output to the input.

        Of a batch x and a target, as in a call, and the map number `index`: 0 is the own one,
        followed by those of `also`. Computed operation by operation. A compiled function would be
        quicker from the seventh call on, but the first one would take 3.7 s (DeiT-Tiny, 2 cores)
        and not 0.6 s, in which `live` shows no new map.
        """
        flows = self._flows[index](*self._pairs(x, target))
        return layer_flows(self._graph, flows.numpy())

    @property
    def concept_layers(self) -> tuple[str, ...]:
        """The layers with rows and columns whose channels may be concepts, from the input on.

        Layers with weights, sums and joins; what lies between has the same channels. Without those
        of the last weights, whose channels are classes. There may be none. Of a transformer also
        layers of tokens, if each patch has one token there and the answer depends on these tokens;
        of its attention only what is added up behind it.
        """
        return self._concepts.layers

    @property
    def concept_layer(self) -> str | None:
        """The one of `concept_layers` that shows most: the last one.

        Of a transformer it is the last of the hidden layers between two dense layers. In the sums
        behind them, to which all blocks add, single channels hardly answer to single things.
        """
        return self._concepts.default_layer

    def concepts(
        self,
        x: np.ndarray | tf.Tensor,
        layer: str,
        top: int = 4,
        target: Targets | None = None,
        *,
        channels: Sequence[int] | None = None,
    ) -> Concepts:
        """The channels of a layer with the most relevance, each with its map.

        Concept relevance propagation (Achtibat et al. 2023): relevance at the layer's output is
        kept in one channel alone and handed down from there. Over all channels the shares add up to
        the relevance at the layer, and the maps to the map of what passes through it. The first
        call for a layer and a `top` compiles a function; further targets and pictures do not.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          layer: the layer's name, as `layers` gives it. Its channels are the last axis of its
            output: units of a dense layer, features of tokens.
          top: how many channels, those with the largest shares of each picture.
          target: as in a call.
          channels: these instead, in this order.

        Raises:
          UsageError: the method is not LRP, there is no such layer or channel, relevance does not
            reach the layer, or it computes the scores.
          NotFiniteError: the network computes NaN or Inf.
        """
        pictures, *tensors = self._pairs(self.check_batch(x), target)
        found = self._concepts.concepts(
            pictures, tensors, layer, top, channels, self.pictures_at_once()
        )
        self._check_finite(x, target, found.scores, found.by_channel, found.maps)
        return found

    def conditional(
        self,
        x: np.ndarray | tf.Tensor,
        conditions: Mapping[str, Sequence[int]],
        target: Targets | None = None,
    ) -> np.ndarray:
        """The map of the relevance that passes through chosen channels of one layer or several.

        Relevance goes from layer to layer; at the output of each it is kept in the chosen channels
        and set to 0 in the others. What passes a layer by, as in a residual connection, is left
        out. With one channel of one layer it is the map of `concepts`.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          conditions: layer -> channels, in any order: {"block5_conv3": [3, 17], "fc1": [0]}.
          target: as in a call.

        Returns:
          float32 [B, H, W, C].

        Raises:
          UsageError: as `concepts`; no conditions; or a layer lies beside another one.
          NotFiniteError: the network computes NaN or Inf.
        """
        pictures, *tensors = self._pairs(self.check_batch(x), target)
        scores, maps = self._concepts.conditional(
            pictures, tensors, conditions, self.pictures_at_once()
        )
        self._check_finite(x, target, scores, maps)
        return maps

    def peaks(
        self, x: np.ndarray | tf.Tensor, layers: Sequence[str], target: Targets | None = None
    ) -> tuple[np.ndarray, dict[str, Peaks]]:
        """What every channel of some layers carries, and where most of it is; without maps.

        Of a batch x and a target, as in a call. Returns the scores, float32 [B, classes], and the
        peaks of each layer. Tokens of a layer
        have to lie on a grid of patches.
        """
        pictures, *tensors = self._pairs(self.check_batch(x), target)
        scores, found = self._references.peaks(pictures, tensors, layers, self.pictures_at_once())
        self._check_finite(x, target, scores, *(one.shares for one in found.values()))
        return scores, found

    def position_maps(
        self,
        x: np.ndarray | tf.Tensor,
        layer: str,
        channels: Sequence[int],
        positions: Sequence[int],
    ) -> np.ndarray:
        """The maps of single neurons of a layer for one picture: what each of them looks at.

        Relevance 1 starts at one of `channels` and one of `positions`, for a single picture x.
        Where the rules are linear, as all of them are, that is the conditional map of what reaches
        this neuron, but for its scale. The position (as in `Peaks`) -1 stands for all of them: the
        map of the channel, as of `concepts`. Returns float32 [neurons, H, W, C].
        """
        batch = checks.to_float32(self.check_batch(x))
        numbers, places = np.asarray(channels), np.asarray(positions)
        maps = np.empty((len(numbers), *self.input_shape), np.float32)
        whole = np.flatnonzero(places < 0)
        for part in in_parts(len(whole)):
            chosen = whole[part]
            maps[chosen] = self.concepts(batch, layer, channels=numbers[chosen].tolist()).maps[0]
        if (single := np.flatnonzero(places >= 0)).size:
            maps[single] = self._references.position_maps(
                batch, layer, numbers[single], places[single]
            )
        return maps

    def check_concept_layer(self, layer: str) -> None:
        """Refuses a layer whose channels cannot be shown in pictures."""
        self._concepts.seen_tokens(layer)

    def channel_counts(self) -> dict[str, int]:
        """Every layer, as `layers` names them -> how many channels its output has."""
        return self._concepts.channel_counts()

    def compile_concept_pipeline(
        self,
        before: Callable[[tf.Tensor], tf.Tensor],
        after: Callable[[tf.Tensor], Any],
        layer: str,
        top: int,
    ) -> Callable[..., BothOutputs]:
        """Compiles `compile_pipeline` together with `concepts` of a layer, in one forward pass.

        `before` and `after` are those of `compile_pipeline`; `after` gets the maps of the `top`
        channels too, at most as many as the layer has. The function
        takes pictures, a prior (see `concept_pipeline`; or None) and targets, and returns what that
        of `compile_pipeline` returns, and a `ConceptOutput`.
        """
        concepts, graph = self._concepts, self._graph
        number, channels = concepts.number(layer), concepts.channel_counts()[layer]
        pipeline = concept_pipeline(
            graph, self._methods, any(self.follows_rules), layer, number, min(top, channels),
            concepts.sharing, before, after,
        )  # fmt: skip
        signature = [
            tf.TensorSpec([None, *self.input_shape[:2], 3], tf.uint8, name="pictures"),
            tf.TensorSpec([2, channels], tf.float32, name="prior"),
            *Target.signature(self.classes),
        ]
        run = compile_once(pipeline, signature, self._xla)[1]

        def explain_pictures(
            pictures: np.ndarray | tf.Tensor,
            prior: np.ndarray | None = None,
            targets: Targets | None = None,
        ) -> BothOutputs:
            if prior is None:
                prior = no_prior(channels)
            target = self._target(targets, len(pictures))
            return run(tf.constant(pictures), tf.constant(prior, tf.float32), *target)

        return explain_pictures

    def _check_finite(
        self, x: np.ndarray | tf.Tensor, target: Targets | None, *arrays: np.ndarray
    ) -> None:
        if (bad := first_not_finite(arrays)) is not None:
            raise self.not_finite(*one_pair(x, target, bad))

    def _target(self, target: Targets | None, pictures: int) -> tuple[tf.Tensor, ...]:
        """The tensors of a `Target`, of which each has one row or one for each picture."""
        if target is None:
            return self._default
        return self._resolve.for_batch(target, pictures).tensors()

    def _pairs(self, x: np.ndarray | tf.Tensor, target: Targets | None) -> tuple[tf.Tensor, ...]:
        """Pictures and the tensors of their targets; one picture is repeated for each target."""
        batch, tensors = checks.to_float32(x), self._target(target, len(x))
        return tf.repeat(batch, max(1, len(tensors[0]) // len(batch)), axis=0), *tensors
