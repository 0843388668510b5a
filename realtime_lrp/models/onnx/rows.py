"""The table of ONNX's operations: what each computes, in TensorFlow.

To add one, add a row to `ROWS`, or a function of entries to `ELEMENTWISE` in `entries.py`. A row is
a function (node, inputs) -> output or list of outputs. Inputs are `Tensor`s where they depend on
the picture, else arrays, and None where they are left out. Nodes that read arrays alone never come
here: ONNX's own reference computes them.
"""

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx import entries, fused, moves, products, resizing, windows
from realtime_lrp.models.onnx.entries import ELEMENTWISE
from realtime_lrp.models.onnx.nodes import Row, tensor
from realtime_lrp.models.onnx.products import reduction

MICROSOFT = "com.microsoft"
"""The domain of operations that onnxruntime's optimisers make; in `ROWS` it stands before a name
that ONNX has too."""

ROWS: dict[str, Row] = {
    **dict.fromkeys(ELEMENTWISE, entries.of_entries),
    **dict.fromkeys(("CastLike", "Dropout", "Identity"), lambda node, inputs: tensor(inputs)),
    # NaN and infinity are refused later
    **dict.fromkeys(
        ("IsInf", "IsNaN"), lambda node, inputs: np.zeros(tensor(inputs).shape, bool)
    ),
    "Shape": lambda node, inputs: np.array(
        tensor(inputs).shape[node.get("start", 0) : node.get("end", None)], np.int64
    ),
    "Cast": entries.cast, "Clip": entries.clip, "DequantizeLinear": entries.dequantise,
    "QuantizeLinear": entries.quantise, "Trilu": entries.trilu, "Where": entries.where,
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
    f"{MICROSOFT}.Attention": fused.attention, "BiasSoftmax": fused.bias_softmax,
    "FusedConv": fused.activated(windows.conv), "FusedGemm": fused.activated(products.gemm),
    "FusedMatMul": fused.matrix_product, "MatMulNBits": fused.quantised_product,
    "MultiHeadAttention": fused.attention, "SimplifiedLayerNormalization": fused.layer_norm,
    "SkipLayerNormalization": fused.layer_norm,
    "SkipSimplifiedLayerNormalization": fused.layer_norm,
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
