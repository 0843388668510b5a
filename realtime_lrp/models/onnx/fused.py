"""Rows of operations that onnxruntime's optimisers join: the domain com.microsoft."""

import itertools
from dataclasses import replace

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx import products
from realtime_lrp.models.onnx.axes import CannotReadError, Tensor, elementwise
from realtime_lrp.models.onnx.entries import ELEMENTWISE, clip, of_entries
from realtime_lrp.models.onnx.moves import picked
from realtime_lrp.models.onnx.nodes import Inputs, OnnxNode, Row, Value, constant, given, tensor

PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max")}
"""Activation -> the names of its parameters."""


def activated(row: Row) -> Row:
    """Makes a row that adds its fourth input, if there is one, and ends in an activation."""

    def row_and_activation(node: OnnxNode, inputs: Inputs) -> Value:
        found = row(node, inputs[:3])
        assert isinstance(found, Tensor)
        for more in inputs[3:]:
            found = _sum(node, found, more)
        name = node.get("activation", "")
        values = node.get("activation_params", None)
        if values is None:
            values = [node.get(f"activation_{key}", None) for key in ("alpha", "beta")]
        own = dict(zip(PARAMETERS.get(name, ()), values, strict=False))
        if name and name not in ("Clip", *ELEMENTWISE):
            raise CannotReadError(f"has the activation {name!r}")
        last = replace(node, kind=name, attributes={k: v for k, v in own.items() if v is not None})
        return (clip if name == "Clip" else of_entries)(last, [found]) if name else found

    return row_and_activation


def _sum(node: OnnxNode, first: Value, *others: Value | None) -> Tensor:
    """The sum of a tensor and what is not left out."""
    for one in others:
        if one is not None:
            first = elementwise(tf.add, [first, one], node.keep)
    return tensor([first])


def _turned(value: Value | None) -> Value | None:
    """With the last two axes the other way round."""
    if isinstance(value, Tensor):
        rank = len(value.axes)
        return value.transposed([*range(rank - 2), rank - 1, rank - 2])
    return None if value is None else np.swapaxes(value, -1, -2)


def matrix_product(node: OnnxNode, inputs: Inputs) -> Value:
    """FusedMatMul: a product of matrices, which may be turned, times a number."""
    both = [
        _turned(one) if node.get(name, 0) else one
        for name, one in zip(("transA", "transB"), inputs, strict=True)
    ]
    if any(node.get(name, 0) for name in ("transBatchA", "transBatchB")):
        raise CannotReadError("moves other axes than a matrix has")
    alpha = np.float32(node.get("alpha", 1.0))
    if isinstance(both[1], np.ndarray):
        return products.matrix_product(node, [both[0], both[1] * alpha])
    found = products.matrix_product(node, both)
    return found if alpha == 1 else elementwise(tf.multiply, [found, np.array(alpha)], node.keep)


def quantised_product(node: OnnxNode, inputs: Inputs) -> Value:
    """MatMulNBits: a dense layer whose weights have 4 or 8 bits, and a scale for each block."""
    packed = given(inputs, 1)
    scales = given(inputs, 2)
    zeros = constant(inputs, 3)
    bits = int(node.get("bits", 4))
    size = int(node.get("block_size", 32))
    depth = int(node.get("K", 0))
    outputs = int(node.get("N", 0))
    if bits not in (4, 8) or any(one is not None for one in inputs[4:5]):
        raise CannotReadError(f"has weights of {bits} bits, or groups in another order")

    def unpacked(values: np.ndarray, shape: list[int]) -> np.ndarray:
        halves = np.stack([values & 15, values >> 4], -1) if bits == 4 else values
        rows = halves.reshape(outputs, -1)
        return rows[:, : np.prod(shape[1:])].reshape(shape).astype(np.float32)

    shape = [outputs, -(-depth // size), 1]
    zero = np.full(shape, 2.0 ** (bits - 1), np.float32)
    if zeros is not None:
        zero = unpacked(zeros, shape) if zeros.dtype == np.uint8 else zeros.reshape(shape)
    weights = unpacked(packed, [*shape[:2], size]) - zero
    weights = (weights * scales.reshape(shape)).reshape(outputs, -1)[:, :depth]
    return _sum(node, products.matrix_product(node, [inputs[0], weights.T]), *inputs[5:6])


def layer_norm(node: OnnxNode, inputs: Inputs) -> list[Value]:
    """(Skip)(Simplified)LayerNormalization; the last output is the sum that is normalised."""
    x, *others = inputs
    if node.kind.startswith("Skip"):
        skip, *others = others
        weights = 1 if "Simplified" in node.kind else 2
        x = _sum(node, tensor(inputs), skip, *others[weights:])
        others = others[:weights]
    kind = "RMSNormalization" if "Simplified" in node.kind else "LayerNormalization"
    found = products.layer_norm(replace(node, kind=kind, outputs=1), [x, *others])
    return [tensor([found]), np.empty(0), np.empty(0), tensor([x])]


def bias_softmax(node: OnnxNode, inputs: Inputs) -> Value:
    """The softmax of a sum."""
    return products.softmax(node, [_sum(node, tensor(inputs), inputs[1])])


def attention(node: OnnxNode, inputs: Inputs) -> Value:
    """Attention of tokens, from one product for queries, keys and values, or from these."""
    if node.kind == "Attention":
        bias = inputs[2] if len(inputs) > 2 else None
        rest = list(inputs[3:])
        joined = _sum(node, products.matrix_product(node, inputs[:2]), bias)
        size = joined.shape[-1] // 3
        sizes = [int(one) for one in node.get("qkv_hidden_sizes", [size] * 3)]
        ends = np.cumsum([0, *sizes]).tolist()
        parts = [picked(joined, 2, a, b) for a, b in itertools.pairwise(ends)]
        masks = rest[2:3] if len(rest) > 2 else []
        others = [*rest[:2], *rest[3:]]
    else:
        parts = [tensor(inputs, n) for n in range(3)]
        bias = constant(inputs, 3, "a bias")
        if bias is not None:
            ends = np.cumsum([part.shape[-1] for part in parts])[:-1]
            parts = [_sum(node, *pair) for pair in zip(parts, np.split(bias, ends), strict=True)]
        masks = list(inputs[5:6])
        others = [*inputs[4:5], *inputs[6:]]
    if any(one is not None for one in others):
        raise CannotReadError("is attention with a past, or with lengths")
    heads = int(node.get("num_heads", 1))
    own = {"q_num_heads": heads, "kv_num_heads": heads, "scale": node.get("scale", 0.0),
           "is_causal": node.get("unidirectional", 0)}  # fmt: skip
    return products.attention(replace(node, attributes=own), [*parts, *masks])
