"""Steps with weights, and dense layers. The composite says which rule they follow.

Convolutions are in `convolutions.py`. To add a kind, write a class with `_sum`, `output_shape` and
`per_input`. `transpose` is derived from `_sum` by differentiation unless the class has a faster
one.
"""

import copy
import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network.steps import Step, Tensors

RECTIFIERS = {"relu": tf.nn.relu, "relu6": tf.nn.relu6}  # layers with weights compute these too

Modify = Callable[[tf.Tensor], tf.Tensor]  # how w, or b, becomes w'


class Weights:
    """A kernel in the layouts that `transform` and `transpose` (`adjoint`) read."""

    stacked = False  # whether for an input of twice the channels, see `Linear.stacked`

    def __init__(self, kernel: tf.Tensor, layer: "Linear") -> None:
        self.kernel = kernel
        self._layer = layer

    @functools.cached_property
    def adjoint(self) -> tf.Tensor:
        if tf.is_symbolic_tensor(self.kernel):
            return self._layer.adjoint_of(self.kernel)
        with tf.init_scope():  # as `Linear.weights`
            return self._layer.adjoint_of(self.kernel)


class Linear(Step):
    """A layer that computes weighted sums: z = transform(a, weights, bias), bias [out] or None."""

    multiplies = True
    sees_whole_windows = False  # whether outputs sum over the whole kernel, without zero padding

    def __init__(self, kernel: tf.Tensor, bias: tf.Tensor | None) -> None:
        self.kernel = kernel
        self.bias = bias
        self._modified: dict[Modify | tuple[Modify, Modify], Weights] = {}

    @functools.cached_property
    def weights(self) -> Weights:
        """The layer's own kernel, ready for `transform` and `transpose`."""
        with tf.init_scope():  # a value even if the first access is inside a graph
            return self.ready(self.kernel)

    def modified(self, modify: Modify) -> Weights:
        """The kernel changed by a function, once for all rules that ask for the same one."""
        if modify not in self._modified:
            self._modified[modify] = self.ready(modify(self.kernel))
        return self._modified[modify]

    def ready(self, kernel: tf.Tensor) -> Weights:
        """A kernel in the layouts that `transform` and `transpose` read."""
        return Weights(kernel, self)

    def adjoint_of(self, kernel: tf.Tensor) -> tf.Tensor:
        """A kernel in the layout that `transpose` reads."""
        return kernel

    def stacked(self, first: Modify, second: Modify) -> Weights | None:
        """The kernel changed by two functions, for an input of twice the channels.

        `transform` then sums over both halves at once, which costs less than two sums and their
        addition. None where an output does not sum over all channels.
        """
        axis = self.input_axis
        if axis is None:
            return None
        if (first, second) not in self._modified:
            kernel = tf.concat([first(self.kernel), second(self.kernel)], axis)
            self._modified[first, second] = self.ready(kernel)
            self._modified[first, second].stacked = True
        return self._modified[first, second]

    @property
    def input_axis(self) -> int | None:
        """The kernel's axis for the input's channels; None where outputs do not sum over all."""
        return None

    def single_channel(self) -> "Linear | None":
        """This layer with one input channel, one output channel, and weights of 1 in float32.

        It sums what all channels of this layer have in common where all weights are 1. None where
        an output does not sum over all channels, and for dense layers.
        """
        if self.input_axis is None or not self.convolves:
            return None
        return self._with(tf.ones([*self.kernel.shape[:-2], 1, 1]), None)

    def forward(self, a: tf.Tensor, activation: str = "") -> tf.Tensor:
        """The output; `activation` is "relu" or "relu6" to apply it as well, or ""."""
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
        """The adjoint of `transform`: s is shaped like the output; `shape` is the input's."""
        with tf.GradientTape() as tape:
            a = tf.zeros(shape, s.dtype)
            tape.watch(a)
            z = self._sum(a, weights.kernel)
        return tape.gradient(z, a, s)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        """The number of output channels."""
        return self.kernel.shape[-1]

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        """The shape of the output, with the batch; ValueError where the input's does not fit."""
        raise NotImplementedError

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

    def of_outputs(self, columns: np.ndarray) -> "Linear":
        """This layer with these of its outputs, in this order, some perhaps repeated."""
        bias = None if self.bias is None else tf.gather(self.bias, columns)
        return self._with(tf.gather(self.kernel, columns, axis=-1), bias)

    def after(self, scale: tf.Tensor, offset: tf.Tensor) -> "Linear":
        """This layer with `scale * a + offset` before it, both [in]; needs `sees_whole_windows`."""
        shift = self.sums(self.kernel * self.per_input(offset))
        bias = shift if self.bias is None else self.bias + shift
        return self._with(self.kernel * self.per_input(scale), bias)

    def cast(self, dtype: tf.DType) -> "Linear":
        """This layer with weights of another type."""
        bias = None if self.bias is None else tf.cast(self.bias, dtype)
        return self._with(tf.cast(self.kernel, dtype), bias)

    def _with(self, kernel: tf.Tensor, bias: tf.Tensor | None) -> "Linear":
        other = copy.copy(self)
        other.__dict__.pop("weights", None)
        other.kernel = kernel
        other.bias = bias
        other._modified = {}
        return other


class Dense(Linear):
    """Dense: kernel [in, out], applied to the last axis; or, `by_output`, [out, in].

    In bfloat16 both passes sum over the last axis of a kernel. VGG16's first dense layer takes
    7 ms so, not 20 (2 cores).
    """

    sees_whole_windows = True

    def __init__(self, kernel: tf.Tensor, bias: tf.Tensor | None, by_output: bool = False) -> None:
        super().__init__(kernel, bias)
        self._by_output = by_output

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        if shape[-1] != self.kernel.shape[0]:
            raise ValueError(f"a dense layer reads {self.kernel.shape[0]} values, not {shape[-1]}")
        return [*shape[:-1], self.outputs]

    @property
    def outputs(self) -> int:
        return self.kernel.shape[0 if self._by_output else 1]

    @property
    def input_axis(self) -> int | None:
        return 1 if self._by_output else 0

    def adjoint_of(self, kernel: tf.Tensor) -> tf.Tensor:
        return tf.transpose(kernel)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, kernel, transpose_b=self._by_output)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        kernel = weights.adjoint if self._by_output else weights.kernel
        return tf.matmul(s, kernel, transpose_b=True)

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        return values[:, None]

    def cast(self, dtype: tf.DType) -> Linear:
        layer = super().cast(dtype)
        if dtype != tf.bfloat16:
            return layer
        return Dense(tf.transpose(layer.kernel), layer.bias, by_output=True)
