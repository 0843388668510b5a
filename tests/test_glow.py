"""Networks whose biases take nearly all relevance, as those of trained ones do, glow as others."""

import keras
import numpy as np
import pytest
from keras import layers
from viewer import LOOK

from realtime_lrp import Explainer
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.view.painting import Drawn, Series, lay_over, paint

DEEP = 24  # layers


def deep_network(biases):
    """Random weights, 32 x 32; strong biases are |N(0, 1)| + .3, as batch norms leave them."""
    keras.utils.set_random_seed(2)
    given = keras.Input((32, 32, 3))
    x, small = given, keras.initializers.RandomNormal(0, 0.04)
    for _ in range(DEEP):
        x = layers.Conv2D(
            12,
            3,
            padding="same",
            activation="relu",
            kernel_initializer=small if biases else "he_normal",
        )(x)
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(given, layers.Dense(4, activation="softmax")(x))
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if biases and isinstance(layer, layers.Conv2D):
            layer.bias.assign(np.abs(rng.standard_normal(12)) + 0.3)
    return model


def relevance_of(biases):
    x = np.random.default_rng(1).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    return Explainer(deep_network(biases), composite="epsilon_plus_flat", target="top1")(
        x
    ).relevance


def glow(relevance, series=None):
    """The mean colour of a map on a grey picture, drawn: 0 to 255."""
    drawn, scales = (one.numpy() for one in strength(relevance))
    peak = float(scales[0]) / float(np.abs(relevance).sum(dtype=np.float64))
    grey = np.full((64, 64, 3), 90, np.uint8)
    painted = paint(grey, [Drawn(drawn[0], peak)], LOOK, (0, 0, 64, 64), series=series)
    return np.ptp(lay_over(grey, painted.overlays[0]), axis=-1).mean()


def test_a_map_glows_however_much_biases_take():
    """Of the score less than 1e-4 is left; what is drawn is as bright, within a third."""
    strong, weak = relevance_of(True), relevance_of(False)
    assert 0 < np.abs(strong).sum() < 1e-4
    assert glow(strong) > 2 / 3 * glow(weak) > 0


@pytest.mark.parametrize("factor", [1 / 4, 4, 1e-12])
def test_a_series_whose_sums_change_stays_as_bright(factor):
    """Every map is drawn as before one that has another sum: the same pixels."""
    relevance, series = relevance_of(True), Series()
    first = glow(relevance, series)
    assert glow(factor * relevance, series) == pytest.approx(first, rel=1e-3)
    assert glow(relevance, series) == pytest.approx(first, rel=1e-3)
