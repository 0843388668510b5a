"""Prepares pictures, RGB from 0 to 255, the way a network was trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Scaling:
    """How a preset of KerasHub prepares pictures: x * scale + offset, each one per channel."""

    scale: tuple[float, ...]
    offset: tuple[float, ...]

    @classmethod
    def of(
        cls, scale: float | Sequence[float] | None, offset: float | Sequence[float] | None,
        channels: int,
    ) -> Scaling:  # fmt: skip
        """Makes one of single numbers or numbers per channel; None changes nothing."""
        factors, added = (
            np.broadcast_to(default if values is None else values, channels).astype(float).tolist()
            for values, default in ((scale, 1.0), (offset, 0.0))
        )
        return cls(tuple(factors), tuple(added))

    def __call__(self, pictures: np.ndarray | tf.Tensor) -> tf.Tensor:
        """Prepares pictures, uint8 [B, H, W, 3] RGB: float32 [B, H, W, channels]."""
        values = tf.cast(pictures, tf.float32)
        if len(self.scale) == 1:
            values = tf.tensordot(values, LUMINANCE[:, None], 1)
        return values * tf.constant(self.scale) + tf.constant(self.offset)


def preprocess(pictures: np.ndarray | tf.Tensor, mode: str, channels: int = 3) -> tf.Tensor:
    """Pictures, uint8 [B, H, W, 3] RGB, as a network reads them, float32 [B, H, W, channels].

    Works inside a `tf.function` too. One channel is luminance, which `COLOUR_ONLY` do not support.
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
