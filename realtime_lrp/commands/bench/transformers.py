"""Times of maps of vision transformers with random weights, in the sizes of DeiT and ViT.

As fast as trained ones. They are built here, of Keras's layers, so that nothing is downloaded.
"""

from functools import partial
from typing import Any

from realtime_lrp.commands.bench.timing import Action, noise, time_in_turns
from realtime_lrp.engine.device import device
from realtime_lrp.engine.tensorflow import keras
from realtime_lrp.relevance.explainer import Explainer

SIDE, PATCH, CLASSES = 224, 16, 1000

SIZES = {"DeiT-Tiny": (192, 3), "DeiT-Small": (384, 6), "ViT-B": (768, 12)}
"""Name -> (width, heads); all have 12 layers."""

DEPTH = 12

COMPOSITES = ("cp_lrp", "attnlrp")


def time_transformers(turns: int) -> list[dict[str, Any]]:
    """The forward pass and the map of one picture, by each of `COMPOSITES`.

    Args:
      turns: how often each is timed.
    """
    rows = []
    for name, (width, heads) in SIZES.items():
        model = vision_transformer(width, heads, DEPTH, SIDE)
        precision = device().fast_precision
        x = noise(1, (SIDE, SIDE, 3))
        explainers = {
            composite: Explainer(model, composite=composite, target="top1", precision=precision)
            for composite in COMPOSITES
        }
        actions: dict[str, Action] = {key: partial(one, x) for key, one in explainers.items()}
        actions["forward"] = partial(explainers[COMPOSITES[0]].scores, x)
        times = time_in_turns(actions, turns)
        forward = times.pop("forward")["ms"]
        rows += [
            {"model": name, "map": key, "precision": precision, "forward_ms": forward, **row}
            for key, row in times.items()
        ]
    return rows


def vision_transformer(width: int, heads: int, depth: int, side: int) -> keras.Model:
    """A ViT (Dosovitskiy et al. 2021) with a class token, of random weights.

    Args:
      width: channels of a token.
      heads: of each attention; width is a multiple of it.
      depth: the number of encoders.
      side: height and width of the picture, a multiple of `PATCH`.
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
    return keras.Model(image, layers.Dense(CLASSES, activation="softmax")(x), name="vit")
