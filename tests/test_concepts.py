"""Maps of single channels: by hand, against matrices, and their sums."""

from dataclasses import dataclass

import keras
import naive
import numpy as np
import pytest
from keras import layers
from test_relevance import largest_difference

from realtime_lrp import Composite, Explainer, Rule, load_network
from realtime_lrp.errors import NotFiniteError, UsageError
from realtime_lrp.relevance.rules.composites import any_layer
from realtime_lrp.relevance.rules.sharing import share

COMPOSITES = ["zplus", "epsilon_plus_flat", "epsilon_alpha2_beta1", "epsilon_gamma_box"]


def network(filters=20):
    """Two convolutions, a pool, two dense layers, with biases."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(6, 3, padding="same", activation="relu", name="conv1"),
            layers.MaxPooling2D(name="pool"),
            layers.Conv2D(filters, 3, activation="relu", name="conv2"),
            layers.Flatten(name="flatten"),
            layers.Dense(7, activation="relu", name="fc"),
            layers.Dense(5, activation="softmax", name="predictions"),
        ]
    )
    for one in model.layers:
        if one.weights:
            kernel, bias = one.get_weights()
            one.set_weights([kernel, np.linspace(-0.1, 0.3, len(bias))])
    return model


@pytest.fixture(scope="module")
def explainer():
    return Explainer(network(), composite="epsilon_plus_flat", labels=list("abcde"))


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(7).normal(size=(3, 8, 8, 3)).astype("float32")


LAYERS = {"conv1": 6, "conv2": 20, "fc": 7}
"""Name of a layer of `network` -> its number of channels."""


@pytest.mark.parametrize(
    ("composite", "names"),
    [
        ("epsilon_plus_flat", [*LAYERS]),
        *((name, ["conv2"]) for name in COMPOSITES if name != "epsilon_plus_flat"),
        *(pytest.param(name, [*LAYERS], marks=pytest.mark.release) for name in COMPOSITES),
    ],
)
def test_all_channels_add_up(composite, names, pictures):
    """Shares to the relevance at the layer, maps to the whole map, also in several runs."""
    explainer = Explainer(network(), composite=composite, low=-5, high=5)
    whole = explainer(pictures, target="top1").relevance
    at_layers = {one.name: one.arrived for one in explainer.layers(pictures, "top1")}
    for layer in names:
        count = LAYERS[layer]
        found = explainer.concepts(pictures, layer, count, "top1")
        arrived = at_layers[layer].reshape(3, -1, count).sum(1)
        assert largest_difference(found.by_channel, arrived) < 1e-5
        assert largest_difference(found.shares.sum(1), arrived.sum(1)) < 1e-4
        assert largest_difference(found.maps.sum(1), whole) < 1e-4
        assert (np.sort(found.channels, 1) == np.arange(count)).all()
        assert (np.diff(np.abs(found.shares)) <= 0).all()
        assert (
            largest_difference(found.shares, np.take_along_axis(arrived, found.channels, 1)) < 1e-5
        )


def test_neurons_add_up_to_their_channel(explainer, pictures):
    """The maps of all positions, times the relevance there, are its map; 13 at once."""
    layer, target = "conv2", "top1"
    scores, peaks = explainer.peaks(pictures, [layer, "conv1"], target)
    found = explainer.concepts(pictures, layer, 2, target)
    np.testing.assert_allclose(peaks[layer].shares, found.by_channel, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scores, found.scores)
    records = {one.name: one for one in explainer.layers(pictures, target)}
    for name, count in ((layer, 20), ("conv1", 6)):
        arrived, output = (
            one.reshape(3, -1, count) for one in (records[name].arrived, records[name].output)
        )
        assert (arrived.argmax(1) == peaks[name].positions).all()
        assert (output.argmax(1) == peaks[name].active_positions).all()
        np.testing.assert_allclose(output.max(1), peaks[name].activations, rtol=1e-5)
    arrived = records[layer].arrived.reshape(3, -1, 20)[0]
    channel = int(found.channels[0, 0])
    positions = np.nonzero(arrived[:, channel])[0]
    maps = explainer.position_maps(pictures[:1], layer, [channel] * len(positions), positions)
    whole = np.tensordot(arrived[positions, channel], maps, 1)
    assert largest_difference(whole, found.maps[0, 0]) < 1e-4


def residual(rng):
    """A block with a branch and a skip connection; a gate; logits."""
    x = keras.Input((6, 6, 2))
    h = layers.Conv2D(5, 3, padding="same", activation="relu", name="stem")(x)
    branch = layers.Conv2D(5, 3, padding="same", use_bias=False, name="branch")(h)
    skip = layers.Conv2D(5, 1, name="skip")(h)
    a = layers.ReLU(name="joined")(layers.Add(name="add")([branch, skip]))
    gate = layers.Dense(5, activation="sigmoid", name="gate")(layers.GlobalAveragePooling2D()(a))
    a = layers.Multiply(name="gated")([a, layers.Reshape((1, 1, 5))(gate)])
    layers.Conv2D(3, 1, name="unused")(h)
    model = keras.Model(x, layers.Dense(4, name="logits")(layers.GlobalAveragePooling2D()(a)))
    for weight in model.weights:
        weight.assign(rng.normal(0.1, 0.4, size=weight.shape))
    return model


def test_channels_of_a_residual_network(rng):
    """Relevance of several readers adds up; what goes around a layer is in none of its channels."""
    explainer = Explainer(residual(rng), composite="epsilon")
    x = rng.normal(size=(2, 6, 6, 2)).astype("float32")
    whole = explainer(x, 1).relevance
    names = ("stem", "branch", "skip", "joined")
    parts = {name: explainer.concepts(x, name, 5, 1).maps.sum(1) for name in names}
    assert largest_difference(parts["stem"], whole) < 1e-4
    assert largest_difference(parts["joined"], whole) < 1e-4
    assert largest_difference(parts["branch"] + parts["skip"], whole) < 1e-4
    assert largest_difference(parts["branch"], whole) > 0.1
    for layer, words in {
        "gate": "No relevance reaches the layer 'gate'",
        "softmax": "'softmax' computes the scores",
        "brunch": "Did you mean 'branch'?",
    }.items():
        with pytest.raises(UsageError, match=words):
            explainer.concepts(x, layer, 1)


def test_maps_of_channels_equal_the_naive_derivation(explainer, pictures):
    """Of two channels, by matrices: relevance outside of them is set to 0."""
    channels = [1, 4]
    found = explainer.concepts(pictures, "conv1", target=["a", 2, "top1"], channels=channels)
    rules = ("flat", "zplus", "epsilon", "epsilon")
    for picture, target, p, maps in zip(
        pictures, (0, 2, None), found.scores, found.maps, strict=True
    ):
        start = np.eye(5)[p.argmax() if target is None else target] * p
        expected = naive.handed_to_pixels(
            network(), picture, start, rules, kept={"conv1": channels}
        )
        assert largest_difference(maps.sum(0), expected) < 1e-4


def test_chosen_channels_come_in_their_order(explainer, pictures):
    """Also one that is named twice."""
    chosen = [4, 0, 4]
    found = explainer.concepts(pictures, "conv2", channels=chosen)
    np.testing.assert_array_equal(found.channels, [chosen] * 3)
    np.testing.assert_array_equal(found.maps[:, 0], found.maps[:, 2])
    alone = explainer.concepts(pictures, "conv2", channels=[4])
    assert largest_difference(found.maps[:, 0], alone.maps[:, 0]) < 1e-5


class Doubled(layers.Layer):
    """A layer without a row: its operations are traced."""

    def call(self, a):
        return keras.ops.relu(2.0 * a)


@dataclass(frozen=True)
class OneRelevance(Rule):
    """Epsilon, written for one relevance of each picture."""

    def bind(self, layer, context):
        def propagate(a, relevance):
            assert relevance.shape.rank == a.shape.rank
            return share(layer, [(a, layer.weights, None)], relevance)

        return propagate


def test_nested_models_traced_layers_and_own_rules(pictures):
    """They are layers by their names; a rule of a program's own gets what it always gets."""
    keras.utils.set_random_seed(4)
    body = [layers.Conv2D(4, 3, name="a"), Doubled(name="doubled"), layers.Conv2D(4, 3, name="b")]
    inner = keras.Sequential([keras.Input((8, 8, 3)), *body], name="body")
    model = keras.Sequential([keras.Input((8, 8, 3)), inner, layers.Flatten(), layers.Dense(3)])
    rule = OneRelevance()
    explainer = Explainer(model, composite=Composite(((any_layer, rule),)), target=1)
    whole = explainer(pictures).relevance
    for layer in ("body", "body/b", "body/doubled", "body/a"):
        found = explainer.concepts(pictures, layer, 4)
        assert largest_difference(found.maps.sum(1), whole) < 1e-4, layer


