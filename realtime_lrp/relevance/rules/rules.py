"""LRP rules: how a layer with weights distributes relevance among its inputs.

Every rule is the generic step of Montavon et al. 2019 ("Layer-Wise Relevance Propagation: An
Overview", eq. 10) over one or more terms of modified inputs a', weights w' and biases b':

    z = sum over terms of transform(a', w') + b', plus stabiliser
    s = R / z
    R_in = sum over terms of a' * transpose(s, w')
    what biases take = sum over terms and outputs of b' * s

`Rule.bind` computes the modified weights of one layer, once, and returns the function that runs
for every picture; `sharing.py` has the step itself. b' is left out where biases absorb no relevance
(`LayerContext.absorb_bias`). To add a rule, write a class with `bind` and add a row to `RULES`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf

from realtime_lrp.config.names import check_rule_numbers, parse_rule
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.network.linear import Linear, Modify
from realtime_lrp.relevance.network.steps import STABILISER, stabilise
from realtime_lrp.relevance.rules import sharing
from realtime_lrp.relevance.rules.sharing import Shares, negative, positive

Propagate = Callable[[tf.Tensor, tf.Tensor], tf.Tensor | Shares]
"""(a, R) -> R_in, shaped like a, alone or in a list with what biases took, if they take a share."""


@dataclass(frozen=True)
class LayerContext:
    """Facts for a rule about a layer, beyond its weights."""

    name: str = ""
    nonnegative: bool = False  # whether the layer's input can never hold a negative entry
    # [1, ...], shaped like the layer's input: 1 for content, 0 on explicit padding
    support: tf.Tensor | None = None
    is_input: bool = False  # whether no other layer with weights precedes it
    # for an input layer the lowest and highest values of its input, [1, ...] each
    box: tuple[tf.Tensor, tf.Tensor] | None = None
    absorb_bias: bool = False  # whether biases take relevance, which does not reach the inputs

    def bias(self, layer: Linear, modify: Modify) -> tf.Tensor | None:
        """The modified bias, or None where biases take no share."""
        return modify(layer.bias) if self.absorb_bias and layer.bias is not None else None


class Rule:
    """A way to distribute relevance; subclasses say how a, w and b are modified.

    A subclass is a frozen dataclass whose fields are numbers, 0 or larger.

    Attributes:
      keeps_sign: whether positive relevance at the output always becomes positive relevance at the
        input.
      signed_sum: whether the rule divides by a sum that has the sign of the output. If the last
        layer follows such a rule, relevance starts with the sign of the logit.
      absorbs_bias: whether biases take a share where the rule is given to a layer by itself, as in
        the paper that proposed it. Within a composite, `Composite.absorb_bias` decides.

    Raises:
      UsageError: a number is negative, infinite or NaN.
    """

    keeps_sign = False
    signed_sum = False
    absorbs_bias = True

    def __post_init__(self) -> None:
        check_rule_numbers(type(self).__name__, vars(self))

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        """Computes the modified weights of a `layer` in its `context`; called once for each.

        Returns the function that runs for every picture, see `Propagate`: a is the layer's input
        [B, ...], R the relevance of its output, R_in the relevance of its input.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """The text that `rule_named` reads: "flat", "alpha_beta(2, 1)"."""
        kind = type(self)
        name = next((name for name, row in RULES.items() if row is kind), kind.__name__)
        numbers = ", ".join(f"{number:g}" for number in vars(self).values())
        return f"{name}({numbers})" if numbers else name


@dataclass(frozen=True)
class Epsilon(Rule):
    """Epsilon: w' = w, stabiliser epsilon (Bach et al. 2015, eq. 58).

    Commonly used on dense layers.

    Args:
      epsilon: 0 or larger, added to z in the direction of its sign (0 counts as positive). 0 is
        LRP-0 (Montavon et al. 2019); an output of exactly 0 then passes nothing on.
    """

    signed_sum = True
    epsilon: float = STABILISER

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        bias = context.bias(layer, tf.identity)
        return lambda a, relevance: sharing.share(
            layer, [(a, layer.weights, bias)], relevance, self.epsilon
        )


