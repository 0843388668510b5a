"""Which steps each Keras layer type stands for.

A Keras layer becomes a chain of steps: a Conv2D with a ReLU is a `Convolution` followed by an
`Activation`. `LAYERS` is the table; a new layer type is one row and, where the arithmetic is new,
one class in `steps.py`.
"""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.steps import (
    Activation,
    AveragePool,
    Concatenate,
    Convolution,
    Dense,
    Elementwise,
    GlobalAveragePool,
    GlobalMaxPool,
    Identity,
    MaxPool,
    Reshape,
    Step,
    ZeroPadding,
)


class UnsupportedLayerError(DamagedInputError):
    """A layer of the model has no relevance rule."""

    def __init__(self, layer: keras.Layer, why: str = ""):
        reason = why or "relevance has no rule for this type"
        super().__init__(
            f"Layer {layer.name!r} ({type(layer).__name__}) cannot be explained: {reason}. "
            "Replace the layer in the model, or add a row to LAYERS in "
            "realtime_lrp/relevance/layers.py."
        )


ACTIVATIONS = ("linear", "relu", "relu6", "sigmoid", "softmax")


def _activation(layer: keras.Layer, function: Callable) -> list[Step]:
    name = getattr(function, "__name__", str(function))
    if name not in ACTIVATIONS or function is not keras.activations.get(name):
        raise UnsupportedLayerError(layer, f"the activation {name!r} has no rule")
    return [] if name == "linear" else [Activation(name, function)]


def _channels_last(layer: keras.Layer) -> None:
    if layer.data_format != "channels_last":
        raise UnsupportedLayerError(layer, "its channels come first, only channels last is known")


def _weights(layer: keras.Layer) -> tuple[tf.Tensor, tf.Tensor | None]:
    kernel = tf.convert_to_tensor(layer.kernel)
    if not kernel.dtype.is_floating:
        raise UnsupportedLayerError(layer, f"its weights are quantised ({kernel.dtype.name})")
    kernel = tf.cast(kernel, tf.float32)
    bias = None if layer.bias is None else tf.cast(tf.convert_to_tensor(layer.bias), tf.float32)
    return kernel, bias


def _conv2d(layer, pool):
    _channels_last(layer)
    step = Convolution(*_weights(layer), layer.strides, layer.padding, layer.dilation_rate)
    return [step, *_activation(layer, layer.activation)]


def _dense(layer, pool):
    return [Dense(*_weights(layer)), *_activation(layer, layer.activation)]


def _max_pool(layer, pool):
    _channels_last(layer)
    share = pool == "average"
    return [MaxPool(layer.pool_size, layer.strides, layer.padding, share=share)]


def _average_pool(layer, pool):
    _channels_last(layer)
    return [AveragePool(layer.pool_size, layer.strides, layer.padding)]


def _without_places(layer: keras.Layer) -> list[Step]:
    return [] if layer.keepdims else [Reshape([-1])]


def _global_max_pool(layer, pool):
    _channels_last(layer)
    return [GlobalMaxPool(share=pool == "average"), *_without_places(layer)]


def _global_average_pool(layer, pool):
    _channels_last(layer)
    return [GlobalAveragePool(), *_without_places(layer)]


def _flatten(layer, pool):
    _channels_last(layer)
    return [Reshape([-1])]


def _reshape(layer, pool):
    return [Reshape(layer.target_shape)]


def _zero_padding(layer, pool):
    _channels_last(layer)
    return [ZeroPadding(layer.padding)]


def _concatenate(layer, pool):
    return [Concatenate(layer.axis)]


def _identity(layer, pool):
    return [Identity()]


def _activation_layer(layer, pool):
    return _activation(layer, layer.activation) or _identity(layer, pool)


def _relu(layer, pool):
    if layer.negative_slope or layer.threshold:
        raise UnsupportedLayerError(layer, "a ReLU with a slope or a threshold has no rule")
    ceiling = np.inf if layer.max_value is None else layer.max_value
    return [Activation("relu", lambda a: tf.clip_by_value(a, 0.0, ceiling))]


def _softmax(layer, pool):
    axis = layer.axis
    return [Activation("softmax", lambda a: keras.activations.softmax(a, axis))]


def _constant(value) -> tf.Tensor:
    return tf.constant(np.asarray(value, np.float32))


def _rescaling(layer, pool):
    scale, offset = _constant(layer.scale), _constant(layer.offset)
    return [Elementwise(lambda a: a * scale + offset, keeps_sign=False)]


def _normalization(layer, pool):
    mean, variance = _constant(layer.mean), _constant(layer.variance)
    deviation = tf.maximum(tf.sqrt(variance), keras.config.epsilon())
    if layer.invert:
        return [Elementwise(lambda a: a * deviation + mean, keeps_sign=False)]
    return [Elementwise(lambda a: (a - mean) / deviation, keeps_sign=False)]


LAYERS: dict[type, Callable[[keras.Layer, str], list[Step]]] = {
    keras.layers.Conv2D: _conv2d,
    keras.layers.Dense: _dense,
    keras.layers.MaxPooling2D: _max_pool,
    keras.layers.AveragePooling2D: _average_pool,
    keras.layers.GlobalMaxPooling2D: _global_max_pool,
    keras.layers.GlobalAveragePooling2D: _global_average_pool,
    keras.layers.Flatten: _flatten,
    keras.layers.Reshape: _reshape,
    keras.layers.ZeroPadding2D: _zero_padding,
    keras.layers.Concatenate: _concatenate,
    keras.layers.Dropout: _identity,
    keras.layers.SpatialDropout2D: _identity,
    keras.layers.Identity: _identity,
    keras.layers.Activation: _activation_layer,
    keras.layers.ReLU: _relu,
    keras.layers.Softmax: _softmax,
    keras.layers.Rescaling: _rescaling,
    keras.layers.Normalization: _normalization,
}


def steps_of(layer: keras.Layer, pool: str) -> list[Step]:
    """The chain of steps that a Keras layer stands for.

    Args:
      layer: a built Keras layer.
      pool: "max" (winner takes all) or "average", how relevance goes through max pools.

    Raises:
      UnsupportedLayerError: the layer's type or one of its options has no rule.
    """
    if type(layer) not in LAYERS:
        raise UnsupportedLayerError(layer)
    return LAYERS[type(layer)](layer, pool)
