"""Channels of tokens: their maps against a modified gradient, and the patch of each token."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from test_attention import SIDE, TARGET, WIDTH, modified_logits, transformer

from realtime_lrp import Explainer
from realtime_lrp.relevance.network.token_grids import TokenGrids

ROWS, COLUMNS = 2, 3
PATCHES = ROWS * COLUMNS


@pytest.fixture(scope="module")
def model():
    """Two blocks; the answer is that of the class token, the first of 17 tokens."""
    return transformer(np.random.default_rng(3), 2)


@pytest.fixture(scope="module")
def explainer(model):
    return Explainer(model, composite="attnlrp", target=TARGET)


@pytest.fixture(scope="module")
def pictures():
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
    p = tf.nn.softmax(logits)[:, TARGET]
    factor = (p * tf.sign(logit) / logit)[:, None, None]
    gradient = tape.gradient(logit, kept[layer]) * factor
    maps = []
    for channel in range(gradient.shape[-1]):
        alone = gradient * tf.one_hot(channel, gradient.shape[-1])
        maps.append(x * tape.gradient(kept[layer], x, alone))
    return (kept[layer] * gradient).numpy(), np.stack(maps, 1)


def assert_close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize(
    "composite", ["attnlrp", pytest.param("cp_lrp", marks=pytest.mark.release)]
)
def test_channels_of_tokens_have_the_maps_of_a_modified_gradient(composite, model, pictures):
    """Of hidden units and of the sum behind a block; all targets by one function."""
    explainer = Explainer(model, composite=composite)
    first_sum = explainer.concept_layers[-1]
    for layer, name in (("wide0", "wide0"), (first_sum, "sum0")):
        relevance, maps = naive_maps(model, pictures, name, attends=composite == "attnlrp")
        channels = relevance.shape[-1]
        found = explainer.concepts(pictures, layer, channels, TARGET)
        assert_close(found.by_channel, relevance.sum(1))
        in_order = np.take_along_axis(maps, found.channels[..., None, None, None], 1)
        assert_close(found.maps, in_order)
    for target in ("all", "top1", 3, "0 - 1"):
        whole = explainer(pictures, target).relevance
        maps = explainer.concepts(pictures, first_sum, WIDTH, target).maps
        assert_close(maps.sum(1), whole)
    assert explainer.traces == 1


def test_layers_of_tokens_can_be_chosen(explainer):
    """Those before the last attention; queries, keys and values are parts of it."""
    patches, attended, wide, narrow, behind = explainer.concept_layers
    assert (patches, wide, narrow) == ("patches", "wide0", "narrow0")
    assert attended.startswith("add") and behind.startswith("add")
    assert explainer.concept_layer == "wide0"


def test_positions_are_patches_and_shares_are_of_all_tokens(explainer, model, pictures):
    """The class token is no position, though it carries relevance and may be most active."""
    _, peaks = explainer.peaks(pictures, ["wide0", "patches"])
    relevance, maps = naive_maps(model, pictures, "wide0", attends=True)
    assert_close(peaks["wide0"].shares, relevance.sum(1))
    output = next(one.output for one in explainer.layers(pictures) if one.name == "wide0")
    assert (peaks["wide0"].active_positions == 1 + output[:, 1:].argmax(1)).all()
    np.testing.assert_allclose(peaks["wide0"].activations, output[:, 1:].max(1), rtol=1e-4)
    assert (output.argmax(1) == 0).any()
    assert (peaks["wide0"].positions == -1).all() and (peaks["patches"].positions >= 0).all()
    found = explainer.position_maps(pictures[:1], "wide0", [5, 2, 5, 7], [-1, 3, 9, -1])
    assert_close(found[[0, 3]], maps[0, [5, 7]])
    single = explainer.position_maps(pictures[:1], "wide0", [2, 5], [3, 9])
    assert_close(found[1:3], single)


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


def in_columns(tokens):
    return in_rows(layers.Permute((2, 1, 3))(tokens))


def backwards(tokens):
    return ops.flip(in_rows(tokens), 1)


def one_missing(tokens):
    return in_rows(tokens)[:, 1:]


def one_twice(tokens):
    tokens = in_rows(tokens)
    return ops.concatenate([tokens, tokens[:, :1]], 1)


def half_of_two(tokens):
    """Each token has entries of two patches."""
    tokens = in_rows(tokens)
    half = WIDTH // 2
    rolled = ops.roll(tokens, 1, 1)
    return ops.concatenate([tokens[..., :half], rolled[..., half:]], -1)


def largest_of_two(tokens):
    """Each token has what is larger, its patch or the next one."""
    tokens = in_rows(tokens)
    return ops.max(ops.stack([tokens, ops.roll(tokens, 1, 1)], 2), 2)


ORDER = np.arange(PATCHES).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("arrange", "extra", "cells"),
    [
        (in_rows, (0, 0), [*ORDER.ravel()]),
        (in_rows, (1, 0), [-1, *ORDER.ravel()]),
        (in_rows, (0, 1), [*ORDER.ravel(), -1]),
        (in_columns, (2, 3), [-1, -1, *ORDER.T.ravel(), -1, -1, -1]),
        (backwards, (1, 0), [-1, *ORDER.ravel()[::-1]]),
        (one_missing, (1, 0), None),
        (one_twice, (0, 0), None),
        (half_of_two, (0, 0), None),
        (largest_of_two, (1, 0), None),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_the_patch_of_each_token_is_followed_from_the_feature_maps(arrange, extra, cells):
    """However tokens are arranged and joined; where it is not certain there is no grid."""
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
        assert (grid.rows, grid.columns, grid.cells.tolist()) == (ROWS, COLUMNS, cells)
        assert {"first", "hidden"} < names
        assert explainer.concept_layer == "hidden"
