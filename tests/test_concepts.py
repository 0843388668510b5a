"""Maps of single channels, of pictures and of tokens: by hand, against matrices, and their sums."""

from dataclasses import dataclass

import keras
import naive
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from test_methods import SIDE, TARGET, WIDTH, modified_logits, transformer
from test_relevance import largest_difference

from realtime_lrp import Composite, Explainer, Rule, load_network
from realtime_lrp.errors import NotFiniteError, UsageError
from realtime_lrp.relevance.network.token_grids import TokenGrids
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


@pytest.mark.parametrize(("composite", "names"), [
    ("epsilon_plus_flat", [*LAYERS]),
    *((name, ["conv2"]) for name in COMPOSITES if name != "epsilon_plus_flat"),
    *(pytest.param(name, [*LAYERS], marks=pytest.mark.release) for name in COMPOSITES),
])  # fmt: skip
def test_all_channels_add_up(composite, names, pictures):
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
        ordered = np.take_along_axis(arrived, found.channels, 1)
        assert largest_difference(found.shares, ordered) < 1e-5


def test_neurons_add_up_to_their_channel(explainer, pictures):
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
    keras.utils.set_random_seed(4)
    body = [layers.Conv2D(4, 3, name="a"), Doubled(name="doubled"), layers.Conv2D(4, 3, name="b")]
    inner = keras.Sequential([keras.Input((8, 8, 3)), *body], name="body")
    model = keras.Sequential([keras.Input((8, 8, 3)), inner, layers.Flatten(), layers.Dense(3)])
    explainer = Explainer(model, composite=Composite(((any_layer, OneRelevance()),)), target=1)
    whole = explainer(pictures).relevance
    for layer in ("body", "body/b", "body/doubled", "body/a"):
        found = explainer.concepts(pictures, layer, 4)
        assert largest_difference(found.maps.sum(1), whole) < 1e-4, layer


@pytest.mark.release
def test_bfloat16_adds_up(rng):
    network = load_network("shapes")
    explainer = Explainer(network, composite="epsilon_plus_flat", precision="bfloat16")
    x = network.prepare(rng.integers(0, 256, (2, 128, 128, 3), np.uint8))
    found = explainer.concepts(x, "block5_conv2", explainer.layers(x)[-1].output.shape[-1], "top1")
    assert largest_difference(found.maps.sum(1), explainer(x, "top1").relevance) < 0.02


