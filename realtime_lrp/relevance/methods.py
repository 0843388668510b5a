"""Methods: LRP, gradients and their relatives, all over the kept tensors of one forward pass.

A method says what starts at the output, what each step hands back, and how the map is made of what
arrives. SmoothGrad and integrated gradients run forward passes of their own besides.
A new method is a row in `METHODS`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.composites import EXCITATION, Composite, layer_like
from realtime_lrp.relevance.graph import Back, Graph, Node, Part, Parts, total
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.rules import Propagate
from realtime_lrp.relevance.steps import (
    Activation,
    GlobalPool,
    Identity,
    Permute,
    Pool,
    Reshape,
    Tensors,
    ZeroPadding,
)
from realtime_lrp.relevance.targets import start_of_gradient, start_of_relevance

NOISE = 0.1
"""SmoothGrad's noise: its standard deviation as a share of the picture's range."""


@dataclass(frozen=True)
class Network:
    """What methods work on.

    Attributes:
      graph: the canonised network.
      bind: composite -> the bound rule of each layer with weights, by output number.
      composite: the one whose rules are followed.
      guided: patterns of the layers whose ReLUs guided backprop guides; None is all of them.
      samples: how many perturbed passes SmoothGrad and integrated gradients take.
      keep: the share of entries, largest first, that each layer with weights lets through.
    """

    graph: Graph
    bind: Callable[[Composite], Mapping[int, Propagate]]
    composite: Composite
    guided: Sequence[str] | None = None
    samples: int = 20
    keep: float = 1.0


@dataclass(frozen=True)
class Method:
    """A way to explain.

    Attributes:
      start: (scores, *target) -> what begins at the output.
      back: network -> what each node does with what arrives.
      finish: (graph, x, tensors, parts) -> the map, like x.
      perturb: (x [1, H, W, C], samples) -> the pictures [samples, H, W, C] over whose gradients
        the mean is taken, or None.
      signed: whether maps can have negative entries where no rule is followed.
      absolute: whether an entry's sign only says in which direction the pixel acts, so that its
        magnitude is what counts.
      by_rules: whether relevance follows the rules of a composite.
      composite: the one that it follows instead of the chosen one, or None.
    """

    start: Callable[..., tf.Tensor]
    back: Callable[[Network], Back]
    finish: Callable[[Graph, tf.Tensor, Mapping[int, tf.Tensor], Parts], tf.Tensor]
    perturb: Callable[[tf.Tensor, int], tf.Tensor] | None = None
    signed: bool = True
    absolute: bool = False
    by_rules: bool = False
    composite: Composite | None = None


Explain = Callable[..., tuple[tf.Tensor, Parts]]
"""(x, tensors, *target) -> (the map, what arrived at each tensor)."""


def bound(method: Method, network: Network) -> Explain:
    """A method for one network; run it inside the compiled function.

    What it returns holds on to the rules, not to what they were made from.
    """
    graph, samples = network.graph, network.samples
    back, perturb = _letting_through(network.keep, method.back(network)), method.perturb

    def explain(
        x: tf.Tensor, tensors: Mapping[int, tf.Tensor], *target: tf.Tensor
    ) -> tuple[tf.Tensor, Parts]:
        begin = method.start(tensors[graph.output], *target)
        parts = graph.backward(tensors, begin, back)
        if perturb is None:
            return method.finish(graph, x, tensors, parts), parts
        mean = tf.map_fn(
            lambda one: _mean_over_passes(graph, back, perturb(one[0][None], samples), one[1]),
            (x, begin),
            fn_output_signature=tf.TensorSpec(x.shape[1:], x.dtype),
        )
        return method.finish(graph, x, tensors, {0: [Part(mean)]}), parts

    return explain


def _mean_over_passes(graph: Graph, back: Back, pictures: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """The mean of what arrives at each of the pictures [samples, H, W, C]; one batch."""
    tensors = graph.forward(pictures)
    begin = tf.repeat(begin[None], pictures.shape[0], axis=0)
    return tf.reduce_mean(total(graph.backward(tensors, begin, back)[0]), axis=0)


def _letting_through(keep: float, back: Back) -> Back:
    if keep >= 1:
        return back

    def filtered(node: Node, inputs: Tensors, output: tf.Tensor, arriving: tf.Tensor) -> Tensors:
        if isinstance(node.step, Linear):
            arriving = top_share(arriving, keep)
        return back(node, inputs, output, arriving)

    return filtered


def top_share(relevance: tf.Tensor, share: float) -> tf.Tensor:
    """The largest entries by magnitude, so many as `share` of each picture's; the others are 0."""
    size = math.prod(relevance.shape[1:])
    magnitude = tf.reshape(tf.abs(relevance), [-1, size])
    least = tf.math.top_k(magnitude, math.ceil(share * size)).values[:, -1]
    least = tf.reshape(least, [-1] + [1] * (relevance.shape.rank - 1))
    return tf.where(tf.abs(relevance) >= least, relevance, 0.0)


def _relevance(network: Network) -> Back:
    rules = network.bind(network.composite)

    def back(node: Node, inputs: Tensors, output: tf.Tensor, relevance: tf.Tensor) -> Tensors:
        if node.output in rules:
            return [rules[node.output](inputs[0], relevance)]
        return node.step.relevance(inputs, output, relevance)

    return back


