"""The explainer: one tf.function that runs a network forward and hands relevance back.

The network is a graph of steps (`graph.py`, which walks the Keras model); rules (`rules.py`) and
methods (`methods.py`) say what goes back through it. What is held here is how these are put
together, compiled, and given arrays.
"""

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.types.experimental import ConcreteFunction, PolymorphicFunction

from realtime_lrp.config import names
from realtime_lrp.errors import (
    DamagedInputError,
    NotFiniteError,
    UsageError,
    first_line,
    unknown,
)
from realtime_lrp.relevance import export, onednn
from realtime_lrp.relevance.canonise import canonise
from realtime_lrp.relevance.composites import (
    COMPOSITES,
    Composite,
    composite_named,
    with_layers,
)
from realtime_lrp.relevance.graph import Graph, Node, build_graph, total
from realtime_lrp.relevance.linear import Linear
from realtime_lrp.relevance.methods import (
    METHODS,
    Explain,
    Method,
    Network,
    bound,
    guided_rectifiers,
)
from realtime_lrp.relevance.rules import Place, Propagate, Rule
from realtime_lrp.relevance.steps import Activation
from realtime_lrp.relevance.targets import Target, TargetResolver, start_of_relevance

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
POOLS = ("max", "average")

Bound = float | Sequence[float] | np.ndarray
"""One value, one for each channel, or [H, W, C]."""

