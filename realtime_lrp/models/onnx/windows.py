"""Rows with windows: convolutions and pools. A sequence [1, C, L] is a picture of one row."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.tensors import OnnxNode, Row, Tensor, Value
from realtime_lrp.relevance.reading.tracing import CannotReadError

LOWEST = -3.0e38  # the border of a max pool: no entry is lower

OF_ONE_ROW = {
    "kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0, "output_padding": 0,
    "output_shape": 1,
}  # fmt: skip
"""What attributes have for rows, where they say columns alone."""

Border = list[list[int]]  # what is added before and after [B, rows, columns, C]


def also_of_sequences(row: Row) -> Row:
    """Makes a row of pictures [1, C, H, W] one of sequences [1, C, L] too."""

    @functools.wraps(row)
    def of_either(node: OnnxNode) -> Value | list[Value]:
        x, *weights = node.inputs
        if not isinstance(x, Tensor) or len(x.axes) != 3:
            return row(node)
        own = {
            name: [n for one in node.attributes[name] for n in (first, one)]
            for name, first in OF_ONE_ROW.items()
            if name in node.attributes
        }
        picture = Tensor(x.held, (*x.axes[:2], None, x.axes[2]))
        if weights and isinstance(weights[0], np.ndarray):
            weights[0] = np.expand_dims(weights[0], 2)
        inputs = [picture, *weights]
        found = row(replace(node, inputs=inputs, attributes=node.attributes | own))
        assert isinstance(found, Tensor)
        return found.reshaped([found.shape[0], found.shape[1], found.shape[3]])

    return of_either


def _pair(node: OnnxNode, name: str, least: int = 1, count: int = 2) -> list[int]:
    """An attribute with one number for rows and one for columns, the least unless given."""
    found = [int(one) for one in node.get(name, [least] * count)]
    if len(found) != count or min(found) < least:
        raise CannotReadError(f"has {name} {found}. Expected {count} numbers of at least {least}")
    return found


def _pads(node: OnnxNode) -> Border:
    """The border that the attribute `pads` says."""
    pads = _pair(node, "pads", 0, 4)
    return [[0, 0], pads[::2], pads[1::2], [0, 0]]


def _border(node: OnnxNode, x: Tensor, window: Sequence[int], mode: str = "") -> Border:
    """The border in the node's own mode or another."""
    mode = mode or node.get("auto_pad", "NOTSET")
    border = _pads(node)
    if mode == "VALID":
        return [[0, 0]] * 4
    each = zip(x.shape[2:], window, _pair(node, "strides"), _pair(node, "dilations"), strict=True)
    for n, (size, one, stride, by) in enumerate(each, 1):
        span = (one - 1) * by + 1
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            whole = max((math.ceil(size / stride) - 1) * stride + span - size, 0)
            half = (whole + (mode == "SAME_LOWER")) // 2
            border[n] = [half, whole - half]
        elif node.get("ceil_mode", 0):
            more = size + sum(border[n]) - span
            windows = math.ceil(more / stride)
            if windows * stride >= size + border[n][0]:  # the last begins behind the picture
                windows -= 1
            border[n][1] += max(windows * stride - more, 0)
    return border


def _padding(node: OnnxNode, x: Tensor, window: Sequence[int]) -> tuple[Border, str]:
    """The border, and what TensorFlow calls it: VALID, SAME, or "" where it has no name."""
    border = _border(node, x, window)
    if not np.any(border):
        return border, "VALID"
    return border, "SAME" if border == _border(node, x, window, "SAME_UPPER") else ""


def _weights(node: OnnxNode, channels: int) -> tuple[np.ndarray, int]:
    """The weights of a convolution of some channels, and in how many groups they read these."""
    weights = node.given(1, "weights")
    groups = node.get("group", 1)
    read = weights.shape[0] if node.kind == "ConvTranspose" else weights.shape[1] * groups
    if weights.ndim != 4 or groups < 1 or read != channels or len(weights) % groups:
        raise CannotReadError(
            f"has weights {list(weights.shape)} in {groups} groups for {channels} channels"
        )
    return weights, groups


def _biased(node: OnnxNode, held: tf.Tensor) -> tf.Tensor:
    """With the bias of a convolution, one for each channel, if there is one."""
    bias = node.constant(2, "a bias")
    return held if bias is None else held + node.keep(bias.reshape(1, 1, 1, -1))


