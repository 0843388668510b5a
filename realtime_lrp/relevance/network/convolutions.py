"""Convolutions. Adjoints that TensorFlow computes slowly are computed in another way."""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.network.linear import Linear, Weights

FEW_CHANNELS = 4  # a picture's; for more, TensorFlow's adjoint of a stride is faster


class Convolution(Linear):
    """Convolution over one, two or three axes: kernel [*window, in / groups, out]."""

    convolves = True

    def __init__(
        self, kernel: tf.Tensor, bias: tf.Tensor | None, geometry: onednn.Geometry, groups: int = 1
    ) -> None:
        super().__init__(kernel, bias)
        self._groups = groups
        self.geometry = geometry
        self.sees_whole_windows = geometry["padding"] == "VALID" or set(self._window) == {1}

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        geometry = self.geometry
        sizes = shape[1:-1]
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
    def input_axis(self) -> int | None:
        return self.kernel.shape.rank - 2 if self._groups == 1 else None

    @property
    def _window(self) -> tuple[int, ...]:
        return tuple(self.kernel.shape[:-2])

    def adjoint_of(self, kernel: tf.Tensor) -> tf.Tensor:
        if self._strided_over_pixels:
            return _adjoint_kernel_of_blocks(kernel, self.geometry["strides"][0])
        return _adjoint_kernel(kernel, self._groups)

    def transform(
        self, a: tf.Tensor, weights: Weights, bias: tf.Tensor | None = None, activation: str = ""
    ) -> tf.Tensor:
        if self._groups == 1 and onednn.usable(a, weights.kernel):
            return onednn.convolution(a, weights.kernel, bias, activation, **self.geometry)
        return super().transform(a, weights, bias, activation)

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        plain = self._groups == 1 and set(self.geometry["dilations"]) == {1}
        direct = self._keeps_size or self._skips
        if self._groups == 1 and direct and onednn.usable(s, weights.kernel):
            # The adjoint is a convolution as well: 0.7 ms instead of 1.0 at 14 x 14 x 512.
            geometry = onednn.Geometry({**self.geometry, "strides": [1, 1]})
            c = onednn.convolution(s, weights.adjoint, None, "", **geometry)
            if not self._skips:
                return c
            rows, columns = self.geometry["strides"]  # the pixels that were read; others get 0
            return tf.raw_ops.StridedSliceGrad(
                shape=shape, begin=[0, 0, 0], end=[0, 0, 0], strides=[1, rows, columns],
                begin_mask=0b111, end_mask=0b111, dy=c,
            )  # fmt: skip
        if self._strided_over_pixels and onednn.usable(s, weights.kernel):
            return self._transpose_by_blocks(s, weights, shape)
        if plain:
            return tf.nn.conv_transpose(s, weights.kernel, shape, **self.geometry)
        # TensorFlow's transpose of groups and dilations runs on some processors only.
        if set(self.geometry["strides"]) == {1}:
            return self._convolve_back(s, weights)
        shape = tf.concat([shape[:-1], [weights.kernel.shape[-2]]], 0)
        groups = zip(*(tf.split(one, self._groups, -1) for one in (s, weights.kernel)), strict=True)
        parts = [tf.nn.conv_transpose(*group, shape, **self.geometry) for group in groups]
        return tf.concat(parts, -1)

    def finished(self, z: tf.Tensor, bias: tf.Tensor | None, activation: str) -> tf.Tensor:
        if self._groups > 1 and bias is not None:
            # TensorFlow would fuse a BiasAdd with the convolution; without oneDNN that fails.
            return super().finished(z + bias, None, activation)
        return super().finished(z, bias, activation)

    def _convolve_back(self, s: tf.Tensor, weights: Weights) -> tf.Tensor:
        """`transpose` for strides of 1: a convolution with the adjoint kernel."""
        edges = []
        for size, dilation in zip(self._window, self.geometry["dilations"], strict=True):
            reach = dilation * (size - 1)
            same = self.geometry["padding"] == "SAME"
            edges.append([reach - reach // 2, reach // 2] if same else [reach, reach])
        padded = tf.pad(s, [[0, 0], *edges, [0, 0]])
        return tf.nn.convolution(
            padded, weights.adjoint, padding="VALID", dilations=self.geometry["dilations"]
        )

    @property
    def _strided_over_pixels(self) -> bool:
        """Whether it is a usual first layer: few channels, a large window, a stride, no padding."""
        strides = set(self.geometry["strides"])
        return (
            self._groups == 1
            and self.kernel.shape[-2] <= FEW_CHANNELS
            and len(self._window) == 2
            and min(self._window) > 1
            and len(strides) == 1
            and min(strides) > 1
            and self.geometry["padding"] == "VALID"
            and set(self.geometry["dilations"]) == {1}
        )

    def _transpose_by_blocks(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        """`transpose` by blocks of stride x stride pixels: 6 ms of CPU time, not 13 (ResNet50)."""
        stride = self.geometry["strides"][0]
        reach = [[rows - 1, rows] for rows in weights.adjoint.shape[:2]]  # one more, cut off below
        padded = tf.pad(s, [[0, 0], *reach, [0, 0]])
        blocks = onednn.convolution(padded, weights.adjoint, None, "", **onednn.PLAIN)
        return tf.slice(tf.nn.depth_to_space(blocks, stride), [0, 0, 0, 0], shape)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return tf.nn.convolution(a, kernel, **self.geometry)

    @property
    def _skips(self) -> bool:
        """Whether it skips pixels: a window of 1 x 1 with a stride.

        Its adjoint is a convolution without a stride, whose values are put back to these pixels:
        TensorFlow's own takes 31 ms of a map of ResNet50 (float32, 2 cores).
        """
        skips = set(self.geometry["strides"]) != {1}
        return self._groups == 1 and self._window == (1, 1) and skips

    @property
    def _keeps_size(self) -> bool:
        """Whether output and input have the same size and windows are centred."""
        window = self._window
        odd_padded = self.geometry["padding"] == "SAME" and all(size % 2 for size in window)
        centred = odd_padded or set(window) == {1}
        return centred and set(self.geometry["strides"]) == {1} and len(window) == 2

    def per_input(self, values: tf.Tensor) -> tf.Tensor:
        depth, out = self.kernel.shape[-2:]
        by_group = tf.transpose(tf.reshape(values, [-1, depth]))
        return tf.repeat(by_group, out // by_group.shape[1], axis=1)


class DepthwiseConvolution(Convolution):
    """One filter per channel: kernel [rows, columns, in, multiplier], out = in * multiplier."""

    @property
    def outputs(self) -> int:
        return self.kernel.shape[2] * self.kernel.shape[3]

    @property
    def input_axis(self) -> int | None:
        return None

    def adjoint_of(self, kernel: tf.Tensor) -> tf.Tensor:
        return kernel[::-1, ::-1]

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


class TransposedConvolution(Linear):
    """Conv2DTranspose: kernel [rows, columns, out, in]; `size` is (rows, columns) in -> out."""

    convolves = True

    def __init__(
        self, kernel: tf.Tensor, bias: tf.Tensor | None, geometry: onednn.Geometry,
        size: Callable[[Sequence[int]], Sequence[int]],
    ) -> None:  # fmt: skip
        super().__init__(kernel, bias)
        self.geometry = geometry
        self._size = size

    @property
    def outputs(self) -> int:
        return self.kernel.shape[2]

    @property
    def input_axis(self) -> int | None:
        return 3

    def output_shape(self, shape: Sequence[int]) -> list[int]:
        return [shape[0], *self._size(shape[1:3]), self.outputs]

    def transpose(self, s: tf.Tensor, weights: Weights, shape: tf.Tensor) -> tf.Tensor:
        return tf.nn.conv2d(s, weights.kernel, **self.geometry)

    def _sum(self, a: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        shape = [tf.shape(a)[0], *self._size(a.shape[1:3]), kernel.shape[2]]
        return tf.nn.conv2d_transpose(a, kernel, shape, **self.geometry)

    def per_output(self, values: tf.Tensor) -> tf.Tensor:
        return values[:, None]


def _adjoint_kernel_of_blocks(kernel: tf.Tensor, stride: int) -> tf.Tensor:
    """The kernel [rows, columns, out, stride * stride * in] of `_transpose_by_blocks`.

    Row y of a block at position m is stride * m + y. It takes from output p, at distance j = m - p,
    the weight of row stride * j + y of the window.
    """
    *window, depth, outputs = kernel.shape
    steps = [math.ceil(size / stride) for size in window]
    missing = [[0, step * stride - size] for step, size in zip(steps, window, strict=True)]
    whole = tf.pad(kernel, [*missing, [0, 0], [0, 0]])
    blocks = tf.reshape(whole, [steps[0], stride, steps[1], stride, depth, outputs])
    by_output = tf.transpose(tf.reverse(blocks, [0, 2]), [0, 2, 5, 1, 3, 4])
    return tf.reshape(by_output, [*steps, outputs, stride * stride * depth])


def _adjoint_kernel(kernel: tf.Tensor, groups: int) -> tf.Tensor:
    """The kernel of the adjoint: windows reversed, in and out swapped in each group."""
    *window, depth, outputs = kernel.shape
    axes = list(range(len(window)))
    reversed_windows = tf.reverse(kernel, axes)
    by_group = tf.reshape(reversed_windows, [*window, depth, groups, outputs // groups])
    swapped = tf.transpose(by_group, [*axes, len(axes) + 2, len(axes) + 1, len(axes)])
    return tf.reshape(swapped, [*window, outputs // groups, groups * depth])
