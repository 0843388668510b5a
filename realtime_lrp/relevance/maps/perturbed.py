"""The perturbed copies of a picture over which SmoothGrad and integrated gradients average."""

import math
from collections.abc import Callable

import tensorflow as tf

from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import ZeroPadding

NOISE = 0.1  # standard deviation of SmoothGrad's noise, relative to the picture's range

CHUNK_BYTES = 512 << 20
"""Memory for the activations of one chunk. More at once is not faster on a CPU."""

Perturb = Callable[[tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]]
"""(x [1, H, W, C], numbers of copies int32 [N], how many copies there are in all) -> the copies
[N, H, W, C], and float32 [N], how much the gradient of each counts; over all copies it adds up to
1."""


def chunk_size(samples: int, bytes_each: int) -> int:
    """How many copies are explained at once: a divisor of `samples` where that wastes less."""
    most = max(1, min(samples, CHUNK_BYTES // bytes_each))
    even = max(size for size in range(1, most + 1) if samples % size == 0)
    return even if 2 * even > most else math.ceil(samples / math.ceil(samples / most))


def first_linear(graph: Graph) -> list[Node]:
    """The first layers with weights, and padding before them.

    Their derivative is the same for every picture, so that gradients of several pictures may be
    averaged before they pass.
    """
    before = {0}
    found = []
    for node in graph.nodes:
        if isinstance(node.step, Linear | ZeroPadding) and before.issuperset(node.inputs):
            found.append(node)
            if isinstance(node.step, ZeroPadding):
                before.add(node.output)
    return found


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
