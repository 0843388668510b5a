"""Maps of a picture together with those of the channels of a layer, from one forward pass.

What arrives at the layer is known from the first map: only the channels are handed down by
themselves, from the layer on.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.concepts.concepts import arrived_at, channel_maps, channel_sums
from realtime_lrp.relevance.maps.compiled import PipelineOutput, explain_tensors, pipeline_output
from realtime_lrp.relevance.maps.methods import Explain
from realtime_lrp.relevance.network.graph import Graph

ConceptOutput = tuple[tf.Tensor, tf.Tensor, Any, tf.Tensor]
"""The chosen channels, int32 [B, count]; the shares of all channels of the layer, float32
[B, channels]; what `after` made of the maps of the chosen ones, as a batch [B * count]; these maps,
float32 [B, count, H, W, C]."""

BothOutputs = tuple[PipelineOutput, ConceptOutput]


def concept_pipeline(
    graph: Graph,
    methods: Sequence[Explain],
    by_rules: bool,
    layer: str,
    number: int,
    count: int,
    sharing: Collection[int],
    before: Callable[[tf.Tensor], tf.Tensor],
    after: Callable[[tf.Tensor], Any],
) -> Callable[..., BothOutputs]:
    """Makes the function (pictures, prior, *target) -> what a pipeline returns, and concepts.

    The channels are those with the largest share of the magnitude of all shares, 0 to 1, after
    `prior`, float32 [2, channels of the layer]: its first row is added to the shares, then its
    second row multiplies them.

    Args:
      graph: the network.
      methods: one for each map; the first is LRP.
      by_rules: see `explain_function`.
      layer: the name of the layer.
      number: the number of its output.
      count: how many channels.
      sharing: see `concepts_function`.
      before: pictures uint8 [B, H, W, 3] -> x float32 [B, H, W, C].
      after: relevance float32 [B, H, W, C] -> tensors.
    """

    def pipeline(pictures: tf.Tensor, prior: tf.Tensor, *target: tf.Tensor) -> BothOutputs:
        x = before(pictures)
        tensors = graph.forward(x)
        scores, maps, accounts, arriving = explain_tensors(
            graph, methods, by_rules, x, tensors, target
        )
        usual = pipeline_output((scores, maps, accounts, []), target, after)

        arrived = arrived_at(arriving, number, layer)
        shares = channel_sums(arrived)
        magnitudes = tf.abs(shares)
        parts = tf.math.divide_no_nan(magnitudes, tf.reduce_sum(magnitudes, -1, keepdims=True))
        channels = tf.math.top_k((parts + prior[0]) * prior[1], count).indices
        own = channel_maps(graph, methods[0], tensors, arrived, number, channels, sharing)
        return usual, (channels, shares, after(tf.reshape(own, [-1, *x.shape[1:]])), own)

    return pipeline


def no_prior(channels: int) -> np.ndarray:
    """The `prior` of so many channels that changes nothing."""
    return np.stack([np.zeros(channels, np.float32), np.ones(channels, np.float32)])
