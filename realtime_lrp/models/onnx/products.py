"""Rows of products of matrices, sums along axes, norms and attention."""

import functools
import math
import re
from collections.abc import Callable
from itertools import dropwhile

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.moves import taken
from realtime_lrp.models.onnx.tensors import OnnxNode, Row, Tensor, Value, aligned, finite_mask
from realtime_lrp.relevance.reading.tracing import CannotReadError


def gemm(node: OnnxNode) -> Value:
    """A dense layer: alpha * x w + beta * bias."""
    weights = node.given(1, "weights")
    if node.get("transA", 0) or len(node.x.axes) != 2 or weights.ndim != 2:
        raise CannotReadError("multiplies other matrices than one row for each picture")
    weights = weights.T if node.get("transB", 0) else weights
    product = _dense(node, node.x, weights * np.float32(node.get("alpha", 1.0)))
    bias = node.constant(2, "a bias")
    return product if bias is None else node.sum(product, node.get("beta", 1.0) * bias)


def _dense(node: OnnxNode, x: Tensor, weights: np.ndarray) -> Tensor:
    """The last axis times a matrix [in, out]."""
    last = len(x.axes) - 1
    if x.shape[last] != weights.shape[0]:
        raise CannotReadError(f"multiplies {list(x.shape)} and {list(weights.shape)}")
    x = x.last(last)
    held = x.held
    others = x.held.shape[1:-1].as_list()
    if len(others) > 1:  # one product of matrices, not many small ones
        held = tf.reshape(held, [-1, math.prod(others), x.shape[last]])
    held = tf.matmul(held, node.keep(weights))
    if len(others) > 1:
        held = tf.reshape(held, [-1, *others, weights.shape[1]])
    return x.holding(held)


def matrix_product(node: OnnxNode) -> Tensor:
    """A product of matrices, the last two axes of each tensor."""
    first, second = node.values
    if isinstance(first, Tensor) and isinstance(second, np.ndarray):
        if second.ndim > 1 and math.prod(second.shape[:-2]) == 1:
            return _dense(node, first, second.reshape(second.shape[-2:]))
    elif isinstance(second, Tensor) and isinstance(first, np.ndarray) and first.ndim == 2:
        return _dense(node, second.turned(), first.T).turned()
    return _product(node, first, second)


def _product(node: OnnxNode, *both: Value) -> Tensor:
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


def einsum(node: OnnxNode) -> Value:
    """A product by an equation."""
    equation = node.get("equation", "").replace(" ", "")
    parts = re.fullmatch("([a-zA-Y]+)(?:,([a-zA-Y]+))?->([a-zA-Y]+)", equation)
    *labels, output = (group for group in parts.groups() if group) if parts else ("",)
    if [len(term) for term in labels] != [len(value.shape) for value in node.values]:
        raise CannotReadError(f"computes {equation!r}. Expected a result of one or two tensors")
    read = []
    operands = []
    for term, one in zip(labels, node.values, strict=True):
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

    def row(node: OnnxNode) -> Value:
        x = node.x
        axes = node.integers(1, "axes")
        if not axes and node.get("noop_with_empty_axes", 0):
            return x
        own = {x.axis(one) for one in axes or range(first, len(x.axes))}
        if parts := sorted(part for one in own if (part := x.axes[one])):
            x = x.holding(reduce(x.held, axis=parts, keepdims=True))
        if node.get("keepdims", 1):
            return x
        return x.reshaped([size for n, size in enumerate(x.shape) if n not in own])

    return row


def softmax(node: OnnxNode) -> Value:
    """Softmax and LogSoftmax along an axis; before opset 13 along all from it on."""
    x = node.x
    compute = tf.nn.log_softmax if node.kind == "LogSoftmax" else tf.nn.softmax
    axis = x.axis(node.get("axis", -1 if node.version >= 13 else 1))
    shape = x.shape
    if node.version < 13 and axis != len(shape) - 1:
        x = x.reshaped([*shape[:axis], math.prod(shape[axis:])])
    x = x.last(axis)
    x = x.holding(compute(x.held))
    return x.reshaped(shape) if len(x.axes) != len(shape) else x


def unit_length(node: OnnxNode) -> Value:
    """LpNormalization: entries divided by their norm along an axis."""
    x = node.x.last(node.x.axis(node.get("axis", -1)))
    if node.get("p", 2) == 1:
        return x.holding(x.held / tf.reduce_sum(tf.abs(x.held), -1, keepdims=True))
    return x.holding(x.held / tf.sqrt(tf.reduce_sum(tf.square(x.held), -1, keepdims=True)))


def lrn(node: OnnxNode) -> Value:
    """Entries divided by a power of the squares of some channels around them."""
    x = node.picture()
    size = int(node.get("size", 1))
    before = (size - 1) // 2
    squares = tf.pad(tf.square(x.held), [[0, 0], [0, 0], [0, 0], [before, size - 1 - before]])
    channels = x.shape[1]
    total = functools.reduce(tf.add, (squares[..., n : n + channels] for n in range(size)))
    base = node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total
    return x.holding(x.held / tf.pow(base, node.get("beta", 0.75)))


