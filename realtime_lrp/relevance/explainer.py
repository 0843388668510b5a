"""The explainer: runs a network forward and hands relevance back, in one compiled function."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.config.names import AUTO
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance import export
from realtime_lrp.relevance.concepts.channels import no_prior
from realtime_lrp.relevance.concepts.concepts import ConceptViews
from realtime_lrp.relevance.explanation import Explanation, explanation_of
from realtime_lrp.relevance.maps import account, detections, methods, starts
from realtime_lrp.relevance.maps.compiled import Explained, Lazy, explain_function
from realtime_lrp.relevance.maps.detections import Detections, DrawnBoxes
from realtime_lrp.relevance.maps.plan import Options, Plan
from realtime_lrp.relevance.maps.precision import choose_precision
from realtime_lrp.relevance.maps.targets import OneTarget, TargetResolver, Targets, TargetTensors
from realtime_lrp.relevance.network import checks, steps
from realtime_lrp.relevance.network.canonise import canonise, warn_once
from realtime_lrp.relevance.network.checks import Bound, Prepared
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.heads import end_in_scores
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.rules import layer_contexts as contexts
from realtime_lrp.relevance.rules.composites import Composite, composite_named, with_layers
from realtime_lrp.relevance.rules.rules import Rule

NOWHERE = np.zeros([1, 4], np.float32)  # a place that no box overlaps


class Explainer(ConceptViews):
    """Explains the answers of a Keras model: layer-wise relevance propagation and gradient methods.

    The model's weights are copied when the explainer is built; training the model further does not
    change the explainer. Threads may share an explainer. It cannot be pickled or copied; other
    processes build their own.

    Args:
      model: a Keras model, called before if it is subclassed, that reads one picture [B, H, W, C]
        and returns one vector, or one at every place, [B, h, w, classes]: a segmentation (with
        several outputs, see `output`); or a `Network`, which also gives labels, the range of the
        input and its colours; or the `Graph` that `build_graph` made of a model. The graph is used
        up. It allows freeing the Keras model before the explainer makes its own weights.
      method: a name in `METHODS`: "lrp", "gradient", "guided_backprop", ...
      composite: for LRP, which rule each layer follows; a name or a `Composite`. "auto" is
        attnlrp_gamma for networks with attention, cp_lrp for detectors with attention, else zplus.
      target: what is explained if the call does not say: "all", "top1", "top5" (any number), a
        class's index or name, "A - B" or "A - rest".
      start: with what LRP starts at a class: its "probability", in the direction of its logit, or
        its "logit", as zennit and LXT do.
      contrast: of a segmentation: sets the map of the class against the runner-up's map at the
        same place, each divided by its sum of magnitudes. So is a target "A - B" or "A - rest" of a
        segmentation in any case. Other networks take no notice.
      precision: "float32" or "bfloat16", the type in which layers with weights compute; maps and
        scores are float32 in any case. "auto" is `fast` where rounding keeps the map of this
        target. Elsewhere only relevance is handed down in it and the forward pass is float32; where
        that does not suffice all is float32. See `maps/precision.py`.
      also: methods or composites whose maps are computed as well, from the same forward pass.
      layers: rules for particular layers, pattern -> rule: {"block1_*": "flat"}. A pattern matches
        a layer's name or Keras type; a rule is a `Rule` or what `rule_named` reads. They change
        `composite`; an additional map named after a composite follows that composite unchanged.
      low, high: the lowest and highest value of the preprocessed input, for the rule zbox.
      absorb_bias: whether biases take a share of the relevance, which then does not reach the
        pixels. None does as the composite was published: `zplus` and excitation backprop give
        biases nothing, all other composites give them their share.
      samples: the number of perturbed pictures; None means 20 for SmoothGrad and 50 for integrated
        gradients.
      grad_cam_layer: the name of the layer whose maps Grad-CAM weights; None means the last one.
      pool: relevance through max pools, "max" (winner takes all) or "average" (in proportion).
      labels: class names in order, for targets by name.
      size: (H, W) for a model without a fixed input size.
      output: which output of a model with several, by name or position.
      output_activation: "softmax", "sigmoid" or "linear": what makes scores of the values that the
        model ends in; with "linear" they are scores themselves, as in a regression. None: a softmax
        where a model with several values ends in no probabilities.
      scores: what the values are that the model ends in, "logits" or "probabilities"; None decides
        by what its last operations compute, and logs why.
      fast: what "auto" may be: the fastest precision of the device.
      xla: whether the compiled function goes through XLA.

    Attributes:
      input_shape: (H, W, C).
      stride: (rows, columns), the stride of the first layers over the pixels. Above 1 it leaves a
        grid in the maps, which is smoothed away where they are drawn.
      classes: the number of scores.
      segments: whether the network gives classes for every place of a picture.
      places: the rows and columns of a segmentation's answer.
      background: its class that stands for no thing, -1 for none.
      passes: how many perturbed pictures SmoothGrad and integrated gradients pass forward.
      target: what is explained if the call does not say, a `Target`.
      read_target: makes a `Target` of what the argument `target` takes, or raises UsageError.
      precision: the type in which layers with weights compute, or hand relevance down.
      exact_forward: whether the forward pass is float32.
      signs: whether the map, and each of `also`, can have negative entries for the own target.
      follows_rules: whether the map, and each of `also`, follows the rules of a composite.
      gives_biases_nothing: whether no bias takes relevance of the map, as in zplus.
      starts_with_scores: whether relevance starts with scores, as in LRP, rather than with 1.
      rules_by_layer: layer -> the rule that the map follows there, as `rule_named` reads it.
      differences: whether the map, and each of `also`, adds up to a difference of scores, as
        integrated gradients do.
      unsuited: the methods and composites that this network refuses or that equal others there.
      advice: what would suit the network better, or "".
      flops: floating point operations of layers with weights in a forward pass of a picture.
      weights: the number of their weights, without biases.

    Raises:
      UsageError: an unknown method, composite, rule, layer, precision, pool or target; no box for
        zbox.
      DamagedInputError: the model has another form, a layer without a rule, or weights that are not
        finite.
    """

    def __init__(
        self,
        model: keras.Model | Prepared | Graph,
        method: str = "lrp",
        composite: str | Composite = AUTO,
        target: OneTarget = "all",
        precision: str = "float32",
        *,
        also: Sequence[str] = (),
        layers: Mapping[str, str | Rule] | None = None,
        low: Bound | None = None,
        high: Bound | None = None,
        absorb_bias: bool | None = None,
        samples: int | None = None,
        start: str = "probability",
        contrast: bool = False,
        grad_cam_layer: str | None = None,
        pool: str = "max",
        labels: Sequence[str] | None = None,
        size: tuple[int, int] | None = None,
        output: str | int | None = None,
        output_activation: str | None = None,
        scores: str | None = None,
        fast: str = "bfloat16",
        xla: bool = False,
    ) -> None:
        arguments = locals()  # first: nothing else is local here
        self._arguments = {name: arguments[name] for name in export.ARGUMENTS.values()}
        checks.check_options(precision, pool, start, samples, also)
        options = Options(layers or {}, absorb_bias, samples, start, grad_cam_layer)
        asked = methods.asked_maps(method, also)
        if composite != AUTO:
            composite_named(composite)  # an unknown name is refused before the graph is built
        model, self._colours, labels, low, high = checks.model_parts(model, labels, low, high)
        if isinstance(model, Graph) and output is not None:
            raise UsageError("This graph has one output. Give `output` to `build_graph`.", "output")
        graph = model if isinstance(model, Graph) else build_graph(model, output, size)
        for node in graph.nodes:
            if isinstance(node.step, steps.MaxPool | steps.GlobalMaxPool):
                node.step.shares = pool == "average"
        self.input_shape = checks.input_shape(graph, size)
        end_in_scores(graph, self.input_shape, output_activation, scores)
        composite = self._arguments["composite"] = methods.composite_for(composite, graph)
        self._names = methods.map_names(method, composite, options, also)
        composite = composite_named(composite)
        self.classes = checks.count_classes(graph)
        folded = canonise(graph)
        checks.check_labels(labels, self.classes, graph)
        self.background = graph.background = starts.background_of(labels, self.classes)
        self.segments = graph.places is not None
        self.places = graph.places or (1, 1)
        self._resolve = TargetResolver(self.classes, labels, graph.places, contrast)
        self.read_target = self._resolve.read

        box = checks.input_box(low, high, self.input_shape)
        of_layers = contexts.layer_contexts(graph, self.input_shape, box)
        self.unsuited = methods.unsuited(graph)
        self.advice = methods.advice_on(graph, composite) if asked[0][0].is_lrp else ""
        if self.advice:
            warn_once(self.advice)
        self.check_batch = checks.BatchCheck(self.input_shape, box)
        self.flops, self.weights = contexts.count_operations(graph)
        self.stride = contexts.pixel_stride(graph)
        if grad_cam_layer is not None:
            graph.kept.add(contexts.feature_maps(graph, grad_cam_layer))
        own = with_layers(composite, options.layers, graph)
        self._plans = plans = [
            Plan(method, graph, options, other or own, of_layers) for method, other in asked
        ]
        self.set_target(target)

        lowering = choose_precision(precision, plans, fast, self._resolve(target).contrasts)
        self.precision = lowering.precision
        self.exact_forward = lowering.precision == "float32" or lowering.exact_forward
        lowering.apply(graph)
        self._as_built = graph.unfolded(folded)
        for plan in plans:  # refused, and modified weights made, now and not at the first picture
            plan.needed, plan.values, plan.back  # noqa: B018
        self.rules_by_layer = {
            graph.nodes[number - 1].layer: str(rule) for number, rule in plans[0].rules.items()
        }
        self.follows_rules = tuple(bool(plan.rules) for plan in plans)
        self.gives_biases_nothing = not plans[0].absorbing
        self.starts_with_scores = plans[0].method.starts_with_scores
        self.differences = tuple(plan.difference for plan in plans)
        self.passes = sum(plan.samples for plan in plans)
        self._graph = graph
        self._xla = xla
        self._run = Lazy(explain_function(plans), xla)
        self._run_shared = Lazy(explain_function(plans, shared=True), xla)
        self._pipelines: list[Lazy] = []
        self._functions = {}
        self._scores = Lazy(partial(starts.scores_anywhere, graph, self._resolve("all")))

    def __call__(
        self,
        x: np.ndarray | tf.Tensor,
        target: Targets | None = None,
        *,
        at: tuple[int, int] | None = None,
        region: np.ndarray | None = None,
        contrast: bool | None = None,
    ) -> Explanation:
        """Explains a batch x, float32 [B, H, W, C], already preprocessed for the model.

        A `target` is explained instead of the explainer's own; nothing is retraced. A sequence has
        one target for each picture. For a single picture it may have any length: the explanation
        then has an entry for each target, all from one forward pass.

        A segmentation is explained at the pixel `at` of x, (row, column), or over a `region`, bool
        [H, W] of x or [B, H, W]. Without either it is the largest connected region of one class, of
        background only where there is nothing else. The map of a region is the mean of the maps of
        its pixels, scores are the mean of theirs. Another place does not retrace, nor does another
        `contrast` than the explainer's. A contrast has no account.

        Raises:
          UsageError: x has another shape or is not finite, there is no such target, a sequence of
            targets has another length than the batch, x has no such place, or a place is given but
            the network is no segmentation.
          NotFiniteError: the network computes NaN or Inf.
        """
        x = self.check_batch(x)
        tensors = self._target(target, len(x))
        if at is not None or region is not None:
            weights = starts.region_weights(self._graph, at, region, x.shape)
            tensors = tensors._replace(region=tf.constant(weights))
        if contrast is not None:
            tensors = tensors._replace(contrast=tf.constant([[contrast and self.segments]]))
        contrasts = self.segments and TargetTensors(*map(np.asarray, tensors)).contrasts
        run = self._run if len(tensors.weights) <= len(x) else self._run_shared
        found: Explained = self._in_parts(run, x, tensors)
        self._check_finite(x, target, found.scores, *found.maps)
        asked = self.target if target is None else target
        sums = map(any, zip(self.follows_rules, self.differences, strict=True))
        accounted = [adds_up and not contrasts for adds_up in sums]
        return explanation_of(
            np.asarray(x, np.float32), found, self._names, accounted,
            targets=self._resolve.read_each(asked, len(found.scores)),
            labels=self._resolve.labels, stride=self.stride, colours=self._colours,
        )  # fmt: skip

    def scores(self, x: np.ndarray | tf.Tensor, place: int | None = None) -> np.ndarray:
        """The scores, float32 [B, classes], without a map; x as in a call.

        Of a detector they are those at a `place`, see `Detections`; None is the best anywhere. Of a
        segmentation they are the mean over the largest region, as in a call.
        """
        if place is None:
            return self._in_parts(self._scores, self.check_batch(x))
        graph = self._graph
        number = detections.ends_of(graph).scores
        scores_at = lambda x, at: tf.gather(graph.forward(x)[number], at[0], axis=1)  # noqa: E731
        run = self._compiled("scores at a place", scores_at)
        return self._in_parts(run, self.check_batch(x), tf.constant([place]))

    def detections(
        self, x: np.ndarray | tf.Tensor, top: int = 4, threshold: float = 0.5
    ) -> Detections:
        """Finds what a detector sees, and explains each box by its score, in one forward pass.

        `x` is as in a call. Of a picture at most `top` boxes are explained, the best ones; each
        `top` has a compiled function of its own. `threshold` is the least score of a box.

        Raises:
          UsageError: as in a call; the network is no detector, `top` or `threshold` is out of
            range, or the method perturbs pictures.
          NotFiniteError: the network computes NaN or Inf.
        """
        function = detections.detect_function(self._plans[0], top, threshold)
        x = self.check_batch(x)
        found = self._in_parts(self._compiled(("boxes", top), function), x, each=top)
        boxes, _, scores, _, maps, *_ = found
        self._check_finite(x, None, scores, boxes, maps)
        return Detections.of(found, threshold)

    def boxes(self, x: np.ndarray | tf.Tensor, target: OneTarget = "all") -> DrawnBoxes:
        """The boxes of the `target`'s classes that a detector finds, without maps.

        `x` is as in a call, and raises the same; UsageError also where the network finds no boxes.
        """
        graph = self._graph
        ends = detections.ends_of(graph)
        run = self._compiled("boxes", lambda x, t: detections.drawn_of(graph.forward(x), ends, t))
        found: DrawnBoxes = run(tf.constant(self.check_batch(x)), self._target(target, len(x)))
        return found

    def set_target(self, target: OneTarget) -> None:
        """Changes the `target` of calls that name none, see `read_target`; nothing is retraced."""
        self.target = self._resolve.read(target)
        self._default = self._resolve(target).tensors()
        self.signs = self.signs_for(target)

    def signs_for(self, target: OneTarget, contrast: bool | None = None) -> tuple[bool, ...]:
        """`signs` for another target, and another `contrast` than the explainer's."""
        resolved = self._resolve(target)
        if contrast is not None:
            resolved = resolved._replace(contrast=np.array([[contrast and self.segments]]))
        return tuple(resolved.contrasts or not plan.keeps_sign for plan in self._plans)

    @property
    def traces(self) -> int:
        """How often the compiled function was traced that was traced most: 1 after any calls."""
        return max(one.traces for one in (self._run, *self._pipelines))

    def flood_advice(self, layer: str, target: Targets | None = None) -> str:
        """Advice if the map of `target` grows without limit, most of it in a `layer`."""
        asked = self._resolve.for_batch(self.target if target is None else target, 1)
        divided = any(layer in plan.divided_by_logits for plan in self._plans)
        return account.flood_advice(self._arguments["absorb_bias"], divided and asked.several)

    def compile_pipeline(
        self,
        before: Callable[[tf.Tensor], tf.Tensor],
        after: Callable[[tf.Tensor], Any],
        concept_layer: str | None = None,
        top: int = 0,
    ) -> Callable[..., Explained]:
        """Compiles preprocessing, explaining and postprocessing into one function.

        `before` is pictures uint8 [B, H, W, 3] -> x float32 [B, H, W, C], `after` is relevance
        float32 [B, H, W, C] -> tensors. Of a `concept_layer`, only for LRP, the shares by channel
        are returned as well, of a detector for each box; or `top` of its channels get a map too.

        The result is a function of pictures that explains the explainer's own target, or the
        targets that its second argument gives; with `top` also for a prior and a box's place (see
        `Layer.beside_maps`), and by keyword for `region`, `around` and `contrast` of
        `TargetTensors`, which only segmentations have. It returns tensors that the device may still
        be computing. An account is float32 [B, 3]: the sum of what started, with the sign of the
        logits where the composite asks for it, the sum of its magnitude, and what biases took.

        Raises:
          UsageError: as `concepts`, for the layer.
        """
        channels = 0
        of_layer = None
        if concept_layer is not None:
            layer = self._layer(concept_layer)
            channels = layer.channels
            of_layer = partial(layer.beside_maps, min(top, channels), after)
        xla = self._xla and not self._graph.ends  # how many boxes there are is no constant
        compiled = Lazy(explain_function(self._plans, before, after, of_layer), xla)

        def further(prior: np.ndarray | None, near: np.ndarray) -> list[tf.Tensor]:
            prior = no_prior(channels) if prior is None else prior
            return [tf.constant(one, tf.float32) for one in (prior, near)] if top else []

        pictures = tf.TensorSpec([None, *self.input_shape[:2], 3], tf.uint8, name="pictures")
        run = compiled.traced(pictures, self._default, *further(None, NOWHERE))
        if not top:  # the others are dropped one by one
            self._pipelines.append(compiled)

        def explain_pictures(
            pictures: np.ndarray | tf.Tensor, targets: Targets | None = None,
            prior: np.ndarray | None = None, near: np.ndarray = NOWHERE, **aim: np.ndarray,
        ) -> Explained:  # fmt: skip
            target = self._target(targets, len(pictures))
            if self.segments:
                target = target._replace(**{name: tf.constant(one) for name, one in aim.items()})
            return run(tf.constant(pictures), target, *further(prior, near))

        return explain_pictures

    def export(self, folder: str | os.PathLike[str]) -> None:
        """Writes a SavedModel that runs without this package, in Python, C++ or TensorFlow Serving.

        Its signatures take `x`, float32 [B, H, W, C], already preprocessed, and return `scores`,
        float32 [B, classes], `relevance`, shaped like x, and each map of `also` by its name:

        - `serving_default` explains the explainer's present target.
        - `explain_class` also takes `target`, int32 [B], the index of a class for each picture.

        The labels, if there are any, are in `assets/labels.txt`, one per line, how it was made is
        in `assets/provenance.json`. Where this explainer would raise NotFiniteError, scores or maps
        hold NaN. `xla` has no effect. The folder is empty or does not exist; its parent has to.

        Raises:
          UsageError: two maps have the same name, or the folder's name is empty.
          OutputError: the folder cannot be created, or is not empty.
          TransferError: writing failed; nothing is left.
        """
        export.save(
            folder, self._run.function.python_function, self.input_shape, self._default,
            self._names[1:], self._resolve.labels, self.provenance(),
        )  # fmt: skip

    def of_one_picture(
        self, before: Callable[[tf.Tensor], tf.Tensor], fixed: bool
    ) -> Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """An exported file's function; for `before` and `fixed` see `export.of_one_picture`."""
        return export.of_one_picture(self._plans[0], before, self._default if fixed else None)

    def provenance(self) -> Provenance:
        """How its maps are made, without what a network's files say."""
        return export.explainer_provenance(
            self._graph.name, self._arguments, self.rules_by_layer, str(self.target), self.precision
        )

    def __repr__(self) -> str:
        return f"<Explainer of {self._graph.name!r}: {self._names[0]}, target {str(self.target)!r}>"
