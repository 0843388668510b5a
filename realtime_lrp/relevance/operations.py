"""Counts what a traced map multiplies, from the operations in its graph.

`bench` compares the time of a map with it. What runs inside a loop is not counted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import tensorflow as tf

FORWARD = ("_MklNativeFusedConv2D", "Conv2D", "DepthwiseConv2dNative", "Conv3D")
"""Convolutions that read (input, kernel, ...) and compute each output from a window."""

BACKWARD = (
    "Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", "Conv3DBackpropInputV2",
)  # fmt: skip
"""Their adjoints, which read (size of the input, kernel, gradient of the output)."""

PRODUCTS = ("MatMul", "BatchMatMulV2")


@dataclass(frozen=True)
class Multiplication:
    """A convolution or a product with a matrix, for one picture.

    Attributes:
      flops: floating point operations.
      kernel: the shape of its weights.
      input: the shape of its input without the batch; None for adjoints and products.
      strides: rows and columns.
      padding: "SAME" or "VALID".
      dilations: rows and columns.
      bytes: the size of the matrix that a product reads; 0 for convolutions.
    """

    flops: int
    kernel: tuple[int, ...]
    input: tuple[int, ...] | None = None
    strides: tuple[int, ...] = (1, 1)
    padding: str = "VALID"
    dilations: tuple[int, ...] = (1, 1)
    bytes: int = 0


def multiplications(graph: tf.Graph) -> Iterator[Multiplication]:
    """Yields the convolutions and the products with matrices in a traced graph."""
    for operation in graph.get_operations():
        if operation.type in FORWARD:
            yield _forward(operation)
        elif operation.type in BACKWARD:
            yield _convolution(operation.inputs[1], operation.inputs[2])
        elif operation.type in PRODUCTS:
            yield from _product(operation)


def _convolution(kernel: tf.Tensor, output: tf.Tensor) -> Multiplication:
    positions = math.prod(size or 0 for size in output.shape[1:-1])
    shape = tuple(kernel.shape)
    return Multiplication(2 * math.prod(shape) * positions, shape)


def _forward(operation: tf.Operation) -> Multiplication:
    a, kernel = operation.inputs[:2]
    counted = _convolution(kernel, operation.outputs[0])
    whole = kernel.shape.rank == 4 and a.shape[-1] == kernel.shape[2] and None not in a.shape[1:]
    if not whole or "Depthwise" in operation.type:
        return counted
    return replace(
        counted,
        input=tuple(a.shape[1:]),
        strides=tuple(operation.get_attr("strides")[1:3]),
        padding=operation.get_attr("padding").decode(),
        dilations=tuple(operation.get_attr("dilations")[1:3]),
    )


def _product(operation: tf.Operation) -> Iterator[Multiplication]:
    """Products with a matrix of known size; those of a vector are too small to count."""
    matrix = operation.inputs[1].shape
    if matrix.rank == 2 and matrix.is_fully_defined() and 1 not in matrix:
        size = math.prod(matrix)
        yield Multiplication(2 * size, tuple(matrix), bytes=size * operation.inputs[1].dtype.size)
