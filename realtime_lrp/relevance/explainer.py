"""Walks a Keras model once and compiles its forward pass and relevance into one tf.function.

Keras's symbolic tensors cannot be handed to TensorFlow's pooling gradients, so the forward pass is
run here step by step, every tensor of it is kept, and relevance goes back over the kept tensors.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError, UsageError, first_line, unknown
from realtime_lrp.relevance.composites import Composite, composite_named
from realtime_lrp.relevance.graph import Graph, Node, build_graph
from realtime_lrp.relevance.rules import Place
from realtime_lrp.relevance.steps import (
    Activation,
    AveragePool,
    Concatenate,
    GlobalAveragePool,
    Identity,
    Linear,
    Reshape,
)
from realtime_lrp.relevance.targets import TargetResolver, start

METHODS = ("lrp",)
PRECISIONS = ("float32",)
POOLS = ("max", "average")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Explanation:
    """Scores and relevance of a batch.

    Attributes:
      scores: float32 [B, classes], the softmax output.
      relevance: float32 [B, H, W, C], raw: not normalised, not pooled.
    """

    scores: np.ndarray
    relevance: np.ndarray


class Explainer:
    """Explains the answers of a Keras model by layer-wise relevance propagation.

    The model's weights are read here, once; training it further does not change the explainer.

    Args:
      model: a functional or Sequential Keras model, one picture [B, H, W, C] in, one vector out.
      method: "lrp".
      composite: which rule for which layer, a name or a `Composite`.
      target: what is explained if the call does not say: "all", "top1", a class's index or name,
        or "A - B".
      precision: "float32".
      pool: relevance through max pools, "max" (winner takes all) or "average" (in proportion).
      labels: class names in order, for targets by name.
      size: (H, W) for a model without a fixed input size.

    Raises:
      UsageError: an unknown method, composite, precision, pool or target.
      DamagedInputError: the model has another form, or a layer without a rule.
    """

    def __init__(
        self,
        model: keras.Model,
        method: str = "lrp",
        composite: str | Composite = "zplus",
        target: str | int = "all",
        precision: str = "float32",
        *,
        pool: str = "max",
        labels: Sequence[str] | None = None,
        size: tuple[int, int] | None = None,
    ):
        _check_names(
            method=(method, METHODS), precision=(precision, PRECISIONS), pool=(pool, POOLS)
        )
        rules = composite_named(composite)
        self._graph = build_graph(model, pool)
        self.input_shape = _input_shape(model, size)
        self.classes = _classes(model)
        self._score(model)
        if labels is not None and len(labels) != self.classes:
            raise DamagedInputError(
                f"There are {len(labels)} labels for the {self.classes} classes of "
                f"{model.name!r}. Expected one label for each class, in order."
            )
        self._resolve = TargetResolver(self.classes, labels)
        try:
            self._bind(rules)
            self._compile()
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            raise UsageError(
                f"The model {model.name!r} cannot be run on pictures of "
                f"{self.input_shape[0]} x {self.input_shape[1]} ({first_line(error)}).",
                "size",
            ) from error
        self.set_target(target)

    def __call__(self, x: np.ndarray | tf.Tensor, target: str | int | None = None) -> Explanation:
        """Explains a batch.

        Args:
          x: float32 [B, H, W, C], already preprocessed for the model.
          target: what is explained instead of the explainer's own target; no retrace.

        Raises:
          UsageError: x has another shape, or there is no such target.
        """
        scores, relevance = self._run(self._batch(x), *self._start_of(target))
        return Explanation(scores.numpy(), relevance.numpy())

    def set_target(self, target: str | int) -> None:
        """Changes what is explained when a call does not say; no retrace.

        Raises:
          UsageError: there is no such target.
        """
        resolved = self._resolve(target)
        self._default = (tf.constant(resolved.weights), tf.constant(resolved.top1))

    def relevance_sums(
        self, x: np.ndarray | tf.Tensor, target: str | int | None = None
    ) -> dict[str, np.ndarray]:
        """The sum of relevance that each layer hands down to its inputs, from output to input.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.

        Returns:
          Layer name -> float32 [B].
        """
        run = self._sums.get_concrete_function()
        sums = run(self._batch(x), *self._start_of(target))
        names = reversed(list(dict.fromkeys(node.layer for node in self._graph.nodes)))
        return {name: sums[name].numpy() for name in names if name in sums}

    @property
    def traces(self) -> int:
        """How often the compiled function was traced: 1 after any number of calls."""
        return self._explain.experimental_get_tracing_count()

    def _score(self, model: keras.Model) -> None:
        """Makes sure that the graph ends in scores: a softmax, a sigmoid, or one linear value."""
        if self.classes == 1 or _ends_in_scores(self._graph, self._graph.output):
            return
        softmax = Activation("softmax", tf.nn.softmax)
        self._graph.append("softmax", [softmax], (self._graph.output,))
        log.warning(
            "%s ends in values that are no probabilities: a softmax is added to get its scores",
            model.name,
        )

    def _bind(self, composite: Composite) -> None:
        """Chooses each linear layer's rule and makes its modified weights."""
        nonnegative = self._graph.nonnegative()
        supports = self._graph.input_supports(self.input_shape)
        self._rules = {}
        for node in self._graph.nodes:
            if isinstance(node.step, Linear):
                place = Place(nonnegative.issuperset(node.inputs), supports.get(node.output))
                rule = composite.rule(node.layer, node.step, place)
                self._rules[node.output] = rule.bind(node.step, place)

    def _compile(self) -> None:
        # Closures over plain data: a tf.function over a bound method would keep `self` alive.
        graph, rules = self._graph, self._rules
        signature = [
            tf.TensorSpec([None, *self.input_shape], tf.float32, name="x"),
            tf.TensorSpec([self.classes], tf.float32, name="weights"),
            tf.TensorSpec([], tf.bool, name="top1"),
        ]

        def explain(x, weights, top1):
            tensors = graph.forward(x)
            scores = tensors[graph.output]
            handed_down = _propagate(graph, rules, tensors, start(scores, weights, top1))
            return scores, _arriving(handed_down, 0)

        def sums(x, weights, top1):
            tensors = graph.forward(x)
            begin = start(tensors[graph.output], weights, top1)
            return _sum_by_layer(_propagate(graph, rules, tensors, begin))

        self._explain = tf.function(explain, input_signature=signature)
        self._sums = tf.function(sums, input_signature=signature)
        # The one trace, held on to: calls cannot retrace, and TensorFlow does not take several
        # explainers for a function that is traced again and again.
        self._run = self._explain.get_concrete_function()

    def _start_of(self, target: str | int | None) -> tuple[tf.Tensor, tf.Tensor]:
        if target is None:
            return self._default
        resolved = self._resolve(target)
        return tf.constant(resolved.weights), tf.constant(resolved.top1)

    def _batch(self, x: np.ndarray | tf.Tensor) -> tf.Tensor:
        x = tf.cast(tf.convert_to_tensor(x), tf.float32)
        if x.shape.rank != 4 or tuple(x.shape[1:]) != self.input_shape:
            expected = ", ".join(map(str, self.input_shape))
            raise UsageError(
                f"Expected a batch of pictures [B, {expected}]. Received the shape "
                f"{tuple(x.shape)}; a single picture needs x[None]."
            )
        return x


