"""The rows of ONNX's operations with weights or sums: convolutions, pools, products, norms."""

import functools
import math
import re
from collections.abc import Callable, Sequence
from itertools import dropwhile

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor, aligned, elementwise
from realtime_lrp.models.onnx.rows import (
    MOVES,
    Inputs,
    Node,
    Row,
    Value,
    constant,
    given,
    integers,
    tensor,
)

LOWEST = -3.0e38  # the border of a max pool: no entry is lower


def picture(inputs: Inputs) -> Tensor:
    """A feature map [1, C, H, W], held as [B, H, W, C]."""
    x = tensor(inputs)
    if len(x.axes) != 4 or x.shape[0] != 1:
        raise CannotReadError(f"reads a tensor {list(x.shape)}. Expected feature maps [1, C, H, W]")
    return x.held_as(2, 3, 1)


def _pair(node: Node, name: str, least: int = 1, count: int = 2) -> list[int]:
    """An attribute with one number for rows and one for columns, the least unless given."""
    found = [int(one) for one in node.get(name, [least] * count)]
    if len(found) != count or min(found) < least:
        raise CannotReadError(f"has {name} {found}. Expected {count} numbers of at least {least}")
    return found


def _pads(node: Node) -> list[list[int]]:
    """The border before and after rows and columns that the attribute `pads` says."""
    pads = _pair(node, "pads", 0, 4)
    return [pads[::2], pads[1::2]]


def _border(
    node: Node, sizes: Sequence[int], window: Sequence[int], mode: str = ""
) -> list[list[int]]:
    """What is added before and after rows and columns, in the node's own mode or another."""
    mode, border = mode or node.get("auto_pad", "NOTSET"), _pads(node)
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
    return "SAME" if border == _border(node, sizes, window, "SAME_UPPER") else ""


def _biased(node: Node, held: tf.Tensor, bias: np.ndarray | None) -> tf.Tensor:
    """With a bias, one for each channel, if there is one."""
    return held if bias is None else held + node.keep(bias.reshape(1, 1, 1, -1))


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
    return x.holding(_biased(node, held[:, rows[0] : ends[0], columns[0] : ends[1]], bias))


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
    mode = node.get("mode", "nearest") + ", antialias" * bool(node.get("antialias", 0))
    where = node.get("coordinate_transformation_mode", "half_pixel").removeprefix("pytorch_")
    if sizes is None or not sizes.size:
        exact = np.array(x.shape, np.float32) * (1 if scales is None else scales)
        sizes = np.floor(exact)
        if where != "align_corners" and np.abs(exact - sizes).max() > 1e-3:  # TensorFlow's differ
            mode += f", {scales} times"
    rounds = node.get("nearest_mode", "floor") if mode == "nearest" else "floor"
    if (mode, where) not in RESIZES or rounds != "floor" or tuple(sizes[:2]) != x.shape[:2]:
        raise CannotReadError(f"resizes by {mode!r}, {where!r}, {rounds!r} to {sizes.tolist()}")
    return x.holding(RESIZES[mode, where](images=x.held, size=sizes[2:].astype(np.int32)))


# Products, means, norms, attention


def gemm(node: Node, inputs: Inputs) -> Value:
    """A dense layer: alpha * x w + beta * bias."""
    x, weights = tensor(inputs), given(inputs, 1, "weights")
    if node.get("transA", 0) or len(x.axes) != 2 or weights.ndim != 2:
        raise CannotReadError("multiplies other matrices than one row for each picture")
    weights = weights.T if node.get("transB", 0) else weights
    product = _dense(node, x, weights * np.float32(node.get("alpha", 1.0)))
    bias = constant(inputs, 2, "a bias")
    if bias is None:
        return product
    return elementwise(tf.add, [product, node.get("beta", 1.0) * bias], node.keep)


def _dense(node: Node, x: Tensor, weights: np.ndarray) -> Tensor:
    """The last axis times a matrix [in, out]."""
    last = len(x.axes) - 1
    if x.shape[last] != weights.shape[0]:
        raise CannotReadError(f"multiplies {list(x.shape)} and {list(weights.shape)}")
    x = x.last(last)
    held, others = x.held, x.held.shape[1:-1].as_list()
    if len(others) > 1:  # one product of matrices, not many small ones
        held = tf.reshape(held, [-1, math.prod(others), x.shape[last]])
    held = tf.matmul(held, node.keep(weights))
    if len(others) > 1:
        held = tf.reshape(held, [-1, *others, weights.shape[1]])
    return x.holding(held)