@dataclass(frozen=True)
class ZPlus(Rule):
    """z+: w' = max(w, 0) (Montavon et al. 2017, "Deep Taylor decomposition", eq. 15).

    Only contributions that raise the output count: the negative part of an input is multiplied by
    min(w, 0).
    """

    keeps_sign = True
    absorbs_bias = False

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        return _one_sign(layer, context, positive, negative, 1)


@dataclass(frozen=True)
class AlphaBeta(Rule):
    """Alpha-beta (Bach et al. 2015): alpha times z+, minus beta times the negative counterpart.

    b' = max(b, 0) in the first, min(b, 0) in the second.

    Args:
      alpha: the weight of contributions that raise the output, 1 or larger.
      beta: the weight of those that lower it, alpha - 1.

    Raises:
      UsageError: alpha - beta is not 1, or one of them is negative.
    """

    alpha: float = 2.0
    beta: float = 1.0

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        raising = _one_sign(layer, context, positive, negative, 1)
        lowering = _one_sign(layer, context, negative, positive, -1)
        if not self.beta:
            return raising
        return lambda a, relevance: sharing.weighted(
            [(self.alpha, raising(a, relevance)), (-self.beta, lowering(a, relevance))]
        )


def _one_sign(
    layer: Linear, context: LayerContext, mine: Modify, other: Modify, sign: int
) -> Callable[[tf.Tensor, tf.Tensor], Shares]:
    """Relevance by the contributions of one sign: a+ times `mine`(w), a- times `other`(w)."""
    bias = context.bias(layer, mine)
    share = functools.partial(sharing.share_of_one_sign, layer, sign=sign)
    if context.nonnegative:
        weights = layer.modified(mine)
        return lambda a, relevance: share([(a, weights, bias)], relevance)
    if (both := layer.stacked(mine, other)) is not None:
        return lambda a, relevance: share(
            [(tf.concat([positive(a), negative(a)], -1), both, bias)], relevance
        )
    by_mine = layer.modified(mine)
    by_other = layer.modified(other)
    return lambda a, relevance: share(
        [(positive(a), by_mine, bias), (negative(a), by_other, None)], relevance
    )


@dataclass(frozen=True)
class Gamma(Rule):
    """Gamma: w' = w + gamma * max(w, 0) where the output is positive (Montavon et al. 2019).

    Where the output is negative, w' = w + gamma * min(w, 0). Negative inputs use the other one of
    the two (Andéol et al. 2021). The bias goes with positive inputs: b' = b + gamma * max(b, 0) or
    b + gamma * min(b, 0). Outputs of exactly 0 pass nothing on. The output is the layer's real one,
    with bias.

    Args:
      gamma: 0 (as epsilon) or larger (closer to z+).
    """

    signed_sum = True
    gamma: float = 0.25

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        # Contributions that agree with z are (a w + sign(z) |a| |w|) / 2: for inputs of both signs
        # two products instead of four, for both branches at once.
        half = self.gamma / 2
        size = layer.modified(tf.abs)
        bias = context.bias(layer, tf.identity)
        size_of_bias = context.bias(layer, tf.abs)

        def propagate(a: tf.Tensor, relevance: tf.Tensor) -> Shares:
            sign = tf.sign(layer.forward(a))
            own = (a, layer.weights, bias)
            both = (tf.abs(a), size, size_of_bias)
            z = (1 + half) * layer.transform(*own) + half * sign * layer.transform(*both)
            s = tf.where(sign != 0, relevance / stabilise(z), 0.0)
            by_own = sharing.divided(layer, [own], s)
            by_both = sharing.divided(layer, [both], sign * s)
            return sharing.weighted([(1 + half, by_own), (half, by_both)])

        return propagate


