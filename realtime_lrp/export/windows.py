"""Rows of what moves a window over a picture: convolutions, pools, and their way back."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.export.writer import Writer

BACKWARDS = np.iinfo(np.int64).min  # where a slice in the other direction ends


class Moves(NamedTuple):
    """How a window moves over rows and columns."""

    window: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]  # above, left, below, right

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes as ONNX spells them."""
        dilated = {"dilations": self.dilations} if max(self.dilations) > 1 else {}
        return {"kernel_shape": self.window, "strides": self.strides, "pads": self.pads, **dilated}

    def back(self, size: Sequence[int], count: Sequence[int]) -> dict[str, Any]:
        """Attributes of a transposed convolution from `count` windows to a picture of `size`."""
        extra = [
            size[n]
            - (count[n] - 1) * self.strides[n]
            - (self.window[n] - 1) * self.dilations[n]
            - 1
            + self.pads[n]
            + self.pads[n + 2]
            for n in (0, 1)
        ]
        return {**self.attributes, "output_padding": [max(0, one) for one in extra]}


def _moves(op: tf.Operation, picture: tf.Tensor, window: Sequence[int]) -> Moves:
    """How an operation's window moves over a picture."""
    strides = list(op.get_attr("strides"))[1:3]
    dilations = [1, 1] if "Pool" in op.type else list(op.get_attr("dilations"))[1:3]
    padding = op.get_attr("padding").decode()
    if padding == "EXPLICIT":
        above, below, left, right = op.get_attr("explicit_paddings")[2:6]
        return Moves(list(window), strides, dilations, [above, left, below, right])
    whole = [0, 0]
    if padding == "SAME":
        for n, size in enumerate(picture.shape[1:3]):
            start = (math.ceil(size / strides[n]) - 1) * strides[n]
            whole[n] = max(0, start + (window[n] - 1) * dilations[n] + 1 - size)
    before = [one // 2 for one in whole]
    return Moves(
        list(window), strides, dilations, [*before, whole[0] - before[0], whole[1] - before[1]]
    )


def _kernel(w: Writer, op: tf.Operation, kernel: str) -> str:
    """A kernel as ONNX has it, [outputs, inputs, rows, columns]."""
    values = w.values(kernel)
    if not op.type.startswith("Depthwise"):
        return w.weight(values.transpose(3, 2, 0, 1))
    rows, columns, channels, times = values.shape
    values = values.transpose(2, 3, 0, 1).reshape(channels * times, 1, rows, columns)
    return w.weight(values)


def convolution(w: Writer, op: tf.Operation, a: str, kernel: str) -> str:
    """A convolution, or one of each channel."""
    picture = op.inputs[0]
    shape = op.inputs[1].shape.as_list()
    moves = _moves(op, picture, shape[:2])
    group = int(picture.shape[3]) // (1 if op.type.startswith("Depthwise") else shape[2])
    made = w.op("Conv", w.first(a), _kernel(w, op, kernel), **moves.attributes, group=group)
    return w.last(made)


def convolution_back(w: Writer, op: tf.Operation, sizes: str, kernel: str, r: str) -> str:
    """Back through a convolution; at a stride of 1 by the turned kernel, which is quicker."""
    picture = op.outputs[0]
    shape = op.inputs[1].shape.as_list()
    depthwise = op.type.startswith("Depthwise")
    moves = _moves(op, picture, shape[:2])
    group = int(picture.shape[3]) // (1 if depthwise else shape[2])
    name = _kernel(w, op, kernel)
    r = w.first(r)
    if moves.strides != [1, 1] or (shape[3] > 1 if depthwise else group > 1):
        back = moves.back(picture.shape[1:3], op.inputs[2].shape[1:3])
        return w.last(w.op("ConvTranspose", r, name, **back, group=group))
    if not depthwise:
        name = w.op("Transpose", name, perm=[1, 0, 2, 3])
    if max(shape[:2]) > 1:
        name = w.op("Slice", name, [-1, -1], [BACKWARDS] * 2, [2, 3], [-1, -1])
    reach = [(n - 1) * step for n, step in zip(moves.window, moves.dilations, strict=True)]
    pads = [reach[axis % 2] - edge for axis, edge in enumerate(moves.pads)]
    return w.last(w.op("Conv", r, name, **moves._replace(pads=pads).attributes, group=group))


def _pool(op: tf.Operation, picture: tf.Tensor) -> Moves:
    return _moves(op, picture, list(op.get_attr("ksize"))[1:3])


def pool(kind: str) -> Callable[..., str]:
    """A row of the means, without edges, or largest entries of windows."""
    return lambda w, op, a: w.last(w.op(kind, w.first(a), **_pool(op, op.inputs[0]).attributes))


def average_pool_back(w: Writer, op: tf.Operation, sizes: str, r: str) -> str:
    """Shares what arrives at each window equally among the pixels in it."""
    picture = op.outputs[0].shape.as_list()
    windows = op.inputs[1].shape.as_list()
    moves = _pool(op, op.outputs[0])
    counts = []  # pixels in each window, along rows and columns
    for n in (0, 1):
        begin = np.arange(windows[n + 1]) * moves.strides[n] - moves.pads[n]
        end = np.minimum(begin + moves.window[n], picture[n + 1])
        counts.append(end - np.maximum(begin, 0))
    share = (1 / np.outer(*counts)[None, :, :, None]).astype(np.float32)
    ones = w.constant(np.ones([picture[3], 1, *moves.window], np.float32))
    r = w.first(w.op("Mul", r, w.constant(share)))
    back = moves.back(picture[1:3], windows[1:3])
    return w.last(w.op("ConvTranspose", r, ones, **back, group=picture[3]))


def max_pool_back(w: Writer, op: tf.Operation, a: str, pooled: str, r: str) -> str:
    """Hands all that arrives at a window to the first of its largest entries.

    Rows and columns one after the other: first to the first row that has the largest entry, then to
    the first column of it.
    """
    moves = _pool(op, op.inputs[0])
    count = op.inputs[1].shape.as_list()[1:3]
    size = op.inputs[0].shape.as_list()[1:3]
    before = moves.pads[:2]
    after = [
        max(0, (count[n] - 1) * moves.strides[n] + moves.window[n] - size[n] - before[n])
        for n in (0, 1)
    ]
    if any((*before, *after)):
        low = float(np.finfo(np.float32).min)
        a = w.op("Pad", a, [0, *before, 0, 0, *after, 0], low)
    grown = [size[n] + before[n] + after[n] for n in (0, 1)]
    by_row = w.op("Max", *_entries(w, a, 2, moves, count[1]))
    made = _handed_down(w, by_row, pooled, r, 1, moves, [count[0], count[1]], grown[0])
    made = _handed_down(w, a, by_row, made, 2, moves, [grown[0], count[1]], grown[1])
    if grown != size:
        ends = [start + length for start, length in zip(before, size, strict=True)]
        made = w.op("Slice", made, before, ends, [1, 2])
    return made


def _entries(w: Writer, values: str, axis: int, moves: Moves, count: int) -> list[str]:
    """The first entries of all windows along an axis, the second ones, and so on."""
    window = moves.window[axis - 1]
    stride = moves.strides[axis - 1]
    ends = [at + (count - 1) * stride + 1 for at in range(window)]
    return [w.op("Slice", values, [at], [end], [axis], [stride]) for at, end in enumerate(ends)]


def _handed_down(
    w: Writer, values: str, largest: str, r: str, axis: int, moves: Moves,
    shape: Sequence[int], size: int,
) -> str:  # fmt: skip
    """Hands what arrives at windows along an axis to the first of their largest entries.

    `shape` is the number of rows and columns that r has; `size` the length of the values' axis.
    """
    window = moves.window[axis - 1]
    stride = moves.strides[axis - 1]
    count = shape[axis - 1]
    left = r
    got = []
    for entry in _entries(w, values, axis, moves, count)[:-1]:
        hit = w.op("Cast", w.op("Equal", entry, largest), to=1)  # a product is quicker than a Where
        got.append(w.op("Mul", left, hit))
        left = w.op("Sub", left, got[-1])
    got.append(left)
    blocks = math.ceil(window / stride)
    length = count + blocks - 1
    phases = [
        [_shifted(w, got[at], axis, block, blocks - 1 - block)
         for block, at in enumerate(range(phase, window, stride))]
        for phase in range(stride)
    ]  # fmt: skip
    sums = [w.op("Sum", *terms) for terms in phases if terms]
    sums += [w.op("Mul", sums[0], 0.0)] * (stride - len(sums))  # between windows
    joined = w.op("Concat", *(w.op("Unsqueeze", one, [axis + 1]) for one in sums), axis=axis + 1)
    whole = [*shape]
    whole[axis - 1] = length * stride
    joined = w.op("Reshape", joined, [1, *whole, -1])
    if length * stride > size:
        return w.op("Slice", joined, [0], [size], [axis])
    return _shifted(w, joined, axis, 0, size - length * stride)


def _shifted(w: Writer, name: str, axis: int, before: int, after: int) -> str:
    """A tensor with zeros before and after it along an axis."""
    if not before and not after:
        return name
    pads = [0] * 8
    pads[axis] = before
    pads[axis + 4] = after
    return w.op("Pad", name, pads)


WINDOWS: dict[str, Callable[..., str]] = {
    "AvgPool": pool("AveragePool"),
    "AvgPoolGrad": average_pool_back,
    "Conv2D": convolution,
    "Conv2DBackpropInput": convolution_back,
    "DepthwiseConv2dNative": convolution,
    "DepthwiseConv2dNativeBackpropInput": convolution_back,
    "MaxPool": pool("MaxPool"),
    "MaxPoolGrad": max_pool_back,
}