def matrix_product(node: Node, inputs: Inputs) -> Value:
    """A product of matrices, the last two axes of each tensor."""
    first, second = (
        one if isinstance(one, Tensor) else given(inputs, n) for n, one in enumerate(inputs[:2])
    )
    if isinstance(first, Tensor) and isinstance(second, np.ndarray):
        if second.ndim > 1 and math.prod(second.shape[:-2]) == 1:
            return _dense(node, first, second.reshape(second.shape[-2:]))
    elif isinstance(second, Tensor) and isinstance(first, np.ndarray) and first.ndim == 2:
        rank = len(second.axes)
        turned = [*range(rank - 2), rank - 1, rank - 2]
        return _dense(node, second.transposed(turned), first.T).transposed(turned)
    return _product(node, first, second)


def _product(node: Node, *both: Value) -> Tensor:
    """A product of matrices; a constant is the same for each picture."""
    first, second = (
        Tensor.of_constant(one) if isinstance(one, np.ndarray) else one for one in both
    )
    rank = len(first.axes)
    if rank < 3 or rank != len(second.axes):
        raise CannotReadError(f"multiplies tensors with {rank} and {len(second.axes)} axes")
    matrix = rank - 2, rank - 1
    pages = [n for n in dict.fromkeys(first.order + second.order) if n not in matrix]
    a, b = (one.held_as(*pages, *matrix) for one in (first, second))
    held = (node.keep(one) if isinstance(one, np.ndarray) else one for one in (a.held, b.held))
    return a.holding(tf.matmul(*held))


def einsum(node: Node, inputs: Inputs) -> Value:
    """A product by an equation."""
    equation = node.get("equation", "").replace(" ", "")
    parts = re.fullmatch("([a-zA-Y]+)(?:,([a-zA-Y]+))?->([a-zA-Y]+)", equation)
    *labels, output = (one for one in parts.groups() if one) if parts else ("",)
    values = [one if isinstance(one, Tensor) else given(inputs, n) for n, one in enumerate(inputs)]
    if [len(term) for term in labels] != [len(one.shape) for one in values]:
        raise CannotReadError(f"computes {equation!r}. Expected a result of one or two tensors")
    read, operands = [], []
    for term, one in zip(labels, values, strict=True):
        if isinstance(one, Tensor):
            one = one.with_held(*range(len(one.axes)))
            read.append("Z" + "".join(term[n] for n in one.order))  # the axis of the pictures
            operands.append(one.held)
        else:
            read.append(term)
            operands.append(node.keep(one))
    held = tf.einsum(f"{','.join(read)}->Z{output}", *operands)
    return Tensor(held, tuple(range(1, len(output) + 1)))


def reduction(reduce: Callable[..., tf.Tensor], first: int = 0) -> Row:
    """Makes the row of a function of all entries along axes: those given, or all from `first`."""

    def row(node: Node, inputs: Inputs) -> Value:
        x, axes = tensor(inputs), integers(node, inputs, 1, "axes")
        if not axes and node.get("noop_with_empty_axes", 0):
            return x
        own = {x.axis(one) for one in axes or range(first, len(x.axes))}
        if parts := sorted(part for one in own if (part := x.axes[one])):
            x = x.holding(reduce(x.held, axis=parts, keepdims=True))
        if node.get("keepdims", 1):
            return x
        return x.reshaped([size for n, size in enumerate(x.shape) if n not in own])

    return row


def softmax(node: Node, inputs: Inputs) -> Value:
    """Softmax along an axis; before opset 13 along all from it on."""
    x = tensor(inputs)
    axis = x.axis(node.get("axis", -1 if node.version >= 13 else 1))
    shape = x.shape
    if node.version < 13 and axis != len(shape) - 1:
        x = x.reshaped([*shape[:axis], math.prod(shape[axis:])])
    x = x.last(axis)
    x = x.holding(tf.nn.softmax(x.held))
    return x.reshaped(shape) if len(x.axes) != len(shape) else x


def batch_norm(node: Node, inputs: Inputs) -> Value:
    """Batch norm with constant statistics."""
    if node.get("training_mode", 0):
        raise CannotReadError("normalises by the pictures of the batch (training)")
    gamma, beta, mean, variance = (given(inputs, n, "statistics") for n in range(1, 5))
    epsilon = node.get("epsilon", 1e-5)
    x = tensor(inputs)
    if len(x.axes) == 4:
        x = picture(inputs)
        read = {"scale": gamma, "offset": beta, "mean": mean, "variance": variance}
        read = {name: node.keep(one) for name, one in read.items()}
        held, *_ = tf.raw_ops.FusedBatchNormV3(x=x.held, **read, epsilon=epsilon, is_training=False)
        return x.holding(held)
    scale = gamma / np.sqrt(variance + np.float32(epsilon))
    shape = [-1] + [1] * (len(x.axes) - 2)
    arrays = [one.reshape(shape) for one in (scale, beta - mean * scale)]
    x, factors, added = aligned([x, *arrays])
    return x.holding(x.held * node.keep(factors.held) + node.keep(added.held))


