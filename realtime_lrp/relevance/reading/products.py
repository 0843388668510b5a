"""Rows of products: convolutions and products with matrices.

A product with constant weights is a layer with weights, whose rule the composite chooses. A product
of two tensors that depend on the picture, as in attention, is a `MatrixProduct`.
"""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from realtime_lrp.relevance.network import convolutions
from realtime_lrp.relevance.network.linear import Dense
from realtime_lrp.relevance.network.onednn import Geometry
from realtime_lrp.relevance.network.steps import Permute, Reshape, Step, ZeroPadding
from realtime_lrp.relevance.network.traced_steps import BATCH, MatrixProduct, WeightedSum
from realtime_lrp.relevance.reading.reader import Reader, Values, shapes_of
from realtime_lrp.relevance.reading.tracing import MIXES, CannotReadError, Held

CHANNELS_FIRST = "has its channels first, only channels last is known"

Compute = Callable[..., tf.Tensor]


def read_feature_maps(reader: Reader, operation: tf.Operation) -> Held:
    """The first input of an operation that works on feature maps [B, H, W, C]."""
    held = reader.held(operation.inputs[0])
    if operation.get_attr("data_format") not in (b"NHWC", b"NDHWC"):
        raise CannotReadError(CHANNELS_FIRST)
    if held.shape[0] != BATCH:
        raise CannotReadError(MIXES)
    return held


def _geometry(operation: tf.Operation) -> Geometry:
    strides, dilations = (operation.get_attr(key)[1:-1] for key in ("strides", "dilations"))
    padding = operation.get_attr("padding").decode()
    return Geometry(strides=strides, padding=padding, dilations=dilations)


def convolution(reader: Reader, operation: tf.Operation) -> Values:
    """A convolution, of all channels or of each, with constant weights."""
    held = read_feature_maps(reader, operation)
    kernel = reader.constant(operation.inputs[1])
    if kernel is None:
        raise CannotReadError("has weights that depend on the picture")
    kernel = tf.cast(kernel, tf.float32)
    geometry = _geometry(operation)
    made: list[Step] = []
    if geometry["padding"] == "EXPLICIT":
        border = operation.get_attr("explicit_paddings")[2:-2]
        made.append(ZeroPadding([border[:2], border[2:]]))
        geometry["padding"] = "VALID"
    if operation.type == "DepthwiseConv2dNative":
        made.append(convolutions.DepthwiseConvolution(kernel, None, geometry))
    else:
        groups = held.shape[-1] // kernel.shape[-2]
        made.append(convolutions.Convolution(kernel, None, geometry, groups))
    return reader.append(operation, made, [held])


def transposed_convolution(reader: Reader, operation: tf.Operation) -> Values:
    """The transpose of a convolution with constant weights."""
    kernel = reader.constant(operation.inputs[1])
    if kernel is None or operation.get_attr("data_format") != b"NHWC":
        raise CannotReadError("has weights that depend on the picture, or its channels first")
    size = operation.outputs[0].shape[1:3].as_list()
    kernel = tf.cast(kernel, tf.float32)
    step = convolutions.TransposedConvolution(kernel, None, _geometry(operation), lambda _: size)
    return reader.append(operation, [step], [reader.held(operation.inputs[2])])


def matrix_product(reader: Reader, operation: tf.Operation) -> Values:
    """A product of two matrices [rows, columns]."""
    kernel = reader.constant(operation.inputs[1])
    if kernel is None or operation.get_attr("transpose_a"):
        raise CannotReadError(MIXES)
    turned = operation.get_attr("transpose_b")
    return _dense(reader, operation, tf.transpose(kernel) if turned else kernel)


def batch_product(reader: Reader, operation: tf.Operation) -> Values:
    """A product of matrices, the last two axes of each tensor."""
    kernel = reader.constant(operation.inputs[1])
    if kernel is not None and set(kernel.shape[:-2]) <= {1} and not operation.get_attr("adj_x"):
        matrix = tf.reshape(kernel, kernel.shape[-2:])
        turned = operation.get_attr("adj_y")
        return _dense(reader, operation, tf.transpose(matrix) if turned else matrix)
    return _other_product(reader, operation)