PipelineOutput = tuple[tf.Tensor, tf.Tensor, list[Any], list[tf.Tensor]]
"""scores, explained, what `after` made of each map, the maps; see `Explainer.compile_pipeline`."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Explanation:
    """Scores and relevance of a batch.

    Attributes:
      scores: float32 [B, classes], the output: probabilities where it is a softmax or sigmoid.
      relevance: float32 [B, H, W, C], raw: not normalised, not pooled.
      maps: the further maps that were asked for, by name, each like `relevance`.
    """

    scores: np.ndarray
    relevance: np.ndarray
    maps: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class LayerRecord:
    """What one layer of the network held during one explanation.

    The tensors are those of the model as Keras runs it, also where a batch norm was folded.

    Attributes:
      name: the layer's name; "model/layer" inside a nested model, "layer:2" at a second call.
      kind: its Keras type.
      rule: the rule of its weights, "" where it has none or the method uses no rules.
      inputs: the tensors it read, [B, ...] each.
      output: the tensor it made, [B, ...].
      arrived: what arrived at its output, like `output`: relevance, or the gradient.
      handed_down: what it handed to each of its inputs, like `inputs`.
    """

    name: str
    kind: str
    rule: str
    inputs: tuple[np.ndarray, ...]
    output: np.ndarray
    arrived: np.ndarray
    handed_down: tuple[np.ndarray, ...]


class Explainer:
    """Explains the answers of a Keras model: layer-wise relevance propagation and gradient methods.

    The model's weights are read here, once; training it further does not change the explainer.

    Args:
      model: a functional or Sequential Keras model, one picture [B, H, W, C] in, one vector out; or
        the `Graph` that `build_graph` made of it with this `pool`, which is used up. That lets go
        of the Keras model before the explainer makes its own weights.
      method: a name out of `METHODS`: "lrp", "gradient", "guided_backprop", ...
      composite: for LRP which rule for which layer, a name or a `Composite`.
      target: what is explained if the call does not say: "all", "top1", "top5" (any number), a
        class's index or name, "A - B" or "A - rest".
      precision: "float32", "bfloat16" or "float16", in which layers with weights compute; maps and
        scores come in float32 all the same. "auto" is `fast` for LRP alone whose maps of this
        target never add up both signs (not `signed`): rounding changes those by parts in a
        thousand; where signs cancel, as with epsilon, it can turn a map round. Else it is float32.
      also: methods or composites whose maps are made as well, from the same forward pass.
      layers: rules of their own for some layers, pattern -> rule: {"block1_*": "flat"}. A pattern
        is a layer's name or Keras type; a rule is a `Rule` or what `rule_named` reads. They change
        `composite`; a further map that is named after a composite is that composite as it is.
      low: the lowest value of the preprocessed input, for the rule zbox.
      high: the highest.
      absorb_bias: biases take their share of relevance, which is lost; else they get none.
      keep: above 0, up to 1: of what arrives at each layer with weights only this share of the
        entries goes on, largest first. What is filtered out is lost.
      guided: the layers whose ReLUs guided backprop and deconvnet change, patterns as in `layers`;
        None is all.
      samples: how many perturbed pictures SmoothGrad and integrated gradients take.
      pool: relevance through max pools, "max" (winner takes all) or "average" (in proportion).
      labels: class names in order, for targets by name.
      size: (H, W) for a model without a fixed input size.
      fast: what "auto" is where it may: the quickest precision of the device.
      xla: the whole compiled function goes through XLA.

    Threads may share an explainer; it cannot be pickled or copied, other processes make their own.

    Attributes:
      input_shape: (H, W, C) of a picture.
      classes: the number of scores.
      passes: how many forward passes a picture takes besides its own: 0, or the perturbed pictures
        of SmoothGrad and integrated gradients.
      precision: the one in which layers with weights compute.
      signs: whether the map, and each of `also`, can have negative entries for the explainer's own
        target.
      flops: floating point operations of the layers with weights in one forward pass of a picture.
      weights: how many numbers those layers' kernels hold.

    Raises:
      UsageError: an unknown method, composite, rule, layer, precision, pool or target; no box for
        zbox.
      DamagedInputError: the model has another form, a layer without a rule, or weights that are not
        finite.
    """

    def __init__(
        self,
        model: keras.Model | Graph,
        method: str = "lrp",
        composite: str | Composite = "zplus",
        target: str | int = "all",
        precision: str = "float32",
        *,
        also: Sequence[str] = (),
        layers: Mapping[str, str | Rule] | None = None,
        low: Bound | None = None,
        high: Bound | None = None,
        absorb_bias: bool = False,
        keep: float = 1.0,
        guided: Sequence[str] | None = None,
        samples: int = 20,
        pool: str = "max",
        labels: Sequence[str] | None = None,
        size: tuple[int, int] | None = None,
        fast: str = "bfloat16",
        xla: bool = False,
    ) -> None:
        _check_names(precision=(precision, PRECISIONS), pool=(pool, POOLS))
        _check_numbers(keep, samples)
        if isinstance(also, str):
            raise UsageError(f"Expected also as a list of names. Received {also!r}.", "map")
        wanted = [_method_named(method, composite), *(_map_named(name, composite) for name in also)]
        self._graph = model if isinstance(model, Graph) else build_graph(model, pool)
        self.input_shape = _input_shape(self._graph, size)
        self.classes = _classes(self._graph)
        self._score()
        folded = canonise(self._graph)
        if guided is not None:
            guided_rectifiers(self._graph, guided)
        if labels is not None and len(labels) != self.classes:
            raise DamagedInputError(
                f"There are {len(labels)} labels for the {self.classes} classes of "
                f"{self._graph.name!r}. Expected one label for each class, in order."
            )
        self._resolve = TargetResolver(self.classes, labels)
        self._also = tuple(also)
        box = _box(low, high, self.input_shape)
        try:
            places = self._places(box, absorb_bias)
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            raise UsageError(
                f"The model {self._graph.name!r} cannot be run on pictures of "
                f"{self.input_shape[0]} x {self.input_shape[1]} ({first_line(error)}).",
                "size",
            ) from error
        own = with_layers(wanted[0][1], layers or {}, self._graph)
        wanted = [
            (one, one.composite or (rules if name in COMPOSITES else own))
            for name, (one, rules) in zip((method, *also), wanted, strict=True)
        ]
        rules = [self._rules_of(one, composite, places) for one, composite in wanted]
        self._rules, by_rules = rules[0], any(rules)
        self._keep_sign = [
            not one.signed or self._shares_keep_sign(own)
            for (one, _), own in zip(wanted, rules, strict=True)
        ]
        self.set_target(target)
        if precision == "auto":
            steady = bool(self._rules) and not (self.signed or also or keep < 1)
            precision = fast if steady else "float32"
        self.precision = precision
        if precision != "float32":
            self._graph.compute_in(tf.as_dtype(precision))
        self._as_built = self._graph.unfolded(folded)
        bind = _Binder(self._graph, places).bind
        explain = [
            bound(one, Network(self._graph, bind, own, guided, samples, keep))
            for one, own in wanted
        ]
        self._xla = xla
        self._compile(explain, by_rules)
        self.passes = samples * sum(one.perturb is not None for one, _ in wanted)

    def __call__(self, x: np.ndarray | tf.Tensor, target: str | int | None = None) -> Explanation:
        """Explains a batch.

        Args:
          x: float32 [B, H, W, C], already preprocessed for the model.
          target: what is explained instead of the explainer's own target; no retrace.

        Raises:
          UsageError: x has another shape or is not finite, or there is no such target.
          NotFiniteError: the network computes NaN or Inf.
        """
        batch = self._batch(x)
        scores, *made = (one.numpy() for one in self._run(batch, *self._target(target)))
        if not all(np.isfinite(one.sum()) for one in (scores, *made)):
            raise self.not_finite(batch)
        relevance, *others = made
        return Explanation(scores, relevance, dict(zip(self._also, others, strict=True)))

    def not_finite(self, x: tf.Tensor) -> NotFiniteError:
        """What to say of a batch x [B, H, W, C] whose scores or maps are not finite."""
        graph, where = self._as_built, "on the way back through its layers"
        tensors = graph.forward(x, joined=False)
        for node in graph.nodes:
            made = tensors[node.output].numpy().astype(np.float32)
            if not np.isfinite(made).all():
                what = "NaN" if np.isnan(made).any() else "Inf"
                where = f"{what} in the layer {node.layer!r} ({node.kind})"
                break
        advice = "try --precision float32" if self.precision != "float32" else "check its weights"
        return NotFiniteError(
            f"The network {graph.name!r} computes numbers that are not finite for this picture: "
            f"{where}. Expected finite ones: {advice} and --preprocess."
        )

    def scores(self, x: np.ndarray | tf.Tensor) -> np.ndarray:
        """The scores alone, float32 [B, classes], without explaining them.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
        """
        return self._forward.get_concrete_function()(self._batch(x)).numpy()

    def compile_pipeline(
        self,
        before: Callable[[tf.Tensor], tf.Tensor],
        after: Callable[[tf.Tensor], Any],
    ) -> Callable[[np.ndarray | tf.Tensor], PipelineOutput]:
        """Compiles preprocessing, explaining and postprocessing into one function.

        Args:
          before: pictures uint8 [B, H, W, 3] -> x float32 [B, H, W, C].
          after: relevance float32 [B, H, W, C] -> tensors.

        Returns:
          A function of pictures that explains the explainer's own target. It returns (scores,
          explained, what `after` made of the map and of each of `also`, these maps) as tensors that
          the device may still be computing. `explained` is float32 [B, 2]: the relevance at the
          output, its sum and the sum of its magnitude.
        """
        explain = self._run
        pictures = tf.TensorSpec([None, *self.input_shape[:2], 3], tf.uint8, name="pictures")

        def pipeline(pictures: tf.Tensor, *target: tf.Tensor) -> PipelineOutput:
            scores, *maps = explain(before(pictures), *target)
            start = start_of_relevance(scores, *target)
            explained = tf.stack([tf.reduce_sum(start, -1), tf.reduce_sum(tf.abs(start), -1)], -1)
            return scores, explained, [after(relevance) for relevance in maps], maps

        signature = [pictures, *Target.signature(self.classes)]
        function, run = self._compiled(pipeline, signature)
        self._further.append(function)
        return lambda pictures: run(tf.constant(pictures), *self._default)

    def export(self, folder: str | os.PathLike[str]) -> None:
        """Writes a SavedModel that runs without this package, in Python, C++ or TensorFlow Serving.

        Its signatures take `x`, float32 [B, H, W, C], already preprocessed, and give `scores`,
        float32 [B, classes], `relevance`, like x, and a map for each of `also` by its name:

        - `serving_default` explains the explainer's own target as it is now.
        - `explain_class` also takes `target`, int32 [B], a class's index for each picture; as many
          as pictures.

        The labels, if there are any, are in `assets/labels.txt`, one a line. Where this explainer
        would raise NotFiniteError, scores or maps hold NaN. `xla` plays no part.

        Args:
          folder: does not exist, or is empty; it is made in one that is there.

        Raises:
          UsageError: two maps have the same name, or the folder has none.
          OutputError: the folder cannot be made, or is not empty.
          TransferError: writing failed; nothing is left.
        """
        export.save(
            folder, self._explain.python_function, self.input_shape, self._default, self._also,
            self._resolve.labels,
        )  # fmt: skip

    def set_target(self, target: str | int) -> None:
        """Changes what is explained when a call does not say; no retrace.

        Raises:
          UsageError: there is no such target.
        """
        resolved = self._resolve(target)
        self._default = resolved.tensors()
        against = bool(resolved.rest or (resolved.weights < 0).any())
        self.signs = tuple(against or not keeps for keeps in self._keep_sign)

    def canonical(self, target: str | int) -> str | int:
        """A target with its classes by index: "all", "top5", 3, "3 - 5" or "3 - rest".

        Raises:
          UsageError: there is no such target.
        """
        return self._resolve.canonical(target)

    @property
    def signed(self) -> bool:
        """Whether the map can have negative entries for the explainer's own target."""
        return self.signs[0]

    def layers(
        self, x: np.ndarray | tf.Tensor, target: str | int | None = None
    ) -> list[LayerRecord]:
        """What every layer held and handed down, from the output to the input.

        SmoothGrad and integrated gradients show the gradient at the picture itself. Branches that
        the output does not use are left out.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.
        """
        run = self._everything.get_concrete_function()
        tensors, arrived, handed_down = run(self._batch(x), *self._target(target))
        by_layer: dict[str, list[Node]] = {}
        for node in self._graph.nodes:
            if node.output in arrived:
                by_layer.setdefault(node.layer, []).append(node)
        records = []
        for nodes in by_layer.values():
            first, last = nodes[0], nodes[-1]
            rules = [str(self._rules[n.output]) for n in nodes if n.output in self._rules]
            received = [handed_down[first.output, n] for n in range(len(first.inputs))]
            records.append(
                LayerRecord(
                    name=first.layer,
                    kind=first.kind,
                    rule=rules[0] if rules else "",
                    inputs=tuple(tensors[number].numpy() for number in first.inputs),
                    output=tensors[last.output].numpy(),
                    arrived=arrived[last.output].numpy(),
                    handed_down=tuple(part.numpy() for part in received),
                )
            )
        return records[::-1]

    def relevance_sums(
        self, x: np.ndarray | tf.Tensor, target: str | int | None = None
    ) -> dict[str, np.ndarray]:
        """The sum of relevance that each layer hands down to its inputs, from output to input.

        Args:
          x: float32 [B, H, W, C], already preprocessed.
          target: as in a call.

        Returns:
          Layer name -> float64 [B].
        """
        return {
            record.name: sum(
                part.reshape(len(part), -1).sum(1, dtype=np.float64) for part in record.handed_down
            )
            for record in self.layers(x, target)
        }

    @property
    def traces(self) -> int:
        """How often any one compiled function was traced: 1 after any number of calls."""
        functions = (self._explain, *self._further)
        return max(one.experimental_get_tracing_count() for one in functions)

    def _score(self) -> None:
        """Makes sure that the graph ends in scores: a softmax, a sigmoid, or one linear value."""
        if self.classes == 1 or self._graph.scoring():
            return
        softmax = Activation("softmax", tf.nn.softmax, nonnegative=True)
        self._graph.append("softmax", "Softmax", [softmax], (self._graph.output,))
        log.warning(
            "%s ends in values that are no probabilities: a softmax is added to get its scores",
            self._graph.name,
        )

    def _places(
        self, box: tuple[np.ndarray, np.ndarray] | None, absorb_bias: bool
    ) -> dict[int, Place]:
        """The place of each layer with weights, by output number."""
        nonnegative = self._graph.nonnegative()
        supports = self._graph.supports(self.input_shape)
        ends = [self._graph.before_weights(tf.constant(end[None])) for end in box or ()]
        inputs = self._graph.before_weights(supports[0])
        places = {}
        self.flops = self.weights = 0
        for node in self._graph.nodes:
            if isinstance(node.step, Linear):
                (number,) = node.inputs
                size = math.prod(node.step.kernel.shape)
                self.weights += size
                self.flops += 2 * size * node.step.places(supports[number], supports[node.output])
                bounds = [end[number] for end in ends if number in end]
                places[node.output] = Place(
                    name=node.layer,
                    nonnegative=number in nonnegative,
                    support=supports[number],
                    is_input=number in inputs,
                    box=(tf.minimum(*bounds), tf.maximum(*bounds)) if bounds else None,
                    absorb_bias=absorb_bias,
                )
        return places

    def _rules_of(
        self, method: Method, composite: Composite, places: Mapping[int, Place]
    ) -> dict[int, Rule]:
        """The rule of each layer with weights, by output number; none where a method has none."""
        if not method.by_rules:
            return {}
        return {
            node.output: composite.rule(node, places[node.output])
            for node in self._graph.nodes
            if node.output in places
        }

    def _compile(self, methods: Sequence[Explain], by_rules: bool) -> None:
        # Closures over plain data: a tf.function over a bound method would keep `self` alive.
        graph, as_built = self._graph, self._as_built
        picture = tf.TensorSpec([None, *self.input_shape], tf.float32, name="x")
        signature = [picture, *Target.signature(self.classes)]

        def explain(x: tf.Tensor, *target: tf.Tensor) -> tuple[tf.Tensor, ...]:
            tensors = graph.forward(x)
            maps = [tf.cast(method(x, tensors, *target)[0], tf.float32) for method in methods]
            scores = tensors[graph.output]
            if not by_rules:  # relevance, a times something, shows by itself that a is not finite
                scores = tf.where(graph.finite(tensors)[:, None], scores, np.nan)
            return scores, *maps

        def everything(
            x: tf.Tensor, *target: tf.Tensor
        ) -> tuple[dict[int, tf.Tensor], dict[int, tf.Tensor], dict[tuple[int, int], tf.Tensor]]:
            _, parts = methods[0](x, graph.forward(x), *target)
            shown = as_built.forward(x, joined=False)
            arrived = {
                number: tf.cast(total(handed), tf.float32) for number, handed in parts.items()
            }
            handed_down = {
                (part.node.output, part.place): tf.cast(part.tensor, tf.float32)
                for handed in parts.values()
                for part in handed
                if part.node
            }
            return {number: shown[number] for number in parts}, arrived, handed_down

        def forward(x: tf.Tensor) -> tf.Tensor:
            return graph.forward(x)[graph.output]

        self._forward = tf.function(forward, input_signature=signature[:1], autograph=False)
        self._explain, self._run = self._compiled(explain, signature)
        self._further: list[PolymorphicFunction] = []
        self._everything = tf.function(everything, input_signature=signature, autograph=False)

    def _compiled(
        self, function: Callable[..., Any], signature: Sequence[tf.TensorSpec]
    ) -> tuple[PolymorphicFunction, ConcreteFunction]:
        """A function compiled, and its one trace.

        Who holds on to that calls it without ever retracing, and TensorFlow does not take several
        explainers for a function that is traced again and again.
        """
        compiled = tf.function(
            function, input_signature=signature, autograph=False, jit_compile=self._xla or None
        )
        with onednn.disabled() if self._xla else nullcontext():
            return compiled, compiled.get_concrete_function()

    def _shares_keep_sign(self, rules: Mapping[int, Rule]) -> bool:
        """Whether relevance is positive all the way from the output to the input."""
        nonnegative = self._graph.nonnegative()
        return (
            self._graph.output in nonnegative
            and bool(rules)
            and all(
                rules[node.output].keeps_sign
                if node.output in rules
                else not node.step.shares or nonnegative.issuperset(node.inputs)
                for node in self._graph.nodes
            )
        )

    def _target(self, target: str | int | None) -> tuple[tf.Tensor, ...]:
        return self._default if target is None else self._resolve(target).tensors()

    def _batch(self, x: np.ndarray | tf.Tensor) -> tf.Tensor:
        try:
            x = tf.cast(tf.convert_to_tensor(x), tf.float32)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise UsageError(
                f"Expected a batch of pictures as an array of numbers ({first_line(error)})."
            ) from None
        if x.shape.rank != 4 or tuple(x.shape[1:]) != self.input_shape or not x.shape[0]:
            expected = ", ".join(map(str, self.input_shape))
            raise UsageError(
                f"Expected a batch of pictures [B, {expected}], at least one. Received the shape "
                f"{tuple(x.shape)}; a single picture needs x[None]."
            )
        if not tf.reduce_all(tf.math.is_finite(x)):
            raise UsageError("The batch of pictures holds NaN or Inf. Expected finite numbers.")
        return x


