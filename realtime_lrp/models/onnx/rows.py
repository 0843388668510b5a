"""The table of ONNX's operations: what each computes, in TensorFlow.

To add one, add a row to `ROWS`, or a function of entries to `ELEMENTWISE`. A row is a function: an
`OnnxNode` -> an output or a list of outputs. Nodes that read arrays alone never come here: ONNX's
own reference computes them. Here are the rows of functions of entries, and of what onnxruntime's
optimisers join.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import tensorflow as tf

from realtime_lrp.models.onnx import moves, products, resizing, windows
from realtime_lrp.models.onnx.products import reduction
from realtime_lrp.models.onnx.tensors import OnnxNode, Row, Tensor, Value
from realtime_lrp.relevance.reading.tracing import CannotReadError


def _gelu(x: tf.Tensor, approximate: str = "none") -> tf.Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + tf.math.erf(x * math.sqrt(0.5)))


def _elu(x: tf.Tensor, alpha: float = 1.0) -> tf.Tensor:
    return tf.maximum(x, 0.0) + alpha * tf.nn.elu(tf.minimum(x, 0.0))


def _power(x: tf.Tensor, exponent: tf.Tensor) -> tf.Tensor:
    known = tf.get_static_value(exponent)
    simple = {2.0: tf.square, 0.5: tf.sqrt, 1.0: tf.identity, -0.5: tf.math.rsqrt}
    if known is not None and known.ndim == 0 and float(known) in simple:
        return simple[float(known)](x)
    return tf.pow(x, exponent)


ELEMENTWISE: dict[str, Callable[..., tf.Tensor]] = {
    **{
        name: getattr(tf.math, name.lower())
        for name in (
            "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh",
            "Erf", "Exp", "Floor", "Log", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh",
            "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
        )
    },
    "And": tf.logical_and, "Equal": tf.equal, "Greater": tf.greater,
    "GreaterOrEqual": tf.greater_equal, "Less": tf.less, "LessOrEqual": tf.less_equal,
    "Not": tf.logical_not, "Or": tf.logical_or, "Xor": tf.not_equal,
    "Div": tf.divide, "Mul": tf.multiply, "Neg": tf.negative, "Relu": tf.nn.relu,
    "Sub": tf.subtract, "Where": tf.where, "Gelu": _gelu, "Pow": _power,
    "Sum": lambda *values: functools.reduce(tf.add, values),
    "Max": lambda *values: functools.reduce(tf.maximum, values),
    "Min": lambda *values: functools.reduce(tf.minimum, values),
    "Mean": lambda *values: functools.reduce(tf.add, values) / len(values),
    "Mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "HardSwish": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: tf.clip_by_value(alpha * x + beta, 0.0, 1.0),
    "Elu": _elu,
    "LeakyRelu": lambda x, alpha=0.01: tf.nn.leaky_relu(x, alpha),
    "PRelu": lambda x, slope: tf.maximum(x, 0.0) + slope * tf.minimum(x, 0.0),
    "Celu": lambda x, alpha=1.0: tf.maximum(x, 0.0) + alpha * tf.nn.elu(tf.minimum(x, 0.0) / alpha),
    "ThresholdedRelu": lambda x, alpha=1.0: tf.where(x > alpha, x, 0.0),
    "Shrink": lambda x, bias=0.0, lambd=0.5: tf.where(
        x < -lambd, x + bias, tf.where(x > lambd, x - bias, 0.0)
    ),
    "Swish": lambda x, alpha=1.0: x * tf.sigmoid(alpha * x),
    "QuickGelu": lambda x, alpha=1.702: x * tf.sigmoid(alpha * x),
    "BiasGelu": lambda x, bias: _gelu(x + bias),
    "FastGelu": lambda x, *bias: _gelu(functools.reduce(tf.add, bias, x), "tanh"),
    "Selu": lambda x, alpha=1.6732632, gamma=1.050701: gamma * _elu(x, alpha),
}  # fmt: skip
"""(its inputs, broadcast, and its attributes) -> its output."""


def of_entries(node: OnnxNode) -> Value:
    """A function of `ELEMENTWISE`."""
    compute = functools.partial(ELEMENTWISE[node.kind], **node.attributes)
    return node.broadcast(compute, *node.values)


def clip(node: OnnxNode) -> Value:
    """Between two limits, both optional; ReLUs are computed with what they read."""
    x = node.x
    low, high = (
        node.get(name, None) if limit is None else float(limit.reshape(()))
        for name, limit in (("min", node.constant(1)), ("max", node.constant(2)))
    )
    if low == 0 and high in (None, 6):
        return x.holding(tf.nn.relu6(x.held) if high else tf.nn.relu(x.held))
    for end, function in ((low, tf.maximum), (high, tf.minimum)):
        if end is not None:
            x = x.holding(function(x.held, node.keep(np.array(end, np.float32))))
    return x


def where(node: OnnxNode) -> Value:
    """One of two at each entry; where all conditions are alike it is a whole tensor."""
    condition, *both = node.values
    if isinstance(condition, np.ndarray) and condition.all() == condition.any():
        chosen = both[0 if condition.all() else 1]
        shapes = [value.shape for value in node.values]
        if isinstance(chosen, Tensor) and chosen.shape == np.broadcast_shapes(*shapes):
            return chosen
    return of_entries(node)


def cast(node: OnnxNode) -> Value:
    """Another type; all floating numbers that depend on the picture are float32 here."""
    to = onnx.helper.tensor_dtype_to_np_dtype(node.get("to", 1))
    kind = tf.bool if to.kind == "b" else tf.int64 if to.kind in "iu" else tf.float32
    return node.x.holding(tf.cast(node.x.held, kind))


def trilu(node: OnnxNode) -> Value:
    """The upper or lower triangle of matrices."""
    k = node.constant(1)
    cut = np.triu if node.get("upper", 1) else np.tril
    ones = np.ones(node.x.shape[-2:], np.float32)
    return node.broadcast(tf.multiply, node.x, cut(ones, 0 if k is None else int(k)))


def _along(node: OnnxNode, values: np.ndarray) -> np.ndarray:
    """Numbers for each entry along the node's axis, or for all, to be read beside its input."""
    shape = [1] * len(node.x.axes)
    if values.size > 1:
        shape[node.x.axis(node.get("axis", 1))] = values.size
    return values.reshape(shape)


