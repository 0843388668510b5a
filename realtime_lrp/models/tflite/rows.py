"""The rows of TensorFlow Lite's operations: what each computes, in TensorFlow.

To add one, add a row to `ROWS`. A row is a function (node, *inputs) -> output or list of outputs.
Inputs are arrays where they are constants, None where they are left out. What depends on the
picture has `BATCH` where the file has the 1 of its single picture.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.models.tflite.file import TYPES
from realtime_lrp.relevance.reading.tracing import CannotReadError

BATCH = 10007  # pictures while shapes are found: a prime that no size of a network has


class TfliteNode(NamedTuple):
    """An operation."""

    kind: str
    options: Any
    shape: list[int] | None  # its output's for one picture, None where the file leaves it open
    keep: Callable[[np.ndarray], tf.Tensor]  # makes a TensorFlow constant of an array

    def get(self, name: str, default: Any = 0) -> Any:
        """An option, by its name in the schema."""
        return getattr(self.options, name, default)

    def windows(self) -> tuple[tuple[int, int], str]:
        """Strides along rows and columns, and what TensorFlow calls the border."""
        return (self.get("strideH"), self.get("strideW")), ("SAME", "VALID")[self.get("padding")]

    def biased(self, y: tf.Tensor, bias: np.ndarray | None) -> tf.Tensor:
        """With a bias, one for each channel, if there is one."""
        return y if bias is None else y + self.keep(bias)  # BiasAdd is fused, without groups


Row = Callable[..., Any]


def batch_axis(x: Any) -> int | None:
    """The axis of the pictures; None of what does not depend on them."""
    shape = x.shape.as_list() if tf.is_tensor(x) else []
    if None in shape:
        raise CannotReadError("has a shape that depends on the picture")
    return next((axis for axis, size in enumerate(shape) if size and size % BATCH == 0), None)


def shape_of(x: tf.Tensor) -> tf.Tensor:
    """The shape of a tensor when it is computed; `tf.shape` would give `BATCH`'s."""
    return tf.raw_ops.Shape(input=x)


def numbers(constant: np.ndarray) -> list[int]:
    """A constant of a few whole numbers."""
    if not isinstance(constant, np.ndarray) or constant.size > 16:
        raise CannotReadError("computes sizes while it runs")
    return [int(one) for one in constant.ravel()]


def convolution(node: TfliteNode, x: tf.Tensor, weights: np.ndarray, bias: Any = None) -> tf.Tensor:
    """A convolution of all channels, in groups, or of each channel."""
    each = node.kind == "DEPTHWISE_CONV_2D"
    kernel = weights.transpose((1, 2, 0, 3) if each else (1, 2, 3, 0))
    strides, border = node.windows()
    dilations = node.get("dilationHFactor", 1), node.get("dilationWFactor", 1)
    if each and dilations == (1, 1) and strides[0] == strides[1]:
        kernel = kernel.reshape(*kernel.shape[:2], x.shape[-1], -1)
        y = tf.nn.depthwise_conv2d(x, node.keep(kernel), [1, *strides, 1], border)
    else:
        y = tf.nn.conv2d(x, node.keep(kernel), strides, border, dilations=dilations)
    return node.biased(y, bias)


def transposed_convolution(
    node: TfliteNode, shape: Any, weights: np.ndarray, x: tf.Tensor, bias: Any = None
) -> tf.Tensor:
    """The transpose of a convolution."""
    sizes = [shape_of(x)[0], *(node.shape or numbers(shape))[1:]]
    kernel = node.keep(weights.transpose(1, 2, 0, 3))
    return node.biased(tf.nn.conv2d_transpose(x, kernel, sizes, *node.windows()), bias)


def dense(node: TfliteNode, x: tf.Tensor, weights: np.ndarray, bias: Any = None) -> tf.Tensor:
    """A dense layer on the last axis."""
    if not node.get("keepNumDims") and len(x.shape) != 2:
        rows = math.prod(x.shape) // BATCH // weights.shape[1]
        x = reshaped(x, [rows, weights.shape[1]])
    return node.biased(tf.matmul(x, node.keep(weights.T)), bias)


def pool(function: Callable[..., tf.Tensor]) -> Row:
    """Makes the row of a pool over windows."""
    return lambda node, x: function(
        x, (node.get("filterHeight"), node.get("filterWidth")), *node.windows()
    )


