"""LRP rules: how a linear layer shares its relevance among its inputs.

Every rule is the generic step of Montavon et al. 2019 ("Layer-Wise Relevance Propagation: An
Overview", eq. 10) with its own modified input a' and modified weights w':

    z = transform(a', w') + stabiliser
    s = R / z
    c = transpose(s, w')
    R_in = a' * c

A rule is bound to a layer once, which is when its modified weights are made; what `bind` returns
runs for every frame. Biases take part in the forward pass but receive no relevance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from realtime_lrp.relevance.steps import Linear, stabilise

Propagate = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""(a, R) -> R_in, where R_in has the shape of a."""


@dataclass(frozen=True)
class Place:
    """What a rule may know about the input of its layer.

    Attributes:
      nonnegative: the input can never hold a negative entry.
      support: for an input layer [1, ...]: 1 where its input is picture, 0 on explicit padding.
    """

    nonnegative: bool = False
    support: tf.Tensor | None = None


class Rule:
    """A way to share relevance; a subclass says how a and w are modified."""

    def bind(self, layer: Linear, place: Place) -> Propagate:
        """Makes the modified weights and returns the rule for this layer."""
        raise NotImplementedError


def share(
    layer: Linear, terms: Sequence[tuple[tf.Tensor, tf.Tensor]], relevance: tf.Tensor
) -> tf.Tensor:
    """The generic step over a sum of terms (a', w')."""
    z = tf.add_n([layer.transform(a, w) for a, w in terms])
    s = relevance / stabilise(z)
    return tf.add_n([a * layer.transpose(s, w, tf.shape(a)) for a, w in terms])


@dataclass(frozen=True)
class ZPlus(Rule):
    """z+: w' = max(w, 0) (Montavon et al. 2017, "Deep Taylor decomposition", eq. 15).

    Where the input can be negative, its negative part goes with min(w, 0), so that only
    contributions that raise the output count.
    """

    def bind(self, layer, place):
        positive = tf.maximum(layer.kernel, 0.0)
        if place.nonnegative:
            return lambda a, relevance: share(layer, [(a, positive)], relevance)
        negative = tf.minimum(layer.kernel, 0.0)

        def propagate(a, relevance):
            terms = [(tf.maximum(a, 0.0), positive), (tf.minimum(a, 0.0), negative)]
            return share(layer, terms, relevance)

        return propagate


@dataclass(frozen=True)
class ZPlusInput(Rule):
    """z+ at the input layer: a' = 1, w' = max(w, 0), so that pixel values do not bias the map.

    z depends on the weights alone and is made once.
    """

    def bind(self, layer, place):
        positive, ones = tf.maximum(layer.kernel, 0.0), place.support
        z = stabilise(layer.transform(ones, positive))

        def propagate(a, relevance):
            return ones * layer.transpose(relevance / z, positive, tf.shape(a))

        return propagate


RULES: dict[str, type[Rule]] = {"zplus": ZPlus, "zplus_input": ZPlusInput}
"""Every rule by the name that configuration and documentation use."""
