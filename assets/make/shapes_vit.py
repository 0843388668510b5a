"""The architecture of the embedded vision transformer `shapes_vit`, the counterpart of `shapes`.

Input and output are those of `shapes`, and so are the first seven convolutions, with their weights.
Then `shapes` goes on with convolutions, and this network with attention (a hybrid, as in
Dosovitskiy et al. 2021). All layers are Keras's own, so that its file needs no code.
"""

import keras
from shapes import BLOCKS, SIZE, append_blocks

from realtime_lrp.models.drawings import CLASSES

STEM = BLOCKS[:4]
"""The blocks of convolutions that it shares with `shapes`."""

PATCH = 16
"""Height and width in pixels of what a token stands for."""

ROWS = SIZE // PATCH
"""Rows and columns of tokens."""

WIDTH = 128
HIDDEN = 256
HEADS = 4
DEPTH = 4
DROPOUT = 0.1


def build_shapes_vit() -> keras.Model:
    """Builds the untrained network: convolutions, then a small transformer with a class token.

    Returns:
        An uncompiled functional model named "shapes_vit".
    """
    layers = keras.layers
    image = keras.Input((SIZE, SIZE, 3), name="image")
    x = append_blocks(image, STEM)
    side = PATCH // 2 ** len(STEM)
    x = layers.Conv2D(WIDTH, side, strides=side, name="patches")(x)
    x = layers.Reshape((ROWS * ROWS, WIDTH), name="tokens")(x)
    x = layers.ZeroPadding1D((1, 0), name="class_token")(x)  # its value is a row of the next bias
    x = layers.EinsumDense(
        "btc,cd->btd", (ROWS * ROWS + 1, WIDTH), bias_axes="td", name="positions"
    )(x)
    for k in range(1, DEPTH + 1):
        x = _encode(x, f"encoder{k}")
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
    x = layers.Cropping1D((0, ROWS * ROWS), name="answer")(x)
    x = layers.Flatten(name="flatten")(x)
    scores = layers.Dense(len(CLASSES), activation="softmax", name="predictions", dtype="float32")
    return keras.Model(image, scores(x), name="shapes_vit")


def _encode(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """Attention among the tokens, then two dense layers on each, both added to what they read."""
    layers = keras.layers
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm1")(x)
    y = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name=f"{name}_attention")(y, y)
    y = layers.Dropout(DROPOUT, name=f"{name}_dropout1")(y)
    x = layers.Add(name=f"{name}_add1")([x, y])
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm2")(x)
    y = layers.Dense(HIDDEN, activation="relu", name=f"{name}_dense1")(y)
    y = layers.Dense(WIDTH, name=f"{name}_dense2")(y)
    y = layers.Dropout(DROPOUT, name=f"{name}_dropout2")(y)
    return layers.Add(name=f"{name}_add2")([x, y])
