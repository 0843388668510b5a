"""Every rule on every kind of layer against its naive re-derivation, by hand, and with biases."""

import re
from dataclasses import replace

import keras
import naive
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from test_relevance import largest_difference

from realtime_lrp import Explainer
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.layers import steps_of
from realtime_lrp.relevance.rules.composites import COMPOSITES, with_layers
from realtime_lrp.relevance.rules.layer_contexts import layer_contexts
from realtime_lrp.relevance.rules.rules import (
    RULES,
    AlphaBeta,
    Epsilon,
    Gamma,
    LayerContext,
    ZBox,
    rule_named,
)
from realtime_lrp.relevance.rules.sharing import weighted

SHAPE = (6, 5, 3)


@pytest.fixture(autouse=True)
def _same_weights_in_every_run():
    keras.utils.set_random_seed(5)


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
        got, *biases = rule().bind(step, context)(tf.constant(a), tf.constant(relevance))
        for taken in biases:
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
    expected = naive.BY_HAND[name]
    np.testing.assert_allclose(got[0][0], expected, rtol=5e-6)  # the stabiliser, 1e-6 of z


def test_a_bias_that_absorbs_takes_its_share():
    """z+ by hand: the first output's bias 5 holds 5/12 of its relevance, which no input gets."""
    rule = rule_named("zplus").bind(
        dense(naive.KERNEL, naive.BIAS), LayerContext(nonnegative=True, absorb_bias=True)
    )
    inputs, biases = rule(tf.constant([naive.A]), tf.constant([[1.0, 2.0]]))
    np.testing.assert_allclose(inputs[0], [1 / 12 + 4 / 8, 6 / 12, 12 / 8], rtol=2e-6)
    np.testing.assert_allclose(biases, [5 / 12], rtol=2e-6)


def test_outputs_of_zero():
    """Under gamma neither branch applies; the stabiliser is positive: 2 and -2 over +0.5."""
    step, a, relevance = dense([[1.0], [-1.0]], [0.0]), tf.fill([1, 2], 2.0), tf.fill([1, 1], 3.0)
    np.testing.assert_array_equal(Gamma().bind(step, LayerContext())(a, relevance)[0], [[0, 0]])
    (found,) = Epsilon(0.5).bind(step, LayerContext())(a, relevance)
    np.testing.assert_allclose(found, [[12, -12]])


def test_flat_ignores_the_pixels_and_the_padding(rng):
    step = built(layers.Conv2D(4, 3, padding="same"))
    support = np.zeros((1, *SHAPE), "float32")
    support[:, 1:5, 1:4] = 1
    propagate = rule_named("flat").bind(step, LayerContext(support=tf.constant(support)))
    relevance = tf.constant(rng.uniform(size=(1, 6, 5, 4)).astype("float32"))
    (bright,) = propagate(tf.fill([1, *SHAPE], 200.0), relevance)
    np.testing.assert_array_equal(bright, propagate(tf.fill([1, *SHAPE], -3.0), relevance)[0])
    assert np.all(bright.numpy()[support == 0] == 0)
    np.testing.assert_allclose(np.sum(bright), np.sum(relevance), rtol=1e-4)


def test_a_rule_is_written_as_it_prints_and_a_wrong_one_is_answered_with_the_right_form():
    """`rule_named` reads what `str` gives; names, numbers and their count."""
    for rule in (Epsilon(0.25), AlphaBeta(1, 0), Gamma(), rule_named("flat"), ZBox()):
        assert rule_named(str(rule)) == rule
    assert str(AlphaBeta()) == "alpha_beta(2, 1)"
    assert rule_named(" gamma( 0.5 ) ") == Gamma(0.5)
    for text, words in {
        "epsilonn": "'epsilon'", "w_square": "'wsquare'", "flat(3)": "flat without brackets",
        "gamma(x)": "gamma(gamma)", "epsilon(inf)": "from 0 upwards",
        "alpha_beta(2, 2)": "alpha - beta = 1", "eps(": "rule",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=re.escape(words)):
            rule_named(text)


