"""`attention` and `attention_rollout` on small transformers, against sums over single tokens."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from test_layers import as_patches

from realtime_lrp import Explainer, config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import UsageError

ROWS, COLUMNS, PATCH, WIDTH, HEADS, DEPTH = 2, 3, 4, 6, 2, 3
SHAPE = (ROWS * PATCH, COLUMNS * PATCH, 3)
PATCHES = ROWS * COLUMNS


def transformer(rng, extra, pooled=False, dense=False):
    """A ViT with random weights whose answer is the first token, or the mean of all.

    Args:
      rng: draws the weights.
      extra: how many tokens come before the patches.
      pooled: whether all tokens are averaged.
      dense: whether the patches are cut by reshaping, and a dense layer reads them.
    """
    x = keras.Input(SHAPE)
    h = layers.Dense(WIDTH)(as_patches(x, PATCH, PATCH)) if dense else None
    h = layers.Reshape((-1, WIDTH))(layers.Conv2D(WIDTH, PATCH, PATCH)(x) if h is None else h)
    h = layers.ZeroPadding1D((extra, 0))(h)
    tokens = extra + PATCHES
    h = layers.EinsumDense("btc,cd->btd", (tokens, WIDTH), bias_axes="td")(h)
    for i in range(DEPTH):
        a = layers.LayerNormalization(name=f"norm{i}")(h)
        h = layers.Add()([h, layers.MultiHeadAttention(HEADS, 4, name=f"attention{i}")(a, a)])
    h = layers.LayerNormalization()(h)
    h = layers.GlobalAveragePooling1D()(h) if pooled else h[:, 0]
    model = keras.Model(x, layers.Dense(5, activation="softmax")(h), name="small")
    for weight in model.weights:
        scale = 0.9 if len(weight.shape) > 1 else 0.2
        weight.assign(rng.normal("gamma" in weight.path, scale, size=weight.shape))
    return model


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(4).normal(size=(2, *SHAPE)).astype(np.float32)


def weights_of(model, pictures):
    """The attention weights of each layer, [pictures, tokens, tokens], as the mean of its heads."""
    normed = keras.Model(model.input, [model.get_layer(f"norm{i}").output for i in range(DEPTH)])
    found = []
    for i, h in enumerate(normed(pictures)):
        attention = model.get_layer(f"attention{i}")
        found.append(attention(h, h, return_attention_scores=True)[1].numpy().mean(1))
    return found


def rolled_out(weights):
    """Rollout as it was published: token by token, layer by layer."""
    pictures, tokens, _ = weights[0].shape
    reaches = np.zeros((pictures, tokens, tokens))
    for p in range(pictures):
        reach = np.eye(tokens)
        for layer in weights:
            new = np.zeros_like(reach)
            for i in range(tokens):
                for k in range(tokens):
                    share = 0.5 * layer[p, i, k] + 0.5 * (i == k)
                    new[i] += share * reach[k]
            reach = new
        reaches[p] = reach
    return reaches


def assert_drawn(relevance, patches):
    """The map is the patches [pictures, PATCHES], resized, with the same sum in all channels."""
    grid = patches.reshape(-1, ROWS, COLUMNS, 1)
    pixels = tf.image.resize(grid, SHAPE[:2]).numpy() / (PATCH * PATCH * 3)
    np.testing.assert_allclose(relevance, np.repeat(pixels, 3, 3), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(relevance.sum((1, 2, 3)), patches.sum(1), rtol=1e-4)


@pytest.mark.parametrize(
    ("extra", "pooled", "dense"),
    [(3, False, False), (0, True, False), (1, False, True)],
)
def test_maps_are_those_of_the_attention_weights(extra, pooled, dense, pictures, rng):
    """Of a class token, of one with registers behind it, of pooled patches; for every target."""
    model = transformer(rng, extra, pooled, dense)
    explainer = Explainer(model, "attention_rollout", target="top1", also=["attention"])
    explanation = explainer(pictures)
    weights = weights_of(model, pictures)
    for relevance, reaches in (
        (explanation.relevance, rolled_out(weights)),
        (explanation.maps["attention"], weights[-1]),
    ):
        seen = reaches.mean(1) if pooled else reaches[:, 0]
        assert_drawn(relevance, seen[:, extra:])
    assert explainer.signs == (False, False) and explainer.traces == 1
    assert (explainer.patches, explainer.stride) == ((ROWS, COLUMNS), (PATCH, PATCH))
    assert any(name.startswith("add") for name in explainer.concept_layers)
    np.testing.assert_allclose(explainer(pictures, target=3).relevance, explanation.relevance)


def test_a_layer_that_pools_by_attention_comes_last(pictures, rng):
    """It has one row, of a learnt query, and no residual connection, as in SigLIP."""
    x = keras.Input(SHAPE)
    h = layers.Reshape((-1, WIDTH))(layers.Conv2D(WIDTH, PATCH, PATCH)(x))
    first, last = (layers.MultiHeadAttention(1, 4) for _ in range(2))
    h = h + first(h, h)
    query = layers.GlobalAveragePooling1D(keepdims=True)(h)
    pooled = layers.Flatten()(last(query, h))
    model = keras.Model(x, layers.Dense(5, activation="softmax")(pooled))
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.9, size=weight.shape))
    tokens = keras.Model(x, [model.layers[2].output, h, query])(pictures)
    scores = [
        one(*inputs, return_attention_scores=True)[1].numpy()[:, 0]
        for one, inputs in ((first, (tokens[0], tokens[0])), (last, (tokens[2], tokens[1])))
    ]
    relevance = Explainer(model, "attention_rollout", target="top1")(pictures).relevance
    assert_drawn(relevance, (scores[1] @ rolled_out(scores[:1]))[:, 0])


def test_networks_without_attention_are_refused(tiny_model):
    """Before anything is computed, in one sentence with the way out."""
    with pytest.raises(UsageError, match=r"has no attention.*such as lrp"):
        Explainer(keras.models.load_model(tiny_model), "attention")


def test_attention_within_windows_is_refused(rng):
    """Each window of a Swin transformer sees only itself, so no weights lead across the picture."""
    x = keras.Input((16, 16, 3))
    h = layers.Conv2D(WIDTH, 2, 2)(x)
    h = layers.Reshape((2, 4, 2, 4, WIDTH))(h)
    h = layers.Reshape((4, 16, WIDTH))(layers.Permute((1, 3, 2, 4, 5))(h))
    h = layers.MultiHeadAttention(2, 4, attention_axes=(2,))(h, h)
    model = keras.Model(x, layers.Dense(3)(layers.Flatten()(h)), name="windows")
    with pytest.raises(UsageError, match=r"'windows' is not among all patches"):
        Explainer(model, "attention_rollout", target="top1")
    assert {"attention", "attention_rollout"} <= Explainer(model).unsuited


def test_maps_are_drawn_at_the_resolution_that_is_asked_for(tmp_path, rng):
    """Blocks as large as the patches, every pixel, or pixels averaged over one patch."""
    file = tmp_path / "vit.keras"
    transformer(rng, 1, pooled=True).save(file)
    options = {"--model": str(file), "--preprocess": "rescale", "--composite": "cp_lrp"}
    picture = rng.integers(0, 256, SHAPE, np.uint8)
    drawn = {}
    for resolution in ("pixels", "patches", "null"):
        sets = [f"overlay.resolution={resolution}"]
        engine = Engine(config.load(sets=sets, options=options, command="image").config)
        drawn[resolution] = engine.explain([picture])[0].maps[0].strength
    blocks = drawn["patches"].reshape(ROWS, PATCH, COLUMNS, PATCH)
    assert (blocks == blocks[:, :1, :, :1]).all() and len(np.unique(blocks)) > 1
    assert len(np.unique(drawn["pixels"])) > 20
    roughness = {key: np.abs(np.diff(one.astype(int))).mean() for key, one in drawn.items()}
    assert roughness["null"] < roughness["pixels"] / 2
