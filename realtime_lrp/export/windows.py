"""Rows of what moves a window over a picture: convolutions, pools, and their way back.

All of them are computed with the channels first.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.export.writer import Tensors, Writer


class Moves(NamedTuple):
    """How a window moves over rows and columns."""

    window: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]  # above, left, below, right

    @property
    def attributes(self) -> dict[str, list[int]]:
        """As ONNX spells it, without dilations."""
        return {"kernel_shape": self.window, "strides": self.strides, "pads": self.pads}


def _moves(op: tf.Operation, size: Sequence[int], window: Sequence[int]) -> Moves:
    """How an operation's window moves over a picture of (rows, columns)."""
    strides = list(op.get_attr("strides"))[1:3]
    pooled = "Pool" in op.type
    dilations = [1, 1] if pooled else list(op.get_attr("dilations"))[1:3]
    padding = op.get_attr("padding").decode()
    if padding == "EXPLICIT":
        above, below, left, right = op.get_attr("explicit_paddings")[2:6]
        return Moves(list(window), strides, dilations, [above, left, below, right])
    edges = [_edges(*one, padding) for one in zip(size, window, strides, dilations, strict=True)]
    pads = [edges[0][0], edges[1][0], edges[0][1], edges[1][1]]
    return Moves(list(window), strides, dilations, pads)


def _edges(size: int, window: int, stride: int, dilation: int, padding: str) -> tuple[int, int]:
    """TensorFlow's padding along an axis, before and after."""
    if padding == "VALID":
        return 0, 0
    reach = (math.ceil(size / stride) - 1) * stride + (window - 1) * dilation + 1
    whole = max(0, reach - size)
    return whole // 2, whole - whole // 2


def _kernel(here: Tensors, tensor: tf.Tensor, depthwise: bool, back: bool = False) -> str:
    """A kernel as ONNX has it, [outputs, inputs, rows, columns].

    `back`: turned round, with inputs and outputs exchanged, for the way back; it is computed when
    the file is loaded.
    """
    values, w = here.known(tensor), here.writer
    if depthwise:
        rows, columns, *channels = values.shape
        values = values.transpose(2, 3, 0, 1).reshape(math.prod(channels), 1, rows, columns)
    else:
        values = values.transpose(3, 2, 0, 1)
    name = w.constant(values)
    if not back:
        return name
    key = name, depthwise
    if key not in here.turned:
        made = name if depthwise else w.op("Transpose", name, perm=[1, 0, 2, 3])
        if max(values.shape[2:]) > 1:
            ends = np.iinfo(np.int32).min
            made = w.op(
                "Slice", made, w.whole(-1, -1), w.whole(ends, ends), w.whole(2, 3), w.whole(-1, -1)
            )
        here.turned[key] = made
    return here.turned[key]


def convolution(here: Tensors, op: tf.Operation, a: tf.Tensor, kernel: tf.Tensor) -> None:
    """A convolution, or one of each channel."""
    depthwise = op.type == "DepthwiseConv2dNative"
    moves = _moves(op, a.shape.as_list()[1:3], kernel.shape.as_list()[:2])
    group = a.shape[3] if depthwise else a.shape[3] // kernel.shape[2]
    made = here.writer.op(
        "Conv", here.get(a, True), _kernel(here, kernel, depthwise), **moves.attributes,
        dilations=moves.dilations, group=int(group),
    )  # fmt: skip
    here.put(op.outputs[0], made, True)


def convolution_back(
    here: Tensors, op: tf.Operation, sizes: tf.Tensor, kernel: tf.Tensor, r: tf.Tensor
) -> None:
    """The way back through a convolution, to its input."""
    depthwise = op.type == "DepthwiseConv2dNativeBackpropInput"
    size, window = op.outputs[0].shape.as_list()[1:3], kernel.shape.as_list()[:2]
    moves = _moves(op, size, window)
    out, channels = r.shape.as_list()[1:3], int(op.outputs[0].shape[3])
    group = channels if depthwise else channels // int(kernel.shape[2])
    reach = [(n - 1) * step for n, step in zip(window, moves.dilations, strict=True)]
    name, w = here.get(r, True), here.writer
    plain = kernel.shape[3] == 1 if depthwise else group == 1
    if moves.strides == [1, 1] and plain:
        made = w.op(
            "Conv", name, _kernel(here, kernel, depthwise, back=True), kernel_shape=window,
            dilations=moves.dilations, group=group,
            pads=[reach[axis % 2] - edge for axis, edge in enumerate(moves.pads)],
        )  # fmt: skip
    else:
        seen = [(out[n] - 1) * moves.strides[n] + reach[n] + 1 for n in (0, 1)]
        extra = [size[n] - seen[n] + moves.pads[n] + moves.pads[n + 2] for n in (0, 1)]
        made = w.op(
            "ConvTranspose", name, _kernel(here, kernel, depthwise), **moves.attributes,
            dilations=moves.dilations, group=group, output_padding=[max(0, one) for one in extra],
        )  # fmt: skip
    here.put(op.outputs[0], made, True)


def _pool_moves(op: tf.Operation, a: tf.Tensor) -> Moves:
    return _moves(op, a.shape.as_list()[1:3], list(op.get_attr("ksize"))[1:3])