def batch_norm(node: OnnxNode) -> Value:
    """Batch norm with constant statistics."""
    if node.get("training_mode", 0):
        raise CannotReadError("normalises by the pictures of the batch (training)")
    gamma, beta, mean, variance = (node.given(n, "statistics") for n in range(1, 5))
    epsilon = node.get("epsilon", 1e-5)
    x = node.x
    if len(x.axes) == 4:
        x = node.picture()
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
    node: OnnxNode, x: Tensor, axis: int, gamma: np.ndarray | None, beta: np.ndarray | None
) -> Tensor:
    """Mean 0 (not RMSNormalization) and deviation 1 from `axis` on; then gamma and beta."""
    x, *arrays = aligned([x, *(one for one in (gamma, beta) if one is not None)])
    # without axes of size 1 in front: TensorFlow joins some norms to one that reads vectors
    shapes = ([*dropwhile((1).__eq__, array.held.shape)] for array in arrays)
    read = (node.keep(one.held.reshape(to)) for one, to in zip(arrays, shapes, strict=True))
    scale, shift = (None if one is None else next(read) for one in (gamma, beta))
    held = x.held
    axes = sorted(part for part in x.axes[axis:] if part)
    epsilon = node.get("epsilon", 1e-5)
    centred = node.kind != "RMSNormalization"
    mean = tf.reduce_mean(held, axes, keepdims=True)
    squares = tf.math.squared_difference(held, mean) if centred else tf.square(held)
    factor = tf.math.rsqrt(tf.reduce_mean(squares, axes, keepdims=True) + epsilon)
    factor = factor if scale is None else factor * scale
    if not centred:
        return x.holding(held * factor)
    offset = -mean * factor if shift is None else shift - mean * factor
    return x.holding(held * factor + offset)


def layer_norm(node: OnnxNode) -> Value:
    """LayerNormalization and RMSNormalization."""
    if node.outputs > 1:
        raise CannotReadError("has more than one output")
    arrays = [node.constant(n, "gamma or beta") for n in (1, 2)]
    return _normalised(node, node.x, node.x.axis(node.get("axis", -1)), *arrays)


def group_norm(node: OnnxNode) -> Value:
    """GroupNormalization; InstanceNormalization has one channel in each group."""
    x = node.x
    scale = node.given(1, "gamma")
    offset = node.given(2, "beta")
    shape = x.shape
    groups = node.get("num_groups", shape[1] if node.kind == "InstanceNormalization" else 1)
    if groups < 1 or shape[1] % groups:
        raise CannotReadError(f"makes {groups} groups of {shape[1]} channels")
    if scale.size == groups != shape[1]:  # before opset 21
        scale, offset = (np.repeat(one, shape[1] // groups) for one in (scale, offset))
    grouped = x.reshaped([shape[0], groups, shape[1] // groups, *shape[2:]]).last(1, 2)
    gamma, beta = (one.reshape(groups, -1, *[1] * (len(shape) - 2)) for one in (scale, offset))
    return _normalised(node, grouped, 2, gamma, beta).reshaped(shape)


def mean_variance_norm(node: OnnxNode) -> Value:
    """MeanVarianceNormalization: mean 0 and deviation 1 along some axes."""
    x = node.x
    own = [x.axis(one) for one in node.get("axes", [0, 2, 3])]
    order = [*(n for n in range(len(x.axes)) if n not in own), *own]
    turned = _normalised(node, x.transposed(order), len(order) - len(own), None, None)
    return turned.transposed(np.argsort(order).tolist())


def attention(node: OnnxNode) -> Value:
    """softmax(scale q k^T + mask) v, of tokens, or of heads that may share k and v."""
    parts = [node.tensor(n) for n in range(3)]
    of_tokens = len(parts[0].axes) == 3
    if of_tokens:
        heads = [int(node.get(f"{one}_num_heads", 1)) for one in ("q", "kv", "kv")]
        parts = [
            one.reshaped([*one.shape[:2], n, one.shape[2] // n]).transposed((0, 2, 1, 3))
            for one, n in zip(parts, heads, strict=True)
        ]
    q, k, v = parts
    others = any(input_ is not None for input_ in node.inputs[4:]) or node.outputs > 1
    if others or {len(part.axes) for part in parts} != {4} or q.shape[1] % k.shape[1]:
        raise CannotReadError("is attention with a past, lengths or further outputs")
    if times := q.shape[1] // k.shape[1] - 1:
        numbers = np.repeat(np.arange(k.shape[1]), times + 1)
        k, v = taken(k, 1, numbers), taken(v, 1, numbers)
    scale = np.array(node.get("scale", 0.0) or q.shape[-1] ** -0.5, np.float32)
    scores = _product(node, q.holding(q.held * node.keep(scale)), k.turned())
    if cap := float(node.get("softcap", 0.0)):
        scores = scores.holding(tf.tanh(scores.held / cap) * cap)
    masks = [node.constant(3, "a mask")]
    if node.get("is_causal", 0):
        masks.append(np.tri(*scores.shape[2:], dtype=bool))
    for one in masks:
        if one is not None:
            added = np.where(one, 0, -np.inf).astype(np.float32) if one.dtype == bool else one
            scores = node.sum(scores, finite_mask(added))
    scores = scores.last(3)
    made = _product(node, scores.holding(tf.nn.softmax(scores.held)), v)
    if not of_tokens:
        return made
    made = made.transposed((0, 2, 1, 3))
    return made.reshaped([*made.shape[:2], math.prod(made.shape[2:])])
