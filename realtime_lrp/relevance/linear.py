"""Steps with weights: dense layers and convolutions. The composite says which rule they follow.

To add a kind, write a class with `_sum` and `per_input`. `transpose` is derived from `_sum` by
differentiation unless the class has a faster one.
"""

import copy
import functools
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from realtime_lrp.relevance import onednn
from realtime_lrp.relevance.steps import Step, Tensors

RECTIFIERS = {"relu": tf.nn.relu, "relu6": tf.nn.relu6}
"""The activations that a layer with weights can compute along with its sum."""


class Weights:
    """A kernel in the layouts that `transform` and `transpose` read.

    Attributes:
      kernel: what `transform` reads.
      adjoint: what `transpose` reads, where that is another layout; made at the first access.
    """

    def __init__(self, kernel: tf.Tensor, to_adjoint: Callable[[tf.Tensor], tf.Tensor]) -> None:
        self.kernel = kernel
        self._to_adjoint = to_adjoint

    @functools.cached_property
    def adjoint(self) -> tf.Tensor:
        with tf.init_scope():  # as `Linear.weights`
            return self._to_adjoint(self.kernel)


class Linear(Step):
    """A layer that computes weighted sums: z = transform(a, weights, bias).

    Attributes:
      kernel: float32 or bfloat16 weights.
      bias: [out] of the same type, or None.
      convolves: whether it sums over windows of its input.
    """

    convolves = False

    def __init__(self, kernel: tf.Tensor, bias: tf.Tensor | None) -> None:
        self.kernel = kernel
        self.bias = bias
        self._modified: dict[Callable[[tf.Tensor], tf.Tensor], Weights] = {}

    @functools.cached_property
    def weights(self) -> Weights:
        """The layer's own kernel, ready for `transform` and `transpose`."""
        with tf.init_scope():  # a value even if the first access is inside a graph
            return self.ready(self.kernel)

    def modified(self, modify: Callable[[tf.Tensor], tf.Tensor]) -> Weights:
        """The kernel changed by a function, for example `positive`.

        All rules that ask for the same function get the same object, so that TensorFlow computes
        once what several composites have in common.
        """
        if modify not in self._modified:
            self._modified[modify] = self.ready(modify(self.kernel))
        return self._modified[modify]

    def ready(self, kernel: tf.Tensor) -> Weights:
        """A kernel in the layouts that `transform` and `transpose` read."""
        return Weights(kernel, tf.identity)

    def forward(self, a: tf.Tensor, activation: str = "") -> tf.Tensor:
        """The layer's output.

        Args:
          a: its input.
          activation: "relu" or "relu6" to apply it as well, or "".
        """
        return self.transform(a, self.weights, self.bias, activation)

    def gradient(self, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        return [self.transpose(gradient, self.weights, tf.shape(inputs[0]))]

    def transform(
        self, a: tf.Tensor, weights: Weights, bias: tf.Tensor | None = None, activation: str = ""
    ) -> tf.Tensor:
        """The layer's sum for input a and these weights, plus bias [out], with an activation."""
        return self.finished(self._sum(a, weights.kernel), bias, activation)

    def finished(self, z: tf.Tensor, bias: tf.Tensor | None, activation: str) -> tf.Tensor:
        """Adds a bias [out] to sums z and applies an activation."""
        z = z if bias is None else tf.nn.bias_add(z, bias)
        return RECTIFIERS[activation](z) if activation else z

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        """The adjoint of `transform`.

        Args:
          s: shaped like the output.
          weights: those of `transform`.
          shape: the shape of the input, which is that of the result.
        """
        with tf.GradientTape() as tape:
            a = tf.zeros(shape, s.dtype)
            tape.watch(a)
            z = self._sum(a, weights.kernel)
        return tape.gradient(z, a, s)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    @property
    def sees_whole_windows(self) -> bool:
        """Whether every output sums over the whole kernel, without zero padding."""
        return False

    @property
    def outputs(self) -> int:
        """The number of output channels."""
        return self.kernel.shape[-1]

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        """The shape of the output for an input of this shape, both with the batch.

        Raises:
          ValueError: the layer cannot read this shape.
        """
        raise NotImplementedError

    def uses_per_weight(self, a: tf.Tensor, output: tf.Tensor) -> int:
        """How often each weight is used for a picture.

        Args:
          a: the input, [1, ...].
          output: the output, [1, ...].
        """
        return math.prod(output.shape[1:-1])

    def per_output(self, values: tf.Tensor) -> tf.Tensor:
        """Values [out], shaped to multiply the kernel."""
        return values

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        """Values [in], shaped to multiply the kernel."""
        raise NotImplementedError

    def sums(self, kernel: tf.Tensor) -> tf.Tensor:
        """The sum of the weights of each output, [out]."""
        return tf.reduce_sum(kernel, list(range(kernel.shape.rank - 1)))

    def then(self, scale: tf.Tensor, offset: tf.Tensor) -> "Linear":
        """This layer with `scale * z + offset` after it, both [out]."""
        bias = offset if self.bias is None else self.bias * scale + offset
        return self._with(self.kernel * self.per_output(scale), bias)

    def after(self, scale: tf.Tensor, offset: tf.Tensor) -> "Linear":
        """This layer with `scale * a + offset` before it, both [in]; needs `sees_whole_windows`."""
        shift = self.sums(self.kernel * self.per_input(offset))
        bias = shift if self.bias is None else self.bias + shift
        return self._with(self.kernel * self.per_input(scale), bias)

    def cast(self, dtype: tf.DType) -> "Linear":
        """This layer with weights of another type."""
        return self._with(
            tf.cast(self.kernel, dtype), None if self.bias is None else tf.cast(self.bias, dtype)
        )

    def _with(self, kernel: tf.Tensor, bias: tf.Tensor | None) -> "Linear":
        other = copy.copy(self)
        other.__dict__.pop("weights", None)
        other.kernel, other.bias, other._modified = kernel, bias, {}
        return other


class Dense(Linear):
    """Dense: kernel [in, out], applied to the last axis."""

    sees_whole_windows = True

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        if shape[-1] != self.kernel.shape[0]:
            raise ValueError(f"a dense layer reads {self.kernel.shape[0]} values, not {shape[-1]}")
        return [*shape[:-1], self.outputs]

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, kernel)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        return tf.matmul(s, weights.kernel, transpose_b=True)

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        return values[:, None]

    def cast(self, dtype: tf.DType) -> Linear:
        layer = super().cast(dtype)
        if dtype != tf.bfloat16:
            return layer
        return DenseByOutput(tf.transpose(layer.kernel), layer.bias)