def test_zbox_needs_an_input_layer_and_a_box():
    step = dense(naive.KERNEL, naive.BIAS)
    with pytest.raises(UsageError, match="'fc1' lies behind"):
        ZBox().bind(step, LayerContext(name="fc1"))
    with pytest.raises(UsageError, match=r"low=.*high="):
        ZBox().bind(step, LayerContext(is_input=True, support=tf.ones([1, 3])))


def test_what_biases_took_is_weighted_as_what_inputs_got():
    """Alpha-beta's two terms: 2 * 3 - 1 * 4 for inputs, 2 * 5 - 1 * 7 for biases."""
    shares = [[tf.constant([[x]]), tf.constant([b])] for x, b in ((3.0, 5.0), (4.0, 7.0))]
    inputs, biases = weighted([(2.0, shares[0]), (-1.0, shares[1])])
    assert (float(inputs[0, 0]), float(biases[0])) == (2.0, 3.0)


A = np.array([1.0, 2.0, 3.0])
KERNEL = np.array([[2.0, -1.0], [-1.0, 0.5], [1.0, -2.0]])
BIAS = np.array([0.5, 1.0])
# logits: 2 - 2 + 3 + 0.5 = 3.5 and -1 + 1 - 6 + 1 = -5


def dense_model(activation="softmax"):
    model = keras.Sequential(
        [keras.Input((1, 3, 1)), layers.Flatten(), layers.Dense(2, activation=activation)]
    )
    model.layers[-1].set_weights([KERNEL, BIAS])
    return model


PICTURE = A.reshape(1, 1, 3, 1).astype("float32")
LOGITS = A @ KERNEL + BIAS
P = np.exp(LOGITS) / np.exp(LOGITS).sum()


def relevance_of(model, **options):
    return Explainer(model, **options)(PICTURE).relevance.ravel()


def test_evidence_for_a_class_with_a_negative_logit_is_positive():
    """Where scores are sigmoids too: only the second pixel raises the logit of class 1."""
    got = relevance_of(dense_model("sigmoid"), composite="epsilon", target=1)
    assert (np.sign(got) == [-1, 1, -1]).all()


def test_z_plus_and_a_single_linear_output_start_as_they_are():
    """z+ hands down the probability whatever the sign; one value starts from itself."""
    assert relevance_of(dense_model(), target=1) == pytest.approx([0, P[1], 0], abs=1e-6)
    model = keras.Sequential([keras.Input((1, 3, 1)), layers.Flatten(), layers.Dense(1)])
    model.layers[-1].set_weights([KERNEL[:, 1:], BIAS[1:]])
    np.testing.assert_allclose(
        relevance_of(model, composite="epsilon"), A * KERNEL[:, 1], rtol=1e-5
    )


ZPLUS = ("zplus", "excitation_backprop")


@pytest.mark.parametrize("absorb_bias", [None, False, True])
def test_biases_take_their_share_except_under_z_plus(absorb_bias):
    """Unless the user decides for all."""
    names = (*ZPLUS, "epsilon", "epsilon_plus")
    options = {"also": names, "target": 0, "absorb_bias": absorb_bias}
    for name, map_ in Explainer(dense_model(), **options)(PICTURE).maps.items():
        started = 1.0 if name == "excitation_backprop" else P[0]
        if absorb_bias:
            assert map_.sum() < 0.95 * started, name
        else:
            share = 0 if name in ZPLUS or absorb_bias is False else BIAS[0] / LOGITS[0]
            assert map_.sum() == pytest.approx(started * (1 - share), rel=1e-5), name


NAIVE_RULES = {
    "zplus": ("zplus_input", "zplus", "zplus"), "epsilon": ("epsilon", "epsilon", "epsilon"),
    "epsilon_plus": ("zplus", "zplus", "epsilon"),
    "epsilon_plus_flat": ("flat", "zplus", "epsilon"),
    "epsilon_alpha2_beta1": ("alpha_beta", "alpha_beta", "epsilon"),
    "epsilon_alpha2_beta1_flat": ("flat", "alpha_beta", "epsilon"),
    "epsilon_gamma_box": ("zbox", "gamma", "epsilon"), "attnlrp": ("epsilon", "epsilon", "epsilon"),
    "attnlrp_gamma": ("gamma", "gamma", "gamma 0.05"), "cp_lrp": ("epsilon", "epsilon", "epsilon"),
}  # fmt: skip
"""The rules of the first convolution, the second one and the dense layer."""


