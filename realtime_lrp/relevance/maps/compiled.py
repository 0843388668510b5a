"""The functions that an explainer compiles, and running them on batches of any size.

They refer to plans only: one that refers to its explainer would keep that in memory.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.types.experimental import ConcreteFunction, PolymorphicFunction

from realtime_lrp.errors import UnavailableError
from realtime_lrp.relevance.maps import detections, starts
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.maps.targets import TargetTensors
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.network.steps import sum_of_each
from realtime_lrp.system.machine import available_bytes, gib


class ChannelOutput(NamedTuple):
    """A compiled function's output for the channels of a layer, first for all, then for some."""

    # float32 [B, channels of the layer], the relevance of each; where none are chosen, a row for
    # each box of a detector
    shares: tf.Tensor
    channels: Any = ()  # int32 [B, count], those that were chosen
    drawn: Any = ()  # what `after` made of their maps, as a batch [B * count]
    maps: Any = ()  # float32 [B, count, H, W, C]


class Explained(NamedTuple):
    """A compiled function's output; where boxes are `found`, maps have a row for each box."""

    scores: tf.Tensor  # float32 [B, classes]; of a detector the best of each class
    # float32 [B, 2]: what is explained, its sum over the classes and the sum of its magnitude
    explained: tf.Tensor
    maps: list[tf.Tensor]  # float32 [B, H, W, C] each
    accounts: list[tf.Tensor]  # float32 [B, 3] each, see `MethodResult`
    drawn: list[Any]  # what `after` made of each map
    of_layer: ChannelOutput | tuple[()]  # the channels of a layer
    found: detections.DrawnBoxes | tuple[()]  # a detector's boxes, where maps are drawn
    regions: starts.Regions | tuple[()]  # a segmentation's
    inside: Any  # float32 [N], the share of positive relevance of the first map in each box


class Lazy:
    """A function of tensors [B, ...], compiled at its first call, for any B.

    However many threads call it, it is traced once. Calling its one trace never retraces, and
    TensorFlow does not warn of many traces where a program makes several explainers.
    """

    def __init__(self, function: Callable[..., Any], xla: bool = False) -> None:
        self._xla = xla
        self._compiled: ConcreteFunction | None = None
        self.function: PolymorphicFunction = tf.function(
            function, autograph=False, jit_compile=xla or None
        )

    def __call__(self, *inputs: Any) -> Any:
        """Runs the function, compiled."""
        return self.traced(*inputs)(*inputs)

    def traced(self, *inputs: Any) -> ConcreteFunction:
        """Compiles it for tensors like these where that is not done yet; returns the trace."""
        if self._compiled is None:
            specs = tf.nest.map_structure(
                lambda one: tf.TensorSpec([None, *one.shape[1:]], one.dtype), list(inputs)
            )
            with onednn.disabled() if self._xla else nullcontext():
                self._compiled = self.function.get_concrete_function(*specs)
        return self._compiled

    @property
    def traces(self) -> int:
        """How often it was traced."""
        return self.function.experimental_get_tracing_count()


def explain_function(
    plans: Sequence[Plan],
    before: Callable[[tf.Tensor], tf.Tensor] | None = None,
    after: Callable[[tf.Tensor], Any] | None = None,
    of_layer: Callable[..., ChannelOutput] | None = None,
    shared: bool = False,
) -> Callable[..., Explained]:
    """Makes the function (x, target, ...) -> all maps of a batch; all tensors are float32.

    With `before`, uint8 [B, H, W, 3] -> x, it takes pictures; `after` is computed of each map;
    `of_layer` makes the channels of a layer of all tensors, of what arrived at each for the first
    map, of a detector's boxes, and of further inputs of the function. `shared`: x is one picture,
    for each target.
    """
    graph = plans[0].graph

    def explain(x: tf.Tensor, target: TargetTensors, *further: tf.Tensor) -> Explained:
        tensors = graph.forward(before(x) if before else x)
        if shared:
            rows = graph.of_rows(tensors, tf.zeros(tf.shape(target.weights)[:1], tf.int32))
            tensors = graph.forward(rows[0], known=rows)
        each = tensors
        aims = target
        found = None
        if after and graph.ends:
            found = detections.drawn_of(tensors, graph.ends, target)
            each = detections.at_boxes(graph, tensors, found.pictures, found.places)
            aims = detections.target_of_drawn(found, target)
        aims = starts.located(graph, each, aims)
        results = [plan(each[0], each, aims) for plan in plans]
        maps = [tf.cast(result.relevance, tf.float32) for result in results]
        start = starts.start_of_relevance(each[graph.output], aims)
        scores = starts.scores_at(graph, tensors, aims)
        by_rules = any(plan.rules for plan in plans)  # a map is NaN where an activation is
        return Explained(
            scores if by_rules else tf.where(graph.finite(tensors)[:, None], scores, np.nan),
            tf.stack([sum_of_each(start), sum_of_each(tf.abs(start))], -1),
            maps,
            [result.account for result in results],
            [after(relevance) for relevance in maps] if after else [],
            of_layer(tensors, results[0].parts, found, *further) if of_layer else (),
            found or (),
            starts.regions_of(graph, each, aims, maps[0]) if graph.places else (),
            detections.share_inside(maps[0], found.boxes) if found else (),
        )

    return explain


def run_in_parts(run: Callable[..., Any], inputs: Sequence[Any], most: int) -> Any:
    """Runs a function on parts of a batch, `most` entries at once or what a device's memory allows.

    The inputs and what the function returns are arrays or tensors [B, ...] in any structure; inputs
    with one entry are the same for every part. Returns arrays in the same structure.

    Raises:
      UnavailableError: the memory does not suffice for the results, or for one entry.
    """
    count = max(map(len, tf.nest.flatten(list(inputs))))
    begin = 0
    joined: list[np.ndarray] = []
    outputs = None
    while begin < count:
        part = slice(begin, begin + most)
        of_part = lambda one, part=part: one[part] if len(one) > 1 else one  # noqa: E731
        try:
            outputs = run(*tf.nest.map_structure(of_part, list(inputs)))
            arrays = [one.numpy() for one in tf.nest.flatten(outputs)]
        except tf.errors.ResourceExhaustedError:
            if most == 1:
                raise UnavailableError(
                    "The memory does not suffice to explain one picture. Choose fewer maps, "
                    "smaller pictures or a smaller network."
                ) from None
            most = max(1, min(most, count - begin) // 2)
            continue
        if most >= count:
            return tf.nest.pack_sequence_as(outputs, arrays)
        if not joined:
            needed = sum(array[0].nbytes for array in arrays) * count
            free = available_bytes()
            if needed > free:
                raise UnavailableError(
                    f"The maps of {count} pictures need {gib(needed)} of memory, {gib(free)} are "
                    "free. Explain fewer pictures at once."
                )
            joined = [np.empty((count, *array.shape[1:]), array.dtype) for array in arrays]
        for whole, array in zip(joined, arrays, strict=True):
            whole[part] = array
        begin += most
    return tf.nest.pack_sequence_as(outputs, joined)
