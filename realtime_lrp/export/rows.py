"""The table: a row for each TensorFlow operation that explanations are made of.

A row is a function (writer, operation, *inputs) that writes ONNX nodes; inputs are names. It
returns the name of the operation's output, or names. Shapes are static. Convolutions and pools are
in `windows.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import tensorflow as tf

from realtime_lrp.export.windows import WINDOWS
from realtime_lrp.export.writer import Writer

Row = Callable[..., str | list[str]]

TYPES = {tf.float32: 1, tf.uint8: 2, tf.int32: 6, tf.int64: 7, tf.bool: 9, tf.float64: 11}
"""TensorFlow's types by their numbers in ONNX."""


def same(kind: str) -> Row:
    """A row of an operation that ONNX has too."""
    return lambda w, op, *inputs: w.op(kind, *inputs)


def reduction(kind: str, w: Writer, op: tf.Operation, a: str, axes: str) -> str:
    """Sums, means or maxima over axes."""
    over = w.values(axes).ravel() % max(1, op.inputs[0].shape.rank)
    return w.op(kind, a, over, keepdims=int(op.get_attr("keep_dims"))) if over.size else a


def reduction_of_truth(kind: str, w: Writer, op: tf.Operation, a: str, axes: str) -> str:
    """Whether all, or any, entries are true."""
    made = reduction(kind, w, op, w.op("Cast", a, to=TYPES[tf.int32]), axes)
    return w.op("Cast", made, to=TYPES[tf.bool])


def cast(w: Writer, op: tf.Operation, a: str, *_: str) -> str:
    """Converts between types of numbers."""
    return w.op("Cast", a, to=TYPES[op.outputs[0].dtype])


def divide_no_nan(w: Writer, op: tf.Operation, a: str, b: str) -> str:
    """A / b, and 0 where b is 0."""
    zero = w.op("Equal", b, 0.0)
    return w.op("Where", zero, 0.0, w.op("Div", a, w.op("Where", zero, 1.0, b)))


def of_slope(slope: Callable[[Writer, str], str]) -> Row:
    """A row of an activation's gradient by its output y: r * slope(y)."""
    return lambda w, op, y, r: w.op("Mul", r, slope(w, y))


def pack(w: Writer, op: tf.Operation, *inputs: str) -> str:
    """Stacks tensors along a new axis."""
    axis = op.get_attr("axis") % op.outputs[0].shape.rank
    return w.op("Concat", *(w.op("Unsqueeze", input_, [axis]) for input_ in inputs), axis=axis)


def split(w: Writer, op: tf.Operation, *inputs: str) -> list[str]:
    """Takes a tensor apart into pieces along an axis."""
    a, axis = (inputs[0], inputs[2]) if op.type == "SplitV" else (inputs[1], inputs[0])
    along = int(w.values(axis))
    sizes = [int(output.shape[along]) for output in op.outputs]
    return w.ops("Split", a, sizes, count=len(sizes), axis=along)


