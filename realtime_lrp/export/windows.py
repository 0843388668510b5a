"""Rows of what moves a window over a picture: convolutions, pools, and their way back."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.export.writer import Writer

BACKWARDS = np.iinfo(np.int64).min  # where a slice in the other direction ends


class Moves(NamedTuple):
    """How a window moves over rows and columns, each int [2]."""

    window: np.ndarray
    strides: np.ndarray
    dilations: np.ndarray
    before: np.ndarray  # edges above and left
    after: np.ndarray

    @classmethod
    def of(cls, op: tf.Operation, picture: tf.Tensor, window: Sequence[int] = ()) -> "Moves":
        """How an operation's window, of a pool where none is given, moves over a picture."""
        size = np.array(picture.shape[1:3])
        strides = np.array(op.get_attr("strides")[1:3])
        dilations = np.array(op.get_attr("dilations")[1:3] if window else [1, 1])
        lengths = np.array(window or op.get_attr("ksize")[1:3])
        padding = op.get_attr("padding")
        if padding == b"EXPLICIT":
            edges = np.array(op.get_attr("explicit_paddings")[2:6])
            return cls(lengths, strides, dilations, edges[::2], edges[1::2])
        edges = np.zeros(2, int)
        if padding == b"SAME":
            last = (-(-size // strides) - 1) * strides + (lengths - 1) * dilations + 1
            edges = np.maximum(0, last - size)
        return cls(lengths, strides, dilations, edges // 2, edges - edges // 2)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes as ONNX spells them."""
        pads = np.concatenate([self.before, self.after])
        made = {"kernel_shape": self.window, "strides": self.strides, "pads": pads}
        if self.dilations.max() > 1:
            made["dilations"] = self.dilations
        return {name: values.tolist() for name, values in made.items()}

    def back(self, size: Sequence[int], count: Sequence[int]) -> dict[str, Any]:
        """Attributes of a transposed convolution from `count` windows to a picture of `size`."""
        reach = (np.array(count) - 1) * self.strides + (self.window - 1) * self.dilations + 1
        extra = np.maximum(0, size - reach + self.before + self.after)
        return {**self.attributes, "output_padding": extra.tolist()}


def _kernel(w: Writer, op: tf.Operation, kernel: str) -> str:
    """A kernel as ONNX has it, [outputs, inputs, rows, columns]."""
    values = w.values(kernel)
    if not op.type.startswith("Depthwise"):
        return w.weight(values.transpose(3, 2, 0, 1))
    rows, columns, channels, times = values.shape
    return w.weight(values.transpose(2, 3, 0, 1).reshape(channels * times, 1, rows, columns))


def _groups(op: tf.Operation, picture: tf.Tensor) -> int:
    return int(picture.shape[3]) // (
        1 if op.type.startswith("Depthwise") else op.inputs[1].shape[2]
    )


def convolution(w: Writer, op: tf.Operation, a: str, kernel: str) -> str:
    """A convolution, or one of each channel."""
    picture = op.inputs[0]
    moves = Moves.of(op, picture, op.inputs[1].shape.as_list()[:2])
    a = w.first(a)
    name = _kernel(w, op, kernel)
    return w.last(w.op("Conv", a, name, **moves.attributes, group=_groups(op, picture)))


def convolution_back(w: Writer, op: tf.Operation, sizes: str, kernel: str, r: str) -> str:
    """Back through a convolution; at a stride of 1 by the turned kernel, which is quicker."""
    picture = op.outputs[0]
    shape = op.inputs[1].shape.as_list()
    depthwise = op.type.startswith("Depthwise")
    moves = Moves.of(op, picture, shape[:2])
    group = _groups(op, picture)
    name = _kernel(w, op, kernel)
    r = w.first(r)
    if moves.strides.max() > 1 or (shape[3] > 1 if depthwise else group > 1):
        back = moves.back(picture.shape[1:3], op.inputs[2].shape[1:3])
        return w.last(w.op("ConvTranspose", r, name, **back, group=group))
    if not depthwise:
        name = w.op("Transpose", name, perm=[1, 0, 2, 3])
    if max(shape[:2]) > 1:
        name = w.op("Slice", name, [-1, -1], [BACKWARDS] * 2, [2, 3], [-1, -1])
    reach = (moves.window - 1) * moves.dilations
    turned = moves._replace(before=reach - moves.before, after=reach - moves.after)
    return w.last(w.op("Conv", r, name, **turned.attributes, group=group))


def pool(kind: str) -> Callable[..., str]:
    """A row of the means, without edges, or largest entries of windows."""
    return lambda w, op, a: w.last(w.op(kind, w.first(a), **Moves.of(op, op.inputs[0]).attributes))


def average_pool_back(w: Writer, op: tf.Operation, sizes: str, r: str) -> str:
    """Shares what arrives at each window equally among the pixels in it."""
    picture = op.outputs[0].shape.as_list()
    windows = op.inputs[1].shape.as_list()
    moves = Moves.of(op, op.outputs[0])
    inside = np.ones([1, *picture[1:3], 1], np.float32)
    counts = tf.nn.conv2d(
        inside,
        np.ones([*moves.window, 1, 1], np.float32),
        op.get_attr("strides"),
        op.get_attr("padding").decode(),
    )
    share = 1 / counts.numpy()  # each pixel's in its window
    ones = w.constant(np.ones([picture[3], 1, *moves.window], np.float32))
    r = w.first(w.op("Mul", r, w.constant(share)))
    back = moves.back(picture[1:3], windows[1:3])
    return w.last(w.op("ConvTranspose", r, ones, **back, group=picture[3]))


def max_pool_back(w: Writer, op: tf.Operation, a: str, pooled: str, r: str) -> str:
    """Hands all that arrives at a window to the first of its largest entries.

    Rows and columns one after the other: first to the first row that has the largest entry, then to
    the first column of it.
    """
    moves = Moves.of(op, op.inputs[0])
    rows, columns = op.inputs[1].shape.as_list()[1:3]
    size = np.array(op.inputs[0].shape[1:3])
    last = (np.array([rows, columns]) - 1) * moves.strides + moves.window
    after = np.maximum(0, last - size - moves.before)
    grown = size + moves.before + after
    if (grown > size).any():
        low = float(np.finfo(np.float32).min)
        a = w.op("Pad", a, [0, *moves.before, 0, 0, *after, 0], low)
    by_row = w.op("Max", *_entries(w, a, 2, moves, columns))
    made = _handed_down(w, by_row, pooled, r, 1, moves, [rows, columns], grown[0])
    made = _handed_down(w, a, by_row, made, 2, moves, [grown[0], columns], grown[1])
    if (grown > size).any():
        made = w.op("Slice", made, moves.before, moves.before + size, [1, 2])
    return made


def _entries(w: Writer, values: str, axis: int, moves: Moves, count: int) -> list[str]:
    """The first entries of all windows along an axis, the second ones, and so on."""
    stride = moves.strides[axis - 1]
    starts = range(moves.window[axis - 1])
    reach = (count - 1) * stride + 1
    return [w.op("Slice", values, [at], [at + reach], [axis], [stride]) for at in starts]


def _handed_down(
    w: Writer, values: str, largest: str, r: str, axis: int, moves: Moves,
    shape: Sequence[int], size: int,
) -> str:  # fmt: skip
    """Hands what arrives at windows along an axis to the first of their largest entries.

    `shape` is the number of rows and columns that r has; `size` the length of the values' axis.
    """
    window = int(moves.window[axis - 1])
    stride = int(moves.strides[axis - 1])
    count = shape[axis - 1]
    got = []
    for entry in _entries(w, values, axis, moves, count)[:-1]:
        hit = w.op("Cast", w.op("Equal", entry, largest), to=1)  # a product is quicker than a Where
        got.append(w.op("Mul", r, hit))
        r = w.op("Sub", r, got[-1])
    got.append(r)
    blocks = -(-window // stride)
    phases = [
        [_shifted(w, got[at], axis, block, blocks - 1 - block)
         for block, at in enumerate(range(phase, window, stride))]
        for phase in range(stride)
    ]  # fmt: skip
    sums = [w.op("Sum", *terms) for terms in phases if terms]
    sums += [w.op("Mul", sums[0], 0.0)] * (stride - len(sums))  # between windows
    joined = w.op("Concat", *(w.op("Unsqueeze", sum_, [axis + 1]) for sum_ in sums), axis=axis + 1)
    whole = [*shape]
    whole[axis - 1] = length = (count + blocks - 1) * stride
    joined = w.op("Reshape", joined, [1, *whole, -1])
    if length > size:
        return w.op("Slice", joined, [0], [size], [axis])
    return _shifted(w, joined, axis, 0, size - length)


def _shifted(w: Writer, name: str, axis: int, before: int, after: int) -> str:
    """A tensor with zeros before and after it along an axis."""
    pads = np.zeros([2, 4], int)
    pads[:, axis] = before, after
    return w.op("Pad", name, pads.ravel()) if pads.any() else name


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
