"""The rows of TensorFlow operations: what becomes of each in the graph.

To add an operation, add a row to `OPERATIONS`. A row is a function (reader, operation) -> values of
the operation's outputs; most operations belong to one of a few kinds: `elementwise`, `movement`,
`weighted_sum`. Convolutions and products with matrices are in `products.py`.
"""

from dataclasses import replace

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network import steps, traced_steps
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.traced_steps import BATCH, Choice, Offset, Quotient
from realtime_lrp.relevance.reading import products, tracing
from realtime_lrp.relevance.reading.reader import Reader, Row, Values, shapes_of
from realtime_lrp.relevance.reading.tracing import CannotReadError, Chain, Held, Turned


def unless_chained(row: Row) -> Row:
    """Makes the row of an operation that is elementwise wherever it reads a single tensor."""

    def chained_or_row(reader: Reader, operation: tf.Operation) -> Values:
        chain = tracing.chain_of(operation, reader.inputs(operation))
        return row(reader, operation) if chain is None else [chain]

    return chained_or_row


@unless_chained
def elementwise(reader: Reader, operation: tf.Operation) -> Values:
    """A function of each entry of one tensor, with constants; relevance passes."""
    raise CannotReadError("joins tensors in a way that has no rule")


def is_computed(reader: Reader, operation: tf.Operation, index: int = 0) -> bool:
    """Whether an output has floating numbers or a picture's bytes; otherwise it chooses."""
    dtype = operation.outputs[index].dtype
    return dtype.is_floating or all(
        one.dtype == dtype and reader.is_picture(one) for one in reader.from_picture(operation)
    )


def of_operation(kind: type[traced_steps.Operation]) -> Row:
    """Makes the row of an operation that becomes such a step for each output that is read."""

    def row(reader: Reader, operation: tf.Operation) -> Values:
        held = [reader.unmoved(tensor) for tensor in reader.from_picture(operation)]
        outputs: list[tracing.Value | None] = []
        for index, output in enumerate(operation.outputs):
            if output.consumers() or len(operation.outputs) == 1:
                compute = reader.compute(operation, index)
                made = kind if is_computed(reader, operation, index) else Choice
                step = made(compute, shapes_of(operation, held, index))
                outputs += reader.append(operation, [step], held, index)
            else:
                outputs.append(None)
        return outputs

    return row


weighted_sum = of_operation(traced_steps.WeightedSum)
joined = of_operation(traced_steps.Join)
chosen = of_operation(Choice)
picked = of_operation(traced_steps.Movement)


def stacked(reader: Reader, operation: tf.Operation) -> Values:
    """Tensors side by side on a new axis, which may stand before the pictures' axis."""
    shape = operation.outputs[0].shape
    alone = len(reader.from_picture(operation)) == len(operation.inputs)
    if operation.get_attr("axis") % shape.rank or not alone:
        return joined(reader, operation)
    held = [reader.held(tensor) for tensor in operation.inputs]
    order = [1, 0, *range(2, shape.rank)]
    behind = tuple(shape[axis] for axis in order)
    shapes = [*(one.shape for one in held), behind]
    step = traced_steps.Join(lambda *tensors: tf.stack(tensors, 1), shapes)
    (whole,) = reader.append(operation, [step], held)
    return [Turned(replace(whole, shape=behind), lambda a: tf.transpose(a, order))]


def or_choice(row: Row) -> Row:
    """Makes the row of an operation that is a `Choice` where it computes no floating numbers."""

    def row_or_choice(reader: Reader, operation: tf.Operation) -> Values:
        if is_computed(reader, operation):
            return row(reader, operation)
        if row.__module__ == products.__name__:
            raise CannotReadError("multiplies whole numbers: the network is quantised")
        try:
            return unless_chained(chosen)(reader, operation)
        except CannotReadError:  # a constant that differs from picture to picture
            return chosen(reader, operation)

    return row_or_choice


