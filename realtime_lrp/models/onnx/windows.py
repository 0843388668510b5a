"""Rows with windows over rows and columns: convolutions and pools.

A sequence [1, C, L] is read as a picture of one row.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor
from realtime_lrp.models.onnx.nodes import Inputs, OnnxNode, Row, Value, constant, given, tensor

LOWEST = -3.0e38  # the border of a max pool: no entry is lower


def picture(inputs: Inputs) -> Tensor:
    """A feature map [1, C, H, W], held as [B, H, W, C]."""
    x = tensor(inputs)
    if len(x.axes) != 4 or x.shape[0] != 1:
        raise CannotReadError(f"reads a tensor {list(x.shape)}. Expected feature maps [1, C, H, W]")
    return x.held_as(2, 3, 1)


OF_ONE_ROW = {
    "kernel_shape": [1], "strides": [1], "dilations": [1], "pads": [0], "output_padding": [0],
    "output_shape": [1],
}  # fmt: skip
"""What attributes have for rows, where they say columns alone."""


def also_of_sequences(row: Row) -> Row:
    """Makes a row of pictures [1, C, H, W] one of sequences [1, C, L] too."""

    @functools.wraps(row)
    def of_either(node: OnnxNode, inputs: Inputs) -> Value | list[Value]:
        x = tensor(inputs)
        if len(x.axes) != 3:
            return row(node, inputs)
        own = {
            name: [n for one in value for n in (*OF_ONE_ROW[name], one)]
            if name != "pads"
            else [0, value[0], 0, value[1]]
            for name, value in node.attributes.items()
            if name in OF_ONE_ROW
        }
        picture = Tensor(x.held, (*x.axes[:2], None, x.axes[2]))
        weights = [
            np.expand_dims(one, 2) if isinstance(one, np.ndarray) else one for one in inputs[1:2]
        ]
        changed = replace(node, attributes=node.attributes | own)
        found = row(changed, [picture, *weights, *inputs[2:]])
        assert isinstance(found, Tensor)
        return found.reshaped([found.shape[0], found.shape[1], found.shape[3]])

    return of_either


def _pair(node: OnnxNode, name: str, least: int = 1, count: int = 2) -> list[int]:
    """An attribute with one number for rows and one for columns, the least unless given."""
    found = [int(one) for one in node.get(name, [least] * count)]
    if len(found) != count or min(found) < least:
        raise CannotReadError(f"has {name} {found}. Expected {count} numbers of at least {least}")
    return found


def _pads(node: OnnxNode) -> list[list[int]]:
    """The border before and after rows and columns that the attribute `pads` says."""
    pads = _pair(node, "pads", 0, 4)
    return [pads[::2], pads[1::2]]


def _border(
    node: OnnxNode, sizes: Sequence[int], window: Sequence[int], mode: str = ""
) -> list[list[int]]:
    """What is added before and after rows and columns, in the node's own mode or another."""
    mode = mode or node.get("auto_pad", "NOTSET")
    border = _pads(node)
    strides = _pair(node, "strides")
    dilations = _pair(node, "dilations")
    if mode == "VALID":
        return [[0, 0], [0, 0]]
    for n, (size, one, stride, by) in enumerate(
        zip(sizes, window, strides, dilations, strict=True)
    ):
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


def _padding(
    node: OnnxNode, border: list[list[int]], sizes: Sequence[int], window: Sequence[int]
) -> str:
    """What TensorFlow calls a border: VALID, SAME, or "" where it has no name."""
    if not any(map(any, border)):
        return "VALID"
    return "SAME" if border == _border(node, sizes, window, "SAME_UPPER") else ""


def _biased(node: OnnxNode, held: tf.Tensor, bias: np.ndarray | None) -> tf.Tensor:
    """With a bias, one for each channel, if there is one."""
    return held if bias is None else held + node.keep(bias.reshape(1, 1, 1, -1))


