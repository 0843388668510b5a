"""A segmentation by colour, and a picture in which it is certain."""

import keras
import numpy as np
from keras import layers

LABELS = ("background", "red", "blue")


def coloured(stride=1, size=64):
    """A network [B, size, size, 3], -1 to 1, -> [B, h, w, 3]: probabilities of LABELS."""
    x = keras.Input((size, size, 3))
    a = layers.AveragePooling2D(stride)(x) if stride > 1 else x
    a = layers.Conv2D(4, 3, padding="same", activation="relu", name="colours")(a)
    a = layers.Conv2D(3, 1, name="classes")(a)
    model = keras.Model(x, layers.Softmax()(a), name="coloured")
    kernel = np.full((3, 3, 3, 4), 0.01)
    kernel[1, 1] = [[2, -1, 0.1, 0.2], [-1, -1, 0.2, 0.1], [-1, 2, 0.1, 0.2]]
    model.get_layer("colours").set_weights([kernel, np.array([0.0, 0.0, 0.5, 0.5])])
    weights = np.array([[-2, 4, -2], [-2, -2, 4], [2, 0.1, 0.2], [1, 0.1, 0.1]])
    model.get_layer("classes").set_weights([weights[None, None], np.zeros(3)])
    return model


def picture(rows=48, columns=96):
    """Red at the left, a smaller blue area at the right, black elsewhere: uint8."""
    made = np.zeros((rows, columns, 3), np.uint8)
    made[rows // 8 : -rows // 8, columns // 12 : columns // 2 - 6] = (255, 0, 0)
    made[rows // 4 : -rows // 4, columns // 2 + 8 : -columns // 8] = (0, 0, 255)
    return made