def convolutional_model(rng):
    """Two convolutions and a dense layer, with biases of both signs, and a picture of noise."""
    model = keras.Sequential(
        [
            keras.Input((6, 5, 2)), layers.Conv2D(4, 3, activation="relu"),
            layers.Conv2D(5, 2, activation="relu"), layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )  # fmt: skip
    model.set_weights([rng.normal(scale=0.5, size=w.shape) for w in model.get_weights()])
    return model, rng.normal(size=(1, 6, 5, 2)).astype("float32")


def test_every_composite_equals_its_naive_derivation_with_biases(rng):
    model, x = convolutional_model(rng)
    explanation = Explainer(model, also=list(COMPOSITES), low=-6, high=6)(x)
    assert explanation.maps.keys() == NAIVE_RULES.keys()
    for name, rules in NAIVE_RULES.items():
        start, absorb = explanation.scores[0], name != "zplus"
        expected = naive.handed_to_pixels(model, x[0], start, rules, absorb)
        atol = 1e-4 * np.abs(expected).max()
        np.testing.assert_allclose(explanation.maps[name][0], expected, atol=atol, err_msg=name)


@pytest.mark.parametrize("rule", ["epsilon", "gamma", "alpha_beta", "zplus", "wsquare", "flat"])
@pytest.mark.parametrize("composite", ["zplus", "epsilon"])
def test_a_rule_for_a_layer_treats_biases_as_its_source_does(composite, rule):
    """Whatever the composite is; absorb_bias decides for all."""
    graph = build_graph(dense_model())
    contexts = layer_contexts(graph, (1, 3, 1), None)
    plain = naive.Layer(KERNEL, np.ones_like(KERNEL), BIAS, support=np.ones(3))
    table = with_layers(COMPOSITES[composite], {"Dense": rule}, graph)
    ((number, own),) = table.rules(graph, contexts).items()
    for absorb_bias in (None, False, True):
        share = rule in ("epsilon", "gamma", "alpha_beta") if absorb_bias is None else absorb_bias
        plain.absorbed = BIAS if share else 0.0
        expected = getattr(naive, rule)(plain, A, P)
        absorbs = number in table.absorbing(graph, contexts, absorb_bias)
        context = replace(contexts[number], absorb_bias=absorbs)
        propagate = own.bind(graph.nodes[number - 1].step, context)
        got = propagate(tf.constant(A[None], tf.float32), tf.constant(P[None], tf.float32))
        np.testing.assert_allclose(got[0][0], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("precision", "names"),
    [
        ("float32", ["zplus", "epsilon_alpha2_beta1_flat", "attnlrp_gamma"]),
        ("bfloat16", ["epsilon_gamma_box"]),
        pytest.param("float32", COMPOSITES, marks=pytest.mark.release),
        pytest.param("bfloat16", COMPOSITES, marks=pytest.mark.release),
    ],
)
def test_the_account_of_every_composite_closes(precision, names, rng):
    """Pixels, biases and what each layer loses make what started, for a contrast of two classes."""
    model, x = convolutional_model(rng)
    tolerance = 1e-4 if precision == "float32" else 0.05
    for name in names:
        explainer = Explainer(
            model, composite=name, target="0 - 2", low=-6, high=6, precision=precision
        )
        made = explainer._run(x, explainer._default)
        (relevance,), (account,) = made.maps, made.accounts
        ((started, magnitude, taken),) = account.numpy()
        records = explainer.layers(x)
        lost = sum(record.lost[0] for record in records)
        rest = started - np.sum(relevance) - taken - lost
        assert abs(rest) < tolerance * magnitude, name
        rounding = 1e-6 if precision == "float32" else tolerance * float(magnitude)
        by_layer = sum(record.taken_by_biases[0] for record in records)
        assert by_layer == pytest.approx(taken, abs=rounding)
        assert bool(taken) is (name != "zplus")
