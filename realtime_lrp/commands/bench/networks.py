"""The networks that `bench` compares with: a baseline of maps, and vision transformers."""

from dataclasses import dataclass

import numpy as np

from realtime_lrp.engine.tensorflow import keras, tf
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import stabilise
from realtime_lrp.relevance.rules.composites import Composite, any_layer
from realtime_lrp.relevance.rules.rules import LayerContext, Propagate, Rule
from realtime_lrp.relevance.rules.sharing import positive


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
    """The explainer of z+ in plain TensorFlow, as it was first implemented. Do not make it faster.

    It computes in float32, takes max(w, 0) and z of the input layer again for each picture, and
    uses only plain TensorFlow operations. The graph cannot be used again.
    """
    with onednn.disabled():
        explainer = Explainer(
            graph, composite=Composite(((any_layer, OriginalZPlus()),)), size=size
        )
        explainer(np.zeros((1, *explainer.input_shape), np.float32))  # compiles
    return explainer


TRANSFORMERS = {"DeiT-Tiny": (192, 3, 12), "DeiT-Small": (384, 6, 12), "ViT-B": (768, 12, 12)}
"""Name -> (width, heads, encoders)."""

PATCH = 16


def vision_transformer(width: int, heads: int, depth: int, side: int) -> keras.Model:
    """A ViT (Dosovitskiy et al. 2021) with a class token, of random weights.

    Tokens have `width` channels, a multiple of the heads; `side` pixels are a multiple of
    `PATCH`.
    """
    keras.utils.set_random_seed(0)
    layers, tokens = keras.layers, (side // PATCH) ** 2 + 1
    image = keras.Input((side, side, 3))
    x = layers.Conv2D(width, PATCH, strides=PATCH)(image)
    x = layers.ZeroPadding1D((1, 0))(layers.Reshape((tokens - 1, width))(x))
    x = layers.EinsumDense("btc,cd->btd", (tokens, width), bias_axes="td")(x)
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.Dense(4 * width, activation="gelu")(y)
        x = layers.Add()([x, layers.Dense(width)(y)])
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    x = layers.Flatten()(layers.Cropping1D((0, tokens - 1))(x))
    return keras.Model(image, layers.Dense(1000, activation="softmax")(x), name="vit")