class _Binder:
    """Binds rules to the layers of one network, once for each composite."""

    def __init__(self, graph: Graph, places: Mapping[int, Place]) -> None:
        self._graph = graph
        self._places = places
        self._bound: dict[Composite, dict[int, Propagate]] = {}

    def bind(self, composite: Composite) -> dict[int, Propagate]:
        """The bound rule of each layer with weights, by output number."""
        if composite not in self._bound:
            self._bound[composite] = {}
            for node in self._graph.nodes:
                if isinstance(node.step, Linear):
                    place = self._places[node.output]
                    rule = composite.rule(node, place)
                    self._bound[composite][node.output] = rule.bind(node.step, place)
        return self._bound[composite]


def _method_named(method: str, composite: str | Composite) -> tuple[Method, Composite]:
    if method not in METHODS:
        hint = f"Use composite={method!r} with the method lrp. " if method in COMPOSITES else ""
        error = unknown("method", method, METHODS, names.METHODS.aliases)
        raise UsageError(f"{hint}{error}", "method") if hint else error
    return METHODS[method], composite_named(composite)


def _map_named(name: str, composite: str | Composite) -> tuple[Method, Composite]:
    """The method of a further map, which is named after a method or a composite."""
    if name in METHODS:
        return METHODS[name], composite_named(composite)
    if name in COMPOSITES:
        return METHODS["lrp"], COMPOSITES[name]
    raise unknown("map", name, [*METHODS, *COMPOSITES], names.METHODS.aliases)


