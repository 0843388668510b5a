"""The architecture of the embedded network `shapes_detector`, which finds several symbols at once.

Input: float32 [B, 192, 256, 3] RGB, 0..255. Outputs, for each of 24 x 32 places: `boxes`, float32
[B, 768, 4] y0, x0, y1, x1 in pixels of the input, and `scores`, float32 [B, 768, 15], the
probability of each symbol of `realtime_lrp.models.drawings.CLASSES` but "nothing".
"""

import keras
import numpy as np

from realtime_lrp.models.drawings import NOTHING

ROWS, COLUMNS, STRIDE = 24, 32, 8
"""The places, and how many pixels they are apart."""

PRIOR = 0.01
"""The probability of a symbol at a place before anything is learnt (Lin et al. 2017, sect. 4.1)."""


def build_shapes_detector() -> keras.Model:
    """Builds the untrained network: places see three scales of features, joined from the coarsest.

    As in FCOS (Tian et al. 2019) each place says what symbol lies there, and how far its sides are.
    """
    layers = keras.layers
    image = keras.Input((ROWS * STRIDE, COLUMNS * STRIDE, 3), name="image")
    x = layers.Rescaling(1 / 127.5, offset=-1, name="rescale")(image)
    x = _convolution(x, 24, "block1_conv1", strides=2)
    x = _convolution(x, 32, "block1_conv2", strides=2)
    x = _convolution(x, 48, "block2_conv1")
    x = layers.MaxPooling2D(2, name="block2_pool")(x)
    x = _convolution(x, 80, "block3_conv1")
    fine = _convolution(x, 80, "block3_conv2")
    x = layers.MaxPooling2D(2, name="block3_pool")(fine)
    x = _convolution(x, 112, "block4_conv1")
    middle = _convolution(x, 112, "block4_conv2")
    x = layers.MaxPooling2D(2, name="block4_pool")(middle)
    x = _convolution(x, 128, "block5_conv1")
    coarse = _convolution(x, 128, "block5_conv2")
    x = layers.UpSampling2D(2, name="coarse_up")(_convolution(coarse, 80, "coarse", window=1))
    x = layers.Add(name="middle_joined")([x, _convolution(middle, 80, "middle", window=1)])
    x = layers.UpSampling2D(2, name="middle_up")(_convolution(x, 80, "middle_conv"))
    x = layers.Add(name="fine_joined")([x, _convolution(fine, 80, "fine", window=1)])
    x = _convolution(x, 96, "joined_conv1")
    x = _convolution(x, 96, "joined_conv2")
    logits = layers.Conv2D(
        NOTHING, 1, name="logits", dtype="float32",
        bias_initializer=keras.initializers.Constant(np.log(PRIOR / (1 - PRIOR))),
    )(x)  # fmt: skip
    scores = layers.Reshape((ROWS * COLUMNS, NOTHING), name="logits_in_a_row", dtype="float32")(
        logits
    )
    scores = layers.Activation("sigmoid", name="scores", dtype="float32")(scores)
    sides = layers.Conv2D(
        4, 1, activation="softplus", name="sides", dtype="float32",
        bias_initializer=keras.initializers.Constant(3.0),
    )(_convolution(x, 48, "sides_conv"))  # fmt: skip
    boxes = layers.Rescaling(
        [-STRIDE, -STRIDE, STRIDE, STRIDE], offset=centres().tolist(), name="around_centres",
        dtype="float32",
    )(sides)  # fmt: skip
    boxes = layers.Reshape((ROWS * COLUMNS, 4), name="boxes", dtype="float32")(boxes)
    return keras.Model(image, {"boxes": boxes, "scores": scores}, name="shapes_detector")


def centres() -> np.ndarray:
    """The centre of each place, twice: float32 [ROWS, COLUMNS, 4] y, x, y, x in pixels."""
    y, x = (np.arange(count) * STRIDE + STRIDE / 2 for count in (ROWS, COLUMNS))
    grid = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
    return np.concatenate([grid, grid], axis=-1).astype(np.float32)


def _convolution(
    x: keras.KerasTensor, filters: int, name: str, window: int = 3, strides: int = 1
) -> keras.KerasTensor:
    return keras.layers.Conv2D(
        filters, window, strides, "same", activation="relu", kernel_initializer="he_normal",
        name=name,
    )(x)  # fmt: skip
