"""The perturbed copies of a picture over which SmoothGrad and integrated gradients average."""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps.strength import weighed_along
from realtime_lrp.relevance.network.graph import Graph, Node
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import ZeroPadding

NOISE = 0.1
"""Standard deviation of SmoothGrad's noise, relative to the picture's range."""

CHUNK_BYTES = 512 << 20
"""Memory for the activations of one chunk. More at once is not faster on a CPU."""

BLUR_SHARE = 1 / 16
"""Deviation of the blur of the baseline "blur", as a share of the picture's shorter side."""

Perturb = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]]
"""(x [1, H, W, C], its baseline [1, H, W, C], numbers of copies int32 [N], how many copies there
are in all) -> the copies [N, H, W, C], and float32 [N], how much the gradient of each counts; over
all copies it adds up to 1."""

Baseline = Callable[[tf.Tensor], tf.Tensor]
"""x [B, H, W, C] -> the pictures where the paths begin, shaped like x."""

BASELINES = ("zero", "black", "white", "mean", "blur")


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
    before, found = {0}, []
    for node in graph.nodes:
        if isinstance(node.step, Linear | ZeroPadding) and before.issuperset(node.inputs):
            found.append(node)
            before |= set() if isinstance(node.step, Linear) else {node.output}
    return found


def noisy(
    x: tf.Tensor, origin: tf.Tensor, numbers: tf.Tensor, samples: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Copies with Gaussian noise, the same at each call (Smilkov et al. 2017); see `Perturb`."""
    seeds = [tf.stack([20, number]) for number in tf.unstack(numbers)]
    noise = tf.stack([tf.random.stateless_normal(x.shape[1:], seed) for seed in seeds])
    copies = x + NOISE * (tf.reduce_max(x) - tf.reduce_min(x)) * noise
    return copies, tf.fill([len(seeds)], 1 / samples)


def on_path(
    x: tf.Tensor, origin: tf.Tensor, numbers: tf.Tensor, samples: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Points of the straight path to the picture (Sundararajan et al. 2017); see `Perturb`.

    The share of the way is u^2 at the midpoints u of equal intervals: near the baseline gradients
    change fastest. `docs/mathematics.md` has what that gains.
    """
    u = (tf.cast(numbers, x.dtype) + 0.5) / samples
    return origin + u[:, None, None, None] ** 2 * (x - origin), 2 * u / samples


def baseline_named(name: str, box: tuple[np.ndarray, np.ndarray] | None) -> Baseline:
    """The function from pictures to the baselines of their paths.

    "zero"; "black" or "white", the lowest or highest input, for which `box` must be known; "mean",
    each picture's mean colour; or "blur", each picture blurred (Sturmfels et al. 2020).
    """
    if name not in BASELINES:
        raise unknown("baseline", name, BASELINES)
    if name in ("black", "white"):
        if box is None:
            raise UsageError(
                f"The baseline {name} needs the lowest and highest input: Explainer(low=..., "
                "high=...), in the units of the preprocessed input.",
                "baseline",
            )
        end = tf.constant(box[name == "white"])
        return lambda x: tf.broadcast_to(end, tf.shape(x))
    if name == "mean":
        return lambda x: tf.zeros_like(x) + tf.reduce_mean(x, [1, 2], keepdims=True)
    return blurred if name == "blur" else tf.zeros_like


def blurred(x: tf.Tensor) -> tf.Tensor:
    """Pictures [B, H, W, C] after a Gaussian blur; their edges are mirrored."""
    deviation = BLUR_SHARE * min(x.shape[1:3])
    reach = min(math.ceil(3 * deviation), min(x.shape[1:3]))
    window = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    window = (window / window.sum()).astype(np.float32)
    for axis in (1, 2):
        x = weighed_along(axis, x, window)
    return x
