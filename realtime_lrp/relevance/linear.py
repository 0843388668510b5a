"""Steps that share relevance by weights. Which rule they follow comes from the composite.

A new kind is one class with its `transform`; `transpose` follows from it by differentiation unless
a faster form is known.
"""

import copy
import functools
from collections.abc import Sequence

import tensorflow as tf

from realtime_lrp.relevance.steps import Step

Weights = tf.Tensor | tuple[tf.Tensor, tf.Tensor]
"""What `Linear.ready` makes of a kernel."""


class Linear(Step):
    """A layer that weighs and sums: z = transform(a, kernel) + bias.

    Attributes:
      kernel: float32 or bfloat16 weights.
      bias: [out] of the same type, or None.
    """

    keeps_sign = False

    def __init__(self, kernel: tf.Tensor, bias: tf.Tensor | None):
        self.kernel = kernel
        self.bias = bias

    @functools.cached_property
    def weights(self) -> Weights:
        """The layer's own kernel, ready for `transform` and `transpose`."""
        return self.ready(self.kernel)

    def ready(self, kernel: tf.Tensor) -> Weights:
        """A kernel in the form that `transform` and `transpose` read."""
        return kernel

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        z = self.transform(a, self.weights)
        return z if self.bias is None else z + self.bias

    def gradient(self, inputs, output, gradient):
        return [self.transpose(gradient, self.weights, tf.shape(inputs[0]))]

    def transform(self, a: tf.Tensor, kernel: Weights) -> tf.Tensor:
        """The layer's sum for input a and these weights, without bias."""
        raise NotImplementedError

    def transpose(self, s: tf.Tensor, kernel: Weights, shape: tf.Tensor) -> tf.Tensor:
        """The adjoint of `transform`: from the output's side to an input of this shape."""
        with tf.GradientTape() as tape:
            a = tf.zeros(shape, s.dtype)
            tape.watch(a)
            z = self.transform(a, kernel)
        return tape.gradient(z, a, s)

    @property
    def sees_whole_windows(self) -> bool:
        """Whether every output sums over the whole kernel: no zero padding takes part."""
        return False

    def per_output(self, values: tf.Tensor) -> tf.Tensor:
        """Values [out] in a shape that multiplies the kernel."""
        return values

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        """Values [in] in a shape that multiplies the kernel."""
        raise NotImplementedError

    def sums(self, kernel: tf.Tensor) -> tf.Tensor:
        """The sum of a kernel's weights for each output, [out]."""
        return tf.reduce_sum(kernel, list(range(kernel.shape.rank - 1)))

    def then(self, scale: tf.Tensor, offset: tf.Tensor) -> "Linear":
        """This layer followed by `scale * z + offset`, both [out]."""
        bias = offset if self.bias is None else self.bias * scale + offset
        return self._with(self.kernel * self.per_output(scale), bias)

    def after(self, scale: tf.Tensor, offset: tf.Tensor) -> "Linear":
        """This layer reading `scale * a + offset`, both [in]; `sees_whole_windows` must hold."""
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
        other.kernel, other.bias = kernel, bias
        return other


class Dense(Linear):
    """Dense: kernel [in, out], applied to the last axis.

    In bfloat16 both passes read a kernel whose last axis they sum over: VGG16's first dense layer
    takes 9 ms instead of 22 (2 cores).
    """

    sees_whole_windows = True

    def ready(self, kernel):
        if kernel.dtype != tf.bfloat16:
            return kernel
        with tf.init_scope():  # a constant, also where it is first asked for inside a graph
            return tf.transpose(kernel), kernel

    def transform(self, a, kernel):
        if isinstance(kernel, tuple):
            return tf.matmul(a, kernel[0], transpose_b=True)
        return tf.matmul(a, kernel)

    def transpose(self, s, kernel, shape):
        by_input = kernel[1] if isinstance(kernel, tuple) else kernel
        return tf.matmul(s, by_input, transpose_b=True)

    def per_input(self, values):
        return values[:, None]


class Convolution(Linear):
    """Convolution over one, two or three axes: kernel [*window, in / groups, out]."""

    def __init__(
        self, kernel, bias, strides: Sequence[int], padding: str, dilations: Sequence[int]
    ):
        super().__init__(kernel, bias)
        self.geometry = {
            "strides": list(strides), "padding": padding.upper(), "dilations": list(dilations)
        }  # fmt: skip

    def transform(self, a, kernel):
        return tf.nn.convolution(a, kernel, **self.geometry)

    def transpose(self, s, kernel, shape):
        return tf.nn.conv_transpose(s, kernel, shape, **self.geometry)

    @property
    def sees_whole_windows(self):
        window = self.kernel.shape[:-2]
        return self.geometry["padding"] == "VALID" or window.num_elements() == 1

    def per_input(self, values):
        depth, out = self.kernel.shape[-2:]
        by_group = tf.transpose(tf.reshape(values, [-1, depth]))
        return tf.repeat(by_group, out // by_group.shape[1], axis=1)


class DepthwiseConvolution(Convolution):
    """Each channel by itself: kernel [rows, columns, in, multiplier], out = in * multiplier."""

    def transform(self, a, kernel):
        strides = [1, *self.geometry["strides"], 1]
        return tf.nn.depthwise_conv2d(
            a, kernel, strides, self.geometry["padding"], dilations=self.geometry["dilations"]
        )

    def transpose(self, s, kernel, shape):
        return Linear.transpose(self, s, kernel, shape)

    def per_output(self, values):
        return tf.reshape(values, self.kernel.shape[-2:])

    def per_input(self, values):
        return values[:, None]

    def sums(self, kernel):
        return tf.reshape(tf.reduce_sum(kernel, [0, 1]), [-1])


class TransposedConvolution(Convolution):
    """Conv2DTranspose: kernel [rows, columns, out, in].

    Args:
      size: (rows, columns) of a picture -> (rows, columns) of the output.
    """

    sees_whole_windows = False

    def __init__(self, kernel, bias, strides, padding, dilations, size):
        super().__init__(kernel, bias, strides, padding, dilations)
        self._size = size

    def transform(self, a, kernel):
        shape = [tf.shape(a)[0], *self._size(a.shape[1:3]), kernel.shape[2]]
        return tf.nn.conv2d_transpose(a, kernel, shape, **self.geometry)

    def transpose(self, s, kernel, shape):
        return tf.nn.conv2d(s, kernel, **self.geometry)

    def per_output(self, values):
        return values[:, None]
