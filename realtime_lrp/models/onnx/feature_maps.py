"""The rows of ONNX's operations on feature maps: convolutions, pools, resizing."""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor
from realtime_lrp.models.onnx.rows import Inputs, Node, Row, Value, constant, given, tensor

LOWEST = -3.0e38
"""The border of a max pool: no entry is lower."""


def picture(inputs: Inputs) -> Tensor:
    """A feature map [1, C, H, W], held as [B, H, W, C]."""
    x = tensor(inputs)
    if len(x.axes) != 4 or x.shape[0] != 1:
        raise CannotReadError(f"reads a tensor {list(x.shape)}. Expected feature maps [1, C, H, W]")
    return x.held_as(2, 3, 1)


def _pair(node: Node, name: str) -> list[int]:
    """An attribute with one number for rows and one for columns, 1 unless given."""
    found = [int(one) for one in node.get(name, [1, 1])]
    if len(found) != 2 or min(found) < 1:
        raise CannotReadError(f"has {name} {found}. Expected two numbers of at least 1")
    return found


def _pads(node: Node) -> list[list[int]]:
    """The border before and after rows and columns that the attribute `pads` says."""
    pads = [int(one) for one in node.get("pads", [0] * 4)]
    if len(pads) != 4 or min(pads) < 0:
        raise CannotReadError(f"has pads {pads}. Expected four numbers of at least 0")
    return [pads[::2], pads[1::2]]


