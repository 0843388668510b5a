"""What a network answers without some channels of a layer. A part of the explainer.

The channels are set to 0 at the layer's output, and the forward pass goes on from there. What
passes the layer by, as in a residual connection, stays as it is.
"""

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance import checks
from realtime_lrp.relevance.batches import run_in_parts
from realtime_lrp.relevance.compiled import Compute, Lazy, signature_of
from realtime_lrp.relevance.concepts import (
    PER_PICTURE,
    channel_sums,
    relevance_at,
    shaped_as_channels,
)
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.methods import Explain
from realtime_lrp.relevance.targets import Targets


class ChannelMasks:
    """Shares, activations and masks of the channels of one layer; compiled at the first calls.

    Args:
      explainer: explains the network by LRP.
      layer: the layer's name.

    Attributes:
      channels: how many the layer has.

    Raises:
      UsageError: as `Explainer.concepts`.
    """

    def __init__(self, explainer: Explainer, layer: str) -> None:
        number, shape = explainer._concepts.output_of(layer)
        self.channels, self._explainer = shape[-1], explainer
        picture, *target = signature_of(explainer.input_shape, explainer.classes)
        masks = tf.TensorSpec([None, None, self.channels], tf.float32, name="masks")
        graph, explain = explainer._graph, explainer._methods[0]
        shares = shares_function(graph, explain, number, layer)
        self._shares = Lazy(shares, [picture, *target], explainer._xla)
        self._masked = Lazy(masked_function(graph, number), [picture, masks], explainer._xla)

    def shares(
        self, x: np.ndarray | tf.Tensor, target: Targets | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How much each channel carries.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call of the explainer.

        Returns:
          The scores, float32 [B, classes]; the relevance in each channel and the sum of magnitudes
          of its activation, float32 [B, channels].

        Raises:
          NotFiniteError: the network computes NaN or Inf.
        """
        explainer = self._explainer
        tensors = explainer._pairs(explainer.check_batch(x), target)
        found = run_in_parts(self._shares, tensors, explainer.pictures_at_once())
        explainer._check_finite(x, target, *found)
        scores, shares, activations = found
        return scores, shares, activations

    def masked_scores(self, x: np.ndarray | tf.Tensor, kept: np.ndarray) -> np.ndarray:
        """The scores with some channels set to 0, float32 [B, K, classes].

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          kept: [B, K, channels], 1 for channels that stay, 0 for the others: K masks for each
            picture.
        """
        batch = checks.to_float32(self._explainer.check_batch(x))
        masks = tf.constant(kept, tf.float32)
        most = max(1, PER_PICTURE * self._explainer.pictures_at_once() // kept.shape[1])
        return run_in_parts(self._masked, (batch, masks), most)[0]


def resolution_of(explainer: Explainer, layer: str) -> tuple[int, ...]:
    """Rows and columns of a layer's output, or how many tokens it has.

    Raises:
      UsageError: as `Explainer.concepts`, for the layer or the method.
    """
    return tuple(explainer._concepts.output_of(layer)[1][1:-1])


def shares_function(graph: Graph, explain: Explain, number: int, layer: str) -> Compute:
    """Makes the function (x, *target) -> scores, shares and activations of all channels.

    Args:
      graph: the network.
      explain: LRP, bound to it.
      number: of the layer's output.
      layer: its name.
    """

    def shares(x: tf.Tensor, *target: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tensors = graph.forward(x)
        begin = explain.start(tensors, *target)
        arrived = relevance_at(graph, explain, tensors, begin, None, number, layer)
        activations = channel_sums(tf.abs(tensors[number]))
        return tensors[graph.output], channel_sums(arrived), activations

    return shares


def masked_function(graph: Graph, number: int) -> Compute:
    """Makes the function (x, masks [B, K, channels]) -> scores [B, K, classes].

    Args:
      graph: the network.
      number: of the tensor that is masked.
    """
    behind = graph.behind(number)
    computed = {number, *(node.output for node in behind)}
    passing = {read for node in behind for read in node.inputs} - computed

    def masked(x: tf.Tensor, masks: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tensors, count = graph.forward(x), tf.shape(masks)[1]
        given = {one: tf.repeat(tensors[one], count, axis=0) for one in (number, *passing)}
        each = tf.reshape(masks, [-1, masks.shape[-1]])
        given[number] *= shaped_as_channels(each, given[number])
        scores = graph.go_on(given, behind)[graph.output]
        return (tf.reshape(scores, [-1, count, scores.shape[-1]]),)

    return masked
