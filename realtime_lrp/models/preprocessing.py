"""From a picture to what a network was trained on. Pictures come in RGB, 0 to 255."""

import numpy as np
from keras.applications import imagenet_utils

PREPROCESSING = ("caffe", "tf", "torch", "rescale", "none")


def preprocess(pictures: np.ndarray, mode: str) -> np.ndarray:
    """Preprocesses a batch.

    Args:
      pictures: uint8 [B, H, W, 3] RGB.
      mode: "caffe" (BGR, minus ImageNet's mean), "tf" (-1 to 1), "torch" (0 to 1, minus mean, by
        deviation), "rescale" (0 to 1) or "none" (0 to 255).

    Returns:
      float32 [B, H, W, 3].
    """
    values = pictures.astype(np.float32)
    if mode == "none":
        return values
    if mode == "rescale":
        return values / 255
    return imagenet_utils.preprocess_input(values, data_format="channels_last", mode=mode)