def movement(reader: Reader, operation: tf.Operation) -> Values:
    """Moves, repeats or picks entries; relevance goes to where they come from."""
    shape, *others = (output.shape for output in operation.outputs)
    tensor, *more = reader.from_picture(operation)
    if not others and not more and shape.rank and shape[0] % BATCH:
        return [Turned(reader.unmoved(tensor), reader.compute(operation))]
    return picked(reader, operation)


def cast(reader: Reader, operation: tf.Operation) -> Values:
    """Another type; all floating numbers are float32 here."""
    (tensor,) = operation.inputs
    read = tensor.dtype.is_floating or reader.is_picture(tensor)
    if read and operation.outputs[0].dtype.is_floating:
        return reader.inputs(operation)
    return elementwise(reader, operation)


def of_step(step: steps.Step) -> Row:
    """Makes the row of an operation that becomes this step on its first input."""
    return lambda reader, one: reader.append(one, [step], [reader.held(one.inputs[0])])


def reshape(reader: Reader, operation: tf.Operation) -> Values:
    """The same entries in another shape; nothing to do where only the batch is joined or split."""
    shape = operation.outputs[0].shape
    if reader.turned(operation.inputs[0]) or shape[0] % BATCH:
        return movement(reader, operation)
    held = reader.held(operation.inputs[0])
    if traced_steps.kept_shape(held.shape) == traced_steps.kept_shape(shape):
        if len(operation.inputs[0].consumers()) == 1:
            reader.made.add(operation.outputs[0].name)
        return [Held(held.number, tuple(shape))]
    return reader.append(operation, [steps.Reshape(traced_steps.kept_shape(shape))], [held])


def transpose(reader: Reader, operation: tf.Operation) -> Values:
    """Axes in another order."""
    tensor, axes = operation.inputs
    order = reader.constant(axes)
    if order is None or order[0] != 0 or tensor.shape[0] != BATCH or reader.turned(tensor):
        return movement(reader, operation)
    return reader.append(operation, [steps.Permute(order.numpy().tolist())], [reader.held(tensor)])


def addition(factors: tuple[int, int]) -> Row:
    """Makes the row of a sum or a difference; the factors of the two terms are 1 or -1."""

    def row(reader: Reader, operation: tf.Operation) -> Values:
        tensor, constant, position = _beside_constant(reader, operation)
        many = constant is not None and constant.shape.num_elements() > 1
        if many or (factors[position] == 1 and _is_per_channel(reader, tensor, constant)):
            return _offset(reader, operation, factors)
        if (chain := tracing.chain_of(operation, reader.inputs(operation))) is not None:
            return [chain]
        if constant is not None:
            raise CannotReadError("changes the shape of a tensor by a constant")
        return reader.append(operation, [steps.Add(factors)], _of_one_rank(reader, operation))

    return row


def _beside_constant(
    reader: Reader, operation: tf.Operation
) -> tuple[tf.Tensor, tf.Tensor | None, int]:
    """The first tensor of the picture that is read; the other input if constant; its position."""
    position = 0 if reader.constant(operation.inputs[0]) is None else 1
    constant = reader.constant(operation.inputs[1 - position])
    return operation.inputs[position], constant, position


def _is_per_channel(reader: Reader, tensor: tf.Tensor, constant: tf.Tensor | None) -> bool:
    """Whether a constant beside a tensor has an entry for each channel; a single output has one."""
    if constant is None or constant.shape.num_elements() != 1:
        return constant is not None
    value = reader.values[tensor.name]
    step = reader.graph.origin(value.number, steps.Reshape) if isinstance(value, Held) else None
    return isinstance(step, Linear) and step.outputs == 1


def _of_one_rank(reader: Reader, operation: tf.Operation) -> list[Held]:
    """The inputs of an operation that broadcasts, each with as many axes as the output."""
    held = [reader.held(tensor) for tensor in operation.inputs]
    if any(len(one.shape) != len(operation.outputs[0].shape) for one in held):
        raise CannotReadError("joins tensors with different numbers of axes")
    return held


