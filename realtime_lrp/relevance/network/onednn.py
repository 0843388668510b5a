"""Convolutions by oneDNN whose kernel is reordered once, not for every picture.

TensorFlow's public convolution lets oneDNN reorder the kernel for every picture, unless the kernel
is a constant of the graph, which then takes its memory six times. The operation here is the one by
which TensorFlow itself replaces the public one, with the kernel declared constant: a map of
ResNet50 takes 68 ms instead of 95, of VGG16 84 instead of 103 (bfloat16, batch 1, 2 cores). Where
it is not `available`, the public convolution is used.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypedDict

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library

OPERATION = "_MklNativeFusedConv2D"
DTYPES = (tf.float32, tf.bfloat16)
FUSED = {"relu": "Relu", "relu6": "Relu6"}  # activation -> the operation computed along with sums

_enabled = True


class Geometry(TypedDict):
    """How the window of a convolution moves; padding is "SAME" or "VALID"."""

    strides: list[int]
    padding: str
    dilations: list[int]


PLAIN = Geometry(strides=[1, 1], padding="VALID", dilations=[1, 1])


@contextmanager
def disabled() -> Iterator[None]:
    """Within this context only public operations are traced."""
    global _enabled
    before = _enabled
    _enabled = False
    try:
        yield
    finally:
        _enabled = before


def usable(a: tf.Tensor, kernel: tf.Tensor) -> bool:
    """Whether `convolution` can compute one: without groups, `a` inside a graph."""
    return (
        _enabled
        and not tf.executing_eagerly()
        and kernel.shape.rank == 4
        and a.dtype in DTYPES
        and "CPU" in kernel.device
        and available(a.dtype)
    )


@functools.cache
def available(dtype: tf.DType) -> bool:
    """Whether the operation runs here in a type and agrees with the public one."""
    rng = np.random.default_rng(0)
    shapes = (1, 5, 5, 3), (3, 3, 3, 4), (4,)
    geometry = Geometry(strides=[1, 1], padding="SAME", dilations=[1, 1])
    with tf.init_scope(), tf.device("/CPU:0"):
        a, kernel, bias = (tf.constant(rng.normal(size=s), dtype) for s in shapes)
        kept = tf.function(
            lambda a: convolution(a, kernel, bias, "relu", **geometry), autograph=False
        )
        try:
            got = kept.get_concrete_function(a)(a)  # also where functions run eagerly
            expected = tf.nn.relu(tf.nn.convolution(a, kernel, **geometry) + bias)
        except (AttributeError, RuntimeError, TypeError, ValueError, tf.errors.OpError):
            return False
        bound = 1e-4 if dtype == tf.float32 else 0.05
        got, expected = (tf.cast(z, tf.float32).numpy() for z in (got, expected))
    return np.allclose(got, expected, rtol=bound, atol=bound)


def convolution(
    a: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, activation: str,
    strides: Sequence[int], padding: str, dilations: Sequence[int],
) -> tf.Tensor:  # fmt: skip
    """Adds a convolution with a constant kernel to the graph; `activation` is "" or of `FUSED`."""
    kernels = tf.compat.v1.get_default_graph()._kernel_label_map
    with kernels({OPERATION: "MklNameChangeOp"}):
        return op_def_library.apply_op(
            OPERATION, name="convolution", input=a, filter=kernel, num_args=1, host_args=[],
            args=[tf.zeros([kernel.shape[-1]], a.dtype) if bias is None else bias],
            fused_ops=["BiasAdd", *([FUSED[activation]] if activation else [])],
            is_filter_const=True, strides=[1, *strides, 1], padding=padding, explicit_paddings=[],
            dilations=[1, *dilations, 1], data_format="NHWC", filter_format="HWIO",
            use_cudnn_on_gpu=False, epsilon=0.0, leakyrelu_alpha=0.0,
        )  # fmt: skip