def _gradient(network: Network) -> Back:
    scoring = network.graph.scoring()

    def back(node: Node, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
        if node.output in scoring:
            return [gradient]
        return node.step.gradient(inputs, output, gradient)

    return back


def _through_relus(masked: bool) -> Callable[[Network], Back]:
    """The gradient; through ReLUs only where it is positive, and if `masked` the activation is."""

    def make(network: Network) -> Back:
        plain, rectifiers = _gradient(network), guided_rectifiers(network.graph, network.guided)

        def back(node: Node, inputs: Tensors, output: tf.Tensor, gradient: tf.Tensor) -> Tensors:
            if node.output not in rectifiers:
                return plain(node, inputs, output, gradient)
            positive = tf.nn.relu(gradient)
            return plain(node, inputs, output, positive) if masked else [positive]

        return back

    return make


def guided_rectifiers(graph: Graph, guided: Sequence[str] | None) -> set[int]:
    """The output numbers of the ReLUs that guided backprop and deconvnet change.

    Args:
      graph: the network.
      guided: patterns of layers, or None for all.

    Raises:
      UsageError: a pattern of `guided` fits no layer with a ReLU, or there is no ReLU at all.
    """
    nodes = [node for node in graph.nodes if _rectifies(node)]
    if not nodes:
        raise UsageError(
            "The network has no ReLU: guided_backprop and deconvnet would be its gradient. "
            "Use the method gradient.",
            "method",
        )
    if guided is None:
        return {node.output for node in nodes}
    if isinstance(guided, str) or not guided:
        raise UsageError(f"Expected guided as a list of layers. Received {guided!r}.", "guided")
    chosen: set[int] = set()
    for pattern in guided:
        fitting = {node.output for node in nodes if layer_like(pattern)(node)}
        if not fitting:
            names = ", ".join(dict.fromkeys(node.layer for node in nodes))
            raise UsageError(
                f"No layer with a ReLU is called {pattern!r}. There are: {names}.", "guided"
            )
        chosen |= fitting
    return chosen


def _rectifies(node: Node) -> bool:
    return isinstance(node.step, Activation) and node.step.rectifies


def _at_input(
    graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    return total(parts[0])


def _times_input(
    graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    return x * total(parts[0])


def _grad_cam(
    graph: Graph, x: tf.Tensor, tensors: Mapping[int, tf.Tensor], parts: Parts
) -> tf.Tensor:
    """Grad-CAM (Selvaraju et al. 2017, eq. 1 and 2) at the last maps that have places.

    Resized bilinearly to the picture and divided equally among its channels.
    """
    number = _last_maps(graph, tensors, parts)
    weights = tf.reduce_mean(total(parts[number]), [1, 2], keepdims=True)
    cam = tf.nn.relu(tf.reduce_sum(weights * tensors[number], -1, keepdims=True))
    channels = x.shape[3]
    return tf.repeat(tf.image.resize(cam, x.shape[1:3]), channels, axis=3) / channels


def _last_maps(graph: Graph, tensors: Mapping[int, tf.Tensor], parts: Parts) -> int:
    """The number of the last tensor with the picture's places, before the pools that follow it."""
    placed, found = {0}, None
    scoring = graph.scoring()
    for node in graph.nodes:
        if isinstance(node.step, Reshape | Permute | GlobalPool) or placed.isdisjoint(node.inputs):
            continue
        placed.add(node.output)
        _, rows, columns, *_ = tensors[node.output].shape
        passed_by = isinstance(node.step, Pool | Identity | ZeroPadding) or node.output in scoring
        if rows * columns > 1 and not passed_by and node.output in parts:
            found = node.output
    if found:
        return found
    raise UsageError("grad_cam needs a network with convolutions before its last layers.", "method")


def _noisy(x: tf.Tensor, samples: int) -> tf.Tensor:
    """The picture under Gaussian noise, the same noise each time (Smilkov et al. 2017)."""
    noise = tf.random.stateless_normal([samples, *x.shape[1:]], seed=[20, 17])
    return x + NOISE * (tf.reduce_max(x) - tf.reduce_min(x)) * noise


def _path(x: tf.Tensor, samples: int) -> tf.Tensor:
    """Midpoints of the straight path from 0 to the picture (Sundararajan et al. 2017, eq. 3)."""
    steps = (tf.range(samples, dtype=x.dtype) + 0.5) / samples
    return steps[:, None, None, None] * x


METHODS: dict[str, Method] = {
    "lrp": Method(start_of_relevance, _relevance, _at_input, by_rules=True),
    "gradient": Method(start_of_gradient, _gradient, _at_input, absolute=True),
    "input_x_gradient": Method(start_of_gradient, _gradient, _times_input),
    "guided_backprop": Method(start_of_gradient, _through_relus(True), _at_input, absolute=True),
    "deconvnet": Method(start_of_gradient, _through_relus(False), _at_input, absolute=True),
    "excitation_backprop": Method(
        start_of_gradient, _relevance, _at_input, by_rules=True, composite=EXCITATION
    ),
    "grad_cam": Method(start_of_gradient, _gradient, _grad_cam, signed=False),
    "smoothgrad": Method(start_of_gradient, _gradient, _at_input, _noisy, absolute=True),
    "integrated_gradients": Method(start_of_gradient, _gradient, _times_input, _path),
}
"""Every method by the name that configuration and documentation use."""