def _offset(reader: Reader, operation: tf.Operation, factors: tuple[int, int]) -> Values:
    """A sum with a constant: the bias of the layer with weights before it, or an `Offset`."""
    tensor, constant, position = _beside_constant(reader, operation)
    scaled = reader.values[tensor.name]
    root = scaled.root if isinstance(scaled, Chain) else scaled
    learned = operation.inputs[1 - position].op.type != "Const"
    if reader.trace.flat and isinstance(root, Held) and root.number == 0 and not learned:
        return elementwise(reader, operation)  # it prepares the picture of a SavedModel
    if factors[position] == 1 and tuple(operation.outputs[0].shape) == tuple(tensor.shape):
        constant = tf.cast(constant, tf.float32) * factors[1 - position]
        offset = tracing.of_any_batch(constant, tensor.shape)
        if isinstance(scaled, Chain) and (norm := _batch_norm(reader, tensor, scaled, offset)):
            return reader.append(operation, [norm], [scaled.root])
        held = reader.held(tensor)
        if _fold(reader, operation, tensor, tf.ones_like(offset), offset):
            return [held]
    return of_operation(Offset)(reader, operation)


def _batch_norm(
    reader: Reader, product: tf.Tensor, scaled: Chain, offset: tf.Tensor
) -> steps.Affine | None:
    """The batch norm that a product and a sum are in a SavedModel; not the end of another norm."""
    if not reader.trace.flat or scaled.types != ("Mul",) or len(product.consumers()) > 1:
        return None
    channels = scaled.root.shape[-1]
    scale = scaled.compute(tf.ones([1] * (len(scaled.root.shape) - 1) + [channels]))
    if scale.shape.num_elements() != channels or offset.shape.num_elements() != channels:
        return None
    origin = reader.graph.origin(scaled.root.number, steps.Reshape, steps.Permute)
    if isinstance(origin, steps.Product | Quotient):
        return None
    return steps.Affine(tf.reshape(scale, [-1]), tf.reshape(offset, [-1]))


def bias_add(reader: Reader, operation: tf.Operation) -> Values:
    """A sum with one constant for each channel."""
    if operation.get_attr("data_format") == b"NCHW" and len(operation.inputs[0].shape) > 2:
        raise CannotReadError(products.CHANNELS_FIRST)
    return addition((1, 1))(reader, operation)


def _fold(
    reader: Reader, operation: tf.Operation, tensor: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor
) -> bool:
    """Folds a scale and an offset of channels into the layer that computes a tensor, if it can."""
    graph = reader.graph
    held = reader.held(tensor)
    if len(tensor.consumers()) > 1 or tensor.name not in reader.made or graph.readers(held.number):
        return False
    node = graph.producer(held.number)
    if node is not None and isinstance(node.step, steps.Reshape):
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


def product(reader: Reader, operation: tf.Operation) -> Values:
    """A product of two tensors, entry by entry."""
    tensor, scale, _ = _beside_constant(reader, operation)
    if scale is not None and scale.dtype.is_floating and _is_per_channel(reader, tensor, scale):
        value = reader.values[tensor.name]
        if isinstance(value, Held) and tuple(operation.outputs[0].shape) == value.shape:
            factors = tracing.of_any_batch(scale, value.shape)
            if _fold(reader, operation, tensor, factors, tf.zeros_like(factors)):
                return [value]
        if isinstance(value, Chain) and reader.trace.flat:
            reader.held(tensor)  # what follows may be a batch norm
    if (chain := tracing.chain_of(operation, reader.inputs(operation))) is not None:
        return [chain]
    if scale is not None:
        return weighted_sum(reader, operation)
    return reader.append(operation, [steps.Product()], _of_one_rank(reader, operation))


@unless_chained
def quotient(reader: Reader, operation: tf.Operation) -> Values:
    """A quotient; its denominator counts as a constant."""
    if reader.constant(operation.inputs[1]) is not None:
        return weighted_sum(reader, operation)
    if reader.constant(operation.inputs[0]) is not None:
        raise CannotReadError("changes the shape of a tensor by a constant")
    return of_operation(Quotient)(reader, operation)