def average_pool(here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
    """Averages over windows; edges do not count."""
    made = here.writer.op("AveragePool", here.get(a, True), **_pool_moves(op, a).attributes)
    here.put(op.outputs[0], made, True)


def average_pool_back(here: Tensors, op: tf.Operation, sizes: tf.Tensor, r: tf.Tensor) -> None:
    """Shares what arrives at each window equally among the pixels in it."""
    w, result = here.writer, op.outputs[0]
    moves = _pool_moves(op, result)
    rows, columns = result.shape.as_list()[1:3]
    channels = int(result.shape[3])
    counts = [
        [  # pixels in each window along an axis
            min(at * stride - before + window, size) - max(0, at * stride - before)
            for at in range(count)
        ]
        for size, window, stride, before, count in zip(
            (rows, columns), moves.window, moves.strides, moves.pads[:2],
            r.shape.as_list()[1:3], strict=True,
        )
    ]  # fmt: skip
    share = w.constant(
        np.float32(1) / np.outer(counts[0], counts[1]).astype(np.float32)[None, None]
    )
    out = r.shape.as_list()[1:3]
    seen = [(out[n] - 1) * moves.strides[n] + moves.window[n] for n in (0, 1)]
    extra = [(rows, columns)[n] - seen[n] + moves.pads[n] + moves.pads[n + 2] for n in (0, 1)]
    ones = w.constant(np.ones([channels, 1, *moves.window], np.float32))
    made = w.op(
        "ConvTranspose", w.op("Mul", here.get(r, True), share), ones, **moves.attributes,
        group=channels, output_padding=[max(0, one) for one in extra],
    )  # fmt: skip
    here.put(result, made, True)


def max_pool(here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
    """The largest entry of each window."""
    moves = _pool_moves(op, a)
    made = here.writer.op("MaxPool", here.get(a, True), **moves.attributes)
    here.put(op.outputs[0], made, True)


def max_pool_back(
    here: Tensors, op: tf.Operation, a: tf.Tensor, pooled: tf.Tensor, r: tf.Tensor
) -> None:
    """Hands all that arrives at a window to the first of its largest entries.

    Rows and columns one after the other: first to the first row that has the largest entry, then to
    the first column of it.
    """
    w, moves = here.writer, _pool_moves(op, a)
    rows, columns = a.shape.as_list()[1:3]
    height, width = pooled.shape.as_list()[1:3]
    values, edges = here.get(a, True), moves.pads
    low = w.number(float(np.finfo(np.float32).min))
    reach = [
        (count - 1) * stride + window
        for count, stride, window in zip((height, width), moves.strides, moves.window, strict=True)
    ]
    grown = [max(0, reach[0] - rows - edges[0]), max(0, reach[1] - columns - edges[1])]
    if any(edges[:2]) or any(grown):
        values = w.op("Pad", values, w.whole(0, 0, *edges[:2], 0, 0, *grown), low)
    tall = rows + edges[0] + grown[0]
    wide = columns + edges[1] + grown[1]
    by_row = w.op(
        "MaxPool", values, kernel_shape=[1, moves.window[1]], strides=[1, moves.strides[1]]
    )
    made = _winners(w, by_row, here.get(pooled, True), here.get(r, True), 2, moves, height, tall)
    made = _winners(w, values, by_row, made, 3, moves, width, wide)
    if [tall, wide] != [rows, columns]:
        top, left = edges[:2]
        made = w.op(
            "Slice", made, w.whole(top, left), w.whole(top + rows, left + columns), w.whole(2, 3)
        )
    here.put(op.outputs[0], made, True)


def _winners(
    w: Writer, values: str, largest: str, r: str, axis: int, moves: Moves, count: int, size: int
) -> str:
    """Hands what arrives at windows along an axis to the first of their largest entries.

    `count` windows; `size` is the length of the axis of the values.
    """
    window, stride = moves.window[axis - 2], moves.strides[axis - 2]
    left, got = r, []
    for at in range(window):
        end = w.whole(at + (count - 1) * stride + 1)
        entry = w.op("Slice", values, w.whole(at), end, w.whole(axis), w.whole(stride))
        hit = w.op("Equal", entry, largest)
        if at == window - 1:
            got.append(left)
        else:
            got.append(w.op("Where", hit, left, w.number(0)))
            left = w.op("Where", hit, w.number(0), left)
    blocks = math.ceil(window / stride)
    length = count + blocks - 1
    phases = []
    for phase in range(stride):
        terms = [
            _shifted(w, got[at], axis, block, length - count - block)
            for block, at in enumerate(range(phase, window, stride))
        ]
        if terms:
            phases.append(terms[0] if len(terms) == 1 else w.op("Sum", *terms))
        else:
            phases.append(w.op("Mul", phases[0], w.number(0)))
    after = w.whole(axis + 1)
    apart = [w.op("Unsqueeze", one, after) for one in phases]
    joined = w.op("Concat", *apart, axis=axis + 1) if stride > 1 else apart[0]
    whole = length * stride
    shape = [0, 0, 0, 0]
    shape[axis] = whole
    if axis == 2:
        joined = w.op("Reshape", joined, w.whole(0, 0, whole, -1))
    else:
        joined = w.op("Reshape", joined, w.whole(0, 0, 0, whole))
    if whole > size:
        return w.op("Slice", joined, w.whole(0), w.whole(size), w.whole(axis))
    return joined if whole == size else _shifted(w, joined, axis, 0, size - whole)


def _shifted(w: Writer, name: str, axis: int, before: int, after: int) -> str:
    """A tensor with zeros before and after it along an axis."""
    if not before and not after:
        return name
    pads = [0] * 8
    pads[axis], pads[axis + 4] = before, after
    return w.op("Pad", name, w.whole(*pads))


WINDOWS: dict[str, Callable[..., None]] = {
    "AvgPool": average_pool,
    "AvgPoolGrad": average_pool_back,
    "Conv2D": convolution,
    "Conv2DBackpropInput": convolution_back,
    "DepthwiseConv2dNative": convolution,
    "DepthwiseConv2dNativeBackpropInput": convolution_back,
    "MaxPool": max_pool,
    "MaxPoolGrad": max_pool_back,
}