@also_of_sequences
def conv(node: OnnxNode) -> Value:
    """Conv, with groups, strides, dilations and any border."""
    x = node.picture()
    weights, groups = _weights(node, x.shape[1])
    outputs, depth, *window = weights.shape
    strides = _pair(node, "strides")
    dilations = _pair(node, "dilations")
    border, name = _padding(node, x, window)
    padding = name or border
    steps = [1, 1]
    if max(strides) > 1 and max(dilations) > 1:  # TensorFlow has one of both only
        steps, strides, padding = strides, steps, border
    if depth == 1 < groups and dilations == [1, 1] and strides[0] == strides[1]:
        kernel = weights.reshape(groups, outputs // groups, *window).transpose(2, 3, 0, 1)
        held = tf.nn.depthwise_conv2d(x.held, node.keep(kernel), [1, *strides, 1], padding)
    else:
        kernel = weights.transpose(2, 3, 1, 0)
        held = tf.nn.conv2d(x.held, node.keep(kernel), strides, padding, dilations=dilations)
    held = _biased(node, held)
    return x.holding(held if steps == [1, 1] else held[:, :: steps[0], :: steps[1]])


@also_of_sequences
def conv_transpose(node: OnnxNode) -> Value:
    """ConvTranspose; groups and dilations become zeros among its weights."""
    x = node.picture()
    channels, *sizes = x.shape[1:]
    weights, groups = _weights(node, channels)
    _, outputs, *window = weights.shape
    strides = _pair(node, "strides")
    dilations = _pair(node, "dilations")
    spans = [(size - 1) * by + 1 for size, by in zip(window, dilations, strict=True)]
    kernel = np.zeros((channels, groups, outputs, *spans), np.float32)
    for n, part in enumerate(np.split(weights, groups)):
        own = slice(n * len(part), (n + 1) * len(part))
        kernel[own, n, :, :: dilations[0], :: dilations[1]] = part
    kernel = kernel.reshape(channels, groups * outputs, *spans).transpose(2, 3, 1, 0)
    more = _pair(node, "output_padding", 0)
    wanted = node.get("output_shape", None)
    mode = node.get("auto_pad", "NOTSET")
    _, *border, _ = _pads(node)
    whole = [
        (size - 1) * stride + span for size, stride, span in zip(sizes, strides, spans, strict=True)
    ]
    if wanted is None and mode.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if wanted is not None:
        for n, size in enumerate(wanted[-2:]):
            cut = max(whole[n] + more[n] - size, 0)
            more[n] = max(size - whole[n], more[n])
            half = (cut + (mode != "SAME_UPPER")) // 2
            border[n] = [half, cut - half]
    shape = [tf.shape(x.held)[0], *whole, kernel.shape[2]]
    held = tf.nn.conv2d_transpose(x.held, node.keep(kernel), shape, strides, "VALID")
    if any(more):
        held = tf.pad(held, [[0, 0], [0, more[0]], [0, more[1]], [0, 0]])
    (top, bottom), (left, right) = border
    held = held[:, top : held.shape[1] - bottom, left : held.shape[2] - right]
    return x.holding(_biased(node, held))


def _pool(node: OnnxNode) -> tuple[Tensor, list[int], Border, str]:
    """What a pool reads, its window and border, and what TensorFlow calls the border."""
    x = node.picture()
    window = _pair(node, "kernel_shape")
    if _pair(node, "dilations") != [1, 1] or node.outputs > 1:
        raise CannotReadError("is a pool with dilations or indices")
    return x, window, *_padding(node, x, window)


@also_of_sequences
def max_pool(node: OnnxNode) -> Value:
    """The largest entry of each window."""
    x, window, border, padding = _pool(node)
    held = x.held
    if not padding:  # with zeros behind a ReLU, as Keras's networks have them
        lowest = 0.0 if held.op.type in ("Relu", "Relu6") else LOWEST
        held = tf.pad(held, border, constant_values=lowest)
    strides = _pair(node, "strides")
    return x.holding(tf.nn.max_pool2d(held, window, strides, padding or "VALID"))


@also_of_sequences
def average_pool(node: OnnxNode) -> Value:
    """The mean of each window; the border counts if `count_include_pad` says so."""
    x, window, border, padding = _pool(node)
    strides = _pair(node, "strides")
    counted = _pads(node)
    if not node.get("count_include_pad", 0):
        if padding:
            return x.holding(tf.nn.avg_pool2d(x.held, window, strides, padding))
        counted = [[0, 0]] * 4
    held = tf.nn.avg_pool2d(tf.pad(x.held, border), window, strides, "VALID")
    if counted == border:
        return x.holding(held)
    inside = np.pad(np.ones((1, *x.shape[2:], 1), np.float32), counted, constant_values=1)
    inside = np.pad(inside, np.subtract(border, counted))
    windows = np.lib.stride_tricks.sliding_window_view(inside, window, (1, 2))
    shares = windows[:, :: strides[0], :: strides[1]].mean((-2, -1), dtype=np.float32)
    return x.holding(held * node.keep(1 / shares))