@pytest.mark.release
def test_bfloat16_adds_up(rng):
    """The embedded network, on noise: to 2 % of the largest entry."""
    network = load_network("shapes")
    explainer = Explainer(network, composite="epsilon_plus_flat", precision="bfloat16")
    x = network.prepare(rng.integers(0, 256, (2, 128, 128, 3), np.uint8))
    found = explainer.concepts(x, "block5_conv2", explainer.layers(x)[-1].output.shape[-1], "top1")
    assert largest_difference(found.maps.sum(1), explainer(x, "top1").relevance) < 0.02


BAD = {
    "layer": ({"layer": "conv9"}, "There is no layer 'conv9'"),
    "scores": ({"layer": "predictions"}, "Choose a layer before it: conv2, flatten, fc"),
    "no channel": ({"top": 0}, "from 1 to 7, the channels of 'fc'. Received 0"),
    "half": ({"top": 2.5}, "Received 2.5"),
    "empty": ({"channels": []}, r"each from 0 to 6. Received \[\]"),
    "ragged": ({"channels": [[1], [2, 3]]}, "Expected a list of channels"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_concepts_are_refused(explainer, pictures, name):
    """Each message says what was expected."""
    arguments, words = BAD[name]
    with pytest.raises(UsageError, match=words):
        explainer.concepts(pictures, **{"layer": "fc", **arguments})


def test_numbers_that_are_not_finite_are_refused(pictures):
    """As in a call."""
    model = network()
    kernel, bias = model.get_layer("fc").get_weights()
    model.get_layer("fc").set_weights([kernel * 1e30, bias])
    model.layers[-1].set_weights([np.full((7, 5), 1e30), np.zeros(5)])
    explainer = Explainer(model)
    with pytest.raises(NotFiniteError):
        explainer.concepts(pictures, "conv1")
