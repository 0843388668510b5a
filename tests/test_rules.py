"""Every rule on every kind of layer against its naive re-derivation, and cases by hand."""

import keras
import naive
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.reading.layers import steps_of
from realtime_lrp.relevance.rules.rules import (
    RULES,
    AlphaBeta,
    Epsilon,
    Gamma,
    LayerContext,
    ZBox,
    rule_named,
)
from realtime_lrp.relevance.rules.sharing import Shares, weighted

SHAPE = (6, 5, 3)


@pytest.fixture(autouse=True)
def _same_weights_in_every_run():
    keras.utils.set_random_seed(5)


def largest_difference(a, b) -> float:
    """The largest difference as a share of the largest entry."""
    return float(np.abs(np.asarray(a) - b).max() / np.abs(b).max())


LAYERS = {
    "Conv2D": layers.Conv2D(6, 3),
    "Conv2D, stride 2, same": layers.Conv2D(6, 3, strides=2, padding="same"),
    "Conv2D, stride (1, 2)": layers.Conv2D(4, (2, 3), strides=(1, 2)),
    "Conv2D, dilation 2, same": layers.Conv2D(4, 3, dilation_rate=2, padding="same"),
    "Conv2D, groups": layers.Conv2D(6, 3, groups=3),
    "DepthwiseConv2D": layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
    "DepthwiseConv2D, stride 2": layers.DepthwiseConv2D(3, strides=2, padding="same"),
    "Conv2DTranspose": layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
    "Conv2DTranspose, valid": layers.Conv2DTranspose(2, 3, strides=2),
    "Dense on places": layers.Dense(4),
}


def quarters(rng, shape):
    """Random numbers from -2 to 2."""
    return rng.integers(-8, 9, shape).astype("float32") / 4


def built(layer):
    """A layer with weights and biases of both signs, and its step.

    They are quarters, as the inputs are: sums of such products are exact on every processor.
    """
    if not layer.built:
        layer.build((None, *SHAPE))
    rng = np.random.default_rng(7)
    layer.set_weights([quarters(rng, w.shape) for w in layer.get_weights()])
    return steps_of(layer)[0]


def naive_layer(layer) -> naive.Layer:
    """The same layer as a matrix, filled from the definition of its type."""
    kernel, bias = (np.asarray(w, "float64") for w in layer.get_weights())
    shapes = []

    def matrix(kernel):
        if isinstance(layer, layers.Dense):
            kernel = kernel[None, None]
        options = {}
        if isinstance(layer, layers.DepthwiseConv2D):
            rows, columns, depth, multiplier = kernel.shape
            kernel = kernel.reshape(rows, columns, 1, depth * multiplier)
            options["groups"] = depth
        elif isinstance(layer, layers.Conv2D):
            options["groups"] = layer.groups
        if not isinstance(layer, layers.Dense):
            options |= {"strides": layer.strides, "padding": layer.padding}
            options["dilation"] = layer.dilation_rate
        if isinstance(layer, layers.Conv2DTranspose):
            out = layer.compute_output_shape((1, *SHAPE))[1:]
            del options["dilation"]
            found, _ = naive.convolution_matrix(kernel, out, **options)
            shapes.append(out)
            return found.T
        found, out = naive.convolution_matrix(kernel, SHAPE, **options)
        shapes.append(out)
        return found

    weights, connected = matrix(kernel), matrix(np.ones_like(kernel))
    places = shapes[0][0] * shapes[0][1]
    return naive.Layer(weights, connected, np.tile(bias, places))