def _propagate(graph: Graph, rules: dict, tensors: dict, begin: tf.Tensor) -> list:
    """Relevance from the output to the input.

    Returns:
      (node, number of the input tensor, the relevance that the node hands down to it), in the
      order in which relevance travels.
    """
    handed_down: list[tuple[Node | None, int, tf.Tensor]] = [(None, graph.output, begin)]
    for node in reversed(graph.nodes):
        if not any(number == node.output for _, number, _ in handed_down):
            continue  # a branch that the output does not use
        relevance = _arriving(handed_down, node.output)
        inputs = [tensors[n] for n in node.inputs]
        if node.output in rules:
            parts = [rules[node.output](inputs[0], relevance)]
        else:
            parts = node.step.relevance(inputs, tensors[node.output], relevance)
        handed_down += [(node, n, part) for n, part in zip(node.inputs, parts, strict=True)]
    return handed_down


def _arriving(handed_down: list, number: int) -> tf.Tensor:
    return tf.add_n([part for _, n, part in handed_down if n == number])


def _sum_by_layer(handed_down: list) -> dict[str, tf.Tensor]:
    """The relevance that leaves each layer through its first step, per picture."""
    sums: dict[str, tf.Tensor] = {}
    for node, _, part in handed_down:
        if node is not None and node.entry:
            total = tf.reduce_sum(part, axis=list(range(1, part.shape.rank)))
            sums[node.layer] = sums.get(node.layer, 0.0) + total
    return sums


def _ends_in_scores(graph: Graph, number: int) -> bool:
    """Whether a tensor holds probabilities: a softmax or sigmoid, joined or averaged at most."""
    node = next((node for node in graph.nodes if node.output == number), None)
    if node is None:
        return False
    if isinstance(node.step, Activation):
        return node.step.name in ("softmax", "sigmoid")
    keeping = (Reshape, Identity, Concatenate, AveragePool, GlobalAveragePool)
    return isinstance(node.step, keeping) and all(_ends_in_scores(graph, n) for n in node.inputs)


def _check_names(**named: tuple[str, Sequence[str]]) -> None:
    for kind, (value, legal) in named.items():
        if value not in legal:
            raise unknown(kind, value, legal)


def _input_shape(model: keras.Model, size: tuple[int, int] | None) -> tuple[int, int, int]:
    shape = tuple(model.inputs[0].shape)[1:]
    if len(shape) != 3 or shape[2] is None:
        raise DamagedInputError(
            f"The model {model.name!r} reads {shape}. Expected a picture (height, width, channels)."
        )
    if size is None and None in shape:
        raise UsageError(
            f"The model {model.name!r} has no fixed input size. Say which, for example "
            "--size 224 or size=(224, 224).",
            "size",
        )
    wanted = (*(size or shape[:2]), shape[2])
    if any(have not in (None, want) for have, want in zip(shape, wanted, strict=True)):
        raise UsageError(
            f"The model {model.name!r} reads {shape[0]} x {shape[1]} pictures, "
            f"not {wanted[0]} x {wanted[1]}. Leave the size out.",
            "size",
        )
    return wanted


def _classes(model: keras.Model) -> int:
    shape = tuple(model.outputs[0].shape)[1:]
    if len(shape) != 1 or shape[0] is None:
        raise DamagedInputError(
            f"The model {model.name!r} gives {shape} for each picture. "
            "Expected one vector of classes."
        )
    return shape[0]
