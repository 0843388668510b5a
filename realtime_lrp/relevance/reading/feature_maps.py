"""The rows of operations on feature maps [B, H, W, C]: convolutions, pools, batch norms."""

import tensorflow as tf

from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.network.convolutions import (
    Convolution,
    DepthwiseConvolution,
    TransposedConvolution,
)
from realtime_lrp.relevance.network.onednn import Geometry
from realtime_lrp.relevance.network.pools import AveragePool, MaxPool
from realtime_lrp.relevance.network.traced_steps import BATCH
from realtime_lrp.relevance.reading.reader import Reader, Values
from realtime_lrp.relevance.reading.values import MIXES, CannotReadError, Held

CHANNELS_FIRST = "has its channels first, only channels last is known"


def _picture(reader: Reader, operation: tf.Operation) -> Held:
    """The first input of an operation that works on feature maps [B, H, W, C]."""
    held = reader.held(operation.inputs[0])
    if operation.get_attr("data_format") not in (b"NHWC", b"NDHWC"):
        raise CannotReadError(CHANNELS_FIRST)
    if held.shape[0] != BATCH:
        raise CannotReadError(MIXES)
    return held


def convolution(reader: Reader, operation: tf.Operation) -> Values:
    """A convolution, of all channels or of each, with constant weights."""
    held, kernel = _picture(reader, operation), reader.constant(operation.inputs[1])
    if kernel is None:
        raise CannotReadError("has weights that depend on the picture")
    kernel = tf.cast(kernel, tf.float32)
    padding = operation.get_attr("padding").decode()
    strides, dilations = (operation.get_attr(key)[1:-1] for key in ("strides", "dilations"))
    made: list[steps.Step] = []
    if padding == "EXPLICIT":
        border, padding = operation.get_attr("explicit_paddings")[2:-2], "VALID"
        made.append(steps.ZeroPadding([border[:2], border[2:]]))
    geometry = Geometry(strides=strides, padding=padding, dilations=dilations)
    if operation.type == "DepthwiseConv2dNative":
        made.append(DepthwiseConvolution(kernel, None, geometry))
    else:
        groups = held.shape[-1] // kernel.shape[-2]
        made.append(Convolution(kernel, None, geometry, groups))
    return reader.append(operation, made, [held])


def transposed_convolution(reader: Reader, operation: tf.Operation) -> Values:
    """The transpose of a convolution with constant weights."""
    kernel, output = reader.constant(operation.inputs[1]), operation.outputs[0].shape
    if kernel is None or operation.get_attr("data_format") != b"NHWC":
        raise CannotReadError("has weights that depend on the picture, or its channels first")
    padding = operation.get_attr("padding").decode()
    strides, dilations = (operation.get_attr(key)[1:-1] for key in ("strides", "dilations"))
    geometry = Geometry(strides=strides, padding=padding, dilations=dilations)
    kernel, size = tf.cast(kernel, tf.float32), output[1:3].as_list()
    step = TransposedConvolution(kernel, None, geometry, lambda _: size)
    return reader.append(operation, [step], [reader.held(operation.inputs[2])])


def pool(reader: Reader, operation: tf.Operation) -> Values:
    """A pool over windows of rows and columns."""
    window, strides = (operation.get_attr(key)[1:-1] for key in ("ksize", "strides"))
    kind = AveragePool if operation.type == "AvgPool" else MaxPool
    step = kind(window, strides, operation.get_attr("padding").decode())
    return reader.append(operation, [step], [_picture(reader, operation)])


def batch_norm(reader: Reader, operation: tf.Operation) -> Values:
    """A batch norm with constant statistics."""
    if operation.get_attr("is_training"):
        raise CannotReadError("normalises by the pictures of the batch (training)")
    held = _picture(reader, operation)
    scale, offset, mean, variance = (reader.constant(one) for one in operation.inputs[1:])
    scale = scale * tf.math.rsqrt(variance + operation.get_attr("epsilon"))
    step = steps.Affine(scale, offset - mean * scale)
    return [*reader.append(operation, [step], [held]), *[None] * (len(operation.outputs) - 1)]