def quantise(node: OnnxNode) -> Value:
    """Cuts to the range of the whole numbers, as numbers that stay floating: nothing is rounded."""
    x = node.x
    scale = node.given(1, "scale")
    zero = node.constant(2)
    zero = np.zeros(scale.shape, np.uint8) if zero is None else zero
    if zero.dtype.kind not in "iu":
        raise CannotReadError(f"makes numbers of the type {zero.dtype}")
    range_ = np.iinfo(zero.dtype)
    low, high = (
        _along(node, (end - zero.astype(np.float32)) * scale) for end in (range_.min, range_.max)
    )
    # a ReLU before it is left out, as it would change nothing
    x = node.broadcast(tf.maximum, x, low) if low.any() else x.holding(tf.nn.relu(x.held))
    return node.broadcast(tf.minimum, x, high)


def dequantise(node: OnnxNode) -> Value:
    """(x - zero point) * scale of a picture of whole numbers; else x, which is floating."""
    x = node.x
    zero = node.constant(2)
    made = x.held.op
    while made.type in ("Reshape", "Transpose"):
        made = made.inputs[0].op
    if made.type != "Placeholder":
        return x
    if zero is not None:
        x = node.broadcast(tf.subtract, x, _along(node, zero.astype(np.float32)))
    return node.broadcast(tf.multiply, x, _along(node, node.given(1, "scale")))


PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max")}
"""Activation -> the names of its parameters."""


def activated(row: Row) -> Row:
    """Makes a row that adds its fourth input, if there is one, and ends in an activation."""

    def row_and_activation(node: OnnxNode) -> Value:
        found = row(replace(node, inputs=node.inputs[:3]))
        assert isinstance(found, Tensor)
        found = node.sum(found, *node.inputs[3:])
        name = node.get("activation", "")
        values = node.get("activation_params", None)
        if values is None:
            values = [node.get(f"activation_{key}", None) for key in ("alpha", "beta")]
        own = dict(zip(PARAMETERS.get(name, ()), values, strict=False))
        if name and name not in ("Clip", *ELEMENTWISE):
            raise CannotReadError(f"has the activation {name!r}")
        own = {key: one for key, one in own.items() if one is not None}
        last = replace(node, kind=name, inputs=[found], attributes=own)
        return (clip if name == "Clip" else of_entries)(last) if name else found

    return row_and_activation


