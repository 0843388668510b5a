"""The table: a row for each TensorFlow operation that explanations are made of.

A row is a function (tensors, operation, *inputs) that writes ONNX nodes and names the operation's
outputs. Shapes are static. Convolutions and pools are in `windows.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.export.windows import WINDOWS
from realtime_lrp.export.writer import Tensors, in_layout, place

Row = Callable[..., None]

TYPES = {tf.float32: 1, tf.uint8: 2, tf.int32: 6, tf.int64: 7, tf.bool: 9, tf.float64: 11}
"""TensorFlow's types by their numbers in ONNX."""


def elementwise(kind: str, here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> None:
    """Writes an operation that computes each entry by itself."""
    here.put(op.outputs[0], *_each(kind, here, op, *inputs))


def _each(kind: str, here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> tuple[str, bool]:
    first = here.first(*inputs) and op.outputs[0].shape.rank == 4
    first = first and all(one.shape.rank in (0, 4) or _fits(here, one) for one in inputs)
    return here.writer.op(kind, *(here.broadcast(one, first) for one in inputs)), first


def _fits(here: Tensors, one: tf.Tensor) -> bool:
    return here.constant(one) is not None


def _then(kind: str, after: Callable[..., str]) -> Row:
    """A row of an operation and what comes after it: (writer, name) -> name."""

    def row(here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> None:
        name, first = _each(kind, here, op, *inputs)
        here.put(op.outputs[0], after(here.writer, name), first)

    return row


def _unary(make: Callable[..., str]) -> Row:
    """A row of a function of one tensor: (writer, name) -> name."""

    def row(here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
        first = here.first(a)
        here.put(op.outputs[0], make(here.writer, here.get(a, first)), first)

    return row


def identity(here: Tensors, op: tf.Operation, a: tf.Tensor, *_: tf.Tensor) -> None:
    """Names the same tensor once more."""
    here.alias(op.outputs[0], a)


def constant(here: Tensors, op: tf.Operation) -> None:
    """Keeps the values; they are written where they are read."""
    here.set_constant(op.outputs[0], tf.make_ndarray(op.get_attr("value")))


def cast(here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
    """Converts between types of numbers."""
    first = here.first(a)
    here.put(
        op.outputs[0],
        here.writer.op("Cast", here.get(a, first), to=TYPES[op.outputs[0].dtype]),
        first,
    )


def divide_no_nan(here: Tensors, op: tf.Operation, a: tf.Tensor, b: tf.Tensor) -> None:
    """A / b, and 0 where b is 0."""
    w, first = here.writer, here.first(a, b)
    above, below = here.broadcast(a, first), here.broadcast(b, first)
    zero = w.op("Equal", below, w.number(0))
    share = w.op("Div", above, w.op("Where", zero, w.number(1), below))
    here.put(op.outputs[0], w.op("Where", zero, w.number(0), share), first)


def relu_grad(here: Tensors, op: tf.Operation, gradient: tf.Tensor, a: tf.Tensor) -> None:
    """The gradient where a is above 0, for Relu6 and below 6."""
    w, first = here.writer, here.first(gradient, a)
    values = here.get(a, first)
    passes = w.op("Greater", values, w.number(0))
    if op.type == "Relu6Grad":
        passes = w.op("And", passes, w.op("Less", values, w.number(6)))
    here.put(op.outputs[0], w.op("Where", passes, here.get(gradient, first), w.number(0)), first)


def of_activation(slope: Callable[..., str]) -> Row:
    """The gradient of an activation by its output y: dy * slope(y)."""

    def row(here: Tensors, op: tf.Operation, y: tf.Tensor, dy: tf.Tensor) -> None:
        first = here.first(y, dy)
        made = slope(here.writer, here.get(y, first))
        here.put(op.outputs[0], here.writer.op("Mul", here.get(dy, first), made), first)

    return row


def leaky_relu(here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
    """A ReLU with a slope below 0."""
    first = here.first(a)
    made = here.writer.op("LeakyRelu", here.get(a, first), alpha=op.get_attr("alpha"))
    here.put(op.outputs[0], made, first)


def bias_add(here: Tensors, op: tf.Operation, a: tf.Tensor, b: tf.Tensor) -> None:
    """Adds a bias; to a convolution that nothing else reads, as its third input."""
    values, first = here.constant(b), here.first(a)
    if first and values is not None and a.op.type in CONVOLUTIONS and len(a.consumers()) == 1:
        node = next(
            one for one in reversed(here.writer.nodes) if one.output[0] == here.get(a, True)
        )
        node.input.append(here.writer.constant(values))
        here.put(op.outputs[0], here.get(a, True), True)
        return
    elementwise("Add", here, op, a, b)


CONVOLUTIONS = "Conv2D", "DepthwiseConv2dNative"


def reduction(kind: str, here: Tensors, op: tf.Operation, a: tf.Tensor, axes: tf.Tensor) -> None:
    """Sums, means and maxima over axes."""
    w, keep, rank = here.writer, bool(op.get_attr("keep_dims")), a.shape.rank
    first = here.first(a) and rank == 4
    over = [place(int(one), rank, first) for one in np.ravel(here.known(axes))]
    if first and not keep and sorted(over) != [2, 3]:
        first, over = False, [int(one) % rank for one in np.ravel(here.known(axes))]
    name = here.get(a, first)
    if not over:
        here.put(op.outputs[0], name, first)
        return
    if kind == "ReduceMean" and first and sorted(over) == [2, 3]:
        made = w.op("GlobalAveragePool", name)
        made = made if keep else w.op("Reshape", made, w.whole(*op.outputs[0].shape))
    else:
        made = w.op(kind, name, w.whole(*over), keepdims=int(keep))
    here.put(op.outputs[0], made, first and keep)


def reduction_of_truth(
    kind: str, here: Tensors, op: tf.Operation, a: tf.Tensor, axes: tf.Tensor
) -> None:
    """Whether all, or any, entries are true."""
    w, rank = here.writer, a.shape.rank
    over = w.whole(*(int(one) % rank for one in np.ravel(here.known(axes))))
    numbers = w.op("Cast", here.get(a), to=TYPES[tf.int32])
    made = w.op(kind, numbers, over, keepdims=int(op.get_attr("keep_dims")))
    here.put(op.outputs[0], w.op("Cast", made, to=TYPES[tf.bool]))


def concat(here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> None:
    """Joins tensors along an axis."""
    *parts, axis = inputs
    rank = parts[0].shape.rank
    first = here.first(*parts)
    made = here.writer.op(
        "Concat", *(here.get(one, first) for one in parts),
        axis=place(int(here.known(axis)), rank, first),
    )  # fmt: skip
    here.put(op.outputs[0], made, first)


def pack(here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> None:
    """Stacks tensors along a new axis."""
    w, axis = here.writer, op.get_attr("axis") % op.outputs[0].shape.rank
    at = w.whole(axis)
    parts = [w.op("Unsqueeze", here.get(one), at) for one in inputs]
    here.put(op.outputs[0], w.op("Concat", *parts, axis=axis))


def unpack(here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
    """Takes a tensor apart along an axis."""
    w, axis = here.writer, op.get_attr("axis") % a.shape.rank
    for number, output in enumerate(op.outputs):
        here.put(output, w.op("Gather", here.get(a), w.constant(np.int64(number)), axis=axis))


def split(here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> None:
    """Takes a tensor apart into pieces along an axis."""
    a, axis = (inputs[0], inputs[2]) if op.type == "SplitV" else (inputs[1], inputs[0])
    first, along = here.first(a), int(here.known(axis)) % a.shape.rank
    sizes = here.writer.whole(*(int(one.shape[along]) for one in op.outputs))
    parts = here.writer.ops(
        "Split", here.get(a, first), sizes, count=len(op.outputs),
        axis=place(along, a.shape.rank, first),
    )  # fmt: skip
    for output, name in zip(op.outputs, parts, strict=True):
        here.put(output, name, first)


def slice_(
    here: Tensors, op: tf.Operation, a: tf.Tensor, begin: tf.Tensor, size: tf.Tensor
) -> None:
    """Cuts a block out."""
    begins = here.known(begin).tolist()
    ranges = [
        range(start, start + int(length))
        for start, length in zip(begins, op.outputs[0].shape, strict=True)
    ]
    first = here.first(a)
    here.put(op.outputs[0], _cut(here, a, ranges, first), first)


def _cut(here: Tensors, a: tf.Tensor, ranges: Sequence[range], first: bool = False) -> str:
    """The entries of a tensor at a range of each axis of NHWC."""
    w, rank = here.writer, len(ranges)
    cut = [axis for axis in range(rank) if ranges[axis] != range(int(a.shape[axis]))]
    if not cut:
        return here.get(a, first)
    ends = [
        ranges[axis].stop if ranges[axis].stop >= 0 else -int(a.shape[axis]) - 1 for axis in cut
    ]
    return w.op(
        "Slice", here.get(a, first), w.whole(*(ranges[axis].start for axis in cut)),
        w.whole(*ends), w.whole(*(place(axis, rank, first) for axis in cut)),
        w.whole(*(ranges[axis].step for axis in cut)),
    )  # fmt: skip


def _ranges(op: tf.Operation, shape: Sequence[int], *given: np.ndarray) -> list[range]:
    """The range of each axis that a strided slice takes; a new axis takes none."""
    bits = {
        name: op.get_attr(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    found: list[range] = []
    written = len(given[0]) - sum(
        bits["ellipsis"] >> at & 1 or bits["new_axis"] >> at & 1 for at in range(len(given[0]))
    )
    for at, (begin, end, step) in enumerate(zip(*(one.tolist() for one in given), strict=True)):
        size = shape[len(found)] if len(found) < len(shape) else 0
        if bits["ellipsis"] >> at & 1:
            found += [range(one) for one in shape[len(found) :][: len(shape) - written]]
        elif bits["new_axis"] >> at & 1:
            continue
        elif bits["shrink_axis"] >> at & 1:
            found.append(range(begin % size, begin % size + 1))
        else:
            taken = slice(
                None if bits["begin"] >> at & 1 else begin,
                None if bits["end"] >> at & 1 else end,
                step,
            )
            found.append(range(*taken.indices(size)))
    return [*found, *(range(one) for one in shape[len(found) :])]


def strided_slice(here: Tensors, op: tf.Operation, a: tf.Tensor, *given: tf.Tensor) -> None:
    """a[begin:end:step], with axes that go and come."""
    ranges = _ranges(op, a.shape.as_list(), *map(here.known, given))
    shape = op.outputs[0].shape.as_list()
    first = here.first(a) and len(shape) == 4 and [len(one) for one in ranges] == shape
    made = _cut(here, a, ranges, first)
    if [len(one) for one in ranges] != shape:
        made = here.writer.op("Reshape", made, here.writer.whole(*shape))
    here.put(op.outputs[0], made, first)


def strided_slice_grad(
    here: Tensors, op: tf.Operation, shape: tf.Tensor, *given: tf.Tensor
) -> None:
    """What a strided slice took, put back among zeros."""
    *bounds, gradient = given
    w, whole = here.writer, here.known(shape).tolist()
    ranges = _ranges(op, whole, *map(here.known, bounds))
    if any(one.step != 1 for one in ranges):
        raise NotImplementedError("of a step other than 1")
    made = w.op("Reshape", here.get(gradient), w.whole(*map(len, ranges)))
    before = [one.start for one in ranges]
    after = [size - one.stop for size, one in zip(whole, ranges, strict=True)]
    here.put(op.outputs[0], w.op("Pad", made, w.whole(*before, *after)))


def pad(here: Tensors, op: tf.Operation, a: tf.Tensor, *given: tf.Tensor) -> None:
    """Adds edges: of a value, or mirrored."""
    w, first = here.writer, here.first(a)
    before, after = (in_layout(one, first) for one in here.known(given[0]).T.tolist())
    mode, value = "constant", []
    if op.type == "MirrorPad":
        mode = "reflect"
        if op.get_attr("mode") != b"REFLECT":
            raise NotImplementedError("with its edge repeated")
    elif len(given) > 1:
        value = [here.get(given[1])]
    made = w.op("Pad", here.get(a, first), w.whole(*before, *after), *value, mode=mode)
    here.put(op.outputs[0], made, first)


def reshape(here: Tensors, op: tf.Operation, a: tf.Tensor, *_: tf.Tensor) -> None:
    """The same entries in another shape."""
    before, after = a.shape.as_list(), op.outputs[0].shape.as_list()
    single = len(before) == 4 and before[1:3] == [1, 1] and len(after) < 4
    made = here.writer.op(
        "Reshape", here.get(a, single and here.first(a)), here.writer.whole(*after)
    )
    here.put(op.outputs[0], made)


def transpose(here: Tensors, op: tf.Operation, a: tf.Tensor, order: tf.Tensor) -> None:
    """The axes in another order."""
    here.put(
        op.outputs[0], here.writer.op("Transpose", here.get(a), perm=here.known(order).tolist())
    )


def tile(here: Tensors, op: tf.Operation, a: tf.Tensor, times: tf.Tensor) -> None:
    """A tensor several times along its axes."""
    first = here.first(a)
    counts = here.writer.whole(*in_layout(here.known(times).tolist(), first))
    here.put(op.outputs[0], here.writer.op("Tile", here.get(a, first), counts), first)


def broadcast_to(here: Tensors, op: tf.Operation, a: tf.Tensor, shape: tf.Tensor) -> None:
    """A tensor repeated along axes of length 1."""
    first = here.first(a) and a.shape.rank == op.outputs[0].shape.rank
    size = here.writer.whole(*in_layout(op.outputs[0].shape.as_list(), first))
    here.put(op.outputs[0], here.writer.op("Expand", here.get(a, first), size), first)


def softmax(kind: str, here: Tensors, op: tf.Operation, a: tf.Tensor) -> None:
    """A softmax over the last axis."""
    here.put(op.outputs[0], here.writer.op(kind, here.get(a), axis=-1))


def top_k(here: Tensors, op: tf.Operation, a: tf.Tensor, k: tf.Tensor) -> None:
    """The largest entries and where they are; of equal ones the first."""
    w, name = here.writer, here.get(a)
    if a.dtype == tf.int32:
        name = w.op("Cast", name, to=TYPES[tf.float32])
    values, places = w.ops("TopK", name, w.whole(int(here.known(k))), count=2, axis=-1)
    if a.dtype == tf.int32:
        values = w.op("Cast", values, to=TYPES[tf.int32])
    here.put(op.outputs[0], values)
    here.put(op.outputs[1], w.op("Cast", places, to=TYPES[tf.int32]))


def arg_max(here: Tensors, op: tf.Operation, a: tf.Tensor, axis: tf.Tensor) -> None:
    """Where the largest entry is."""
    w = here.writer
    made = w.op("ArgMax", here.get(a), axis=int(here.known(axis)), keepdims=0)
    here.put(op.outputs[0], w.op("Cast", made, to=TYPES[op.outputs[0].dtype]))


def gather(
    here: Tensors, op: tf.Operation, a: tf.Tensor, places: tf.Tensor, axis: tf.Tensor
) -> None:
    """Entries by their places along an axis."""
    if op.get_attr("batch_dims"):
        raise NotImplementedError("of several pictures")
    along = int(here.known(axis)) % a.shape.rank
    here.put(op.outputs[0], here.writer.op("Gather", here.get(a), here.get(places), axis=along))


def product(here: Tensors, op: tf.Operation, a: tf.Tensor, b: tf.Tensor) -> None:
    """A product of matrices."""
    names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    flips = [bool(op.get_attr(name)) for name in names]
    w = here.writer
    if a.shape.rank == b.shape.rank == 2:
        flipped = {"transA": int(flips[0]), "transB": int(flips[1])}
        here.put(op.outputs[0], w.op("Gemm", here.get(a), here.get(b), **flipped))
        return

    def side(one: tf.Tensor, flip: bool) -> str:
        order = [*range(one.shape.rank - 2), one.shape.rank - 1, one.shape.rank - 2]
        return w.op("Transpose", here.get(one), perm=order) if flip else here.get(one)

    here.put(op.outputs[0], w.op("MatMul", side(a, flips[0]), side(b, flips[1])))


def einsum(here: Tensors, op: tf.Operation, *inputs: tf.Tensor) -> None:
    """A sum over products by letters."""
    letters = op.get_attr("equation").decode()
    names = [here.get(one) for one in inputs]
    here.put(op.outputs[0], here.writer.op("Einsum", *names, equation=letters))


def resize(here: Tensors, op: tf.Operation, a: tf.Tensor, size: tf.Tensor) -> None:
    """A picture in another size, as TensorFlow samples it."""
    linear, w = op.type == "ResizeBilinear", here.writer
    if op.get_attr("align_corners"):
        corners = "align_corners"
    else:
        corners = "half_pixel" if op.get_attr("half_pixel_centers") else "asymmetric"
    nearest = "floor" if corners == "asymmetric" else "round_prefer_ceil"
    shape = w.whole(*in_layout(op.outputs[0].shape.as_list(), True))
    made = w.op(
        "Resize", here.get(a, True), "", "", shape, mode="linear" if linear else "nearest",
        coordinate_transformation_mode=corners, nearest_mode=nearest,
    )  # fmt: skip
    here.put(op.outputs[0], made, True)


def _one_minus(w: Any, y: str) -> str:
    return w.op("Sub", w.number(1), y)


SAME = {
    "Mul": "Mul", "RealDiv": "Div", "Div": "Div", "AddV2": "Add", "Add": "Add", "Sub": "Sub",
    "Maximum": "Max", "Minimum": "Min", "Relu": "Relu", "Neg": "Neg", "Sqrt": "Sqrt", "Pow": "Pow",
    "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Erf": "Erf", "Exp": "Exp", "Log": "Log", "Abs": "Abs",
    "Sign": "Sign", "Floor": "Floor", "Ceil": "Ceil", "Round": "Round", "Elu": "Elu",
    "Selu": "Selu", "Softplus": "Softplus", "Softsign": "Softsign", "Reciprocal": "Reciprocal",
    "Inv": "Reciprocal", "Sin": "Sin", "Cos": "Cos", "GreaterEqual": "GreaterOrEqual",
    "Less": "Less", "LessEqual": "LessOrEqual", "Greater": "Greater", "Equal": "Equal",
    "SelectV2": "Where", "Select": "Where", "AddN": "Sum", "LogicalAnd": "And", "LogicalOr": "Or",
    "LogicalNot": "Not",
}  # fmt: skip
"""Operations that ONNX has too."""

ROWS: dict[str, Row] = {
    **{name: partial(elementwise, kind) for name, kind in SAME.items()},
    **WINDOWS,
    **dict.fromkeys(("Identity", "StopGradient", "PreventGradient", "EnsureShape"), identity),
    **dict.fromkeys(("Reshape", "ExpandDims", "Squeeze"), reshape),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), product),
    **dict.fromkeys(("Pad", "PadV2", "MirrorPad"), pad),
    **dict.fromkeys(("Split", "SplitV"), split),
    **dict.fromkeys(("ReluGrad", "Relu6Grad"), relu_grad),
    **dict.fromkeys(("ResizeBilinear", "ResizeNearestNeighbor"), resize),
    **{
        name: partial(reduction, kind)
        for name, kind in {
            "Sum": "ReduceSum",
            "Mean": "ReduceMean",
            "Max": "ReduceMax",
            "Min": "ReduceMin",
            "Prod": "ReduceProd",
        }.items()
    },
    "All": partial(reduction_of_truth, "ReduceMin"),
    "Any": partial(reduction_of_truth, "ReduceMax"),
    "ArgMax": arg_max,
    "BiasAdd": bias_add,
    "BroadcastTo": broadcast_to,
    "Cast": cast,
    "ConcatV2": concat,
    "Const": constant,
    "DivNoNan": divide_no_nan,
    "Einsum": einsum,
    "Erfc": _unary(lambda w, a: _one_minus(w, w.op("Erf", a))),
    "Expm1": _unary(lambda w, a: w.op("Sub", w.op("Exp", a), w.number(1))),
    "GatherV2": gather,
    "LeakyRelu": leaky_relu,
    "Log1p": _unary(lambda w, a: w.op("Log", w.op("Add", a, w.number(1)))),
    "LogSoftmax": partial(softmax, "LogSoftmax"),
    "NotEqual": _then("Equal", lambda w, made: w.op("Not", made)),
    "Pack": pack,
    "Relu6": _unary(lambda w, a: w.op("Clip", a, w.number(0), w.number(6))),
    "ReciprocalGrad": of_activation(lambda w, y: w.op("Neg", w.op("Mul", y, y))),
    "RsqrtGrad": of_activation(
        lambda w, y: w.op("Mul", w.number(-0.5), w.op("Mul", y, w.op("Mul", y, y)))
    ),
    "Rsqrt": _unary(lambda w, a: w.op("Reciprocal", w.op("Sqrt", a))),
    "SigmoidGrad": of_activation(lambda w, y: w.op("Mul", y, _one_minus(w, y))),
    "Slice": slice_,
    "Softmax": partial(softmax, "Softmax"),
    "SqrtGrad": of_activation(lambda w, y: w.op("Div", w.number(0.5), y)),
    "Square": _unary(lambda w, a: w.op("Mul", a, a)),
    "SquaredDifference": _then("Sub", lambda w, made: w.op("Mul", made, made)),
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "TanhGrad": of_activation(lambda w, y: _one_minus(w, w.op("Mul", y, y))),
    "Tile": tile,
    "TopKV2": top_k,
    "Transpose": transpose,
    "Unpack": unpack,
}
"""TensorFlow operation -> what writes it."""
