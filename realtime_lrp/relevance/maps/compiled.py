"""The functions that an explainer compiles.

They refer to graphs and bound methods only: a compiled method of the explainer itself would keep
the explainer in memory.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.types.experimental import ConcreteFunction, PolymorphicFunction

from realtime_lrp.relevance.maps.account import account
from realtime_lrp.relevance.maps.methods import Explain
from realtime_lrp.relevance.maps.targets import Target, start_of_relevance
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.network.graph import BIASES, Graph, Parts, total

Compute = Callable[..., tuple[tf.Tensor, ...]]

LayerTensors = tuple[dict[int, tf.Tensor], dict[int, tf.Tensor], dict[tuple[int, int], tf.Tensor]]
"""Tensors of the model by number, what arrived at them by number, and what nodes handed down, by
(number of the node's output, position of its input). What biases took, [B], follows the inputs."""

Explained = tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]
"""scores, maps, the `account` of each map, and the shares of channels where these are asked for."""


class PipelineOutput(NamedTuple):
    """What a pipeline returns, see `Explainer.compile_pipeline`.

    Attributes:
      scores: float32 [B, classes].
      explained: float32 [B, 2].
      processed: what `after` made of each map.
      maps: float32 [B, H, W, C] each.
      accounts: float32 [B, 3] each.
      by_channel: float32 [B, channels] of one layer, or nothing.
    """

    scores: tf.Tensor
    explained: tf.Tensor
    processed: list[Any]
    maps: list[tf.Tensor]
    accounts: list[tf.Tensor]
    by_channel: list[tf.Tensor]


def compile_once(
    function: Callable[..., Any], signature: Sequence[tf.TensorSpec], xla: bool
) -> tuple[PolymorphicFunction, ConcreteFunction]:
    """Compiles a function and traces it once.

    Calling the trace itself never retraces, and TensorFlow does not warn of many traces where a
    program makes several explainers.

    Returns:
      The function, which counts its traces, and the trace.
    """
    compiled = tf.function(
        function, input_signature=signature, autograph=False, jit_compile=xla or None
    )
    with onednn.disabled() if xla else nullcontext():
        return compiled, compiled.get_concrete_function()


def signature_of(
    shape: tuple[int, ...], classes: int, pictures: int | None = None
) -> list[tf.TensorSpec]:
    """What compiled functions read: pictures [B, *shape], and the tensors of their targets."""
    picture = tf.TensorSpec([pictures, *shape], tf.float32, name="x")
    return [picture, *Target.signature(classes)]


class Lazy:
    """A function that is compiled at its first call.

    Args:
      function: what is compiled.
      signature: the tensors that it reads.
    """

    def __init__(
        self, function: Callable[..., Any], signature: Sequence[tf.TensorSpec], xla: bool = False
    ) -> None:
        self._function, self._signature, self._xla = function, signature, xla
        self._compiled: ConcreteFunction | None = None

    def __call__(self, *inputs: tf.Tensor) -> Any:
        """Runs the function, compiled."""
        if self._compiled is None:
            self._compiled = compile_once(self._function, self._signature, self._xla)[1]
        return self._compiled(*inputs)


class LazyByKey:
    """Functions by key, each compiled at its first call.

    Args:
      xla: whether they go through XLA.
    """

    def __init__(self, xla: bool) -> None:
        self._xla = xla
        self._functions: dict[tuple[Any, ...], Lazy] = {}

    def get(
        self, key: tuple[Any, ...], function: Compute, signature: Sequence[tf.TensorSpec]
    ) -> Lazy:
        """The function of a key: the first that was given for it."""
        return self._functions.setdefault(key, Lazy(function, signature, self._xla))


def explain_function(
    graph: Graph,
    methods: Sequence[Explain],
    by_rules: bool,
    shared: bool = False,
    by_channel: Callable[[Parts], tf.Tensor] | None = None,
) -> Callable[..., Explained]:
    """Makes the function (x, *target) -> scores, maps, accounts, by channel; all float32.

    Args:
      graph: the network.
      methods: one for each map.
      by_rules: whether one of them follows rules. Its relevance is NaN where an activation is not
        finite; without such a map the scores are made NaN there.
      shared: whether x is one picture that is explained for each target.
      by_channel: sums up what arrived at a layer, by channel; see `ConceptMaps.sums`.
    """

    def explain(x: tf.Tensor, *target: tf.Tensor) -> Explained:
        tensors = graph.forward(x)
        if shared:
            tensors = _repeated(tensors, tf.shape(target[0])[0])
            x = tensors[0]
        scores, maps, accounts, parts = explain_tensors(
            graph, methods, by_rules, x, tensors, target
        )
        return scores, maps, accounts, [by_channel(parts)] if by_channel else []

    return explain