def _normalised(
    node: Node, x: Tensor, axis: int, gamma: np.ndarray | None, beta: np.ndarray | None
) -> Tensor:
    """Mean 0 and deviation 1 along the axes from `axis` on; then gamma and beta.

    RMSNormalization takes no mean away.
    """
    x, *arrays = aligned([x, *(one for one in (gamma, beta) if one is not None)])
    # without axes of size 1 in front: TensorFlow joins some norms to one that reads vectors
    shapes = ([*dropwhile((1).__eq__, one.held.shape)] for one in arrays)
    read = (node.keep(one.held.reshape(to)) for one, to in zip(arrays, shapes, strict=True))
    scale, shift = (None if one is None else next(read) for one in (gamma, beta))
    held, axes = x.held, sorted(part for part in x.axes[axis:] if part)
    epsilon, centred = node.get("epsilon", 1e-5), node.kind != "RMSNormalization"
    mean = tf.reduce_mean(held, axes, keepdims=True)
    squares = tf.math.squared_difference(held, mean) if centred else tf.square(held)
    factor = tf.math.rsqrt(tf.reduce_mean(squares, axes, keepdims=True) + epsilon)
    factor = factor if scale is None else factor * scale
    if not centred:
        return x.holding(held * factor)
    offset = -mean * factor if shift is None else shift - mean * factor
    return x.holding(held * factor + offset)


def layer_norm(node: Node, inputs: Inputs) -> Value:
    """LayerNormalization and RMSNormalization."""
    if node.outputs > 1:
        raise CannotReadError("has more than one output")
    x, arrays = tensor(inputs), [constant(inputs, n, "gamma or beta") for n in (1, 2)]
    return _normalised(node, x, x.axis(node.get("axis", -1)), *arrays)


def group_norm(node: Node, inputs: Inputs) -> Value:
    """GroupNormalization; InstanceNormalization has one channel in each group."""
    x, scale, offset = tensor(inputs), given(inputs, 1, "gamma"), given(inputs, 2, "beta")
    shape = x.shape
    single = node.kind == "InstanceNormalization"
    groups = shape[1] if single else node.get("num_groups", 1)
    if groups < 1 or shape[1] % groups:
        raise CannotReadError(f"makes {groups} groups of {shape[1]} channels")
    if scale.size == groups != shape[1]:  # before opset 21
        scale, offset = (np.repeat(one, shape[1] // groups) for one in (scale, offset))
    grouped = x.reshaped([shape[0], groups, shape[1] // groups, *shape[2:]]).last(1, 2)
    gamma, beta = (one.reshape(groups, -1, *[1] * (len(shape) - 2)) for one in (scale, offset))
    return _normalised(node, grouped, 2, gamma, beta).reshaped(shape)


def attention(node: Node, inputs: Inputs) -> Value:
    """softmax(scale q k^T + mask) v, for heads [1, heads, tokens, depth]."""
    q, k, v = (tensor(inputs, n) for n in range(3))
    mask = constant(inputs, 3, "a mask")
    alike = len({len(one.axes) for one in (q, k, v)} | {4}) == 1 and q.shape[1] == k.shape[1]
    if not alike or node.outputs > 1 or node.get("is_causal", 0) or node.get("softcap", 0.0):
        raise CannotReadError("is attention of other than plain heads [1, heads, tokens, depth]")
    scale = np.array(node.get("scale", q.shape[-1] ** -0.5), np.float32)
    q = q.holding(q.held * node.keep(scale))
    scores = _product(node, q, k.transposed((0, 1, 3, 2)))
    if mask is not None:
        mask = np.where(mask, 0, -np.inf).astype(np.float32) if mask.dtype == bool else mask
        scores = elementwise(tf.add, [scores, mask], node.keep)
    scores = scores.last(3)
    return _product(node, scores.holding(tf.nn.softmax(scores.held)), v)


ROWS: dict[str, Row] = {
    **MOVES,
    "Attention": attention, "AveragePool": average_pool, "BatchNormalization": batch_norm,
    "Conv": convolution, "ConvTranspose": transposed_convolution, "Einsum": einsum, "Gemm": gemm,
    "GlobalAveragePool": reduction(tf.reduce_mean, 2),
    "GlobalMaxPool": reduction(tf.reduce_max, 2), "GroupNormalization": group_norm,
    "InstanceNormalization": group_norm, "LayerNormalization": layer_norm,
    "MatMul": matrix_product, "MaxPool": max_pool, "RMSNormalization": layer_norm,
    "ReduceL2": reduction(lambda x, **along: tf.sqrt(tf.reduce_sum(tf.square(x), **along))),
    "ReduceMax": reduction(tf.reduce_max), "ReduceMean": reduction(tf.reduce_mean),
    "ReduceMin": reduction(tf.reduce_min), "ReduceSum": reduction(tf.reduce_sum),
    "Resize": resize, "Softmax": softmax,
}  # fmt: skip
"""Kind of a node -> its row."""
