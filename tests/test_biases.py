"""Biases in each composite, and the sign with which relevance starts."""

from dataclasses import replace

import keras
import naive
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp import Explainer
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.rules.composites import COMPOSITES, with_layers
from realtime_lrp.relevance.rules.layer_contexts import layer_contexts
from realtime_lrp.relevance.rules.sharing import Shares

A = np.array([1.0, 2.0, 3.0])
KERNEL = np.array([[2.0, -1.0], [-1.0, 0.5], [1.0, -2.0]])
BIAS = np.array([0.5, 1.0])
# logits: 2 - 2 + 3 + 0.5 = 3.5 and -1 + 1 - 6 + 1 = -5


def dense_model(activation="softmax"):
    """Three pixels and two classes."""
    model = keras.Sequential(
        [keras.Input((1, 3, 1)), layers.Flatten(), layers.Dense(2, activation=activation)]
    )
    model.layers[-1].set_weights([KERNEL, BIAS])
    return model


PICTURE = A.reshape(1, 1, 3, 1).astype("float32")
LOGITS = A @ KERNEL + BIAS
P = np.exp(LOGITS) / np.exp(LOGITS).sum()


def relevance_of(model, **options):
    """The map of the three pixels."""
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
    "zplus": ("zplus_input", "zplus", "zplus"),
    "epsilon": ("epsilon", "epsilon", "epsilon"),
    "epsilon_plus": ("zplus", "zplus", "epsilon"),
    "epsilon_plus_flat": ("flat", "zplus", "epsilon"),
    "epsilon_alpha2_beta1": ("alpha_beta", "alpha_beta", "epsilon"),
    "epsilon_alpha2_beta1_flat": ("flat", "alpha_beta", "epsilon"),
    "epsilon_gamma_box": ("zbox", "gamma", "epsilon"),
    "attnlrp": ("epsilon", "epsilon", "epsilon"),
    "attnlrp_gamma": ("gamma", "gamma", "gamma 0.05"),
    "cp_lrp": ("epsilon", "epsilon", "epsilon"),
}
"""The rules of the first convolution, the second one and the dense layer."""


def convolutional_model(rng):
    """Two convolutions and a dense layer, with biases of both signs, and a picture of noise."""
    model = keras.Sequential(
        [
            keras.Input((6, 5, 2)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.Conv2D(5, 2, activation="relu"),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model.set_weights([rng.normal(scale=0.5, size=w.shape) for w in model.get_weights()])
    return model, rng.normal(size=(1, 6, 5, 2)).astype("float32")


def test_every_composite_equals_its_naive_derivation_with_biases(rng):
    """Layer by layer as matrices; z+ alone leaves the biases out."""
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
    graph = build_graph(dense_model(), "max")
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
        got = got.inputs if isinstance(got, Shares) else got
        np.testing.assert_allclose(got[0], expected, rtol=1e-4, atol=1e-7)


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