def _box(
    low: Bound | None, high: Bound | None, shape: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray] | None:
    if low is None and high is None:
        return None
    if low is None or high is None:
        raise UsageError("Expected low and high together. Received one of them.", "box")
    try:
        bounds = [np.broadcast_to(np.asarray(b, np.float32), shape) for b in (low, high)]
    except (TypeError, ValueError):
        raise UsageError(
            f"Expected low and high as one number, one for each channel, or {shape}. Received "
            f"{low!r} and {high!r}.",
            "box",
        ) from None
    if not (bounds[0] < bounds[1]).all():
        raise UsageError("Expected low below high, at every entry of the input.", "box")
    return bounds[0], bounds[1]


def _check_numbers(keep: float, samples: int) -> None:
    if not (isinstance(keep, float | int) and 0 < keep <= 1):
        raise UsageError(f"Expected keep above 0 and up to 1. Received {keep!r}.", "keep")
    if not (isinstance(samples, int) and samples >= 1):
        raise UsageError(f"Expected samples as a whole number above 0. Received {samples!r}.")


def _check_names(**named: tuple[str, Sequence[str]]) -> None:
    for kind, (value, legal) in named.items():
        if value not in legal:
            raise unknown(kind, value, legal)


def _input_shape(model: Graph, size: tuple[int, int] | None) -> tuple[int, int, int]:
    shape = model.input_shape
    if size is not None and [type(n) for n in np.atleast_1d(size).tolist()] != [int, int]:
        raise UsageError(f"Expected the size as (rows, columns). Received {size!r}.", "size")
    if len(shape) != 3 or shape[2] is None:
        raise DamagedInputError(
            f"The model {model.name!r} reads {shape}. Expected a picture (height, width, channels)."
        )
    rows, columns = size or shape[:2]
    if rows is None or columns is None:
        raise UsageError(
            f"The model {model.name!r} has no fixed input size. Say which, for example "
            "--size 224 or size=(224, 224).",
            "size",
        )
    if shape[0] not in (None, rows) or shape[1] not in (None, columns):
        raise UsageError(
            f"The model {model.name!r} reads {shape[0]} x {shape[1]} pictures, "
            f"not {rows} x {columns}. Leave the size out.",
            "size",
        )
    return rows, columns, shape[2]


def _classes(model: Graph) -> int:
    shape = model.output_shape
    if len(shape) != 1 or shape[0] is None:
        raise DamagedInputError(
            f"The model {model.name!r} gives {shape} for each picture. "
            "Expected one vector of classes."
        )
    return shape[0]
