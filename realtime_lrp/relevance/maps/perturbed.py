"""The perturbed copies of a picture over which SmoothGrad and integrated gradients average."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping

import tensorflow as tf

from realtime_lrp.relevance.network.graph import Back, Graph, Part, Parts, total
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import ZeroPadding

NOISE = 0.1  # standard deviation of SmoothGrad's noise, relative to the picture's range

CHUNK_BYTES = 512 << 20
"""Memory for the activations of one chunk. More at once is not faster on a CPU."""

Perturb = Callable[[tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]]
"""(x [1, H, W, C], numbers of copies int32 [N], how many copies there are in all) -> the copies
[N, H, W, C], and float32 [N], how much the gradient of each counts; over all copies it adds up to
1."""

MAP = tf.map_fn
"""Kept from here: reading a network replaces TensorFlow's own for a while, in all threads."""


def noisy(x: tf.Tensor, numbers: tf.Tensor, samples: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Copies with Gaussian noise, the same at each call (Smilkov et al. 2017); see `Perturb`."""
    seeds = [tf.stack([20, number]) for number in tf.unstack(numbers)]
    noise = tf.stack([tf.random.stateless_normal(x.shape[1:], seed) for seed in seeds])
    copies = x + NOISE * (tf.reduce_max(x) - tf.reduce_min(x)) * noise
    return copies, tf.fill([len(seeds)], 1 / samples)


def on_path(x: tf.Tensor, numbers: tf.Tensor, samples: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Points of the straight path from 0 to the picture (Sundararajan et al. 2017); see `Perturb`.

    The share of the way is u^2 at the midpoints u of equal intervals: near 0 gradients change
    fastest. `docs/mathematics.md` has what that gains.
    """
    u = (tf.cast(numbers, x.dtype) + 0.5) / samples
    return u[:, None, None, None] ** 2 * x, 2 * u / samples


def mean_gradient(
    graph: Graph, back: Back, perturb: Perturb, samples: int, bytes_each: int,
    x: tf.Tensor, tensors: Mapping[int, tf.Tensor], begin: tf.Tensor,
) -> tf.Tensor:  # fmt: skip
    """The mean of what arrives at the copies of a picture, shaped like x.

    `begin` starts at the output, for all copies of a picture, shaped like it. The copies go forward
    in chunks of one size, so that any number of them needs the same memory: `bytes_each` times
    their number, a divisor of `samples` where that wastes less. The derivative of the first layers
    is the same for every picture: they pass the mean of all copies back, quicker than the gradient
    of each.
    """
    most = max(1, min(samples, CHUNK_BYTES // bytes_each))
    chunk = max(size for size in range(1, most + 1) if samples % size == 0)
    if 2 * chunk <= most:
        chunk = math.ceil(samples / math.ceil(samples / most))
    linear = []  # the first layers with weights, and padding before them
    padded = {0}
    for node in graph.nodes:
        if isinstance(node.step, Linear | ZeroPadding) and padded.issuperset(node.inputs):
            linear.append(node)
            if isinstance(node.step, ZeroPadding):
                padded.add(node.output)
    others = [node for node in graph.behind(0) if node not in linear]
    ends = [0, *(node.output for node in linear)]
    shapes = [tensors[number].shape[1:] for number in ends]

    def of_chunk(picture: tf.Tensor, begin: tf.Tensor, first: tf.Tensor) -> list[tf.Tensor]:
        numbers = first + tf.range(chunk)
        copies, weights = perturb(picture[None], tf.minimum(numbers, samples - 1), samples)
        weights = tf.where(numbers < samples, weights, 0.0)
        parts = _arriving({graph.output: tf.repeat(begin[None], chunk, axis=0)})
        graph.hand_down(parts, others, graph.forward(copies), back)
        return [
            tf.tensordot(weights, tf.cast(total(parts[end]), tf.float32), 1)
            if parts[end]
            else tf.zeros(shape)
            for end, shape in zip(ends, shapes, strict=True)
        ]

    def of_picture(inputs: tuple[tf.Tensor, tf.Tensor]) -> list[tf.Tensor]:
        if chunk >= samples:
            return of_chunk(*inputs, tf.constant(0))
        _, means = tf.while_loop(
            lambda first, means: first < samples,
            lambda first, means: (
                first + chunk, list(map(tf.add, means, of_chunk(*inputs, first)))
            ),
            (tf.constant(0), list(map(tf.zeros, shapes))),
            parallel_iterations=1,  # otherwise several chunks are in memory at once
        )  # fmt: skip
        return means

    signature = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    means = MAP(of_picture, (x, begin), fn_output_signature=signature, parallel_iterations=1)
    parts = _arriving(dict(zip(ends, means, strict=True)))
    graph.hand_down(parts, linear, tensors, back)
    return total(parts[0])


def _arriving(tensors: Mapping[int, tf.Tensor]) -> Parts:
    """Arrivals at tensors, by their numbers."""
    return defaultdict(list, {number: [Part(tensor)] for number, tensor in tensors.items()})
