"""The rows of TensorFlow operations: what becomes of each in the graph.

To add an operation, add a row to `OPERATIONS`. A row is a function (reader, operation) -> values of
the operation's outputs; most operations belong to one of a few kinds: `elementwise`, `movement`,
`weighted_sum`. Products with matrices are in `products.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network.convolutions import Convolution, DepthwiseConvolution
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.onednn import Geometry
from realtime_lrp.relevance.network.pools import AveragePool, MaxPool
from realtime_lrp.relevance.network.steps import (
    Add,
    Affine,
    Elementwise,
    Permute,
    Product,
    Reshape,
    Softmax,
    Step,
    ZeroPadding,
)
from realtime_lrp.relevance.network.traced_steps import (
    BATCH,
    Join,
    Movement,
    Offset,
    Operation,
    Quotient,
    Stopped,
    WeightedSum,
    kept_shape,
)
from realtime_lrp.relevance.reading.products import batch_product, einsum, matrix_product
from realtime_lrp.relevance.reading.reader import Reader, Row, compute_with_constants, shapes_of
from realtime_lrp.relevance.reading.values import (
    CannotReadError,
    Chain,
    Constant,
    Held,
    Turned,
    Value,
    chain_of,
    of_any_batch,
)


def elementwise(reader: Reader, operation: tf.Operation) -> list[Value]:
    """A function of each entry of one tensor, with constants; relevance passes."""
    chain = chain_of(operation, reader.inputs(operation))
    if chain is None:
        raise CannotReadError("joins tensors in a way that has no rule")
    return [chain]


def movement(reader: Reader, operation: tf.Operation) -> list[Value | None]:
    """Moves, repeats or picks entries; relevance goes to where they come from."""
    (shape, *others), inputs = (one.shape for one in operation.outputs), operation.inputs
    from_picture = [tensor for tensor in inputs if reader.constant(tensor) is None]
    if not others and len(from_picture) == 1 and shape.rank and shape[0] % BATCH:
        (tensor,) = from_picture
        turned = reader.turned(tensor)
        held = turned.held if turned else reader.held(tensor)
        return [Turned(held, compute_with_constants(reader, operation))]
    return _operation(reader, operation, Movement)


def weighted_sum(reader: Reader, operation: tf.Operation) -> list[Value | None]:
    """Sums with constant weights; relevance goes to the terms in proportion."""
    return _operation(reader, operation, WeightedSum)


def _operation(
    reader: Reader, operation: tf.Operation, kind: type[Operation]
) -> list[Value | None]:
    """A step for each output that something reads."""
    inputs = [tensor for tensor in operation.inputs if reader.constant(tensor) is None]
    turned = [reader.turned(tensor) for tensor in inputs]
    held = [
        reader.held(tensor) if one is None else one.held
        for tensor, one in zip(inputs, turned, strict=True)
    ]
    outputs: list[Value | None] = []
    for index, output in enumerate(operation.outputs):
        if output.consumers() or len(operation.outputs) == 1:
            compute = compute_with_constants(reader, operation, index)
            step = kind(compute, shapes_of(operation, held, index))
            outputs += reader.append(operation, [step], held, index)
        else:
            outputs.append(None)
    return outputs


def alias(reader: Reader, operation: tf.Operation) -> list[Value]:
    """Returns its inputs."""
    return reader.inputs(operation)[: len(operation.outputs)]


def cast(reader: Reader, operation: tf.Operation) -> list[Value]:
    """Another type; all floating numbers are float32 here."""
    (tensor,), (output,) = operation.inputs, operation.outputs
    (value,) = reader.inputs(operation)
    of_input = isinstance(value, Held) and not tensor.dtype.is_floating  # pictures as bytes
    if output.dtype.is_floating and (tensor.dtype.is_floating or of_input):
        return [value]
    return elementwise(reader, operation)


def stop_gradient(reader: Reader, operation: tf.Operation) -> list[Value]:
    """Relevance passes, a gradient does not."""
    return [*reader.append(operation, [Stopped()], [reader.held(operation.inputs[0])])]


def reshape(reader: Reader, operation: tf.Operation) -> list[Value | None]:
    """The same entries in another shape; nothing to do where only the batch is joined or split."""
    shape = operation.outputs[0].shape
    if reader.turned(operation.inputs[0]) or shape[0] % BATCH:
        return movement(reader, operation)
    held = reader.held(operation.inputs[0])
    if kept_shape(held.shape) == kept_shape(shape):
        if len(operation.inputs[0].consumers()) == 1:
            reader.made.add(operation.outputs[0].name)
        return [Held(held.number, tuple(shape))]
    return [*reader.append(operation, [Reshape(kept_shape(shape))], [held])]


def transpose(reader: Reader, operation: tf.Operation) -> list[Value | None]:
    """Axes in another order."""
    tensor, axes = operation.inputs
    order = reader.constant(axes)
    if order is None or order[0] != 0 or tensor.shape[0] != BATCH or reader.turned(tensor):
        return movement(reader, operation)
    held = reader.held(tensor)
    return [*reader.append(operation, [Permute(order.numpy().tolist())], [held])]


def shape_of(reader: Reader, operation: tf.Operation) -> list[Value]:
    """The shape, which is known."""
    shape, kind = operation.inputs[0].shape, operation.outputs[0].dtype
    return [Constant(tf.constant(shape.as_list(), kind))]


def filled(value: float) -> Row:
    """Makes the row of an operation that fills the shape of its input with a value."""

    def row(reader: Reader, operation: tf.Operation) -> list[Value]:
        output = operation.outputs[0]
        return [Constant(tf.fill(output.shape, tf.cast(value, output.dtype)))]

    return row


def addition(factors: tuple[int, int]) -> Row:
    """Makes the row of a sum or a difference; the factors of the two terms are 1 or -1."""

    def row(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
        first, second = operation.inputs
        constants = [reader.constant(tensor) for tensor in (first, second)]
        constant = next((one for one in constants if one is not None), None)
        if constant is not None and constant.shape.num_elements() > 1:
            return _offset(reader, operation, constants, factors)
        chain = chain_of(operation, reader.inputs(operation))
        if chain is not None:
            return [chain]
        if constant is not None:
            raise CannotReadError("changes the shape of a tensor by a constant")
        held = [_of_rank(reader, tensor, operation) for tensor in (first, second)]
        return [*reader.append(operation, [Add(factors)], held)]

    return row


def _of_rank(reader: Reader, tensor: tf.Tensor, operation: tf.Operation) -> Held:
    """A tensor of the graph with as many axes as the output of an operation that broadcasts."""
    held = reader.held(tensor)
    if len(held.shape) != len(operation.outputs[0].shape):
        raise CannotReadError("joins tensors with different numbers of axes")
    return held


def _offset(
    reader: Reader,
    operation: tf.Operation,
    constants: Sequence[tf.Tensor | None],
    factors: tuple[int, int],
) -> Sequence[Value | None]:
    """A sum with a constant: the bias of the layer with weights before it, or an `Offset`."""
    position = 0 if constants[0] is None else 1
    tensor = operation.inputs[position]
    scaled = reader.values[tensor.name]
    if reader.trace.flat and _prepares(scaled, operation.inputs[1 - position]):
        return elementwise(reader, operation)
    if factors[position] == 1 and tuple(operation.outputs[0].shape) == tuple(tensor.shape):
        constant = tf.cast(constants[1 - position], tf.float32) * factors[1 - position]
        offset = of_any_batch(constant, tensor.shape)
        if isinstance(scaled, Chain) and (norm := _batch_norm(reader, operation, scaled, offset)):
            return [*reader.append(operation, [norm], [scaled.root])]
        held = reader.held(tensor)
        if _fold(reader, operation, held, tf.ones_like(offset), offset):
            return [held]
    return _operation(reader, operation, Offset)


def _prepares(value: Value, constant: tf.Tensor) -> bool:
    """Whether a sum prepares the picture of a SavedModel: nothing learned is added to it."""
    root = value.root if isinstance(value, Chain) else value
    return isinstance(root, Held) and root.number == 0 and constant.op.type == "Const"


def _batch_norm(
    reader: Reader, operation: tf.Operation, scaled: Chain, offset: tf.Tensor
) -> Affine | None:
    """The batch norm of a SavedModel that a product and a sum with constants are; None if none.

    The end of another normalisation, which divides by a deviation of the picture, is none.
    """
    (product,) = (one for one in operation.inputs if reader.constant(one) is None)
    if not reader.trace.flat or scaled.types != ("Mul",) or len(product.consumers()) > 1:
        return None
    scale = scaled.compute(tf.ones([1] * (len(scaled.shape) - 1) + [scaled.shape[-1]]))
    channels = scaled.shape[-1]
    if scale.shape.num_elements() != channels or offset.shape.num_elements() != channels:
        return None
    node = reader.graph.producer(scaled.root.number)
    while node is not None and isinstance(node.step, Reshape | Permute):
        node = reader.graph.producer(node.inputs[0])
    if node is not None and isinstance(node.step, Product | Quotient):
        return None
    return Affine(tf.reshape(scale, [-1]), tf.reshape(offset, [-1]))


def bias_add(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """A sum with one constant for each channel."""
    if operation.get_attr("data_format") == b"NCHW" and len(operation.inputs[0].shape) > 2:
        raise CannotReadError("has its channels first, only channels last is known")
    return addition((1, 1))(reader, operation)


def _fold(
    reader: Reader, operation: tf.Operation, held: Held, scale: tf.Tensor, offset: tf.Tensor
) -> bool:
    """Makes constants part of the layer with weights that an operation reads, if it can.

    Each channel is multiplied by `scale`; `offset`, of the same shape, is added then.
    """
    graph = reader.graph
    (tensor,) = (one for one in operation.inputs if reader.constant(one) is None)
    if len(tensor.consumers()) > 1 or tensor.name not in reader.made or graph.readers(held.number):
        return False
    node = graph.producer(held.number)
    if node is not None and isinstance(node.step, Reshape):
        before = graph.producer(node.inputs[0])
        alone = len(graph.readers(node.inputs[0])) == 1 and node.inputs[0] in reader.numbers
        node = before if alone else None
    if node is None or not isinstance(node.step, Linear):
        return False
    sizes = [size for size in offset.shape if size != 1]
    channels = [size for size in held.shape[1:] if size != 1]
    if np.prod(sizes) != node.step.outputs or sizes != channels[len(channels) - len(sizes) :]:
        return False
    step = node.step.then(tf.reshape(scale, [-1]), tf.reshape(offset, [-1]))
    graph.replace(replace(node, step=step))
    reader.made.add(operation.outputs[0].name)
    return True


def product(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """A product of two tensors, entry by entry."""
    constants = [reader.constant(tensor) for tensor in operation.inputs]
    scale = next((one for one in constants if one is not None), None)
    if scale is not None and scale.shape.num_elements() > 1 and scale.dtype.is_floating:
        tensor = operation.inputs[0 if constants[0] is None else 1]
        value = reader.values[tensor.name]
        if isinstance(value, Held) and tuple(operation.outputs[0].shape) == value.shape:
            factors = of_any_batch(scale, value.shape)
            if _fold(reader, operation, value, factors, tf.zeros_like(factors)):
                return [value]
        if isinstance(value, Chain) and reader.trace.flat:
            reader.held(tensor)  # what follows may be a batch norm
    chain = chain_of(operation, reader.inputs(operation))
    if chain is not None:
        return [chain]
    if any(reader.constant(tensor) is not None for tensor in operation.inputs):
        return weighted_sum(reader, operation)
    held = [_of_rank(reader, tensor, operation) for tensor in operation.inputs]
    return [*reader.append(operation, [Product()], held)]


def quotient(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """A quotient; its denominator counts as a constant."""
    chain = chain_of(operation, reader.inputs(operation))
    if chain is not None:
        return [chain]
    if reader.constant(operation.inputs[1]) is not None:
        return weighted_sum(reader, operation)
    if reader.constant(operation.inputs[0]) is not None:
        raise CannotReadError("changes the shape of a tensor by a constant")
    return _operation(reader, operation, Quotient)


def squared_difference(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """The square of a difference: the difference in proportion, the square as an activation."""
    chain = chain_of(operation, reader.inputs(operation))
    if chain is not None:
        return [chain]
    held = [_of_rank(reader, tensor, operation) for tensor in operation.inputs]
    steps = [Add((1, -1)), Elementwise(tf.square, keeps_sign=True)]
    return [*reader.append(operation, steps, held)]


def chosen(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """The larger or smaller of two entries, or one of them by a constant mask."""
    chain = chain_of(operation, reader.inputs(operation))
    return movement(reader, operation) if chain is None else [chain]


def padded(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """A border of a constant; what a border other than zero receives is booked as taken."""
    value = reader.constant(operation.inputs[2])
    if value is None or float(value) == 0 or operation.outputs[0].shape[0] % BATCH:
        return movement(reader, operation)
    return _operation(reader, operation, Join)


def joined(reader: Reader, operation: tf.Operation) -> Sequence[Value | None]:
    """Tensors one after the other; what constants among them receive is booked as taken."""
    return _operation(reader, operation, Join)


def softmax(reader: Reader, operation: tf.Operation) -> list[Value]:
    """Softmax over the last axis."""
    return [*reader.append(operation, [Softmax(tf.nn.softmax)], [reader.held(operation.inputs[0])])]


def _picture(reader: Reader, operation: tf.Operation) -> Held:
    """The first input of an operation that works on feature maps [B, H, W, C]."""
    held = reader.held(operation.inputs[0])
    if operation.get_attr("data_format") not in (b"NHWC", b"NDHWC"):
        raise CannotReadError("has its channels first, only channels last is known")
    if held.shape[0] != BATCH:
        raise CannotReadError("mixes the pictures of a batch")
    return held


def _geometry(operation: tf.Operation) -> Geometry:
    padding = operation.get_attr("padding").decode()
    strides, dilations = (operation.get_attr(key)[1:-1] for key in ("strides", "dilations"))
    explicit = padding == "EXPLICIT"  # see `_border`
    return Geometry(strides=strides, padding="VALID" if explicit else padding, dilations=dilations)


def _border(operation: tf.Operation) -> list[Step]:
    """The padding of a convolution whose padding is given in numbers, else nothing."""
    if operation.get_attr("padding") != b"EXPLICIT":
        return []
    numbers = operation.get_attr("explicit_paddings")[2:-2]
    return [ZeroPadding([numbers[:2], numbers[2:]])]


def convolution(reader: Reader, operation: tf.Operation) -> list[Value]:
    """A convolution with constant weights."""
    held, kernel = _picture(reader, operation), _kernel(reader, operation)
    groups = held.shape[-1] // kernel.shape[-2]
    step = Convolution(kernel, None, **_geometry(operation), groups=groups)
    return [*reader.append(operation, [*_border(operation), step], [held])]


def depthwise_convolution(reader: Reader, operation: tf.Operation) -> list[Value]:
    """A convolution of each channel with constant weights."""
    held, kernel = _picture(reader, operation), _kernel(reader, operation)
    step = DepthwiseConvolution(kernel, None, **_geometry(operation))
    return [*reader.append(operation, [*_border(operation), step], [held])]


def _kernel(reader: Reader, operation: tf.Operation) -> tf.Tensor:
    kernel = reader.constant(operation.inputs[1])
    if kernel is None:
        raise CannotReadError("has weights that depend on the picture")
    return tf.cast(kernel, tf.float32)


def pool(reader: Reader, operation: tf.Operation) -> list[Value]:
    """A pool over windows of rows and columns."""
    held = _picture(reader, operation)
    window, strides = (operation.get_attr(key)[1:-1] for key in ("ksize", "strides"))
    geometry = window, strides, operation.get_attr("padding").decode()
    if operation.type == "AvgPool":
        return [*reader.append(operation, [AveragePool(*geometry)], [held])]
    step = MaxPool(*geometry, share=reader.pool == "average")
    return [*reader.append(operation, [step], [held])]


def batch_norm(reader: Reader, operation: tf.Operation) -> list[Value | None]:
    """A batch norm with constant statistics."""
    if operation.get_attr("is_training"):
        raise CannotReadError("normalises by the pictures of the batch (training)")
    held = _picture(reader, operation)
    scale, offset, mean, variance = (reader.constant(one) for one in operation.inputs[1:])
    scale = scale * tf.math.rsqrt(variance + operation.get_attr("epsilon"))
    step = Affine(scale, offset - mean * scale)
    return [*reader.append(operation, [step], [held]), *[None] * (len(operation.outputs) - 1)]


OPERATIONS: dict[str, Row] = {
    **dict.fromkeys(
        ("Identity", "IdentityN", "PreventGradient", "CheckNumerics", "Snapshot", "EnsureShape"),
        alias,
    ),
    **dict.fromkeys(("Reshape", "ExpandDims", "Squeeze"), reshape),
    **dict.fromkeys(
        (
            "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "ClipByValue", "Cos",
            "Cosh", "Digamma", "Elu", "Equal", "Erf", "Erfc", "Exp", "Expm1", "Floor", "Greater",
            "GreaterEqual", "Inv", "IsFinite", "IsInf", "IsNan", "LeakyRelu", "Less", "LessEqual",
            "Lgamma", "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "Neg", "NotEqual",
            "Pow", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt", "Selu", "Sigmoid",
            "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Square", "Tan", "Tanh",
        ),
        elementwise,
    ),
    **dict.fromkeys(
        (
            "BroadcastTo", "DepthToSpace", "GatherV2", "Max", "Min", "MirrorPad", "Pad",
            "ResizeNearestNeighbor", "ReverseV2", "Roll", "Slice", "SpaceToDepth", "Split",
            "SplitV", "StridedSlice", "Tile", "Unpack",
        ),
        movement,
    ),
    **dict.fromkeys(
        ("Cumsum", "Mean", "ResizeBicubic", "ResizeBilinear", "ScaleAndTranslate",
         "Sum"),
        weighted_sum,
    ),
    **dict.fromkeys(("Maximum", "Minimum", "SelectV2"), chosen),
    **dict.fromkeys(("ConcatV2", "Pack"), joined),
    **dict.fromkeys(("Add", "AddV2"), addition((1, 1))),
    **dict.fromkeys(("Div", "RealDiv", "DivNoNan"), quotient),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), batch_product),
    **dict.fromkeys(("Conv2D", "Conv3D"), convolution),
    **dict.fromkeys(("AvgPool", "MaxPool"), pool),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), batch_norm),
    "BiasAdd": bias_add,
    "Cast": cast,
    "DepthwiseConv2dNative": depthwise_convolution,
    "Einsum": einsum,
    "MatMul": matrix_product,
    "Mul": product,
    "OnesLike": filled(1),
    "PadV2": padded,
    "Shape": shape_of,
    "Softmax": softmax,
    "SquaredDifference": squared_difference,
    "StopGradient": stop_gradient,
    "Sub": addition((1, -1)),
    "Transpose": transpose,
    "ZerosLike": filled(0),
}  # fmt: skip
"""Type of an operation -> its row."""
