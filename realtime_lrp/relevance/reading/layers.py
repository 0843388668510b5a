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

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.network import convolutions, steps
from realtime_lrp.relevance.network.linear import Dense
from realtime_lrp.relevance.network.onednn import PLAIN, Geometry
from realtime_lrp.relevance.network.traced_steps import Normalisation

Translation = Callable[[keras.Layer], list[steps.Step]]

CHANNELS_FIRST = "its channels come first, only channels last is known"

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


def _float32(layer: keras.Layer, *names: str) -> list[Any]:
    """Variables of a layer as float32 tensors, None where it has none."""
    values = [getattr(layer, name) for name in names]
    tensors = [None if value is None else tf.convert_to_tensor(value) for value in values]
    for tensor in tensors:
        if tensor is not None and not tensor.dtype.is_floating:
            why = f"its weights are quantised ({tensor.dtype.name})"
            raise UnsupportedLayerError(layer, why)
    return [None if tensor is None else tf.cast(tensor, tf.float32) for tensor in tensors]


def _geometry(layer: keras.Layer) -> Geometry:
    strides, dilations = map(list, (layer.strides, layer.dilation_rate))
    return Geometry(strides=strides, padding=layer.padding.upper(), dilations=dilations)


def _activation(layer: keras.Layer) -> list[steps.Step]:
    function = layer.activation
    if function is keras.activations.linear:
        return []
    name, module = (getattr(function, key, "?") for key in ("__name__", "__module__"))
    own = name if module.startswith("keras.") else f"{module}.{name}"
    if function not in ACTIVATIONS:
        raise UnsupportedLayerError(layer, f"the activation {own!r} has no rule", "ACTIVATIONS")
    if function is keras.activations.softmax:
        return [steps.Softmax()]
    return [steps.Activation(own, function, nonnegative=ACTIVATIONS[function])]


def _convolution(layer: keras.Layer) -> list[steps.Step]:
    if layer.padding == "causal":
        raise UnsupportedLayerError(layer, "causal padding has no rule")
    kernel, bias = _float32(layer, "kernel", "bias")
    if isinstance(layer, keras.layers.DepthwiseConv2D):
        step: steps.Step = convolutions.DepthwiseConvolution(kernel, bias, _geometry(layer))
    else:
        step = convolutions.Convolution(kernel, bias, _geometry(layer), layer.groups)
    return [step, *_activation(layer)]


def _separable_convolution(layer: keras.Layer) -> list[steps.Step]:
    by_channel, kernel, bias = _float32(layer, "depthwise_kernel", "pointwise_kernel", "bias")
    depthwise = convolutions.DepthwiseConvolution(by_channel, None, _geometry(layer))
    pointwise = convolutions.Convolution(kernel, bias, PLAIN)
    return [depthwise, pointwise, *_activation(layer)]


def _transposed_convolution(layer: keras.Layer) -> list[steps.Step]:
    def size(rows_and_columns: Sequence[int]) -> Sequence[int]:
        return layer.compute_output_shape((1, *rows_and_columns, layer.kernel.shape[3]))[1:3]

    if layer.output_padding is not None:
        raise UnsupportedLayerError(layer, "output_padding has no rule")
    kernel, bias = _float32(layer, "kernel", "bias")
    step = convolutions.TransposedConvolution(kernel, bias, _geometry(layer), size)
    return [step, *_activation(layer)]


def _flatten_pooled(layer: keras.Layer) -> list[steps.Step]:
    return [] if layer.keepdims else [steps.Reshape([-1])]


def _upsampling(layer: keras.Layer) -> list[steps.Step]:
    if layer.interpolation not in ("nearest", "bilinear"):
        raise UnsupportedLayerError(layer, f"interpolation {layer.interpolation!r} has no rule")

    def resized(a: tf.Tensor) -> tf.Tensor:
        size = [n * factor for n, factor in zip(a.shape[1:3], layer.size, strict=True)]
        return tf.image.resize(a, size, layer.interpolation)

    kind = steps.Move if layer.interpolation == "nearest" else steps.Interpolation
    return [kind(resized)]


def _cropping(layer: keras.Layer) -> list[steps.Step]:
    (top, bottom), (left, right) = layer.cropping
    return [steps.Move(lambda a: a[:, top : a.shape[1] - bottom, left : a.shape[2] - right])]


def _average(layer: keras.Layer) -> list[steps.Step]:
    count = len(layer.get_build_config()["input_shape"])
    return [steps.Add([1 / count] * count)]


def _identity(layer: keras.Layer) -> list[steps.Step]:
    return [steps.Identity()]


def _relu(layer: keras.Layer) -> list[steps.Step]:
    options = {name: getattr(layer, name) for name in ("negative_slope", "max_value", "threshold")}
    function = functools.partial(keras.activations.relu, **options)
    if layer.negative_slope or layer.threshold:
        return [steps.Activation("leaky_relu", function, nonnegative=not layer.negative_slope)]
    name = {None: "relu", 6: "relu6"}.get(layer.max_value, "clipped_relu")
    return [steps.Activation(name, function, nonnegative=True)]


