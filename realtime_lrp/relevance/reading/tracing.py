"""Runs a layer once, symbolically, and records the TensorFlow operations that it consists of.

Everything is traced for a batch of `BATCH` pictures, so that every shape is known and the axis of
the pictures can be told from the others.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from realtime_lrp.relevance.network.traced_steps import BATCH
from realtime_lrp.system.program import TRACING


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a layer inside the traced one.

    `place` has the names of the layers around it and its own, "mlp/dense".
    """

    layer: keras.Layer
    place: str
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor]


@dataclass
class Trace:
    """The operations of a layer."""

    graph: tf.Graph
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor]
    # name of a placeholder -> the value or the variable that it stands for
    captured: dict[str, tf.Tensor]
    # name of a tensor -> the call of an inner layer that computes it
    calls: dict[str, Call] = field(default_factory=dict)
    # name of an operation -> the names of the inner layers around it, "mlp/dense"
    places: dict[str, str] = field(default_factory=dict)
    # the keys of the outputs, where the layer returns a dictionary
    output_names: list[str] = field(default_factory=list)
    flat: bool = False  # whether layers became operations before, as in a SavedModel
    # name of an operation -> what its node is called, where it has a name of its own
    names: dict[str, str] = field(default_factory=dict)


def trace(
    compute: Callable[..., Any],
    inputs: Sequence[tuple[Sequence[int | None], str]],
    inner: Sequence[keras.Layer],
    stays: Callable[[keras.Layer], bool],
) -> Trace:
    """Traces a function of tensors of these shapes, with the batch, and types.

    No size but the batch's may be open. Calls of those `inner` layers, at any depth, of which
    `stays` is true are recorded as such.
    """
    recorder = _Recorder(stays)
    names: list[str] = []

    def traced(*tensors: tf.Tensor) -> list[tf.Tensor]:
        recorder.graph = tf.compat.v1.get_default_graph()
        outputs = compute(*tensors)
        if isinstance(outputs, dict):
            names.extend(sorted(outputs))
        return tf.nest.flatten(outputs)

    shapes = [
        tf.TensorSpec([BATCH, *shape[1:]], dtype, name=f"input_{index}")
        for index, (shape, dtype) in enumerate(inputs)
    ]
    with TRACING, recorder.recording(inner), _functions_inlined(), _maps_vectorised():
        function = tf.function(traced, autograph=False).get_concrete_function(*shapes)
    own, captured = function.inputs[: len(shapes)], function.inputs[len(shapes) :]
    return Trace(
        function.graph, own, list(function.outputs),
        {one.name: value for one, value in zip(captured, function.captured_inputs, strict=True)},
        recorder.calls, recorder.places, names,
    )  # fmt: skip


@contextmanager
def _functions_inlined() -> Iterator[None]:
    """Functions that TensorFlow would compile by themselves become part of the trace."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def _maps_vectorised() -> Iterator[None]:
    """What is done picture by picture, such as `keras.ops.map`, is traced for all at once."""
    before = tf.map_fn
    tf.map_fn = lambda fn, elems, **kwargs: tf.vectorized_map(fn, elems)
    try:
        yield
    finally:
        tf.map_fn = before


class _Recorder:
    """Watches the calls of inner layers while a layer is traced."""

    def __init__(self, stays: Callable[[keras.Layer], bool]) -> None:
        self.graph: tf.Graph | None = None
        self.calls: dict[str, Call] = {}
        self.places: dict[str, str] = {}
        self._stays = stays
        self._names: list[str] = []

    @contextmanager
    def recording(self, inner: Sequence[keras.Layer]) -> Iterator[None]:
        with ExitStack() as stack:
            for layer in inner:
                # The instance's own attribute hides the method of its class.
                object.__setattr__(layer, "call", self._watched(layer, layer.call))
                stack.callback(object.__delattr__, layer, "call")
            yield

    def _watched(self, layer: keras.Layer, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if tf.compat.v1.get_default_graph() is not self.graph:
                return call(*args, **kwargs)  # in the body of a loop
            before = len(self.graph.get_operations())
            self._names.append(layer.name)
            try:
                outputs = call(*args, **kwargs)
                self._record(layer, args, kwargs, outputs)
            finally:
                place = "/".join(self._names)
                for operation in self.graph.get_operations()[before:]:
                    self.places.setdefault(operation.name, place)
                self._names.pop()
            return outputs

        return watched

    def _record(self, layer: keras.Layer, args: Any, kwargs: Any, outputs: Any) -> None:
        """Records a call that reads nothing but its first argument."""
        inputs, computed = tf.nest.flatten(args[:1]), tf.nest.flatten(outputs)
        others = tf.nest.flatten((args[1:], kwargs))
        alone = not any(map(tf.is_tensor, others))
        if not alone or not all(map(tf.is_symbolic_tensor, (*inputs, *computed))):
            return
        read = {tensor.name for tensor in inputs}
        if self._stays(layer) and read.isdisjoint(tensor.name for tensor in computed):
            call = Call(layer, "/".join(self._names), inputs, computed)
            self.calls |= {tensor.name: call for tensor in computed}