@pytest.mark.parametrize("absorb_bias", [False, True], ids=["bias out", "bias absorbs"])
@pytest.mark.parametrize("nonnegative", [True, False], ids=["input >= 0", "signed input"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_every_rule_equals_its_naive_derivation(layer, nonnegative, absorb_bias, rng):
    """Within 1e-5 of the largest entry, in each combination."""
    step, plain = built(layer), naive_layer(layer)
    a = quarters(rng, (2, *SHAPE))
    a = np.maximum(a, 0) if nonnegative else a
    support = (rng.uniform(size=SHAPE) < 0.8).astype("float32")
    low, high = quarters(rng, SHAPE) - 5, quarters(rng, SHAPE) + 5
    context = LayerContext(
        nonnegative=nonnegative, support=tf.constant(support[None]), is_input=True,
        box=tuple(tf.constant(end[None], tf.float32) for end in (low, high)),
        absorb_bias=absorb_bias,
    )  # fmt: skip
    plain.support, plain.low, plain.high = support.ravel(), low.ravel(), high.ravel()
    plain.absorbed = plain.bias if absorb_bias else 0.0
    z = step.transform(a, step.ready(step.kernel))
    # outputs near 0 would magnify the rounding of z, with and without bias
    clear = np.minimum(np.abs(z), np.abs(z + step.bias)) > 0.5
    relevance = rng.normal(size=z.shape).astype("float32") * clear
    differences = {}
    for name, rule in RULES.items():
        got = rule().bind(step, context)(tf.constant(a), tf.constant(relevance))
        if isinstance(got, Shares):
            got, taken = got.inputs, got.biases
            missing = relevance.sum((1, 2, 3)) - np.sum(got, (1, 2, 3))
            if name not in ("zplus", "alpha_beta", "zplus_input"):  # they lose a part
                differences[f"{name}, biases"] = largest_difference(taken, missing) / 100
        expected = [
            getattr(naive, name)(plain, one.ravel(), r.ravel()).reshape(SHAPE)
            for one, r in zip(a.astype("float64"), relevance.astype("float64"), strict=True)
        ]
        differences[name] = largest_difference(got, np.stack(expected))
    assert {name: d for name, d in differences.items() if d > 1e-5} == {}


def dense(kernel, bias):
    """The step of a Dense layer with these weights."""
    layer = layers.Dense(len(bias))
    layer.build((None, len(kernel)))
    layer.set_weights([np.array(kernel, "float32"), np.array(bias, "float32")])
    return steps_of(layer)[0]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_by_hand(name):
    """Fractions worked out on paper for one dense layer; R = (1, 2)."""
    context = LayerContext(
        nonnegative=True, support=tf.ones([1, 3]), is_input=True,
        box=(tf.zeros([1, 3]), tf.fill([1, 3], 4.0)),
    )  # fmt: skip
    rule = rule_named(name).bind(dense(naive.KERNEL, naive.BIAS), context)
    got = rule(tf.constant([naive.A]), tf.constant([[1.0, 2.0]]))
    np.testing.assert_allclose(got[0], naive.BY_HAND[name], rtol=5e-6)  # the stabiliser, 1e-6 of z


def test_a_bias_that_absorbs_takes_its_share():
    """z+ by hand: the first output's bias 5 holds 5/12 of its relevance, which no input gets."""
    rule = rule_named("zplus").bind(
        dense(naive.KERNEL, naive.BIAS), LayerContext(nonnegative=True, absorb_bias=True)
    )
    got = rule(tf.constant([naive.A]), tf.constant([[1.0, 2.0]]))
    np.testing.assert_allclose(got.inputs[0], [1 / 12 + 4 / 8, 6 / 12, 12 / 8], rtol=2e-6)
    np.testing.assert_allclose(got.biases, [5 / 12], rtol=2e-6)


def test_an_output_of_zero_hands_nothing_down_under_gamma():
    """Neither branch applies."""
    rule = Gamma().bind(dense([[1.0], [-1.0]], [0.0]), LayerContext())
    np.testing.assert_array_equal(rule(tf.constant([[2.0, 2.0]]), tf.constant([[3.0]])), [[0, 0]])


def test_zero_counts_as_positive_for_the_stabiliser():
    """Where z = 0: the contributions 2 and -2 over +0.5."""
    rule = Epsilon(0.5).bind(dense([[1.0], [-1.0]], [0.0]), LayerContext())
    np.testing.assert_allclose(rule(tf.constant([[2.0, 2.0]]), tf.constant([[3.0]])), [[12, -12]])


def test_flat_ignores_the_pixels_and_the_padding(rng):
    """The same map for any picture; nothing outside the support."""
    step = built(layers.Conv2D(4, 3, padding="same"))
    support = np.zeros((1, *SHAPE), "float32")
    support[:, 1:5, 1:4] = 1
    propagate = rule_named("flat").bind(step, LayerContext(support=tf.constant(support)))
    relevance = tf.constant(rng.uniform(size=(1, 6, 5, 4)).astype("float32"))
    bright = propagate(tf.fill([1, *SHAPE], 200.0), relevance)
    np.testing.assert_array_equal(bright, propagate(tf.fill([1, *SHAPE], -3.0), relevance))
    assert np.all(bright.numpy()[support == 0] == 0)
    np.testing.assert_allclose(np.sum(bright), np.sum(relevance), rtol=1e-4)


def test_a_rule_is_written_as_it_prints():
    """`rule_named` reads what `str` gives."""
    for rule in (Epsilon(0.25), AlphaBeta(1, 0), Gamma(), rule_named("flat"), ZBox()):
        assert rule_named(str(rule)) == rule
    assert str(AlphaBeta()) == "alpha_beta(2, 1)"
    assert rule_named(" gamma( 0.5 ) ") == Gamma(0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilonn", "'epsilon'"),
        ("w_square", "'wsquare'"),
        ("flat(3)", "flat without brackets"),
        ("gamma(x)", "gamma(gamma)"),
        ("epsilon(inf)", "from 0 upwards"),
        ("alpha_beta(2, 2)", "alpha - beta = 1"),
        ("eps(", "rule"),
    ],
)
def test_a_wrong_rule_is_answered_with_the_right_form(text, words):
    """Names, numbers and their count."""
    with pytest.raises(UsageError) as refusal:
        rule_named(text)
    assert words in str(refusal.value)


def test_zbox_needs_an_input_layer_and_a_box():
    """Each refusal says what is missing."""
    step = dense(naive.KERNEL, naive.BIAS)
    with pytest.raises(UsageError, match="'fc1' lies behind"):
        ZBox().bind(step, LayerContext(name="fc1"))
    with pytest.raises(UsageError, match=r"low=.*high="):
        ZBox().bind(step, LayerContext(is_input=True, support=tf.ones([1, 3])))


def test_what_biases_took_is_weighted_as_what_inputs_got():
    """Alpha-beta's two terms: 2 * 3 - 1 * 4 for inputs, 2 * 5 - 1 * 7 for biases."""
    shares = [Shares(tf.constant([[x]]), tf.constant([b])) for x, b in ((3.0, 5.0), (4.0, 7.0))]
    inputs, biases = weighted([(2.0, shares[0]), (-1.0, shares[1])])
    assert (float(inputs[0, 0]), float(biases[0])) == (2.0, 3.0)
