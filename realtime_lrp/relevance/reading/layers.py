"""Translates Keras layers into steps.

A Keras layer becomes a chain of steps: a Conv2D with a ReLU is a `Convolution` followed by an
`Activation`. To support another layer type, add a row to `LAYERS`. If its arithmetic is new, write
a class in `network/steps.py`, or in `linear.py` or `convolutions.py` if it has weights.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from realtime_lrp.relevance.network.convolutions import (
    Convolution,
    DepthwiseConvolution,
    TransposedConvolution,
)
from realtime_lrp.relevance.network.linear import Dense
from realtime_lrp.relevance.network.normalisations import GroupNorm, LayerNorm
from realtime_lrp.relevance.network.pools import (
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from realtime_lrp.relevance.network.steps import (
    Activation,
    Add,
    Affine,
    Concatenate,
    Cropping,
    Elementwise,
    Identity,
    Permute,
    Product,
    Reshape,
    Softmax,
    Step,
    Upsample,
    ZeroPadding,
)
from realtime_lrp.relevance.reading.layer_weights import (
    UnsupportedLayerError,
    bias_of,
    check_channels_last,
    float32_weights,
    geometry_of,
    weights_of,
)

NONNEGATIVE = ("relu", "relu6", "sigmoid", "hard_sigmoid", "softmax", "softplus", "exponential")
SIGNED = (
    "leaky_relu", "elu", "selu", "celu", "silu", "hard_silu", "gelu", "mish", "tanh", "hard_tanh",
    "softsign",
)  # fmt: skip
ACTIVATIONS: dict[Callable[..., tf.Tensor], bool] = {
    keras.activations.get(name): name in NONNEGATIVE for name in NONNEGATIVE + SIGNED
}
"""Activation -> whether its outputs are never negative. Relevance passes through each of them. An
activation belongs here only if it has no negative outputs for inputs that are not negative."""


def _activation(layer: keras.Layer, function: Callable[..., tf.Tensor]) -> list[Step]:
    if function is keras.activations.linear:
        return []
    name, module = (getattr(function, key, "?") for key in ("__name__", "__module__"))
    own = name if module.startswith("keras.") else f"{module}.{name}"
    if function not in ACTIVATIONS:
        raise UnsupportedLayerError(layer, f"the activation {own!r} has no rule", "ACTIVATIONS")
    if function is keras.activations.softmax:
        return [Softmax(function)]
    return [Activation(own, function, nonnegative=ACTIVATIONS[function])]


def _convolution(layer: keras.Layer, pool: str) -> list[Step]:
    if layer.padding == "causal":
        raise UnsupportedLayerError(layer, "causal padding has no rule")
    step = Convolution(*weights_of(layer), **geometry_of(layer), groups=layer.groups)
    return [step, *_activation(layer, layer.activation)]


def _depthwise_convolution(layer: keras.Layer, pool: str) -> list[Step]:
    step = DepthwiseConvolution(*weights_of(layer), **geometry_of(layer))
    return [step, *_activation(layer, layer.activation)]


def _separable_convolution(layer: keras.Layer, pool: str) -> list[Step]:
    depthwise = DepthwiseConvolution(
        float32_weights(layer, layer.depthwise_kernel), None, **geometry_of(layer)
    )
    pointwise = Convolution(
        float32_weights(layer, layer.pointwise_kernel), bias_of(layer), (1, 1), "VALID", (1, 1)
    )
    return [depthwise, pointwise, *_activation(layer, layer.activation)]


def _transposed_convolution(layer: keras.Layer, pool: str) -> list[Step]:
    def size(rows_and_columns: Sequence[int]) -> Sequence[int]:
        return layer.compute_output_shape((1, *rows_and_columns, layer.kernel.shape[3]))[1:3]

    if layer.output_padding is not None:
        raise UnsupportedLayerError(layer, "output_padding has no rule")
    step = TransposedConvolution(*weights_of(layer), **geometry_of(layer), size=size)
    return [step, *_activation(layer, layer.activation)]


def _dense(layer: keras.Layer, pool: str) -> list[Step]:
    return [Dense(*weights_of(layer)), *_activation(layer, layer.activation)]


def _max_pool(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    share = pool == "average"
    return [MaxPool(layer.pool_size, layer.strides, layer.padding, share=share)]


def _average_pool(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    return [AveragePool(layer.pool_size, layer.strides, layer.padding)]


def _flatten_pooled(layer: keras.Layer) -> list[Step]:
    return [] if layer.keepdims else [Reshape([-1])]


def _global_max_pool(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    return [GlobalMaxPool(share=pool == "average"), *_flatten_pooled(layer)]


def _global_average_pool(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    return [GlobalAveragePool(), *_flatten_pooled(layer)]


def _flatten(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    return [Reshape([-1])]


def _reshape(layer: keras.Layer, pool: str) -> list[Step]:
    return [Reshape(layer.target_shape)]


def _zero_padding(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    return [ZeroPadding(layer.padding)]


def _cropping(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    return [Cropping(layer.cropping)]


def _permute(layer: keras.Layer, pool: str) -> list[Step]:
    return [Permute([0, *layer.dims])]


def _upsampling(layer: keras.Layer, pool: str) -> list[Step]:
    check_channels_last(layer)
    if layer.interpolation not in ("nearest", "bilinear"):
        raise UnsupportedLayerError(layer, f"interpolation {layer.interpolation!r} has no rule")
    return [Upsample(layer.size, layer.interpolation)]


def _add(layer: keras.Layer, pool: str) -> list[Step]:
    return [Add()]


def _subtract(layer: keras.Layer, pool: str) -> list[Step]:
    return [Add((1, -1))]


def _average(layer: keras.Layer, pool: str) -> list[Step]:
    count = len(layer.get_build_config()["input_shape"])
    return [Add([1 / count] * count)]


def _residual_scale(layer: keras.Layer, pool: str) -> list[Step]:
    return [Add((1, layer.scale))]


def _multiply(layer: keras.Layer, pool: str) -> list[Step]:
    return [Product()]


def _concatenate(layer: keras.Layer, pool: str) -> list[Step]:
    return [Concatenate(layer.axis)]


def _identity(layer: keras.Layer, pool: str) -> list[Step]:
    return [Identity()]


def _activation_layer(layer: keras.Layer, pool: str) -> list[Step]:
    return _activation(layer, layer.activation) or _identity(layer, pool)


def _relu(layer: keras.Layer, pool: str) -> list[Step]:
    function = functools.partial(
        keras.activations.relu,
        negative_slope=layer.negative_slope,
        max_value=layer.max_value,
        threshold=layer.threshold,
    )
    if layer.negative_slope or layer.threshold:
        return [Activation("leaky_relu", function, nonnegative=not layer.negative_slope)]
    name = {None: "relu", 6: "relu6"}.get(layer.max_value, "clipped_relu")
    return [Activation(name, function, nonnegative=True)]


def _leaky_relu(layer: keras.Layer, pool: str) -> list[Step]:
    function = functools.partial(keras.activations.leaky_relu, negative_slope=layer.negative_slope)
    return [Activation("leaky_relu", function, nonnegative=False)]


def _prelu(layer: keras.Layer, pool: str) -> list[Step]:
    slope = float32_weights(layer, layer.alpha)
    function = lambda a: tf.nn.relu(a) - slope * tf.nn.relu(-a)  # noqa: E731
    return [Activation("prelu", function, nonnegative=False)]


def _elu(layer: keras.Layer, pool: str) -> list[Step]:
    function = functools.partial(keras.ops.elu, alpha=layer.alpha)
    return [Activation("elu", function, nonnegative=False)]


def _batch_normalisation(layer: keras.Layer, pool: str) -> list[Step]:
    if layer.axis not in (-1, layer.input_spec.ndim - 1):
        raise UnsupportedLayerError(layer, "its channels come first, only channels last is known")
    mean, variance = (
        float32_weights(layer, layer.moving_mean),
        float32_weights(layer, layer.moving_variance),
    )
    scale = tf.math.rsqrt(variance + layer.epsilon)  # to the last bit what Keras computes
    if layer.scale:
        scale *= float32_weights(layer, layer.gamma)
    beta = float32_weights(layer, layer.beta) if layer.center else 0.0
    return [Affine(scale, beta - mean * scale)]


def _gamma_and_beta(layer: keras.Layer) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    both = (layer.gamma, layer.beta)
    gamma, beta = (None if one is None else float32_weights(layer, one) for one in both)
    return gamma, beta


def _layer_normalisation(layer: keras.Layer, pool: str) -> list[Step]:
    if layer.rms_scaling:
        raise UnsupportedLayerError(layer, "rms_scaling has no rule")
    axes = [layer.axis] if isinstance(layer.axis, int) else layer.axis
    return [LayerNorm(axes, *_gamma_and_beta(layer), layer.epsilon)]


def _group_normalisation(layer: keras.Layer, pool: str) -> list[Step]:
    if layer.axis not in (-1, layer.input_spec.ndim - 1):
        raise UnsupportedLayerError(layer, "its channels come first, only channels last is known")
    return [GroupNorm(layer.groups, *_gamma_and_beta(layer), layer.epsilon)]


def _layer_scale(layer: keras.Layer, pool: str) -> list[Step]:
    gamma = float32_weights(layer, layer.gamma)
    return [Affine(gamma, tf.zeros_like(gamma))]


def _softmax(layer: keras.Layer, pool: str) -> list[Step]:
    axis = layer.axis if isinstance(layer.axis, int) else list(layer.axis)

    def function(a: tf.Tensor) -> tf.Tensor:
        return tf.exp(a - tf.reduce_logsumexp(a, axis, keepdims=True))

    return [Softmax(function, axis)]


def _constant(value: ArrayLike) -> tf.Tensor:
    return tf.constant(np.asarray(value, np.float32))


def _rescaling(layer: keras.Layer, pool: str) -> list[Step]:
    scale, offset = _constant(layer.scale), _constant(layer.offset)
    return [Elementwise(lambda a: a * scale + offset, keeps_sign=False)]


def _normalization(layer: keras.Layer, pool: str) -> list[Step]:
    mean, variance = _constant(layer.mean), _constant(layer.variance)
    deviation = tf.maximum(tf.sqrt(variance), keras.config.epsilon())
    if layer.invert:
        return [Elementwise(lambda a: a * deviation + mean, keeps_sign=False)]
    return [Elementwise(lambda a: (a - mean) / deviation, keeps_sign=False)]


def _constant_operand(operation: keras.Operation, arguments: Sequence[Any]) -> list[Step]:
    """An operation of a tensor with constants, such as `x * 2`; relevance passes unchanged."""

    def function(a: tf.Tensor) -> tf.Tensor:
        return operation(*(a if keras.utils.is_keras_tensor(one) else one for one in arguments))

    return [Elementwise(function, keeps_sign=False)]


def _operation(build: Callable[..., keras.KerasTensor], tensors: int = 2) -> type:
    """The type of the operation that Keras records for an expression of `tensors` tensors."""
    operands = (keras.KerasTensor((2, 2)) for _ in range(tensors))
    return type(build(*operands)._keras_history.operation)


LAYERS: dict[type, Callable[[keras.Layer, str], list[Step]]] = {
    keras.layers.Conv1D: _convolution,
    keras.layers.Conv2D: _convolution,
    keras.layers.Conv3D: _convolution,
    keras.layers.DepthwiseConv2D: _depthwise_convolution,
    keras.layers.SeparableConv2D: _separable_convolution,
    keras.layers.Conv2DTranspose: _transposed_convolution,
    keras.layers.Dense: _dense,
    keras.layers.MaxPooling2D: _max_pool,
    keras.layers.AveragePooling2D: _average_pool,
    keras.layers.GlobalMaxPooling2D: _global_max_pool,
    keras.layers.GlobalAveragePooling2D: _global_average_pool,
    keras.layers.BatchNormalization: _batch_normalisation,
    keras.layers.LayerNormalization: _layer_normalisation,
    keras.layers.GroupNormalization: _group_normalisation,
    keras.layers.Add: _add,
    keras.layers.Average: _average,
    keras.layers.Subtract: _subtract,
    keras.layers.Multiply: _multiply,
    keras.layers.Concatenate: _concatenate,
    keras.layers.Flatten: _flatten,
    keras.layers.Reshape: _reshape,
    keras.layers.Permute: _permute,
    keras.layers.ZeroPadding2D: _zero_padding,
    keras.layers.Cropping2D: _cropping,
    keras.layers.UpSampling2D: _upsampling,
    keras.layers.Activation: _activation_layer,
    keras.layers.ReLU: _relu,
    keras.layers.LeakyReLU: _leaky_relu,
    keras.layers.PReLU: _prelu,
    keras.layers.ELU: _elu,
    keras.layers.Softmax: _softmax,
    keras.layers.Rescaling: _rescaling,
    keras.layers.Normalization: _normalization,
    **dict.fromkeys(
        (
            keras.layers.Identity,
            keras.layers.Dropout,
            keras.layers.SpatialDropout2D,
            keras.layers.AlphaDropout,
            keras.layers.GaussianDropout,
            keras.layers.GaussianNoise,
            keras.layers.ActivityRegularization,
            keras.layers.RandomBrightness,
            keras.layers.RandomContrast,
            keras.layers.RandomFlip,
            keras.layers.RandomRotation,
            keras.layers.RandomTranslation,
            keras.layers.RandomZoom,
        ),
        _identity,
    ),
}

OPERATIONS: dict[type, Callable[[], Step]] = {
    _operation(lambda a, b: a + b): Add,
    _operation(lambda a, b: a - b): lambda: Add((1, -1)),
    _operation(lambda a, b: a * b): Product,
}
"""Expressions of tensors, such as `a + b`: type -> step."""

FUNCTIONS = {
    _operation(getattr(keras.ops, function.__name__), tensors=1): function
    for function in ACTIVATIONS
    if hasattr(keras.ops, function.__name__)
}
"""Activations written as operations, such as `keras.ops.relu(a)`: type -> activation."""

DIVISION = _operation(lambda a, b: a / b)
"""Division; supported only by a constant."""

OF_APPLICATIONS: dict[str, Callable[[keras.Layer, str], list[Step]]] = {
    "keras.src.applications.inception_resnet_v2.CustomScaleLayer": _residual_scale,
    "keras.src.applications.convnext.LayerScale": _layer_scale,
    "keras.src.applications.convnext.StochasticDepth": _identity,
}
"""Layers that `keras.applications` defines in its own files, which it does not export."""


def has_row(layer: keras.Operation) -> bool:
    """Whether there is a row for the type of a layer."""
    return type(layer) in LAYERS or _full_name(layer) in OF_APPLICATIONS


def _full_name(layer: keras.Operation) -> str:
    return f"{type(layer).__module__}.{type(layer).__qualname__}"


def steps_of(layer: keras.Layer, pool: str, arguments: Sequence[Any] = ()) -> list[Step]:
    """Translates a built Keras layer, or the operation of an expression, into a chain of steps.

    `pool` is "max" (winner takes all) or "average"; `arguments` are those of an operation's call.
    """
    constants = not all(map(keras.utils.is_keras_tensor, arguments))
    if constants and type(layer) in (*OPERATIONS, DIVISION):
        return _constant_operand(layer, arguments)
    if type(layer) in OPERATIONS:
        if len({len(tensor.shape) for tensor in arguments}) > 1:
            raise UnsupportedLayerError(layer, "its tensors have different ranks; use a layer")
        return [OPERATIONS[type(layer)]()]
    if type(layer) in FUNCTIONS:
        function = FUNCTIONS[type(layer)]
        if function is keras.activations.softmax:
            return [Softmax(layer, layer.axis)]
        return [Activation(function.__name__, layer, nonnegative=ACTIVATIONS[function])]
    row = LAYERS.get(type(layer)) or OF_APPLICATIONS.get(_full_name(layer))
    if row is None:
        raise UnsupportedLayerError(layer)
    return row(layer, pool)