@unless_chained
def squared_difference(reader: Reader, operation: tf.Operation) -> Values:
    """The square of a difference: the difference in proportion, the square as an activation."""
    made = [steps.Add((1, -1)), steps.Elementwise(tf.square, keeps_sign=True)]
    return reader.append(operation, made, _of_one_rank(reader, operation))


def padded(reader: Reader, operation: tf.Operation) -> Values:
    """A border of a constant; what a border other than zero receives is booked as taken."""
    value = reader.constant(operation.inputs[2])
    if value is None or float(value) == 0 or operation.outputs[0].shape[0] % BATCH:
        return movement(reader, operation)
    return joined(reader, operation)


def pool(reader: Reader, operation: tf.Operation) -> Values:
    """A pool over windows of rows and columns."""
    window, strides = (operation.get_attr(key)[1:-1] for key in ("ksize", "strides"))
    kind = steps.AveragePool if operation.type == "AvgPool" else steps.MaxPool
    step = kind(window, strides, operation.get_attr("padding").decode())
    return reader.append(operation, [step], [products.read_feature_maps(reader, operation)])


def batch_norm(reader: Reader, operation: tf.Operation) -> Values:
    """A batch norm with constant statistics."""
    if operation.get_attr("is_training"):
        raise CannotReadError("normalises by the pictures of the batch (training)")
    held = products.read_feature_maps(reader, operation)
    scale, offset, mean, variance = (reader.constant(input_) for input_ in operation.inputs[1:])
    scale = scale * tf.math.rsqrt(variance + operation.get_attr("epsilon"))
    step = steps.Affine(scale, offset - mean * scale)
    return [*reader.append(operation, [step], [held]), *[None] * (len(operation.outputs) - 1)]


_COMPUTED: dict[str, Row] = {
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
        ("Cumsum", "Mean", "ResizeBicubic", "ResizeBilinear", "ScaleAndTranslate", "Sum"),
        weighted_sum,
    ),
    **dict.fromkeys(("Maximum", "Minimum", "SelectV2"), unless_chained(movement)),
    "ConcatV2": joined,
    "Pack": stacked,
    **dict.fromkeys(("Add", "AddV2"), addition((1, 1))),
    **dict.fromkeys(("Div", "RealDiv", "DivNoNan"), quotient),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), products.batch_product),
    **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), products.convolution),
    **dict.fromkeys(("AvgPool", "MaxPool"), pool),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), batch_norm),
    "BiasAdd": bias_add,
    "Conv2DBackpropInput": products.transposed_convolution,
    "Cast": cast,
    "Einsum": products.einsum,
    "LogSoftmax": of_step(steps.Elementwise(tf.nn.log_softmax, keeps_sign=False)),
    "MatMul": products.matrix_product,
    "Mul": product,
    "PadV2": padded,
    "Softmax": of_step(steps.Softmax()),
    "SquaredDifference": squared_difference,
    "StopGradient": of_step(traced_steps.Stopped()),
    "Sub": addition((1, -1)),
    "TopKV2": picked,
    "Transpose": transpose,
}  # fmt: skip

OPERATIONS: dict[str, Row] = {
    **{kind: or_choice(row) for kind, row in _COMPUTED.items()},
    **dict.fromkeys(
        ("Identity", "IdentityN", "PreventGradient", "CheckNumerics", "Snapshot", "EnsureShape"),
        lambda reader, one: reader.inputs(one)[: len(one.outputs)],
    ),
    # shapes are known
    "OnesLike": lambda reader, one: [tf.ones(one.outputs[0].shape, one.outputs[0].dtype)],
    "Shape": lambda reader, one: [tf.constant(one.inputs[0].shape.as_list(), one.outputs[0].dtype)],
    "ZerosLike": lambda reader, one: [tf.zeros(one.outputs[0].shape, one.outputs[0].dtype)],
}
"""Type of an operation -> its row. A stranger's SavedModel may consist of those that only compute:
TensorFlow must describe them as without state, and they may take neither text nor functions."""