def _border(node: Node, sizes: Sequence[int], window: Sequence[int]) -> list[list[int]]:
    """What is added before and after rows and columns."""
    mode, border = node.get("auto_pad", "NOTSET"), _pads(node)
    strides, dilations = _pair(node, "strides"), _pair(node, "dilations")
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
    node: Node, border: list[list[int]], sizes: Sequence[int], window: Sequence[int]
) -> str:
    """What TensorFlow calls a border: VALID, SAME, or "" where it has no name."""
    if not any(map(any, border)):
        return "VALID"
    strides, dilations = _pair(node, "strides"), _pair(node, "dilations")
    for ends, size, one, stride, by in zip(border, sizes, window, strides, dilations, strict=True):
        whole = max((math.ceil(size / stride) - 1) * stride + (one - 1) * by + 1 - size, 0)
        if ends != [whole // 2, whole - whole // 2]:
            return ""
    return "SAME"


def biased(node: Node, held: tf.Tensor, bias: np.ndarray | None) -> tf.Tensor:
    """With a bias, one for each channel, if there is one."""
    return held if bias is None else tf.nn.bias_add(held, node.keep(bias.reshape(-1)))


def convolution(node: Node, inputs: Inputs) -> Value:
    """Conv, with groups, strides, dilations and any border."""
    x, weights, bias = picture(inputs), given(inputs, 1, "weights"), constant(inputs, 2, "a bias")
    groups, channels = node.get("group", 1), x.shape[1]
    outputs, depth = weights.shape[:2]
    if weights.ndim != 4 or groups < 1 or depth * groups != channels or outputs % groups:
        raise CannotReadError(
            f"has weights {list(weights.shape)} in {groups} groups for {channels} channels"
        )
    window = weights.shape[2:]
    strides, dilations = _pair(node, "strides"), _pair(node, "dilations")
    border = _border(node, x.shape[2:], window)
    padding = _padding(node, border, x.shape[2:], window) or [[0, 0], *border, [0, 0]]
    if depth == 1 < groups and dilations == [1, 1] and strides[0] == strides[1]:
        kernel = weights.reshape(groups, outputs // groups, *window).transpose(2, 3, 0, 1)
        held = tf.nn.depthwise_conv2d(x.held, node.keep(kernel), [1, *strides, 1], padding)
    else:
        kernel = weights.transpose(2, 3, 1, 0)
        held = tf.nn.conv2d(x.held, node.keep(kernel), strides, padding, dilations=dilations)
        if bias is not None and groups > 1:
            # TensorFlow would join a BiasAdd with it and a ReLU, which it cannot do in groups.
            return x.holding(held + node.keep(bias.reshape(1, 1, 1, -1)))
    return x.holding(biased(node, held, bias))


def transposed_convolution(node: Node, inputs: Inputs) -> Value:
    """ConvTranspose, without groups and dilations."""
    x, weights, bias = picture(inputs), given(inputs, 1, "weights"), constant(inputs, 2, "a bias")
    strides, (rows, columns) = _pair(node, "strides"), _pads(node)
    others = {"auto_pad": "NOTSET", "dilations": [1, 1], "group": 1, "output_shape": None}
    if weights.ndim != 4 or any(node.get(name, one) != one for name, one in others.items()):
        raise CannotReadError("is transposed, with groups, dilations or a shape for its output")
    whole = [
        (size - 1) * stride + one
        for size, stride, one in zip(x.shape[2:], strides, weights.shape[2:], strict=True)
    ]
    kernel, shape = weights.transpose(2, 3, 1, 0), [tf.shape(x.held)[0], *whole, weights.shape[1]]
    held = tf.nn.conv2d_transpose(x.held, node.keep(kernel), shape, strides, "VALID")
    if any(more := node.get("output_padding", [0, 0])):
        held = tf.pad(held, [[0, 0], [0, more[0]], [0, more[1]], [0, 0]])
    ends = [size - cut[1] for size, cut in zip(held.shape[1:3], (rows, columns), strict=True)]
    return x.holding(biased(node, held[:, rows[0] : ends[0], columns[0] : ends[1]], bias))


def _pool(node: Node, inputs: Inputs) -> tuple[Tensor, list[int], list[list[int]], str]:
    """What a pool reads, its window and border, and what TensorFlow calls the border."""
    x, window = picture(inputs), _pair(node, "kernel_shape")
    if _pair(node, "dilations") != [1, 1] or node.outputs > 1:
        raise CannotReadError("is a pool with dilations or indices")
    border = _border(node, x.shape[2:], window)
    return x, window, border, _padding(node, border, x.shape[2:], window)


def max_pool(node: Node, inputs: Inputs) -> Value:
    """The largest entry of each window."""
    x, window, border, padding = _pool(node, inputs)
    held = x.held
    if not padding:  # with zeros behind a ReLU, as Keras's networks have them
        lowest = 0.0 if held.op.type in ("Relu", "Relu6") else LOWEST
        held = tf.pad(held, [[0, 0], *border, [0, 0]], constant_values=lowest)
    strides = _pair(node, "strides")
    return x.holding(tf.nn.max_pool2d(held, window, strides, padding or "VALID"))


def average_pool(node: Node, inputs: Inputs) -> Value:
    """The mean of each window; the border counts if `count_include_pad` says so."""
    x, window, border, padding = _pool(node, inputs)
    counted, strides = _pads(node), _pair(node, "strides")
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


RESIZES: dict[tuple[str, str], Callable[..., tf.Tensor]] = {
    ("linear", "align_corners"): functools.partial(tf.raw_ops.ResizeBilinear, align_corners=True),
    ("linear", "asymmetric"): tf.raw_ops.ResizeBilinear,
    ("linear", "half_pixel"): functools.partial(tf.raw_ops.ResizeBilinear, half_pixel_centers=True),
    ("nearest", "asymmetric"): tf.raw_ops.ResizeNearestNeighbor,
}


def resize(node: Node, inputs: Inputs) -> Value:
    """Other numbers of rows and columns, by the nearest entry or between four."""
    x = picture(inputs)
    scales, sizes = constant(inputs, 2, "scales"), constant(inputs, 3, "sizes")
    if sizes is None or not sizes.size:
        scales = np.ones(4) if scales is None else scales
        sizes = np.floor(np.array(x.shape) * scales)
    mode = node.get("mode", "nearest")
    where = node.get("coordinate_transformation_mode", "half_pixel").removeprefix("pytorch_")
    rounds = node.get("nearest_mode", "floor") if mode == "nearest" else "floor"
    if (mode, where) not in RESIZES or rounds != "floor" or tuple(sizes[:2]) != x.shape[:2]:
        raise CannotReadError(f"resizes by {mode!r}, {where!r}, {rounds!r} to {sizes.tolist()}")
    size = tf.constant(sizes[2:].astype(np.int32))
    return x.holding(RESIZES[mode, where](images=x.held, size=size))


FEATURE_MAPS: dict[str, Row] = {
    "AveragePool": average_pool, "Conv": convolution, "ConvTranspose": transposed_convolution,
    "MaxPool": max_pool, "Resize": resize,
}  # fmt: skip