def reshaped(x: tf.Tensor, shape: list[int]) -> tf.Tensor:
    """The same entries in the shape that the file has for one picture."""
    if (axis := batch_axis(x)) is None:
        return tf.reshape(x, shape)
    sizes = [1] * (len(shape) < 2) + shape
    before = math.prod(x.shape[:axis])
    places = [n for n, one in enumerate(sizes) if one == 1 or not axis]
    place = next((n for n in places if math.prod(sizes[:n]) == before), None)
    if place is None:
        raise CannotReadError("joins the axis of the pictures with others")
    return tf.reshape(x, [*sizes[:place], -1, *sizes[place + 1 :]])


def reshape(node: TfliteNode, x: tf.Tensor, shape: Any = None) -> tf.Tensor:
    """The same entries in another shape."""
    if node.shape is not None:
        return reshaped(x, node.shape)
    return tf.squeeze(x, node.get("squeezeDims")) if shape is None else tf.reshape(x, shape)


def strided_slice(node: TfliteNode, x: Any, *ends: Any) -> tf.Tensor:
    """Python's slices; of the batch all pictures."""
    names = ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")
    masks = [node.get(f"{name}Mask") for name in names]
    if (axis := batch_axis(x)) is not None and not masks[2] & 1:
        if masks[2] or masks[3] & (2 << axis) - 1 or masks[4] >> axis & 1:
            raise CannotReadError("slices the axis of the pictures")
        masks[:2] = [mask | 1 << axis for mask in masks[:2]]
    return tf.strided_slice(x, *ends, *masks)


def slice_(node: TfliteNode, x: tf.Tensor, begin: Any, sizes: np.ndarray) -> tf.Tensor:
    """Some entries along each axis; of the batch all pictures."""
    axis = batch_axis(x)
    return tf.slice(x, begin, [-1 if n == axis else one for n, one in enumerate(numbers(sizes))])


def joined(join: Callable[..., tf.Tensor]) -> Row:
    """Makes the row of tensors one after the other; a constant is the same for each picture."""

    def row(node: TfliteNode, *inputs: Any) -> tf.Tensor:
        batch = next((shape_of(input_)[0] for input_ in inputs if batch_axis(input_) == 0), None)
        parts = [
            tf.broadcast_to(node.keep(input_), [batch, *input_.shape[1:]])
            if isinstance(input_, np.ndarray) and batch is not None
            else input_
            for input_ in inputs
        ]
        return join(parts, node.get("axis"))

    return row


def reduction(reduce: Callable[..., tf.Tensor]) -> Row:
    """Makes the row of a function of all entries along axes."""
    return lambda node, x, axes: reduce(x, numbers(axes), keepdims=bool(node.get("keepDims")))


def cast(node: TfliteNode, x: Any) -> tf.Tensor:
    """Another type; all that is computed of the picture has floating numbers here."""
    x = tf.convert_to_tensor(x)
    kind = TYPES[node.get("outDataType")].lower()
    if "float" not in kind and batch_axis(x) is not None and x.dtype.is_floating:
        raise CannotReadError("makes whole numbers of what depends on the picture")
    return tf.cast(x, tf.float32 if "float" in kind else kind)


def of_tensors(function: Callable[..., tf.Tensor], **options: str) -> Row:
    """Makes the row of a function of tensors; `options` has what the schema calls its options."""

    def row(node: TfliteNode, *inputs: Any) -> tf.Tensor:
        tensors = [
            node.keep(input_) if isinstance(input_, np.ndarray) else input_ for input_ in inputs
        ]
        return function(*tensors, **{name: node.get(one) for name, one in options.items()})

    return row


def resize(function: Callable[..., tf.Tensor]) -> Row:
    """Makes the row of other numbers of rows and columns."""
    names = {"align_corners": "alignCorners", "half_pixel_centers": "halfPixelCenters"}
    return of_tensors(lambda x, size, **how: function(images=x, size=size, **how), **names)


FUSED: dict[int, Callable[[tf.Tensor], tf.Tensor]] = {
    1: tf.nn.relu, 2: lambda x: tf.clip_by_value(x, -1.0, 1.0), 3: tf.nn.relu6, 4: tf.tanh,
}  # fmt: skip
"""The activation of an operation, by its number in the schema."""