def _signed(name: str, of: Callable[[keras.Layer], Callable[..., tf.Tensor]]) -> Translation:
    """The row of an activation with negative outputs, which `of` makes of the layer."""
    return lambda layer: [steps.Activation(name, of(layer), nonnegative=False)]


def _prelu(layer: keras.Layer) -> Callable[..., tf.Tensor]:
    (slope,) = _float32(layer, "alpha")
    return lambda a: tf.nn.relu(a) - slope * tf.nn.relu(-a)


def _batch_normalisation(layer: keras.Layer) -> list[steps.Step]:
    if layer.axis not in (-1, layer.input_spec.ndim - 1):
        raise UnsupportedLayerError(layer, CHANNELS_FIRST)
    mean, variance = _float32(layer, "moving_mean", "moving_variance")
    scale = tf.math.rsqrt(variance + layer.epsilon)  # equals Keras's to the last bit
    if layer.scale:
        scale *= _float32(layer, "gamma")[0]
    beta = _float32(layer, "beta")[0] if layer.center else 0.0
    return [steps.Affine(scale, beta - mean * scale)]


def _layer_normalisation(layer: keras.Layer) -> list[steps.Step]:
    if layer.rms_scaling:
        raise UnsupportedLayerError(layer, "rms_scaling has no rule")
    axes = [layer.axis] if isinstance(layer.axis, int) else layer.axis
    gamma, beta = _float32(layer, "gamma", "beta")
    return [Normalisation(gamma, beta, layer.epsilon, axes)]


def _group_normalisation(layer: keras.Layer) -> list[steps.Step]:
    if layer.axis not in (-1, layer.input_spec.ndim - 1):
        raise UnsupportedLayerError(layer, CHANNELS_FIRST)
    gamma, beta = _float32(layer, "gamma", "beta")
    return [Normalisation(gamma, beta, layer.epsilon, groups=layer.groups)]


def _layer_scale(layer: keras.Layer) -> list[steps.Step]:
    (gamma,) = _float32(layer, "gamma")
    return [steps.Affine(gamma, tf.zeros_like(gamma))]


def _rescaling(layer: keras.Layer) -> list[steps.Step]:
    scale, offset = (np.asarray(value, np.float32) for value in (layer.scale, layer.offset))
    return [steps.Elementwise(lambda a: a * scale + offset, keeps_sign=False)]


def _normalization(layer: keras.Layer) -> list[steps.Step]:
    mean, variance = (np.asarray(value, np.float32) for value in (layer.mean, layer.variance))
    deviation = tf.maximum(tf.sqrt(variance), keras.config.epsilon())
    if layer.invert:
        return [steps.Elementwise(lambda a: a * deviation + mean, keeps_sign=False)]
    return [steps.Elementwise(lambda a: (a - mean) / deviation, keeps_sign=False)]


OF_TRAINING = (
    "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "AlphaDropout",
    "GaussianDropout", "GaussianNoise", "ActivityRegularization",
    "AugMix", "CutMix", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomElasticTransform", "RandomErasing", "RandomFlip",
    "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective",
    "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear",
    "RandomTranslation", "RandomZoom",
)  # fmt: skip
"""Layers that do nothing, or something in training alone."""