def test_bad_concepts_are_refused(explainer, pictures):
    for arguments, words in (
        ({"layer": "conv9"}, "There is no layer 'conv9'"),
        ({"layer": "predictions"}, "Choose a layer before it: conv2, flatten, fc"),
        ({"top": 0}, "from 1 to 7, the channels of 'fc'. Received 0"),
        ({"top": 2.5}, "Received 2.5"), ({"channels": []}, r"each from 0 to 6. Received \[\]"),
        ({"channels": [[1], [2, 3]]}, "Expected a list of channels"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            explainer.concepts(pictures, **{"layer": "fc", **arguments})
    model = network()
    kernel, bias = model.get_layer("fc").get_weights()
    model.get_layer("fc").set_weights([kernel * 1e30, bias])
    model.layers[-1].set_weights([np.full((7, 5), 1e30), np.zeros(5)])
    with pytest.raises(NotFiniteError):
        Explainer(model).concepts(pictures, "conv1")


ROWS, COLUMNS = 2, 3
PATCHES = ROWS * COLUMNS


@pytest.fixture(scope="module")
def vit():
    """Two blocks; the answer is that of the class token, the first of 17 tokens."""
    return transformer(np.random.default_rng(3), 2)


@pytest.fixture(scope="module")
def of_tokens(vit):
    return Explainer(vit, composite="attnlrp", target=TARGET)


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(4).normal(size=(2, SIDE, SIDE, 3)).astype(np.float32)


def naive_maps(model, pictures, layer, attends):
    """The relevance [B, tokens, channels] at a layer, and the map of each channel by itself.

    Relevance outside of a channel is set to 0 and handed down by the same rules, which are input
    times gradient.
    """
    kept = {}
    with tf.GradientTape(persistent=True) as tape:
        x = tf.constant(pictures)
        tape.watch(x)
        logits = modified_logits(model, x, attends, kept.__setitem__)
        logit = logits[:, TARGET]
    factor = (tf.nn.softmax(logits)[:, TARGET] * tf.sign(logit) / logit)[:, None, None]
    gradient = tape.gradient(logit, kept[layer]) * factor
    maps = []
    for channel in range(gradient.shape[-1]):
        alone = gradient * tf.one_hot(channel, gradient.shape[-1])
        maps.append(x * tape.gradient(kept[layer], x, alone))
    return (kept[layer] * gradient).numpy(), np.stack(maps, 1)


@pytest.mark.parametrize(
    "composite", ["attnlrp", pytest.param("cp_lrp", marks=pytest.mark.release)]
)
def test_channels_of_tokens_have_the_maps_of_a_modified_gradient(composite, vit, noise):
    explainer = Explainer(vit, composite=composite)
    first_sum = explainer.concept_layers[-1]
    for layer, name in (("wide0", "wide0"), (first_sum, "sum0")):
        relevance, maps = naive_maps(vit, noise, name, attends=composite == "attnlrp")
        found = explainer.concepts(noise, layer, relevance.shape[-1], TARGET)
        naive.assert_near(found.by_channel, relevance.sum(1), 1e-4)
        ordered = np.take_along_axis(maps, found.channels[..., None, None, None], 1)
        naive.assert_near(found.maps, ordered, 1e-4)
    for target in ("all", "top1", 3, "0 - 1"):
        whole = explainer(noise, target).relevance
        maps = explainer.concepts(noise, first_sum, WIDTH, target).maps
        naive.assert_near(maps.sum(1), whole, 1e-4)
    assert explainer.traces == 1


def test_layers_of_tokens_can_be_chosen(of_tokens):
    patches, attended, wide, narrow, behind = of_tokens.concept_layers
    assert (patches, wide, narrow) == ("patches", "wide0", "narrow0")
    assert attended.startswith("add") and behind.startswith("add")
    assert of_tokens.concept_layer == "wide0"


def test_positions_are_patches_and_shares_are_of_all_tokens(of_tokens, vit, noise):
    _, peaks = of_tokens.peaks(noise, ["wide0", "patches"])
    relevance, maps = naive_maps(vit, noise, "wide0", attends=True)
    naive.assert_near(peaks["wide0"].shares, relevance.sum(1), 1e-4)
    output = next(one.output for one in of_tokens.layers(noise) if one.name == "wide0")
    assert (peaks["wide0"].active_positions == 1 + output[:, 1:].argmax(1)).all()
    np.testing.assert_allclose(peaks["wide0"].activations, output[:, 1:].max(1), rtol=1e-4)
    assert (output.argmax(1) == 0).any()
    assert (peaks["wide0"].positions == -1).all() and (peaks["patches"].positions >= 0).all()
    found = of_tokens.position_maps(noise[:1], "wide0", [5, 2, 5, 7], [-1, 3, 9, -1])
    naive.assert_near(found[[0, 3]], maps[0, [5, 7]], 1e-4)
    naive.assert_near(found[1:3], of_tokens.position_maps(noise[:1], "wide0", [2, 5], [3, 9]), 1e-4)


class Joined(layers.Layer):
    """Joins the tokens with constants that are no patches."""

    def __init__(self, before, behind):
        super().__init__()
        self.numbers = before, behind

    def call(self, tokens):
        ones = [ops.ones((1, count, tokens.shape[-1])) for count in self.numbers]
        ones = [ops.repeat(one, ops.shape(tokens)[0], 0) for one in ones]
        return ops.concatenate([ones[0], tokens, ones[1]], 1)


def in_rows(tokens):
    return layers.Reshape((-1, WIDTH))(tokens)


ORDER, HALF = np.arange(PATCHES).reshape(ROWS, COLUMNS), WIDTH // 2
ARRANGED = {
    "in rows": (in_rows, (0, 0), [*ORDER.ravel()]),
    "behind a token": (in_rows, (1, 0), [-1, *ORDER.ravel()]),
    "before a token": (in_rows, (0, 1), [*ORDER.ravel(), -1]),
    "in columns": (lambda a: in_rows(layers.Permute((2, 1, 3))(a)), (2, 3),
                   [-1, -1, *ORDER.T.ravel(), -1, -1, -1]),
    "backwards": (lambda a: ops.flip(in_rows(a), 1), (1, 0), [-1, *ORDER.ravel()[::-1]]),
    "one missing": (lambda a: in_rows(a)[:, 1:], (1, 0), None),
    "one twice": (lambda a: ops.concatenate([in_rows(a), in_rows(a)[:, :1]], 1), (0, 0), None),
    "halves of two": (lambda a: ops.concatenate(
        [in_rows(a)[..., :HALF], ops.roll(in_rows(a), 1, 1)[..., HALF:]], -1), (0, 0), None),
    "larger of two": (lambda a: ops.max(
        ops.stack([in_rows(a), ops.roll(in_rows(a), 1, 1)], 2), 2), (1, 0), None),
}  # fmt: skip


@pytest.mark.parametrize(("arrange", "extra", "cells"), ARRANGED.values(), ids=ARRANGED)
def test_the_patch_of_each_token_is_followed_from_the_feature_maps(arrange, extra, cells):
    x = keras.Input((4 * ROWS, 4 * COLUMNS, 3))
    h = Joined(*extra)(arrange(layers.Conv2D(WIDTH, 4, 4, name="patches")(x)))
    h = layers.Dense(WIDTH, name="first")(layers.LayerNormalization()(h))
    h = layers.Dense(WIDTH, activation="gelu", name="hidden")(h)
    h = layers.Dense(4)(layers.GlobalAveragePooling1D()(h))
    explainer = Explainer(keras.Model(x, h))
    graph, names = explainer._graph, set(explainer.concept_layers)
    grid = TokenGrids(graph).grid(graph.outputs()["hidden"])
    if cells is None:
        assert grid is None and not {"first", "hidden"} & names
    else:
        assert grid.tolist() == cells
        assert {"first", "hidden"} < names
        assert explainer.concept_layer == "hidden"
