"""Functions of the entries of tensors: activations, arithmetic, comparisons, other types."""

import functools
import math
from collections.abc import Callable

import numpy as np
import onnx
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor, elementwise
from realtime_lrp.models.onnx.nodes import Inputs, OnnxNode, Value, constant, given, tensor


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


def _folded(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A function of any number of tensors made of one of two."""
    return lambda *values: functools.reduce(function, values)


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
    "Sum": _folded(tf.add), "Max": _folded(tf.maximum), "Min": _folded(tf.minimum),
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


def of_entries(node: OnnxNode, inputs: Inputs) -> Value:
    """A function of `ELEMENTWISE`."""
    compute = functools.partial(ELEMENTWISE[node.kind], **node.attributes)
    return elementwise(compute, [one for one in inputs if one is not None], node.keep)


def clip(node: OnnxNode, inputs: Inputs) -> Value:
    """Between two limits, both optional; ReLUs are computed with what they read."""
    x = tensor(inputs)
    low, high = (
        node.get(name, None) if limit is None else float(limit.reshape(()))
        for name, limit in (("min", constant(inputs, 1)), ("max", constant(inputs, 2)))
    )
    if low == 0 and high in (None, 6):
        return x.holding(tf.nn.relu6(x.held) if high else tf.nn.relu(x.held))
    for end, function in ((low, tf.maximum), (high, tf.minimum)):
        if end is not None:
            x = x.holding(function(x.held, node.keep(np.array(end, np.float32))))
    return x


def where(node: OnnxNode, inputs: Inputs) -> Value:
    """One of two at each entry; where all conditions are alike it is a whole tensor."""
    condition, *both = inputs
    if isinstance(condition, np.ndarray) and condition.all() == condition.any():
        chosen = both[0 if condition.all() else 1]
        shapes = [one.shape for one in inputs if one is not None]
        if isinstance(chosen, Tensor) and chosen.shape == np.broadcast_shapes(*shapes):
            return chosen
    return of_entries(node, inputs)


def cast(node: OnnxNode, inputs: Inputs) -> Value:
    """Another type; all floating numbers that depend on the picture are float32 here."""
    x, to = tensor(inputs), onnx.helper.tensor_dtype_to_np_dtype(node.get("to", 1))
    kind = tf.bool if to.kind == "b" else tf.int64 if to.kind in "iu" else tf.float32
    return x if x.held.dtype == kind else x.holding(tf.cast(x.held, kind))


def trilu(node: OnnxNode, inputs: Inputs) -> Value:
    """The upper or lower triangle of matrices."""
    x, k = tensor(inputs), constant(inputs, 1)
    ones = np.ones(x.shape[-2:], np.float32)
    cut = np.triu if node.get("upper", 1) else np.tril
    return elementwise(tf.multiply, [x, cut(ones, 0 if k is None else int(k))], node.keep)


def _along(node: OnnxNode, x: Tensor, values: np.ndarray) -> np.ndarray:
    """Numbers for each entry along the node's axis, or for all, to be read beside a tensor."""
    shape = [1] * len(x.axes)
    if values.size > 1:
        shape[x.axis(node.get("axis", 1))] = values.size
    return values.reshape(shape)


def quantise(node: OnnxNode, inputs: Inputs) -> Value:
    """Cuts to the range of the whole numbers, as numbers that stay floating: nothing is rounded."""
    x = tensor(inputs)
    scale = given(inputs, 1, "scale")
    zero = constant(inputs, 2)
    zero = np.zeros(scale.shape, np.uint8) if zero is None else zero
    if zero.dtype.kind not in "iu":
        raise CannotReadError(f"makes numbers of the type {zero.dtype}")
    range_ = np.iinfo(zero.dtype)
    low, high = (
        _along(node, x, (end - zero.astype(np.float32)) * scale) for end in (range_.min, range_.max)
    )
    if not low.any():  # a ReLU before it is left out, as it would change nothing
        return elementwise(tf.minimum, [x.holding(tf.nn.relu(x.held)), high], node.keep)
    return elementwise(tf.minimum, [elementwise(tf.maximum, [x, low], node.keep), high], node.keep)


def dequantise(node: OnnxNode, inputs: Inputs) -> Value:
    """(x - zero point) * scale of a picture of whole numbers; else x, which is floating."""
    x = tensor(inputs)
    scale = given(inputs, 1, "scale")
    zero = constant(inputs, 2)
    made = x.held.op
    while made.type in ("Reshape", "Transpose"):
        made = made.inputs[0].op
    if made.type != "Placeholder":
        return x
    if zero is not None:
        x = elementwise(tf.subtract, [x, _along(node, x, zero.astype(np.float32))], node.keep)
    return elementwise(tf.multiply, [x, _along(node, x, scale)], node.keep)