class DenseByOutput(Linear):
    """Dense in bfloat16: kernel [out, in].

    Both passes then sum over the last axis of a kernel. VGG16's first dense layer takes 7 ms, not
    20 (2 cores).
    """

    @property
    def outputs(self) -> int:
        return self.kernel.shape[0]

    def ready(self, kernel: tf.Tensor) -> Weights:
        return Weights(kernel, tf.transpose)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, kernel, transpose_b=True)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        return tf.matmul(s, weights.adjoint, transpose_b=True)


class Convolution(Linear):
    """Convolution over one, two or three axes: kernel [*window, in / groups, out]."""

    convolves = True

    def __init__(
        self,
        kernel: tf.Tensor,
        bias: tf.Tensor | None,
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int],
        groups: int = 1,
    ) -> None:
        super().__init__(kernel, bias)
        self._groups = groups
        self.geometry = onednn.Geometry(
            strides=list(strides), padding=padding, dilations=list(dilations)
        )

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        geometry, sizes = self.geometry, shape[1:-1]
        axes = zip(self._window, sizes, geometry["strides"], geometry["dilations"], strict=True)
        same = geometry["padding"] == "SAME"
        positions = [
            math.ceil((size if same else size - dilation * (window - 1)) / stride)
            for window, size, stride, dilation in axes
        ]
        if min(positions) < 1:
            raise ValueError(f"a window of {self._window} does not fit into {tuple(sizes)}")
        return [shape[0], *positions, self.outputs]

    @property
    def _window(self) -> tuple[int, ...]:
        """The size of the window along each axis."""
        return tuple(self.kernel.shape[:-2])

    def ready(self, kernel: tf.Tensor) -> Weights:
        return Weights(kernel, functools.partial(_adjoint_kernel, groups=self._groups))

    def transform(
        self, a: tf.Tensor, weights: Weights, bias: tf.Tensor | None = None, activation: str = ""
    ) -> tf.Tensor:
        if self._groups == 1 and onednn.usable(a, weights.kernel):
            return onednn.convolution(a, weights.kernel, bias, activation, **self.geometry)
        return super().transform(a, weights, bias, activation)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        plain = self._groups == 1 and set(self.geometry["dilations"]) == {1}
        if self._groups == 1 and self._keeps_size and onednn.usable(s, weights.kernel):
            # The adjoint is a convolution as well: 0.7 ms instead of 1.0 at 14 x 14 x 512.
            return onednn.convolution(s, weights.adjoint, None, "", **self.geometry)
        if plain:
            return tf.nn.conv_transpose(s, weights.kernel, shape, **self.geometry)
        # TensorFlow's transpose of groups and dilations runs on some processors only.
        if set(self.geometry["strides"]) == {1}:
            return self._convolve_back(s, weights)
        return self._transpose_by_group(s, weights, shape)

    def finished(self, z: tf.Tensor, bias: tf.Tensor | None, activation: str) -> tf.Tensor:
        if self._groups > 1 and bias is not None:
            # TensorFlow would fuse a BiasAdd with the convolution; without oneDNN that fails.
            z, bias = z + bias, None
        return super().finished(z, bias, activation)

    def _convolve_back(self, s: tf.Tensor, weights: Weights) -> tf.Tensor:
        """`transpose` for strides of 1: a convolution with the adjoint kernel."""
        edges = []
        for size, dilation in zip(self.kernel.shape[:-2], self.geometry["dilations"], strict=True):
            reach = dilation * (size - 1)
            before = reach // 2 if self.geometry["padding"] == "SAME" else 0
            after = reach - before if self.geometry["padding"] == "SAME" else 0
            edges.append([reach - before, reach - after])
        padded = tf.pad(s, [[0, 0], *edges, [0, 0]])
        return tf.nn.convolution(
            padded, weights.adjoint, padding="VALID", dilations=self.geometry["dilations"]
        )

    def _transpose_by_group(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        """`transpose`, each group by itself."""
        shape = tf.concat([shape[:-1], [weights.kernel.shape[-2]]], 0)
        by_group = zip(
            tf.split(s, self._groups, -1), tf.split(weights.kernel, self._groups, -1), strict=True
        )
        parts = [tf.nn.conv_transpose(*pair, shape, **self.geometry) for pair in by_group]
        return tf.concat(parts, -1)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return tf.nn.convolution(a, kernel, **self.geometry)

    @property
    def _keeps_size(self) -> bool:
        """Whether output and input have the same size and windows are centred."""
        window, geometry = self.kernel.shape[:-2], self.geometry
        odd_padded = geometry["padding"] == "SAME" and all(size % 2 for size in window)
        centred = odd_padded or window.num_elements() == 1
        return centred and set(geometry["strides"]) == {1} and len(window) == 2

    @property
    def sees_whole_windows(self) -> bool:
        window = self.kernel.shape[:-2]
        return self.geometry["padding"] == "VALID" or window.num_elements() == 1

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        depth, out = self.kernel.shape[-2:]
        by_group = tf.transpose(tf.reshape(values, [-1, depth]))
        return tf.repeat(by_group, out // by_group.shape[1], axis=1)


class DepthwiseConvolution(Convolution):
    """One filter per channel: kernel [rows, columns, in, multiplier], out = in * multiplier."""

    @property
    def outputs(self) -> int:
        return self.kernel.shape[2] * self.kernel.shape[3]

    def ready(self, kernel: tf.Tensor) -> Weights:
        return Weights(kernel, lambda kernel: kernel[::-1, ::-1])

    def transform(
        self, a: tf.Tensor, weights: Weights, bias: tf.Tensor | None = None, activation: str = ""
    ) -> tf.Tensor:
        return Linear.transform(self, a, weights, bias, activation)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        if self._keeps_size and self.kernel.shape[3] == 1:
            return self._sum(s, weights.adjoint)
        if set(self.geometry["dilations"]) != {1}:
            return Linear.transpose(self, s, weights, shape)
        # In float32: 1.7 ms instead of 32 in bfloat16 for 8 pictures of 113 x 113 x 96 (2 cores).
        c = tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
            input_sizes=shape,
            filter=tf.cast(weights.kernel, tf.float32),
            out_backprop=tf.cast(s, tf.float32),
            strides=[1, *self.geometry["strides"], 1],
            padding=self.geometry["padding"],
        )
        return tf.cast(c, s.dtype)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        strides = [1, *self.geometry["strides"], 1]
        return tf.nn.depthwise_conv2d(
            a, kernel, strides, self.geometry["padding"], dilations=self.geometry["dilations"]
        )

    def per_output(self, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, self.kernel.shape[-2:])

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        return values[:, None]

    def sums(self, kernel: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.reduce_sum(kernel, [0, 1]), [-1])


class TransposedConvolution(Convolution):
    """Conv2DTranspose: kernel [rows, columns, out, in].

    Args:
      size: (rows, columns) of the input -> (rows, columns) of the output.
    """

    sees_whole_windows = False

    def __init__(
        self,
        kernel: tf.Tensor,
        bias: tf.Tensor | None,
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int],
        size: Callable[[Sequence[int]], Sequence[int]],
    ) -> None:
        super().__init__(kernel, bias, strides, padding, dilations)
        self._size = size

    @property
    def outputs(self) -> int:
        return self.kernel.shape[2]

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        return [shape[0], *self._size(shape[1:3]), self.outputs]

    def ready(self, kernel: tf.Tensor) -> Weights:
        return Weights(kernel, tf.identity)

    def transform(
        self, a: tf.Tensor, weights: Weights, bias: tf.Tensor | None = None, activation: str = ""
    ) -> tf.Tensor:
        return Linear.transform(self, a, weights, bias, activation)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv2d(s, weights.kernel, **self.geometry)

    def uses_per_weight(self, a: tf.Tensor, output: tf.Tensor) -> int:
        return math.prod(a.shape[1:-1])

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        shape = [tf.shape(a)[0], *self._size(a.shape[1:3]), kernel.shape[2]]
        return tf.nn.conv2d_transpose(a, kernel, shape, **self.geometry)

    def per_output(self, values: tf.Tensor) -> tf.Tensor:
        return values[:, None]


def _adjoint_kernel(kernel: tf.Tensor, groups: int) -> tf.Tensor:
    """The kernel of the adjoint: windows reversed, in and out swapped in each group."""
    *window, depth, outputs = kernel.shape
    axes = list(range(len(window)))
    reversed_windows = tf.reverse(kernel, axes)
    by_group = tf.reshape(reversed_windows, [*window, depth, groups, outputs // groups])
    swapped = tf.transpose(by_group, [*axes, len(axes) + 2, len(axes) + 1, len(axes)])
    return tf.reshape(swapped, [*window, outputs // groups, groups * depth])