def _ranges(w: Writer, op: tf.Operation, shape: Sequence[int], *bounds: str) -> list[range]:
    """The range of each axis that a strided slice takes; a new axis takes none."""
    begin_open, end_open, ellipsis, new, single = (
        op.get_attr(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    given = list(zip(*(w.values(bound).tolist() for bound in bounds), strict=True))
    missing = len(shape) - sum(not (ellipsis | new) >> at & 1 for at in range(len(given)))
    found: list[range] = []
    for at, (begin, end, step) in enumerate(given):
        if ellipsis >> at & 1:
            found += map(range, shape[len(found) :][:missing])
        elif not new >> at & 1:
            size = shape[len(found)]
            if single >> at & 1:
                taken = slice(begin % size, begin % size + 1)
            else:
                first, last = (None if begin_open >> at & 1 else begin), end
                taken = slice(first, None if end_open >> at & 1 else last, step)
            found.append(range(*taken.indices(size)))
    return [*found, *map(range, shape[len(found) :])]


def strided_slice(w: Writer, op: tf.Operation, a: str, *bounds: str) -> str:
    """a[begin:end:step], with axes that go and come."""
    size = op.inputs[0].shape.as_list()
    shape = op.outputs[0].shape.as_list()
    ranges = _ranges(w, op, size, *bounds)
    cut = [axis for axis, one in enumerate(ranges) if one != range(size[axis])]
    if cut:
        stops = [ranges[axis].stop for axis in cut]
        ends = [np.iinfo(np.int64).min if stop < 0 else stop for stop in stops]
        steps = [ranges[axis].step for axis in cut]
        a = w.op("Slice", a, [ranges[axis].start for axis in cut], ends, cut, steps)
    return a if [len(range_) for range_ in ranges] == shape else w.op("Reshape", a, shape)


def strided_slice_grad(w: Writer, op: tf.Operation, shape: str, *given: str) -> str:
    """Puts what a strided slice took back among zeros."""
    *bounds, gradient = given
    whole = w.values(shape).tolist()
    ranges = _ranges(w, op, whole, *bounds)
    if any(range_.step != 1 for range_ in ranges):
        raise NotImplementedError("of a step other than 1")
    after = [size - one.stop for size, one in zip(whole, ranges, strict=True)]
    made = w.op("Reshape", gradient, [len(range_) for range_ in ranges])
    return w.op("Pad", made, [*(range_.start for range_ in ranges), *after])


def pad(w: Writer, op: tf.Operation, a: str, edges: str, *value: str) -> str:
    """Adds edges: of a value, or mirrored."""
    mode = "constant"
    if op.type == "MirrorPad":
        mode = "reflect"
        if op.get_attr("mode") != b"REFLECT":
            raise NotImplementedError("with its edge repeated")
    return w.op("Pad", a, w.values(edges).T.ravel(), *value, mode=mode)


def reshape(w: Writer, op: tf.Operation, a: str, *_: str) -> str:
    """The same entries in another shape."""
    return w.op("Reshape", a, op.outputs[0].shape.as_list())


def top_k(w: Writer, op: tf.Operation, a: str, k: str) -> list[str]:
    """The largest entries and where they are; of equal ones the first."""
    whole = op.inputs[0].dtype == tf.int32
    name = w.op("Cast", a, to=TYPES[tf.float32]) if whole else a
    values, places = w.ops("TopK", name, [int(w.values(k))], count=2, axis=-1)
    if whole:
        values = w.op("Cast", values, to=TYPES[tf.int32])
    return [values, w.op("Cast", places, to=TYPES[tf.int32])]


def gather(w: Writer, op: tf.Operation, a: str, places: str, axis: str) -> str:
    """Entries by their places along an axis."""
    if op.get_attr("batch_dims"):
        raise NotImplementedError("of several pictures")
    return w.op("Gather", a, places, axis=int(w.values(axis)))


def product(w: Writer, op: tf.Operation, a: str, b: str) -> str:
    """A product of matrices; over the channels of a picture it is a convolution."""
    b = w.weight(w.values(b)) if w.known(b) else b
    names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    flips = [bool(op.get_attr(name)) for name in names]
    left, right = (input_.shape for input_ in op.inputs)
    if left.rank == right.rank == 2:
        source = op.inputs[0].op
        picture = source.type == "Reshape" and source.inputs[0].shape[3:] == left[1:]
        if picture and right[1] == 1 and w.known(b) and not any(flips):
            whole = next(node for node in reversed(w.nodes) if a in node.output).input[0]
            kernel = w.constant(w.values(b).T[..., None, None])
            return w.op("Reshape", w.op("Conv", w.first(whole), kernel), [left[0], 1])
        return w.op("Gemm", a, b, transA=int(flips[0]), transB=int(flips[1]))
    sides = []
    for name, shape, flip in zip((a, b), (left, right), flips, strict=True):
        order = [*range(shape.rank - 2), shape.rank - 1, shape.rank - 2]
        sides.append(w.op("Transpose", name, perm=order) if flip else name)
    return w.op("MatMul", *sides)


def resize(w: Writer, op: tf.Operation, a: str, size: str) -> str:
    """A picture in another size, as TensorFlow samples it."""
    if op.get_attr("align_corners"):
        corners = "align_corners"
    else:
        corners = "half_pixel" if op.get_attr("half_pixel_centers") else "asymmetric"
    return w.last(w.op(
        "Resize", w.first(a), "", "", [*op.inputs[0].shape[::3], *op.outputs[0].shape[1:3]],
        mode="linear" if op.type == "ResizeBilinear" else "nearest",
        coordinate_transformation_mode=corners,
        nearest_mode="floor" if corners == "asymmetric" else "round_prefer_ceil",
    ))  # fmt: skip


def resize_back(w: Writer, op: tf.Operation, r: str, *_: str) -> str:
    """Back through a resize: by the share that each row, and each column, has in the others."""
    after, before = op.inputs[0].shape, op.outputs[0].shape
    forward = getattr(tf.raw_ops, op.type.removesuffix("Grad"))
    settings = {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}
    shares = []
    for axis in (1, 2):
        each = np.eye(before[axis], dtype=np.float32)[None, ..., None]
        made = forward(images=each, size=[after[axis], before[axis]], **settings)
        shares.append(w.constant(made.numpy()[0, ..., 0]))
    return w.op("Einsum", r, *shares, equation="nyxc,yh,xw->nhwc")


def space_to_batch(w: Writer, op: tf.Operation, a: str, block: str, edges: str) -> str:
    """Makes a picture of every second, third ... row and column, for dilated convolutions."""
    rows, columns = w.values(block)
    ends = np.zeros([4, 2], np.int64)
    ends[1:3] = w.values(edges)
    (n, *_, c) = op.inputs[0].shape
    _, height, width, _ = op.outputs[0].shape
    a = w.op("Reshape", w.op("Pad", a, ends.T.ravel()), [n, height, rows, width, columns, c])
    return reshape(w, op, w.op("Transpose", a, perm=[2, 4, 0, 1, 3, 5]))


def batch_to_space(w: Writer, op: tf.Operation, a: str, block: str, crops: str) -> str:
    """Makes one picture of those that `space_to_batch` makes."""
    rows, columns = w.values(block)
    cut = w.values(crops)
    _, height, width, c = op.inputs[0].shape
    n, *size, _ = op.outputs[0].shape
    a = w.op("Reshape", a, [rows, columns, n, height, width, c])
    a = w.op("Transpose", a, perm=[2, 3, 0, 4, 1, 5])
    a = w.op("Reshape", a, [n, height * rows, width * columns, c])
    return w.op("Slice", a, cut[:, 0], cut[:, 0] + size, [1, 2])


SAME = {
    "Abs": "Abs", "Add": "Add", "AddN": "Sum", "AddV2": "Add", "BiasAdd": "Add", "Ceil": "Ceil",
    "Cos": "Cos", "Div": "Div", "Elu": "Elu", "Equal": "Equal", "Erf": "Erf", "Exp": "Exp",
    "Floor": "Floor", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Inv": "Reciprocal",
    "Less": "Less", "LessEqual": "LessOrEqual", "Log": "Log", "LogSoftmax": "LogSoftmax",
    "LogicalAnd": "And", "LogicalNot": "Not", "LogicalOr": "Or", "Maximum": "Max",
    "Minimum": "Min", "Mul": "Mul", "Neg": "Neg", "Pow": "Pow", "RealDiv": "Div",
    "Reciprocal": "Reciprocal", "Relu": "Relu", "Round": "Round", "Select": "Where",
    "SelectV2": "Where", "Selu": "Selu", "Sigmoid": "Sigmoid", "Sign": "Sign", "Sin": "Sin",
    "Softmax": "Softmax", "Softplus": "Softplus", "Softsign": "Softsign", "Sqrt": "Sqrt",
    "Sub": "Sub", "Tanh": "Tanh",
}  # fmt: skip
"""Operations that ONNX has too."""

ROWS: dict[str, Row] = {
    **{name: same(kind) for name, kind in SAME.items()},
    **{name: partial(reduction, f"Reduce{name}") for name in ("Sum", "Mean", "Max", "Min", "Prod")},
    **WINDOWS,
    **dict.fromkeys(
        ("Identity", "StopGradient", "PreventGradient", "EnsureShape"), lambda w, op, a, *_: a
    ),
    **dict.fromkeys(("Reshape", "ExpandDims", "Squeeze"), reshape),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), product),
    **dict.fromkeys(("Pad", "PadV2", "MirrorPad"), pad),
    **dict.fromkeys(("Split", "SplitV"), split),
    **dict.fromkeys(("ResizeBilinear", "ResizeNearestNeighbor"), resize),
    **dict.fromkeys(("ResizeBilinearGrad", "ResizeNearestNeighborGrad"), resize_back),
    "All": partial(reduction_of_truth, "ReduceMin"),
    "Any": partial(reduction_of_truth, "ReduceMax"),
    "ArgMax": lambda w, op, a, axis: cast(
        w, op, w.op("ArgMax", a, axis=int(w.values(axis)), keepdims=0)
    ),
    "BatchToSpaceND": batch_to_space,
    "BroadcastTo": lambda w, op, a, shape: w.op("Expand", a, op.outputs[0].shape.as_list()),
    "Cast": cast,
    "ConcatV2": lambda w, op, *parts: w.op("Concat", *parts[:-1], axis=int(w.values(parts[-1]))),
    "Const": lambda w, op: w.constant(tf.make_ndarray(op.get_attr("value"))),
    "DivNoNan": divide_no_nan,
    "Einsum": lambda w, op, *inputs: w.op(
        "Einsum", *inputs, equation=op.get_attr("equation").decode()
    ),
    "Erfc": lambda w, op, a: w.op("Sub", 1.0, w.op("Erf", a)),
    "Expm1": lambda w, op, a: w.op("Sub", w.op("Exp", a), 1.0),
    "GatherV2": gather,
    "LeakyRelu": lambda w, op, a: w.op("LeakyRelu", a, alpha=op.get_attr("alpha")),
    "Log1p": lambda w, op, a: w.op("Log", w.op("Add", a, 1.0)),
    "NotEqual": lambda w, op, a, b: w.op("Not", w.op("Equal", a, b)),
    "OneHot": lambda w, op, a, depth, on, off: w.op(
        "OneHot",
        a,
        w.values(depth).reshape(1),
        w.constant(np.stack([w.values(off), w.values(on)])),
        axis=op.get_attr("axis"),
    ),
    "Pack": pack,
    "Placeholder": lambda w, op: op.name,
    "ReciprocalGrad": of_slope(lambda w, y: w.op("Neg", w.op("Mul", y, y))),
    "Relu6": lambda w, op, a: w.op("Clip", a, 0.0, 6.0),
    "Relu6Grad": lambda w, op, r, a: w.op(
        "Where", w.op("And", w.op("Greater", a, 0.0), w.op("Less", a, 6.0)), r, 0.0
    ),
    "ReluGrad": lambda w, op, r, a: w.op("Where", w.op("Greater", a, 0.0), r, 0.0),
    "Rsqrt": lambda w, op, a: w.op("Reciprocal", w.op("Sqrt", a)),
    "RsqrtGrad": of_slope(lambda w, y: w.op("Mul", w.op("Mul", y, w.op("Mul", y, y)), -0.5)),
    "SigmoidGrad": of_slope(lambda w, y: w.op("Mul", y, w.op("Sub", 1.0, y))),
    "Slice": lambda w, op, a, begin, size: w.op(
        "Slice", a, w.values(begin), w.values(begin) + op.outputs[0].shape.as_list()
    ),
    "SpaceToBatchND": space_to_batch,
    "SqrtGrad": of_slope(lambda w, y: w.op("Div", 0.5, y)),
    "Square": lambda w, op, a: w.op("Mul", a, a),
    "SquaredDifference": lambda w, op, a, b: w.op("Pow", w.op("Sub", a, b), 2.0),
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "TanhGrad": of_slope(lambda w, y: w.op("Sub", 1.0, w.op("Mul", y, y))),
    "Tile": lambda w, op, a, times: w.op("Tile", a, w.values(times)),
    "TopKV2": top_k,
    "Transpose": lambda w, op, a, order: w.op("Transpose", a, perm=w.values(order).tolist()),
    "Unpack": lambda w, op, a: [
        w.op("Gather", a, w.constant(np.int64(at)), axis=op.get_attr("axis"))
        for at in range(len(op.outputs))
    ],
}
"""TensorFlow operation -> what writes it."""
