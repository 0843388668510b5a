"""How each kind of step goes forward, and how relevance goes back through it.

Tensors are float32, pictures are [B, H, W, C]. A step that shares relevance by weights is `Linear`:
its rule comes from the composite. Every other step knows by itself where relevance goes.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

STABILISER = 1e-6


def stabilise(z: tf.Tensor) -> tf.Tensor:
    """Z moved away from 0 by `STABILISER` in its own direction; 0 counts as positive."""
    return z + tf.where(z >= 0, tf.constant(STABILISER, z.dtype), -STABILISER)


class Step:
    """One operation of the network.

    `keeps_sign` is True where inputs that are never negative give outputs that are never negative.
    """

    keeps_sign = True

    def forward(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The output for these inputs, each [B, ...]."""
        raise NotImplementedError

    def relevance(
        self, inputs: Sequence[tf.Tensor], output: tf.Tensor, relevance: tf.Tensor
    ) -> list[tf.Tensor]:
        """One tensor per input, shaped like it: the relevance that each input gets."""
        raise NotImplementedError

    def support(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Where in the output the picture is: 1 for picture, 0 for padding."""
        return self.forward(*inputs)


class Linear(Step):
    """A layer that weighs and sums: z = transform(a, kernel) + bias.

    Attributes:
      kernel: float32 weights.
      bias: float32 [channels], or None.
    """

    keeps_sign = False

    def __init__(self, kernel: tf.Tensor, bias: tf.Tensor | None):
        self.kernel = kernel
        self.bias = bias

    def forward(self, a: tf.Tensor) -> tf.Tensor:
        z = self.transform(a, self.kernel)
        return z if self.bias is None else z + self.bias

    def transform(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """The layer's sum for input a and these weights, without bias."""
        raise NotImplementedError

    def transpose(self, s: tf.Tensor, kernel: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
        """The adjoint of `transform`: from the output's side to an input of this shape."""
        raise NotImplementedError


class Convolution(Linear):
    """Conv2D: kernel [h, w, in / groups, out]."""

    def __init__(
        self, kernel, bias, strides: Sequence[int], padding: str, dilations: Sequence[int]
    ):
        super().__init__(kernel, bias)
        self.geometry = {
            "strides": list(strides), "padding": padding.upper(), "dilations": list(dilations)
        }  # fmt: skip

    def transform(self, a, kernel):
        return tf.nn.conv2d(a, kernel, **self.geometry)

    def transpose(self, s, kernel, shape):
        return tf.nn.conv2d_transpose(s, kernel, shape, **self.geometry)


class Dense(Linear):
    """Dense: kernel [in, out], applied to the last axis."""

    def transform(self, a, kernel):
        return tf.matmul(a, kernel)

    def transpose(self, s, kernel, shape):
        return tf.matmul(s, kernel, transpose_b=True)


class Elementwise(Step):
    """One output entry per input entry: relevance passes through unchanged."""

    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor], keeps_sign: bool):
        self.forward = function
        self.keeps_sign = keeps_sign

    def relevance(self, inputs, output, relevance):
        return [relevance]

    def support(self, a):
        return a


class Identity(Elementwise):
    """Hands its input on."""

    def __init__(self):
        super().__init__(tf.identity, keeps_sign=True)


class Activation(Elementwise):
    """A non-linearity whose output is never negative.

    Args:
      name: its name in Keras.
      function: what it computes.
    """

    def __init__(self, name: str, function: Callable[[tf.Tensor], tf.Tensor]):
        super().__init__(function, keeps_sign=True)
        self.name = name


