"""Models without weights, models with LoRA, raw pictures, and epsilon 0."""

import keras
import naive
import numpy as np
import tensorflow as tf
from keras import layers
from test_relevance import largest_difference

from realtime_lrp import Epsilon, Explainer, load_network
from realtime_lrp.relevance.network.linear import Dense
from realtime_lrp.relevance.rules.rules import LayerContext


def small(name="small"):
    """A convolution and a dense layer."""
    x = keras.Input((6, 6, 3))
    h = layers.Conv2D(5, 3, activation="relu", name="conv")(x)
    y = layers.Dense(3, activation="softmax", name="dense")(layers.Flatten()(h))
    return keras.Model(x, y, name=name)


def test_lora_counts_as_the_merged_weights(tmp_path, rng):
    """In memory and from a file, in which Keras has merged it."""
    adapted, merged = small("adapted"), small("merged")
    for name in ("conv", "dense"):
        layer = adapted.get_layer(name)
        layer.enable_lora(2)
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) * 0.3)
        merged.get_layer(name).set_weights([np.asarray(layer.kernel), np.asarray(layer.bias)])
    adapted.save(tmp_path / "adapted.keras")
    x = rng.normal(size=(2, 6, 6, 3)).astype("float32")
    expected = Explainer(merged, composite="epsilon", target=1)(x)
    loaded = load_network(str(tmp_path / "adapted.keras"), preprocess="none").model
    for model in (adapted, loaded):
        got = Explainer(model, composite="epsilon", target=1)(x)
        np.testing.assert_allclose(got.scores, expected.scores, atol=1e-6)
        assert largest_difference(got.relevance, expected.relevance) < 1e-5


def test_epsilon_0_is_lrp_0(rng):
    """As the naive rule; an output of exactly 0 passes nothing on, instead of NaN."""
    kernel, bias = rng.normal(size=(4, 3)).astype("float32"), np.float32([0.5, 0, -0.2])
    kernel[:, 1] = 0
    a, relevance = (rng.normal(size=(2, n)).astype("float32") for n in (4, 3))
    propagate = Epsilon(0).bind(
        Dense(tf.constant(kernel), tf.constant(bias)), LayerContext(absorb_bias=True)
    )
    got = propagate(tf.constant(a), tf.constant(relevance))
    z = a @ kernel + bias
    s = np.divide(relevance, z, out=np.zeros_like(z), where=z != 0)
    np.testing.assert_allclose(got.inputs, a * (s @ kernel.T), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got.biases, (s * bias).sum(1), rtol=1e-4, atol=1e-6)
    expected = naive.epsilon(naive.Layer(kernel[:, ::2]), a[0], relevance[0, ::2], 0)
    without = Epsilon(0).bind(Dense(tf.constant(kernel[:, ::2]), None), LayerContext())
    assert largest_difference(without(a[:1], tf.constant(relevance[:1, ::2]))[0], expected) < 1e-4
