"""The rows of ONNX's operations that compute sums: products, means, norms, attention."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor, aligned, elementwise
from realtime_lrp.models.onnx.feature_maps import FEATURE_MAPS, biased, picture
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


def gemm(node: Node, inputs: Inputs) -> Value:
    """A dense layer: alpha * x w + beta * bias."""
    x, weights = tensor(inputs), given(inputs, 1, "weights")
    if node.get("transA", 0) or len(x.axes) != 2 or weights.ndim != 2:
        raise CannotReadError("multiplies other matrices than one row for each picture")
    weights = weights.T if node.get("transB", 0) else weights
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    product = _dense(node, x, weights if alpha == 1 else weights * np.float32(alpha))
    bias = constant(inputs, 2, "a bias")
    if bias is None:
        return product
    bias = np.broadcast_to(bias, np.broadcast_shapes(bias.shape, (1, weights.shape[1])))
    if bias.shape[0] != 1:
        raise CannotReadError("has a bias for each picture of a batch")
    return product.holding(biased(node, product.held, bias if beta == 1 else beta * bias))


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
    first, second = inputs[:2]
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _product(first, second)
    if isinstance(first, Tensor) and isinstance(second, np.ndarray):
        if second.ndim == 2 or (second.ndim > 2 and math.prod(second.shape[:-2]) == 1):
            return _dense(node, first, second.reshape(second.shape[-2:]))
    elif isinstance(second, Tensor) and isinstance(first, np.ndarray) and first.ndim == 2:
        rank = len(second.axes)
        turned = [*range(rank - 2), rank - 1, rank - 2]
        return _dense(node, second.transposed(turned), first.T).transposed(turned)
    raise CannotReadError("multiplies matrices of constants of more than two axes")


def _product(first: Tensor, second: Tensor) -> Tensor:
    rank = len(first.axes)
    if rank < 3 or rank != len(second.axes):
        raise CannotReadError(f"multiplies tensors with {rank} and {len(second.axes)} axes")
    matrix = rank - 2, rank - 1
    pages = [n for n in dict.fromkeys(first.order + second.order) if n not in matrix]
    a, b = (one.held_as(*pages, *matrix) for one in (first, second))
    return a.holding(tf.matmul(a.held, b.held))


def einsum(node: Node, inputs: Inputs) -> Value:
    """A product by an equation."""
    equation = node.get("equation", "").replace(" ", "")
    terms, _, output = equation.partition("->")
    labels = terms.split(",")
    if (
        "." in equation
        or "Z" in equation
        or not output
        or len(labels) != len(inputs)
        or len(inputs) > 2
    ):
        raise CannotReadError(f"computes {equation!r}. Expected two tensors and a result")
    read, operands, batch = [], [], "Z"  # the axis of the pictures
    for term, one in zip(labels, inputs, strict=True):
        if isinstance(one, Tensor):
            if len(term) != len(one.axes):
                raise CannotReadError(f"computes {equation!r} of {len(one.axes)} axes")
            one = one.with_held(*range(len(one.axes)))
            read.append(batch + "".join(term[n] for n in one.order))
            operands.append(one.held)
        else:
            read.append(term)
            operands.append(node.keep(np.asarray(one)))
    held = tf.einsum(f"{','.join(read)}->{batch}{output}", *operands)
    return Tensor(held, tuple(range(1, len(output) + 1)))


def _reduced(
    node: Node, x: Tensor, axes: Sequence[int], reduce: Callable[..., tf.Tensor], keep: bool
) -> Tensor:
    """A function of all entries along some axes."""
    own = {x.axis(one) for one in axes}
    parts = sorted(part for one in own if (part := x.axes[one]))
    result = x.holding(reduce(x.held, axis=parts, keepdims=True)) if parts else x
    return result if keep else result.reshaped([s for n, s in enumerate(x.shape) if n not in own])


def reduction(reduce: Callable[..., tf.Tensor]) -> Row:
    """Makes the row of a function of all entries along axes."""

    def row(node: Node, inputs: Inputs) -> Value:
        x, axes = tensor(inputs), integers(node, inputs, 1, "axes")
        if not axes:
            if node.get("noop_with_empty_axes", 0):
                return x
            axes = list(range(len(x.axes)))
        return _reduced(node, x, axes, reduce, bool(node.get("keepdims", 1)))

    return row


def global_pool(reduce: Callable[..., tf.Tensor]) -> Row:
    """Makes the row of a pool over whole feature maps."""
    return lambda node, inputs: _reduced(
        node, tensor(inputs), range(2, len(tensor(inputs).axes)), reduce, True
    )


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
        read = [node.keep(one) for one in (gamma, beta, mean, variance)]
        held, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x.held, scale=read[0], offset=read[1], mean=read[2], variance=read[3],
            epsilon=epsilon, is_training=False,
        )  # fmt: skip
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
    read = iter(node.keep(_without_first_axes(one.held)) for one in arrays)
    scale, shift = (None if one is None else next(read) for one in (gamma, beta))
    held, axes = x.held, sorted(part for part in x.axes[axis:] if part)
    epsilon, centred = node.get("epsilon", 1e-5), node.kind != "RMSNormalization"
    if centred:
        mean = tf.reduce_mean(held, axes, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(held, mean), axes, keepdims=True)
    else:
        variance = tf.reduce_mean(tf.square(held), axes, keepdims=True)
    factor = tf.math.rsqrt(variance + epsilon)
    factor = factor if scale is None else factor * scale
    if not centred:
        return x.holding(held * factor)
    offset = -mean * factor if shift is None else shift - mean * factor
    return x.holding(held * factor + offset)


def _without_first_axes(array: np.ndarray) -> np.ndarray:
    """Without axes of size 1 in front: TensorFlow joins some norms to one that reads vectors."""
    while array.ndim > 1 and len(array) == 1:
        array = array[0]
    return array


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
    scores = _product(q, k.transposed((0, 1, 3, 2)))
    if mask is not None:
        mask = np.where(mask, 0, -np.inf).astype(np.float32) if mask.dtype == bool else mask
        scores = elementwise(tf.add, [scores, mask], node.keep)
    scores = scores.last(3)
    return _product(scores.holding(tf.nn.softmax(scores.held)), v)


LAYERS: dict[str, Row] = {
    "Attention": attention, "BatchNormalization": batch_norm, "Einsum": einsum, "Gemm": gemm,
    "GlobalAveragePool": global_pool(tf.reduce_mean),
    "GlobalMaxPool": global_pool(tf.reduce_max), "GroupNormalization": group_norm,
    "InstanceNormalization": group_norm, "LayerNormalization": layer_norm,
    "MatMul": matrix_product, "RMSNormalization": layer_norm,
    "ReduceL2": reduction(lambda x, **along: tf.sqrt(tf.reduce_sum(tf.square(x), **along))),
    "ReduceMax": reduction(tf.reduce_max), "ReduceMean": reduction(tf.reduce_mean),
    "ReduceMin": reduction(tf.reduce_min), "ReduceSum": reduction(tf.reduce_sum),
    "Softmax": softmax,
}  # fmt: skip

ROWS = MOVES | FEATURE_MAPS | LAYERS
"""Kind of a node -> its row."""