class Pool(Step):
    """Pooling over windows.

    Args:
      window, strides: (rows, columns).
      padding: "valid" or "same".
    """

    def __init__(self, window: Sequence[int], strides: Sequence[int], padding: str):
        self.geometry = {
            "ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding.upper()
        }  # fmt: skip

    def average(self, a: tf.Tensor) -> tf.Tensor:
        """The average of each window; padding does not count."""
        return tf.raw_ops.AvgPool(value=a, **self.geometry)

    def in_proportion(self, a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
        """R_in = a * backward(R / z), where z is the average of the window."""
        s = relevance / stabilise(self.average(a))
        return a * tf.raw_ops.AvgPoolGrad(orig_input_shape=tf.shape(a), grad=s, **self.geometry)


class MaxPool(Pool):
    """Max pooling.

    Winner takes all: the first maximum of a window gets the window's relevance, and what
    overlapping windows give adds up. With `share` the window shares in proportion to a instead.
    """

    def __init__(self, window, strides, padding, share: bool):
        super().__init__(window, strides, padding)
        self.share = share

    def forward(self, a):
        return tf.raw_ops.MaxPool(input=a, **self.geometry)

    def relevance(self, inputs, output, relevance):
        (a,) = inputs
        if self.share:
            return [self.in_proportion(a, relevance)]
        return [
            tf.raw_ops.MaxPoolGrad(
                orig_input=a, orig_output=output, grad=relevance, **self.geometry
            )
        ]


class AveragePool(Pool):
    """Average pooling: relevance in proportion to each input's share."""

    def forward(self, a):
        return self.average(a)

    def relevance(self, inputs, output, relevance):
        return [self.in_proportion(inputs[0], relevance)]


class GlobalPool(Step):
    """Pooling over all rows and columns, output [B, 1, 1, C]."""

    def in_proportion(self, a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
        """R_in = a / (rows * columns) * R / z, where z is the average."""
        count = tf.cast(tf.shape(a)[1] * tf.shape(a)[2], a.dtype)
        z = tf.reduce_mean(a, [1, 2], keepdims=True)
        return a / count * (relevance / stabilise(z))


class GlobalAveragePool(GlobalPool):
    """Global average pooling: relevance in proportion to each input's share."""

    def forward(self, a):
        return tf.reduce_mean(a, [1, 2], keepdims=True)

    def relevance(self, inputs, output, relevance):
        return [self.in_proportion(inputs[0], relevance)]


class GlobalMaxPool(GlobalPool):
    """Global max pooling: the first maximum gets all, or with `share` each in proportion to a."""

    def __init__(self, share: bool):
        self.share = share

    def forward(self, a):
        return tf.reduce_max(a, [1, 2], keepdims=True)

    def relevance(self, inputs, output, relevance):
        (a,) = inputs
        if self.share:
            return [self.in_proportion(a, relevance)]
        shape = tf.shape(a)
        places = tf.reshape(a, [shape[0], shape[1] * shape[2], shape[3]])
        winner = tf.one_hot(tf.argmax(places, axis=1), shape[1] * shape[2], axis=1, dtype=a.dtype)
        return [tf.reshape(winner, shape) * relevance]


class Reshape(Step):
    """Entries in another shape [B, *shape]; relevance goes back to the old one."""

    def __init__(self, shape: Sequence[int]):
        self.shape = [-1 if size is None else size for size in shape]

    def forward(self, a):
        return tf.reshape(a, [tf.shape(a)[0], *self.shape])

    def relevance(self, inputs, output, relevance):
        return [tf.reshape(relevance, tf.shape(inputs[0]))]


class ZeroPadding(Step):
    """Rows and columns of zeros around the picture; what falls on them is cut off (it is 0)."""

    def __init__(self, padding: Sequence[Sequence[int]]):
        self.padding = [[0, 0], *padding, [0, 0]]

    def forward(self, a):
        return tf.pad(a, self.padding)

    def relevance(self, inputs, output, relevance):
        (top, _), (left, _) = self.padding[1:3]
        return [tf.slice(relevance, [0, top, left, 0], tf.shape(inputs[0]))]


class Concatenate(Step):
    """Inputs side by side; each gets back its own part."""

    def __init__(self, axis: int):
        self.axis = axis

    def forward(self, *inputs):
        return tf.concat(inputs, self.axis)

    def relevance(self, inputs, output, relevance):
        return tf.split(relevance, [tf.shape(a)[self.axis] for a in inputs], self.axis)