ENTRIES: dict[str, Callable[..., tf.Tensor]] = {
    **{
        name: getattr(tf, name.lower())
        for name in (
            "ABS", "ADD", "COS", "EQUAL", "EXP", "FILL", "FLOOR", "GREATER", "GREATER_EQUAL",
            "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "MAXIMUM", "MINIMUM",
            "NOT_EQUAL", "POW", "RANGE", "ROUND", "SIGN", "SIN", "SQRT", "SQUARE", "TANH",
            "TILE", "TRANSPOSE",
        )
    },
    "ADD_N": lambda *values: functools.reduce(tf.add, values),
    "BATCH_TO_SPACE_ND": tf.batch_to_space, "BROADCAST_TO": tf.broadcast_to,
    "CEIL": tf.math.ceil, "DIV": tf.realdiv, "ELU": tf.nn.elu,
    "HARD_SWISH": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "L2_NORMALIZATION": lambda x: tf.math.l2_normalize(x, -1),
    "LOG": tf.math.log, "LOGISTIC": tf.sigmoid,
    "LOG_SOFTMAX": lambda x: tf.math.log(tf.nn.softmax(x)),
    "MUL": tf.multiply, "NEG": tf.negative, "PAD": tf.pad,
    "PADV2": lambda x, border, value: tf.pad(x, border, constant_values=value),
    "PRELU": lambda x, slope: tf.maximum(x, 0.0) + slope * tf.minimum(x, 0.0),
    "RELU": tf.nn.relu, "RELU6": tf.nn.relu6, "RELU_N1_TO_1": FUSED[2],
    "RELU_0_TO_1": lambda x: tf.clip_by_value(x, 0.0, 1.0),
    "REVERSE_V2": tf.reverse, "RSQRT": tf.math.rsqrt, "SELECT": tf.where, "SELECT_V2": tf.where,
    "SHAPE": shape_of, "SPACE_TO_BATCH_ND": tf.space_to_batch_nd,
    "SQUARED_DIFFERENCE": tf.math.squared_difference, "SUB": tf.subtract,
    "ZEROS_LIKE": lambda x: tf.raw_ops.ZerosLike(x=x),
}  # fmt: skip
"""Kind of an operation without options -> the function of its inputs."""

ROWS: dict[str, Row] = {
    **{kind: of_tensors(function) for kind, function in ENTRIES.items()},
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), convolution),
    **dict.fromkeys(("DEQUANTIZE", "QUANTIZE"), lambda node, x: x),  # all numbers are floating
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), reshape),
    "AVERAGE_POOL_2D": pool(tf.nn.avg_pool2d),
    "BATCH_MATMUL": of_tensors(tf.matmul, adjoint_a="adjX", adjoint_b="adjY"),
    "CAST": cast, "CONCATENATION": joined(tf.concat),
    "CUMSUM": of_tensors(tf.cumsum, exclusive="exclusive", reverse="reverse"),
    "DEPTH_TO_SPACE": of_tensors(tf.nn.depth_to_space, block_size="blockSize"),
    "FULLY_CONNECTED": dense, "GATHER": of_tensors(tf.gather, axis="axis", batch_dims="batchDims"),
    "GELU": of_tensors(tf.nn.gelu, approximate="approximate"),
    "L2_POOL_2D": pool(lambda x, *window: tf.sqrt(tf.nn.avg_pool2d(tf.square(x), *window))),
    "LEAKY_RELU": of_tensors(tf.nn.leaky_relu, alpha="alpha"),
    "MAX_POOL_2D": pool(tf.nn.max_pool2d), "MEAN": reduction(tf.reduce_mean),
    "MIRROR_PAD": lambda node, *read: tf.pad(*read, ("REFLECT", "SYMMETRIC")[node.get("mode")]),
    "PACK": joined(tf.stack), "REDUCE_MAX": reduction(tf.reduce_max),
    "REDUCE_MIN": reduction(tf.reduce_min), "REDUCE_PROD": reduction(tf.reduce_prod),
    "RESIZE_BILINEAR": resize(tf.raw_ops.ResizeBilinear),
    "RESIZE_NEAREST_NEIGHBOR": resize(tf.raw_ops.ResizeNearestNeighbor), "SLICE": slice_,
    "SOFTMAX": lambda node, x: tf.nn.softmax(x if node.get("beta") == 1 else x * node.get("beta")),
    "SPACE_TO_DEPTH": of_tensors(tf.nn.space_to_depth, block_size="blockSize"),
    "SPLIT": lambda node, axis, x: tf.split(x, node.get("numSplits"), int(axis)),
    "SPLIT_V": lambda node, x, sizes, axis: tf.split(x, numbers(sizes), int(axis)),
    "STRIDED_SLICE": strided_slice, "SUM": reduction(tf.reduce_sum),
    "TRANSPOSE_CONV": transposed_convolution,
    "UNPACK": lambda node, x: tf.unstack(x, axis=node.get("axis")),
}  # fmt: skip
"""Kind of an operation -> its row."""
