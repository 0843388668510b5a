"""Reads weights and geometry of a Keras layer; refuses layers that cannot be explained.

What becomes of them is in `layers.py`.
"""

import keras
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.network.onednn import Geometry


class UnsupportedLayerError(DamagedInputError):
    """A layer of the model has no relevance rule."""

    def __init__(
        self, layer: keras.Layer, why: str = "", table: str = "LAYERS", file: str = "layers.py"
    ) -> None:
        reason = why or "relevance has no rule for this type"
        super().__init__(
            f"Layer {layer.name!r} ({type(layer).__name__}) cannot be explained: {reason}. "
            f"Replace the layer in the model, or add a row to {table} in "
            f"realtime_lrp/relevance/reading/{file}."
        )


def check_channels_last(layer: keras.Layer) -> None:
    """Raises UnsupportedLayerError if the channels of a layer come first."""
    if layer.data_format != "channels_last":
        raise UnsupportedLayerError(layer, "its channels come first, only channels last is known")


def float32_weights(layer: keras.Layer, variable: keras.Variable) -> tf.Tensor:
    """A variable of a layer as float32.

    Raises:
      UnsupportedLayerError: it is quantised.
    """
    value = tf.convert_to_tensor(variable)
    if not value.dtype.is_floating:
        raise UnsupportedLayerError(layer, f"its weights are quantised ({value.dtype.name})")
    return tf.cast(value, tf.float32)


def bias_of(layer: keras.Layer) -> tf.Tensor | None:
    """The bias of a layer, float32; None if it has none."""
    return None if layer.bias is None else float32_weights(layer, layer.bias)


def weights_of(layer: keras.Layer) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Kernel and bias of a layer, float32."""
    return float32_weights(layer, layer.kernel), bias_of(layer)


def geometry_of(layer: keras.Layer) -> Geometry:
    """Strides, padding and dilations of a convolution."""
    check_channels_last(layer)
    padding = layer.padding.upper()
    return Geometry(strides=layer.strides, padding=padding, dilations=layer.dilation_rate)
