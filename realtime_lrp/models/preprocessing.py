"""Prepares pictures, RGB from 0 to 255, the way a network was trained."""

import numpy as np
import tensorflow as tf
from keras.applications import imagenet_utils

PREPROCESSING = {
    "caffe": "BGR minus ImageNet's mean",
    "tf": "-1 to 1",
    "torch": "0 to 1, minus ImageNet's mean, divided by its deviation",
    "rescale": "0 to 1",
    "none": "0 to 255",
}
"""Every mode, and what it does."""

COLOUR_ONLY = ("caffe", "torch")
"""Modes that subtract a mean per colour, so they make no sense for grey pictures."""

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
"""Weights of red, green and blue (ITU-R BT.601)."""


def preprocess(pictures: np.ndarray | tf.Tensor, mode: str, channels: int = 3) -> tf.Tensor:
    """Preprocesses a batch. Works inside a `tf.function` too.

    Args:
      pictures: uint8 [B, H, W, 3] RGB.
      mode: "caffe" (BGR minus ImageNet's mean), "tf" (-1 to 1), "torch" (0 to 1, minus the mean,
        divided by the deviation), "rescale" (0 to 1) or "none" (0 to 255).
      channels: 3, or 1 for luminance, which "caffe" and "torch" do not support.

    Returns:
      float32 [B, H, W, channels].
    """
    values = tf.cast(pictures, tf.float32)
    if channels == 1:
        values = tf.tensordot(values, LUMINANCE[:, None], 1)
    if mode == "tf":
        return values / 127.5 - 1
    if mode == "none":
        return values
    if mode == "rescale":
        return values / 255
    return imagenet_utils.preprocess_input(values, data_format="channels_last", mode=mode)