LAYERS: dict[type, Translation] = {
    keras.layers.Conv1D: _convolution,
    keras.layers.Conv2D: _convolution,
    keras.layers.Conv3D: _convolution,
    keras.layers.DepthwiseConv2D: _convolution,
    keras.layers.SeparableConv2D: _separable_convolution,
    keras.layers.Conv2DTranspose: _transposed_convolution,
    keras.layers.Dense: lambda x: [Dense(*_float32(x, "kernel", "bias")), *_activation(x)],
    keras.layers.MaxPooling2D: lambda x: [steps.MaxPool(x.pool_size, x.strides, x.padding)],
    keras.layers.AveragePooling2D: lambda x: [steps.AveragePool(x.pool_size, x.strides, x.padding)],
    keras.layers.GlobalMaxPooling2D: lambda x: [steps.GlobalMaxPool(), *_flatten_pooled(x)],
    keras.layers.GlobalAveragePooling2D: lambda x: [steps.GlobalAveragePool(), *_flatten_pooled(x)],
    keras.layers.BatchNormalization: _batch_normalisation,
    keras.layers.LayerNormalization: _layer_normalisation,
    keras.layers.GroupNormalization: _group_normalisation,
    keras.layers.Add: lambda x: [steps.Add()],
    keras.layers.Average: _average,
    keras.layers.Subtract: lambda x: [steps.Add((1, -1))],
    keras.layers.Multiply: lambda x: [steps.Product()],
    keras.layers.Concatenate: lambda x: [steps.Concatenate(x.axis)],
    keras.layers.Flatten: lambda x: [steps.Reshape([-1])],
    keras.layers.Reshape: lambda x: [steps.Reshape(x.target_shape)],
    keras.layers.Permute: lambda x: [steps.Permute([0, *x.dims])],
    keras.layers.ZeroPadding2D: lambda x: [steps.ZeroPadding(x.padding)],
    keras.layers.Cropping2D: _cropping,
    keras.layers.UpSampling2D: _upsampling,
    keras.layers.Activation: lambda x: _activation(x) or [steps.Identity()],
    keras.layers.ReLU: _relu,
    keras.layers.LeakyReLU: _signed(
        "leaky_relu",
        lambda x: functools.partial(keras.activations.leaky_relu, negative_slope=x.negative_slope),
    ),
    keras.layers.PReLU: _signed("prelu", _prelu),
    keras.layers.ELU: _signed("elu", lambda x: functools.partial(keras.ops.elu, alpha=x.alpha)),
    keras.layers.Softmax: lambda x: [steps.Softmax(x.axis)],
    keras.layers.Rescaling: _rescaling,
    keras.layers.Normalization: _normalization,
    **{
        getattr(keras.layers, name): _identity
        for name in OF_TRAINING
        if hasattr(keras.layers, name)  # a few came with later versions of Keras
    },
}

OURS = tuple(kind.__name__ for kind in LAYERS)
"""The layers of Keras with a row here, which a stranger's file may hold: add a row only if none of
a layer's arguments can name a function, a file, a module or another class. A row that a program
adds to `LAYERS` later allows nothing."""

OF_APPLICATIONS: dict[str, Translation] = {
    "keras.src.applications.inception_resnet_v2.CustomScaleLayer": lambda x: [
        steps.Add((1, x.scale))
    ],
    "keras.src.applications.convnext.LayerScale": _layer_scale,
    "keras.src.applications.convnext.StochasticDepth": _identity,
}
"""Layers that `keras.applications` defines in its own files, which it does not export."""


def _expression(build: Callable[..., keras.KerasTensor], tensors: int = 2) -> type:
    """The type of the operation that Keras records for an expression of `tensors` tensors."""
    operands = (keras.KerasTensor((2, 2)) for _ in range(tensors))
    return type(build(*operands)._keras_history.operation)


EXPRESSIONS: dict[type, Callable[[], steps.Step]] = {
    _expression(lambda a, b: a + b): steps.Add,
    _expression(lambda a, b: a - b): lambda: steps.Add((1, -1)),
    _expression(lambda a, b: a * b): steps.Product,
}
"""Expressions of tensors, such as `a + b`: type -> step."""

FUNCTIONS = {
    _expression(getattr(keras.ops, function.__name__), tensors=1): function
    for function in ACTIVATIONS
    if hasattr(keras.ops, function.__name__)
}
"""Activations written as operations, such as `keras.ops.relu(a)`: type -> activation."""

DIVISION = _expression(lambda a, b: a / b)  # division; supported only by a constant


def row_of(layer: keras.Operation) -> Translation | None:
    """The row for the type of a layer, if there is one."""
    full_name = f"{type(layer).__module__}.{type(layer).__qualname__}"
    return LAYERS.get(type(layer)) or OF_APPLICATIONS.get(full_name)


def steps_of(layer: keras.Layer, arguments: Sequence[Any] = ()) -> list[steps.Step]:
    """Translates a built Keras layer, or the operation of an expression, into a chain of steps.

    `arguments` belong to an operation's call. Max pools are of the kind "max".
    """
    tensors = list(map(keras.utils.is_keras_tensor, arguments))
    if not all(tensors) and type(layer) in (*EXPRESSIONS, DIVISION):

        def with_constants(a: tf.Tensor) -> tf.Tensor:
            return layer(*(a if one else b for one, b in zip(tensors, arguments, strict=True)))

        return [steps.Elementwise(with_constants, keeps_sign=False)]  # passes `x * 2` unchanged
    if type(layer) in EXPRESSIONS:
        if len({len(tensor.shape) for tensor in arguments}) > 1:
            raise UnsupportedLayerError(layer, "its tensors have different ranks; use a layer")
        return [EXPRESSIONS[type(layer)]()]
    if function := FUNCTIONS.get(type(layer)):
        if function is keras.activations.softmax:
            return [steps.Softmax(layer.axis)]
        return [steps.Activation(function.__name__, layer, nonnegative=ACTIVATIONS[function])]
    if (row := row_of(layer)) is None:
        raise UnsupportedLayerError(layer)
    if getattr(layer, "data_format", None) == "channels_first":
        raise UnsupportedLayerError(layer, CHANNELS_FIRST)
    return row(layer)
