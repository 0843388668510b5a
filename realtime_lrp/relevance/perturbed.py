"""Mean gradients over perturbed copies of a picture: SmoothGrad and integrated gradients.

The copies are explained in chunks of one size, so that any number of them needs the same memory.
"""

import math
from collections.abc import Callable

import tensorflow as tf

from realtime_lrp.relevance.graph import Back, Graph, total

NOISE = 0.1
"""Standard deviation of SmoothGrad's noise, relative to the picture's range."""

CHUNK_BYTES = 512 << 20
"""Memory for the activations of one chunk. More at once is not faster on a CPU."""

Perturb = Callable[[tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]]
"""(x [1, H, W, C], numbers of copies int32 [N], how many copies there are in all) -> the copies
[N, H, W, C], and float32 [N], how much the gradient of each counts; over all copies it adds up
to 1."""


def chunk_size(samples: int, bytes_each: int) -> int:
    """How many copies are explained at once: a divisor of `samples` where that wastes less.

    Args:
      samples: how many copies there are in all.
      bytes_each: memory for the activations of one of them.
    """
    most = max(1, min(samples, CHUNK_BYTES // bytes_each))
    even = max(size for size in range(1, most + 1) if samples % size == 0)
    return even if 2 * even > most else math.ceil(samples / math.ceil(samples / most))


def mean_gradient(
    graph: Graph,
    back: Back,
    perturb: Perturb,
    x: tf.Tensor,
    begin: tf.Tensor,
    samples: int,
    chunk: int,
) -> tf.Tensor:
    """The mean of what arrives at the copies of each picture, shaped like x.

    Args:
      graph: the network.
      back: what each step passes back.
      perturb: makes the copies.
      x: [B, H, W, C].
      begin: what starts at the output, for all copies of a picture, float32 [B, classes].
      samples: how many copies each picture has.
      chunk: how many are explained at once.
    """

    def of_chunk(picture: tf.Tensor, begin: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        numbers = first + tf.range(chunk)
        copies, weights = perturb(picture[None], tf.minimum(numbers, samples - 1), samples)
        weights = tf.where(numbers < samples, weights, 0.0)
        tensors = graph.forward(copies)
        starts = tf.repeat(begin[None], chunk, axis=0)
        gradients = total(graph.backward(tensors, starts, back)[0])
        return tf.reduce_sum(weights[:, None, None, None] * gradients, axis=0)

    def of_picture(pair: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        if chunk >= samples:
            return of_chunk(*pair, tf.constant(0))
        _, mean = tf.while_loop(
            lambda first, mean: first < samples,
            lambda first, mean: (first + chunk, mean + of_chunk(*pair, first)),
            (tf.constant(0), tf.zeros(x.shape[1:])),
            parallel_iterations=1,  # otherwise several chunks are in memory at once
        )
        return mean

    return tf.map_fn(
        of_picture,
        (x, begin),
        fn_output_signature=tf.TensorSpec(x.shape[1:], x.dtype),
        parallel_iterations=1,
    )


def noisy(x: tf.Tensor, numbers: tf.Tensor, samples: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Copies with Gaussian noise, the same at each call (Smilkov et al. 2017); see `Perturb`."""
    seeds = [tf.stack([20, number]) for number in tf.unstack(numbers)]
    noise = tf.stack([tf.random.stateless_normal(x.shape[1:], seed) for seed in seeds])
    copies = x + NOISE * (tf.reduce_max(x) - tf.reduce_min(x)) * noise
    return copies, tf.fill([len(seeds)], 1 / samples)


def on_path(x: tf.Tensor, numbers: tf.Tensor, samples: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Points of the straight path from 0 to the picture (Sundararajan et al. 2017); see `Perturb`.

    The share of the picture is u^2 at the midpoints u of equal intervals: near 0 gradients change
    fastest. With 20 points the sum of the map is then within 1 % of the difference of the scores;
    with equal steps it takes 100 (SqueezeNet, photos).
    """
    u = (tf.cast(numbers, x.dtype) + 0.5) / samples
    return u[:, None, None, None] ** 2 * x, 2 * u / samples