@also_of_sequences
def conv(node: OnnxNode, inputs: Inputs) -> Value:
    """Conv, with groups, strides, dilations and any border."""
    x = picture(inputs)
    weights = given(inputs, 1, "weights")
    bias = constant(inputs, 2, "a bias")
    groups = node.get("group", 1)
    channels = x.shape[1]
    outputs, depth = weights.shape[:2]
    if weights.ndim != 4 or groups < 1 or depth * groups != channels or outputs % groups:
        raise CannotReadError(
            f"has weights {list(weights.shape)} in {groups} groups for {channels} channels"
        )
    window = weights.shape[2:]
    strides = _pair(node, "strides")
    dilations = _pair(node, "dilations")
    border = _border(node, x.shape[2:], window)
    padding = _padding(node, border, x.shape[2:], window) or [[0, 0], *border, [0, 0]]
    steps = [1, 1]
    if max(strides) > 1 and max(dilations) > 1:  # TensorFlow has one of both only
        steps, strides, padding = strides, steps, [[0, 0], *border, [0, 0]]
    if depth == 1 < groups and dilations == [1, 1] and strides[0] == strides[1]:
        kernel = weights.reshape(groups, outputs // groups, *window).transpose(2, 3, 0, 1)
        held = tf.nn.depthwise_conv2d(x.held, node.keep(kernel), [1, *strides, 1], padding)
    else:
        kernel = weights.transpose(2, 3, 1, 0)
        held = tf.nn.conv2d(x.held, node.keep(kernel), strides, padding, dilations=dilations)
    held = _biased(node, held, bias)
    return x.holding(held if steps == [1, 1] else held[:, :: steps[0], :: steps[1]])


@also_of_sequences
def conv_transpose(node: OnnxNode, inputs: Inputs) -> Value:
    """ConvTranspose; groups and dilations become zeros among its weights."""
    x = picture(inputs)
    weights = given(inputs, 1, "weights")
    bias = constant(inputs, 2, "a bias")
    groups = node.get("group", 1)
    (outputs, *window) = weights.shape[1:]
    strides = _pair(node, "strides")
    dilations = _pair(node, "dilations")
    if weights.ndim != 4 or groups < 1 or weights.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise CannotReadError(
            f"has weights {list(weights.shape)} in {groups} groups for {x.shape[1]} channels"
        )
    spans = [(size - 1) * by + 1 for size, by in zip(window, dilations, strict=True)]
    kernel = np.zeros((x.shape[1], groups, outputs, *spans), np.float32)
    for n, part in enumerate(np.split(weights, groups)):
        own = slice(n * len(part), (n + 1) * len(part))
        kernel[own, n, :, :: dilations[0], :: dilations[1]] = part
    kernel = kernel.reshape(x.shape[1], groups * outputs, *spans).transpose(2, 3, 1, 0)
    more = _pair(node, "output_padding", 0)
    wanted = node.get("output_shape", None)
    mode = node.get("auto_pad", "NOTSET")
    border = _pads(node)
    whole = [
        (size - 1) * stride + span
        for size, stride, span in zip(x.shape[2:], strides, spans, strict=True)
    ]
    if wanted is None and mode.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(x.shape[2:], strides, strict=True)]
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
    ends = [size - cut[1] for size, cut in zip(held.shape[1:3], border, strict=True)]
    held = held[:, border[0][0] : ends[0], border[1][0] : ends[1]]
    return x.holding(_biased(node, held, bias))


def _pool(node: OnnxNode, inputs: Inputs) -> tuple[Tensor, list[int], list[list[int]], str]:
    """What a pool reads, its window and border, and what TensorFlow calls the border."""
    x = picture(inputs)
    window = _pair(node, "kernel_shape")
    if _pair(node, "dilations") != [1, 1] or node.outputs > 1:
        raise CannotReadError("is a pool with dilations or indices")
    border = _border(node, x.shape[2:], window)
    return x, window, border, _padding(node, border, x.shape[2:], window)


@also_of_sequences
def max_pool(node: OnnxNode, inputs: Inputs) -> Value:
    """The largest entry of each window."""
    x, window, border, padding = _pool(node, inputs)
    held = x.held
    if not padding:  # with zeros behind a ReLU, as Keras's networks have them
        lowest = 0.0 if held.op.type in ("Relu", "Relu6") else LOWEST
        held = tf.pad(held, [[0, 0], *border, [0, 0]], constant_values=lowest)
    strides = _pair(node, "strides")
    return x.holding(tf.nn.max_pool2d(held, window, strides, padding or "VALID"))


@also_of_sequences
def average_pool(node: OnnxNode, inputs: Inputs) -> Value:
    """The mean of each window; the border counts if `count_include_pad` says so."""
    x, window, border, padding = _pool(node, inputs)
    counted = _pads(node)
    strides = _pair(node, "strides")
    if not node.get("count_include_pad", 0):
        if padding:
            return x.holding(tf.nn.avg_pool2d(x.held, window, strides, padding))
        counted = [[0, 0], [0, 0]]
    held = tf.nn.avg_pool2d(tf.pad(x.held, [[0, 0], *border, [0, 0]]), window, strides, "VALID")
    if counted == border:
        return x.holding(held)
    inside = np.pad(np.ones(x.shape[2:], np.float32), counted, constant_values=1)
    rest = [[a[0] - b[0], a[1] - b[1]] for a, b in zip(border, counted, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(inside, rest), window)
    shares = windows[:: strides[0], :: strides[1]].mean((2, 3), dtype=np.float32)
    return x.holding(held * node.keep((1 / shares)[None, :, :, None]))