def fused_matrix_product(node: OnnxNode) -> Value:
    """FusedMatMul: a product of matrices, which may be turned, times a number."""
    if any(node.get(name, 0) for name in ("transBatchA", "transBatchB")):
        raise CannotReadError("moves other axes than a matrix has")
    both = node.values
    for n, name in enumerate(("transA", "transB")):
        if node.get(name, 0):
            one = both[n]
            both[n] = one.turned() if isinstance(one, Tensor) else np.swapaxes(one, -1, -2)
    alpha = np.float32(node.get("alpha", 1.0))
    if isinstance(both[1], np.ndarray):
        return products.matrix_product(replace(node, inputs=[both[0], both[1] * alpha]))
    found = products.matrix_product(replace(node, inputs=both))
    return found if alpha == 1 else node.broadcast(tf.multiply, found, np.array(alpha))


def quantised_product(node: OnnxNode) -> Value:
    """MatMulNBits: a dense layer whose weights have 4 or 8 bits, and a scale for each block."""
    scales = node.given(2)
    zeros = node.constant(3)
    bits = int(node.get("bits", 4))
    size = int(node.get("block_size", 32))
    depth = int(node.get("K", 0))
    outputs = int(node.get("N", 0))
    if bits not in (4, 8) or any(input_ is not None for input_ in node.inputs[4:5]):
        raise CannotReadError(f"has weights of {bits} bits, or groups in another order")

    def unpacked(values: np.ndarray, shape: list[int]) -> np.ndarray:
        halves = np.stack([values & 15, values >> 4], -1) if bits == 4 else values
        rows = halves.reshape(outputs, -1)
        return rows[:, : np.prod(shape[1:])].reshape(shape).astype(np.float32)

    shape = [outputs, -(-depth // size), 1]
    zero = np.full(shape, 2.0 ** (bits - 1), np.float32)
    if zeros is not None:
        zero = unpacked(zeros, shape) if zeros.dtype == np.uint8 else zeros.reshape(shape)
    weights = unpacked(node.given(1), [*shape[:2], size]) - zero
    weights = (weights * scales.reshape(shape)).reshape(outputs, -1)[:, :depth]
    product = products.matrix_product(replace(node, inputs=[node.x, weights.T]))
    return node.sum(product, *node.inputs[5:6])


def fused_layer_norm(node: OnnxNode) -> list[Value]:
    """(Skip)(Simplified)LayerNormalization; the last output is the sum that is normalised."""
    x = node.x
    _, *others = node.inputs
    if node.kind.startswith("Skip"):
        skip, *others = others
        weights = 1 if "Simplified" in node.kind else 2
        x = node.sum(x, skip, *others[weights:])
        others = others[:weights]
    kind = "RMSNormalization" if "Simplified" in node.kind else "LayerNormalization"
    found = products.layer_norm(replace(node, kind=kind, inputs=[x, *others], outputs=1))
    return [found, np.empty(0), np.empty(0), x]


def bias_softmax(node: OnnxNode) -> Value:
    """The softmax of a sum."""
    return products.softmax(replace(node, inputs=[node.sum(node.x, node.inputs[1])]))


def fused_attention(node: OnnxNode) -> Value:
    """Attention of tokens, from one product for queries, keys and values, or from these."""
    if node.kind == "Attention":
        joined = products.matrix_product(replace(node, inputs=node.inputs[:2]))
        joined = node.sum(joined, *node.inputs[2:3])
        size = joined.shape[-1] // 3
        sizes = [int(one) for one in node.get("qkv_hidden_sizes", [size] * 3)]
        ends = np.cumsum([0, *sizes]).tolist()
        parts = [moves.picked(joined, 2, a, b) for a, b in itertools.pairwise(ends)]
    else:
        parts = [node.tensor(n) for n in range(3)]
        bias = node.constant(3, "a bias")
        if bias is not None:
            ends = np.cumsum([part.shape[-1] for part in parts])[:-1]
            parts = [node.sum(*pair) for pair in zip(parts, np.split(bias, ends), strict=True)]
    others = [*node.inputs[3 if node.kind == "Attention" else 4 : 5], *node.inputs[6:]]
    if any(other is not None for other in others):
        raise CannotReadError("is attention with a past, or with lengths")
    heads = int(node.get("num_heads", 1))
    own = {"q_num_heads": heads, "kv_num_heads": heads, "scale": node.get("scale", 0.0),
           "is_causal": node.get("unidirectional", 0)}  # fmt: skip
    return products.attention(replace(node, attributes=own, inputs=[*parts, *node.inputs[5:6]]))


MICROSOFT = "com.microsoft"
"""The domain of operations that onnxruntime's optimisers make; in `ROWS` it stands before a name
that ONNX has too."""

ROWS: dict[str, Row] = {
    **dict.fromkeys(ELEMENTWISE, of_entries),
    **dict.fromkeys(("CastLike", "Dropout", "Identity"), lambda node: node.x),
    # NaN and infinity are refused later
    **dict.fromkeys(("IsInf", "IsNaN"), lambda node: np.zeros(node.x.shape, bool)),
    "Shape": lambda node: np.array(
        node.x.shape[node.get("start", 0) : node.get("end", None)], np.int64
    ),
    "Cast": cast, "Clip": clip, "DequantizeLinear": dequantise,
    "QuantizeLinear": quantise, "Trilu": trilu, "Where": where,
    # moves
    "Concat": moves.concat, "CumSum": moves.cumulative_sum, "DepthToSpace": moves.depth_to_space,
    "Expand": moves.repeat, "Flatten": moves.flatten, "Gather": moves.gather,
    "GatherElements": moves.gather_elements, "GatherND": moves.gather_nd, "Pad": moves.pad,
    "Reshape": moves.reshape, "ScatterElements": moves.scatter, "ScatterND": moves.scatter,
    "Slice": moves.slice_, "SpaceToDepth": moves.depth_to_space, "Split": moves.split,
    "Squeeze": moves.squeeze, "Tile": moves.repeat, "TopK": moves.top_k,
    "Transpose": moves.transpose, "Unsqueeze": moves.unsqueeze,
    # windows
    "AffineGrid": resizing.affine_grid, "AveragePool": windows.average_pool, "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose, "GridSample": resizing.grid_sample,
    "MaxPool": windows.max_pool, "Resize": resizing.resize, "Upsample": resizing.resize,
    # products, sums, norms
    "Attention": products.attention, "BatchNormalization": products.batch_norm,
    "Einsum": products.einsum, "Gemm": products.gemm,
    "GlobalAveragePool": reduction(tf.reduce_mean, 2),
    "GlobalMaxPool": reduction(tf.reduce_max, 2), "GroupNormalization": products.group_norm,
    "InstanceNormalization": products.group_norm, "LayerNormalization": products.layer_norm,
    "LogSoftmax": products.softmax, "LpNormalization": products.unit_length, "LRN": products.lrn,
    "MatMul": products.matrix_product,
    "MeanVarianceNormalization": products.mean_variance_norm,
    "RMSNormalization": products.layer_norm,
    "ReduceL1": reduction(lambda x, **along: tf.reduce_sum(tf.abs(x), **along)),
    "ReduceL2": reduction(lambda x, **along: tf.sqrt(tf.reduce_sum(tf.square(x), **along))),
    "ReduceLogSum": reduction(lambda x, **along: tf.math.log(tf.reduce_sum(x, **along))),
    "ReduceLogSumExp": reduction(
        lambda x, **along: tf.math.log(tf.reduce_sum(tf.exp(x), **along))
    ),
    "ReduceMax": reduction(tf.reduce_max), "ReduceMean": reduction(tf.reduce_mean),
    "ReduceMin": reduction(tf.reduce_min), "ReduceSum": reduction(tf.reduce_sum),
    "ReduceSumSquare": reduction(lambda x, **along: tf.reduce_sum(tf.square(x), **along)),
    "Softmax": products.softmax,
    # of onnxruntime's optimisers
    f"{MICROSOFT}.Attention": fused_attention, "BiasSoftmax": bias_softmax,
    "FusedConv": activated(windows.conv), "FusedGemm": activated(products.gemm),
    "FusedMatMul": fused_matrix_product, "MatMulNBits": quantised_product,
    "MultiHeadAttention": fused_attention, "SimplifiedLayerNormalization": fused_layer_norm,
    "SkipLayerNormalization": fused_layer_norm,
    "SkipSimplifiedLayerNormalization": fused_layer_norm,
}  # fmt: skip
"""Kind of a node -> its row."""

OF_CONSTANTS = frozenset((
    "ArgMax", "ArgMin", "BitShift", "Constant", "ConstantOfShape", "EyeLike", "Mod", "OneHot",
    "Range", "ReduceProd", "Size",
))  # fmt: skip
"""Operations without a row, which compute sizes and masks: they may read constants alone."""


def row_of(kind: str, domain: str) -> Row | None:
    """The row of an operation."""
    return ROWS.get(f"{domain}.{kind}") or ROWS.get(kind)