def _dense(reader: Reader, operation: tf.Operation, kernel: tf.Tensor) -> Values:
    held = reader.held(operation.inputs[0])
    shape = tuple(operation.outputs[0].shape)
    if len(held.shape) != len(shape) or shape[:-1] != held.shape[:-1]:
        raise CannotReadError("multiplies tensors with different numbers of axes")
    return reader.append(operation, [Dense(tf.cast(kernel, tf.float32), None)], [held])


def _other_product(
    reader: Reader, operation: tf.Operation, compute: Compute | None = None
) -> Values:
    """A product of two tensors of the picture, or of one with constants that are no weights."""
    held = list(map(reader.held, reader.from_picture(operation)))
    kind = MatrixProduct if len(held) == 2 else WeightedSum
    if compute is None or len(held) < 2:
        compute = reader.compute(operation)
    return reader.append(operation, [kind(compute, shapes_of(operation, held))], held)


def _as_matrix_product(equation: str) -> Compute | None:
    """An equation as a product of matrices, in half of the time (DeiT-Tiny, bfloat16); or None."""
    terms, output = equation.split("->")
    first, second = terms.split(",")
    pages = [one for one in first if one in second and one in output]
    summed = [one for one in first if one in second and one not in output]
    rows = [one for one in first if one not in second]
    columns = [one for one in second if one not in first]
    axes = [*pages, *rows, *columns]
    one_of_each = len(summed) == len(rows) == len(columns) == 1
    if "." in equation or not one_of_each or sorted(axes) != sorted(output):
        return None
    if any(len(set(term)) < len(term) for term in (first, second, output)):
        return None

    def compute(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        a = _moved(a, first, [*pages, *rows, *summed])
        b = _moved(b, second, [*pages, *columns, *summed])
        return _moved(tf.matmul(a, b, transpose_b=True), axes, output)

    return compute


def _moved(a: tf.Tensor, axes: Sequence[str], wanted: Sequence[str]) -> tf.Tensor:
    if list(axes) == list(wanted):
        return a
    return tf.transpose(a, [list(axes).index(label) for label in wanted])


def einsum(reader: Reader, operation: tf.Operation) -> Values:
    """A product by an equation, "abc,cd->abd"."""
    equation = operation.get_attr("equation").decode()
    constants = reader.constants(operation)
    if len(constants) != 2:
        raise CannotReadError(f"computes {equation!r} of {len(constants)} tensors, not of two")
    position = 0 if constants[0] is None else 1
    kernel = constants[1 - position]
    if kernel is not None and "." not in equation:
        terms, output = equation.split("->")
        labels = terms.split(",")
        held = reader.held(operation.inputs[position])
        steps = _dense_steps(held, labels[position], labels[1 - position], output, kernel)
        if steps:
            return reader.append(operation, steps, [held])
    return _other_product(reader, operation, _as_matrix_product(equation))


def _dense_steps(held: Held, read: str, weights: str, output: str, kernel: tf.Tensor) -> list[Step]:
    """A product by labels of axes as a dense layer between changes of the shape; or nothing."""
    summed = [label for label in read if label in weights and label not in output]
    kept = [label for label in read if label not in weights]
    new = [label for label in weights if label not in read]
    unlike = len(set(read)) < len(read) or len(set(weights)) < len(weights)
    if unlike or sorted(output) != sorted(kept + new) or len(summed + new) < len(weights):
        return []
    if held.shape[0] != BATCH or kept[:1] != [read[0]] or output[0] != read[0]:
        return []
    sizes = dict(zip(read + weights, [*held.shape, *kernel.shape], strict=True))
    count = math.prod(sizes[label] for label in summed)
    order = [weights.index(label) for label in summed + new]
    matrix = tf.reshape(tf.transpose(tf.cast(kernel, tf.float32), order), [count, -1])
    steps: list[Step] = []
    if "".join(kept + summed) != read:
        steps.append(Permute([read.index(label) for label in kept + summed]))
    if len(summed) != 1:
        steps.append(Reshape([*(sizes[label] for label in kept[1:]), count]))
    steps.append(Dense(matrix, None))
    if len(new) != 1:
        steps.append(Reshape([sizes[label] for label in (kept + new)[1:]]))
    if "".join(kept + new) != output:
        steps.append(Permute([(kept + new).index(label) for label in output]))
    return steps