def explain_tensors(
    graph: Graph,
    methods: Sequence[Explain],
    by_rules: bool,
    x: tf.Tensor,
    tensors: dict[int, tf.Tensor],
    target: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor], Parts]:
    """The scores, maps and accounts of a forward pass; all float32.

    Args:
      graph: the network.
      methods: as in `explain_function`.
      by_rules: as there.
      x: float32 [B, H, W, C].
      tensors: what `Graph.forward` returned for x.
      target: the tensors of a target.

    Returns:
      These, and what arrived at each tensor for the first map.
    """
    results = [method(x, tensors, *target) for method in methods]
    maps = [tf.cast(result.relevance, tf.float32) for result in results]
    accounts = [account(result, graph.output) for result in results]
    return scores_or_nan(graph, tensors, by_rules), maps, accounts, results[0].parts


def scores_or_nan(graph: Graph, tensors: dict[int, tf.Tensor], by_rules: bool) -> tf.Tensor:
    """The scores; NaN where an activation is not finite, unless a map by rules is NaN there."""
    scores = tensors[graph.output]
    return scores if by_rules else tf.where(graph.finite(tensors)[:, None], scores, np.nan)


def _repeated(tensors: dict[int, tf.Tensor], times: tf.Tensor) -> dict[int, tf.Tensor]:
    """Tensors of one picture, [1, ...], as those of a batch of equal pictures.

    Numbers of the same tensor get the same repeated one.
    """
    repeated = {one.ref(): tf.repeat(one, times, axis=0) for one in tensors.values()}
    return {number: repeated[one.ref()] for number, one in tensors.items()}


def maps_function(explain: Callable[..., Explained]) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Makes the function (x, *target) -> scores, the maps."""

    def scores_and_maps(x: tf.Tensor, *target: tf.Tensor) -> tuple[tf.Tensor, ...]:
        scores, maps, *_ = explain(x, *target)
        return scores, *maps

    return scores_and_maps


def pipeline_function(
    explain: Callable[..., Explained],
    before: Callable[[tf.Tensor], tf.Tensor],
    after: Callable[[tf.Tensor], Any],
) -> Callable[..., PipelineOutput]:
    """Makes the function (pictures, *target) -> what `Explainer.compile_pipeline` describes."""

    def pipeline(pictures: tf.Tensor, *target: tf.Tensor) -> PipelineOutput:
        return pipeline_output(explain(before(pictures), *target), target, after)

    return pipeline


def pipeline_output(
    found: Explained, target: Sequence[tf.Tensor], after: Callable[[tf.Tensor], Any]
) -> PipelineOutput:
    """Adds what is explained, and what `after` makes of each map."""
    scores, maps, accounts, by_channel = found
    start = start_of_relevance(scores, *target)
    explained = tf.stack([tf.reduce_sum(start, -1), tf.reduce_sum(tf.abs(start), -1)], -1)
    processed = [after(relevance) for relevance in maps]
    return PipelineOutput(scores, explained, processed, maps, accounts, by_channel)


def layers_function(graph: Graph, as_built: Graph, method: Explain) -> Callable[..., LayerTensors]:
    """Makes the function (x, *target) -> what every layer computed and handed down.

    Args:
      graph: the network.
      as_built: the network before batch norms were folded; its tensors are returned.
      method: the one of the first map.
    """

    def layers(x: tf.Tensor, *target: tf.Tensor) -> LayerTensors:
        parts = method(x, graph.forward(x), *target).parts
        shown = as_built.forward(x, joined=False)
        arrived = {
            number: tf.cast(total(handed), tf.float32)
            for number, handed in parts.items()
            if number != BIASES
        }
        handed_down = {
            (part.node.output, part.position): tf.cast(part.tensor, tf.float32)
            for handed in parts.values()
            for part in handed
            if part.node
        }
        read = {n for node in graph.nodes if node.output in arrived for n in node.inputs}
        return {n: shown[n] for n in {*arrived, *read}}, arrived, handed_down

    return layers


def scores_function(graph: Graph) -> Callable[[tf.Tensor], tf.Tensor]:
    """Makes the function x -> scores."""

    def scores(x: tf.Tensor) -> tf.Tensor:
        return graph.forward(x)[graph.output]

    return scores
