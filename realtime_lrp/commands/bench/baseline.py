"""The baseline that `bench` compares with: z+ in plain TensorFlow, as it was first implemented.

It computes in float32, takes max(w, 0) and z of the input layer again for each picture, and uses
only plain TensorFlow operations. Do not make it faster.
"""

from dataclasses import dataclass

from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.relevance import onednn
from realtime_lrp.relevance.composites import Composite, any_layer
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.rules import LayerContext, Propagate, Rule
from realtime_lrp.relevance.sharing import positive
from realtime_lrp.relevance.steps import stabilise


@dataclass(frozen=True)
class OriginalZPlus(Rule):
    """z+ with w' = max(w, 0), and a' = 1 at input layers; nothing is prepared in advance."""

    keeps_sign = True

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        def propagate(a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
            a = tf.ones_like(a) if context.is_input else positive(a)
            weights = layer.ready(positive(layer.kernel))
            s = relevance / stabilise(layer.transform(a, weights))
            return a * layer.transpose(s, weights, tf.shape(a))

        return propagate


def baseline(graph: Graph, size: tuple[int, int] | None = None) -> Explainer:
    """Builds the explainer of the baseline; the graph cannot be used again."""
    with onednn.disabled():
        return Explainer(graph, composite=Composite(((any_layer, OriginalZPlus()),)), size=size)
