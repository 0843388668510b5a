"""bfloat16 against float32: the same maps within its eight bits, the ends in float32."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from test_relevance import branched, largest_difference, vgg_like

from realtime_lrp import Explainer
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.layers import steps_of
from realtime_lrp.relevance.methods import METHODS

STEADY = {
    "zplus": 0.995, "epsilon_plus_flat": 0.995, "excitation_backprop": 0.99, "grad_cam": 0.99,
}  # fmt: skip
"""Maps without sums of both signs -> the least correlation with float32."""


@pytest.fixture(autouse=True)
def _same_weights_in_every_run():
    keras.utils.set_random_seed(5)


@pytest.mark.parametrize("build", [vgg_like, branched], ids=["vgg", "branched"])
def test_bfloat16_gives_the_maps_of_float32(build, rng):
    """Every composite and method runs in one trace; those without cancelling sums agree."""
    model, names = build(), [*COMPOSITES, *METHODS]
    x = rng.uniform(0, 255, size=(4, *model.input_shape[1:])).astype("float32")
    options = {"also": names, "target": "top1", "low": 0, "high": 255, "samples": 3}
    exact, fast = (Explainer(model, precision=p, **options) for p in ("float32", "bfloat16"))
    expected, got = exact(x), fast(x)
    assert fast.traces == 1
    np.testing.assert_allclose(got.scores, expected.scores, atol=0.02)
    np.testing.assert_allclose(got.scores.sum(1), 1, atol=1e-5)
    sums = got.relevance.sum((1, 2, 3), dtype="float64")
    np.testing.assert_allclose(sums, got.scores.max(1), rtol=0.01)
    for name in names:
        assert got.maps[name].dtype == np.float32
        assert np.isfinite(got.maps[name]).all(), name
    for name, least in STEADY.items():
        pairs = zip(got.maps[name].sum(3), expected.maps[name].sum(3), strict=True)
        correlations = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs]
        assert min(correlations) > least, name


def test_only_what_lies_between_weights_computes_in_bfloat16(rng):
    """A brightness that bfloat16 cannot hold is seen by the rescaling before the first layer."""
    x = keras.Input((2, 2, 1))
    h = layers.Flatten()(layers.Rescaling(1.0, offset=-1000.0)(x))
    model = keras.Model(x, layers.Dense(2, activation="softmax")(h))
    model.layers[-1].set_weights([np.ones((4, 2)) * [1, -1], np.zeros(2)])
    explainer = Explainer(model, precision="bfloat16")
    scores = explainer(np.full((1, 2, 2, 1), 1000.25, "float32")).scores
    np.testing.assert_allclose(scores, tf.nn.softmax([[1.0, -1.0]]), rtol=1e-5)
    records = explainer.layers(np.full((1, 2, 2, 1), 1000.25, "float32"))
    assert {record.arrived.dtype for record in records} == {np.dtype("float32")}


def test_both_forms_of_a_dense_kernel_give_the_same(rng):
    """The transposed copy that bfloat16 reads forwards, and the plain one backwards."""
    layer = layers.Dense(5)
    layer.build((None, 7))
    step = steps_of(layer, "max")[0]
    fast = step.cast(tf.bfloat16)
    a, s = rng.normal(size=(2, 7)), rng.normal(size=(2, 5))
    weights = tf.transpose(tf.cast(fast.kernel, tf.float32))
    a, s = (tf.cast(tf.constant(v), tf.bfloat16) for v in (a, s))
    forward = tf.cast(a, tf.float32) @ weights
    back = tf.cast(s, tf.float32) @ tf.transpose(weights)
    got = tf.cast(fast.transform(a, fast.weights), tf.float32)
    assert largest_difference(got, forward) < 0.01
    got = tf.cast(fast.transpose(s, fast.weights, tf.shape(a)), tf.float32)
    assert largest_difference(got, back) < 0.01