@dataclass(frozen=True)
class ZBox(Rule):
    """zB: for an input layer whose values lie in [low, high] (Montavon et al. 2017, eq. 16).

    z = transform(a, w) - transform(low, max(w, 0)) - transform(high, min(w, 0)).

    Raises:
      UsageError: `bind` is called for a layer behind another one, or without a box.
    """

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        if not context.is_input:
            raise UsageError(
                f"The rule zbox is for input layers only; {context.name!r} lies behind others.",
                "rule",
            )
        if context.box is None:
            raise UsageError(
                "The rule zbox needs the lowest and highest input: Explainer(low=..., high=...), "
                "in the units of the preprocessed input.",
                "rule",
            )
        low, high = (tf.cast(end, layer.kernel.dtype) for end in context.box)
        bounds = [(low, layer.modified(positive), None), (high, layer.modified(negative), None)]
        z_of_bounds = sharing.transformed(layer, bounds)

        def propagate(a: tf.Tensor, relevance: tf.Tensor) -> Shares:
            s = relevance / stabilise(layer.transform(a, layer.weights) - z_of_bounds)
            shape = tf.shape(a)
            ends = [x * sharing.adjoint(layer, s, w, shape) for x, w, _ in bounds]
            return [sharing.handed_back(layer, [(a, layer.weights, None)], s) - tf.add_n(ends)]

        return propagate


@dataclass(frozen=True)
class ZPlusInput(Rule):
    """z+ at the input layer: a' = 1, w' = max(w, 0), so that pixel values do not bias the map."""

    keeps_sign = True
    absorbs_bias = False

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        return _without_inputs(layer, context, positive)


@dataclass(frozen=True)
class WSquare(Rule):
    """w-square: a' = 1, w' = w^2 (Montavon et al. 2017, eq. 14)."""

    keeps_sign = True
    absorbs_bias = False

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        return _without_inputs(layer, context, tf.square)


@dataclass(frozen=True)
class Flat(Rule):
    """Flat: a' = 1, w' = 1, relevance is spread evenly (Bach et al. 2016).

    Commonly used on the input layer, where finer detail would be noise.
    """

    keeps_sign = True

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        single = layer.single_channel()
        if single is None:
            return _without_inputs(layer, replace(context, absorb_bias=False), tf.ones_like)
        z = _z_without_inputs(layer, context, tf.ones_like(layer.kernel), None)
        support = tf.cast(context.support, z.dtype)

        def propagate(a: tf.Tensor, relevance: tf.Tensor) -> Shares:
            s = tf.reduce_sum(tf.cast(relevance / z, tf.float32), -1, keepdims=True)
            shape = tf.concat([tf.shape(a)[:-1], [1]], 0)  # all channels get the same
            return [support * tf.cast(sharing.adjoint(single, s, single.weights, shape), a.dtype)]

        return propagate


def _z_without_inputs(
    layer: Linear, context: LayerContext, weights: tf.Tensor, bias: tf.Tensor | None
) -> tf.Tensor:
    """Z for a' = 1, with stabiliser: a constant, computed in float32."""
    exact = layer.ready(tf.cast(weights, tf.float32))
    exact_bias = None if bias is None else tf.cast(bias, tf.float32)
    z = stabilise(sharing.transformed(layer, [(context.support, exact, exact_bias)]))
    return tf.cast(z, weights.dtype)


def _without_inputs(layer: Linear, context: LayerContext, modify: Modify) -> Propagate:
    """The generic step for a' = 1: z depends only on the weights and is computed once."""
    weights = layer.modified(modify)
    bias = context.bias(layer, modify)
    z = _z_without_inputs(layer, context, weights.kernel, bias)
    support = tf.cast(context.support, z.dtype)

    def propagate(a: tf.Tensor, relevance: tf.Tensor) -> Shares:
        s = relevance / z
        inputs = support * sharing.adjoint(layer, s, weights, tf.shape(a))
        uncounted = bias is None or s.shape.rank > a.shape.rank
        return [inputs] if uncounted else [inputs, sharing.taken_by(bias, s)]

    return propagate


RULES: dict[str, type[Rule]] = {
    "zplus": ZPlus, "epsilon": Epsilon, "gamma": Gamma, "alpha_beta": AlphaBeta, "zbox": ZBox,
    "wsquare": WSquare, "flat": Flat, "zplus_input": ZPlusInput,
}  # fmt: skip
"""Name in configuration and documentation -> rule."""


def rule_named(text: str) -> Rule:
    """Reads the `text` of a rule: a name in `RULES`, perhaps with numbers, "alpha_beta(1, 0)".

    Raises:
      UsageError: there is no such rule, or it does not take these numbers.
    """
    parameters = {name: list(vars(rule())) for name, rule in RULES.items()}
    name, numbers = parse_rule(text, parameters)
    return RULES[name](*numbers)
