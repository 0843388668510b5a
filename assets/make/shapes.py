"""The architecture of the embedded network `shapes`, which names symbols held up to a camera.

Input: float32 [B, 128, 128, 3] RGB, 0..255. Output: softmax over
`realtime_lrp.models.drawings.CLASSES`, float32 [B, classes].
"""

from collections.abc import Sequence

import keras

from realtime_lrp.models.drawings import CLASSES

SIZE = 128
"""Height and width of the input in pixels."""

BLOCKS = ((16,), (32, 32), (64, 64), (128, 128), (128, 128))
"""Channels of the convolutions, block by block."""


def build_shapes() -> keras.Model:
    """Builds the untrained network, a small VGG.

    Returns:
        An uncompiled functional model named "shapes": five blocks of 3x3 convolutions and max
        pools, then two dense layers.
    """
    layers = keras.layers
    image = keras.Input((SIZE, SIZE, 3), name="image")
    x = append_blocks(image, BLOCKS)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(128, activation="relu", name="fc1")(x)
    x = layers.Dropout(0.3, name="dropout")(x)
    scores = layers.Dense(len(CLASSES), activation="softmax", name="predictions", dtype="float32")
    return keras.Model(image, scores(x), name="shapes")


def append_blocks(image: keras.KerasTensor, blocks: Sequence[Sequence[int]]) -> keras.KerasTensor:
    """Appends blocks of convolutions, each of which ends in a max pool.

    Args:
        image: float32 [B, SIZE, SIZE, 3] RGB, 0..255.
        blocks: channels of the convolutions, block by block.
    """
    layers = keras.layers
    convolution = {"padding": "same", "activation": "relu", "kernel_initializer": "he_normal"}
    x = layers.Rescaling(1 / 127.5, offset=-1, name="rescale")(image)
    for block, channels in enumerate(blocks, 1):
        for k, filters in enumerate(channels, 1):
            name = f"block{block}_conv{k}"
            x = layers.Conv2D(filters, 3, name=name, **convolution)(x)
        x = layers.MaxPooling2D(2, name=f"block{block}_pool")(x)
    return x
