"""The origin's arithmetic, for `bench` to compare with: z+ as it was first written down.

Float32; max(w, 0) anew for each picture, and z of the input layer too; each step an operation that
TensorFlow offers to everyone.
"""

from dataclasses import dataclass

from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.relevance import onednn
from realtime_lrp.relevance.composites import Composite, any_layer
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.rules import Place, Propagate, Rule, positive
from realtime_lrp.relevance.steps import stabilise


@dataclass(frozen=True)
class AsTheOrigin(Rule):
    """z+ by w' = max(w, 0), and a' = 1 at input layers; nothing is made beforehand."""

    keeps_sign = True

    def bind(self, layer: Linear, place: Place) -> Propagate:
        def propagate(a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
            a = tf.ones_like(a) if place.is_input else positive(a)
            weights = layer.ready(positive(layer.kernel))
            s = relevance / stabilise(layer.transform(a, weights))
            return a * layer.transpose(s, weights, tf.shape(a))

        return propagate


def baseline(graph: Graph, size: tuple[int, int] | None = None) -> Explainer:
    """The explainer that computes as the origin did; the graph is used up."""
    with onednn.disabled():
        return Explainer(graph, composite=Composite(((any_layer, AsTheOrigin()),)), size=size)
