"""Half precision: which part of a network may use it; correlations: `docs/performance.md`.

What rounding does to a map, measured on photos and drawings:

- Rounded weights and activations let other entries win in max pools. A map of z+ keeps signs, and
  changes little where the input layers and the first max pools are not rounded. Elsewhere, and for
  one class against others, sums of both signs nearly cancel, and the rest is another map.
- Epsilon divides by the sum of the forward pass, so both have to be the same. In the last layer,
  where biases take their share, it may follow a rounded network if it is not rounded itself. In
  dense layers before that rounding lets other neurons be 0 (VGG16, strong random biases: 0.986).
- Rules of transformers hand down R / z itself, and no rounded z divides it again. So what dense
  layers and attention multiply on the way back may be rounded (0.99997), but not the forward pass:
  the logits nearest 0 decide for all classes at once (0.1), a stem of convolutions suffers (0.998).
- Rounding only what is handed down changes hardly anything, but near the output, where classes or
  signs cancel, and in plain gradients of deep networks, where they cancel in every layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from realtime_lrp.relevance.maps.plan import Plan, keeps_sign
from realtime_lrp.relevance.network.canonise import warn_once
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import Affine, MaxPool
from realtime_lrp.relevance.network.traced_steps import Normalisation
from realtime_lrp.relevance.rules.rules import Epsilon

EXACT_POOLS = 2
"""Keep the forward pass exact up to that many max pools in a row: there rounding would let others
of several nearly equal entries win, which moves relevance by several pixels."""


@dataclass(frozen=True)
class Lowering:
    """The precision of each part of a computation.

    `exact` has the output numbers of what computes in float32, forward and back; with
    `exact_forward` the whole forward pass is float32, and only relevance is handed down in
    `precision`.
    """

    precision: str
    exact: frozenset[int] = frozenset()
    exact_forward: bool = False

    def apply(self, graph: Graph) -> None:
        """Makes layers with weights, and the steps between them, compute in the precision.

        Steps before the first and after the last layer with weights stay in float32: the picture's
        preprocessing, the softmax. So do input layers whose output a max pool reads. Rounding would
        make another of several nearly equal entries win, which moves relevance at full resolution
        (SqueezeNet, z+: correlation with float32 0.997 rounded, 0.9999 not rounded).
        """
        if self.precision == "float32":
            return
        with_weights = {node.output for node in graph.with_weights}
        behind = graph.depending_on(with_weights - _input_layers_before_max_pools(graph))
        lowered = behind & (with_weights | graph.leading_to(with_weights))
        # Near the output both signs cancel, and the small rest would be lost in what is rounded: it
        # stays exact until another layer with weights takes it.
        exact = set(self.exact)
        for node in graph.nodes:
            if not node.step.multiplies and exact.issuperset(node.inputs):
                exact.add(node.output)
        lowered -= exact
        exact_forward = lowered if self.exact_forward else lowered & _sensitive(graph)
        dtype = tf.as_dtype(self.precision)
        for number in lowered:
            node = graph.nodes[number - 1]
            graph.replace(node.computing_in(dtype, number in exact_forward))


def _sensitive(graph: Graph) -> set[int]:
    """The tensors that rounding in the forward pass would change too much.

    Input layers subtract what all pixels have in common: with pixels from 0 to 255, rounded to
    bfloat16, correlations with float32 fell to 0.6 and below. And what lies up to the first max
    pools, `EXACT_POOLS` in a row.
    """
    pools = {0: 0}  # tensor -> how many max pools lie before it
    early: set[int] = set()
    for node in graph.nodes:
        is_pool = isinstance(node.step, MaxPool)
        pools[node.output] = max(pools[number] for number in node.inputs) + is_pool
        if is_pool and pools[node.output] <= EXACT_POOLS:
            early.add(node.output)
    behind = graph.depending_on({node.output for node in graph.with_weights})
    first = {node.output for node in graph.with_weights if behind.isdisjoint(node.inputs)}
    return first | early | graph.leading_to(early)


def _input_layers_before_max_pools(graph: Graph) -> set[int]:
    """The output numbers of input layers that a max pool follows before other weights."""
    origin: dict[int, set[int]] = {0: {0}}  # tensor -> the layers with weights right before it
    found: set[int] = set()
    for node in graph.nodes:
        before = set().union(*(origin[n] for n in node.inputs))
        if isinstance(node.step, Linear):
            origin[node.output] = {node.output} if before == {0} else set()
        else:
            origin[node.output] = before
            found |= before if isinstance(node.step, MaxPool) else set()
    return found - {0}


def choose_precision(precision: str, plans: Sequence[Plan], fast: str, contrasts: bool) -> Lowering:
    """The precision of each part of a computation.

    "auto" is the fastest lowering that keeps every map, correlation 0.999 or more; `fast` is the
    fastest precision of the device, `contrasts` whether classes count against others. "bfloat16" is
    the same lowering; where none keeps every map, it warns.
    """
    wanted = fast if precision == "auto" else precision
    if wanted == "float32":
        return Lowering("float32")
    lowering = _lowering_to(wanted, plans, contrasts)
    small = any(not plan.composite.steps for plan in plans) and _norms_small_sums(plans[0].graph)
    if lowering and not small:
        return lowering
    if precision == "auto":
        return Lowering("float32")
    warn_once(
        f"{precision} is not good for this map of {plans[0].graph.name!r}: rounding changes "
        "it, perhaps beyond recognition. Use --precision float32 or auto."
    )
    return lowering or Lowering(precision)


def _lowering_to(precision: str, plans: Sequence[Plan], contrasts: bool) -> Lowering | None:
    """The part of a rounded map that needs float32; None if nothing is left to round."""
    first = plans[0]
    graph = first.graph
    if any(plan.method.cancels for plan in plans):
        return None
    rules = [rule for plan in plans for rule in plan.rules.values()]
    own = all(plan.composite.steps and not plan.composite.overrides for plan in plans)
    if own and all(isinstance(rule, Epsilon) for rule in rules):  # composites for transformers
        last = graph.last_with_weights(graph.output)
        to_round = {n.output for n in graph.nodes if n.step.multiplies and not n.step.convolves}
        exact = {n.output for n in graph.nodes} - to_round | last
        return Lowering(precision, frozenset(exact), exact_forward=True)
    contrasts |= any(plan.values is not None for plan in plans)  # logits may have both signs
    behind = layers_behind_convolutions(graph)
    epsilon = {number for number in behind if isinstance(first.rules.get(number), Epsilon)}
    if (
        len(plans) == 1
        and not contrasts
        and epsilon <= graph.last_with_weights(graph.output)
        and keeps_sign(first.rules, graph, epsilon.intersection(first.absorbing))
    ):
        return Lowering(precision, frozenset(epsilon))
    exact = layers_behind_convolutions(graph, with_last=True)
    exact |= {n for one in plans for n, rule in one.rules.items() if isinstance(rule, Epsilon)}
    rounded = any(node.step.convolves and node.output not in exact for node in graph.nodes)
    return Lowering(precision, frozenset(exact), True) if rounded else None


def _norms_small_sums(graph: Graph) -> bool:
    """Whether relevance passes a norm unchanged to a sum of both signs, in proportion to its terms.

    It does not become smaller with the sum, so that a sum near 0 multiplies all rounding. Whole
    networks of this kind: ResNet V2 (z+: 0.998 of 152 layers), DenseNet, ConvNeXt (0.991).
    """
    nonnegative = graph.nonnegative()
    sums: set[int] = set()
    for node in graph.nodes:
        step = node.step
        summed = not sums.isdisjoint(node.inputs)
        if isinstance(step, Normalisation) or (isinstance(step, Affine) and summed):
            return True
        if isinstance(step, Linear):
            continue
        if summed or (step.shares and not nonnegative.issuperset(node.inputs)):
            sums.add(node.output)
    return False


def layers_behind_convolutions(graph: Graph, with_last: bool = False) -> set[int]:
    """Layers with weights behind all convolutions, by output number; `with_last`: the last too."""
    convolutions = {node.output for node in graph.nodes if node.step.convolves}
    between = graph.depending_on(convolutions) - graph.leading_to(convolutions)
    return {
        node.output
        for node in graph.with_weights
        if node.output in between and (with_last or not node.step.convolves)
    }
