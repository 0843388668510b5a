"""Composites for transformers on a vision transformer, against input times a modified gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from realtime_lrp import Explainer
from realtime_lrp.errors import UsageError

SIDE, PATCH, WIDTH, HEADS, DEPTH, CLASSES = 16, 4, 12, 3, 2, 5
TARGET = 2


class Tokens(layers.Layer):
    """Puts a class token before the patches and adds position embeddings."""

    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[-1]), name="token")
        self.positions = self.add_weight(shape=(1, shape[1] + 1, shape[-1]), name="positions")

    def call(self, patches):
        token = ops.broadcast_to(self.token, (ops.shape(patches)[0], 1, patches.shape[-1]))
        return ops.concatenate([token, patches], 1) + self.positions


def transformer(rng, depth):
    """A small ViT of Keras's layers with random weights, none of them 0."""
    x = keras.Input((SIDE, SIDE, 3))
    h = layers.Conv2D(WIDTH, PATCH, PATCH, name="patches")(x)
    h = Tokens(name="tokens")(layers.Reshape((-1, WIDTH))(h))
    for i in range(depth):
        a = layers.LayerNormalization(epsilon=1e-6, name=f"norm{i}a")(h)
        h = h + layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name=f"attention{i}")(a, a)
        a = layers.LayerNormalization(epsilon=1e-6, name=f"norm{i}b")(h)
        a = layers.Dense(2 * WIDTH, activation="gelu", name=f"wide{i}")(a)
        h = h + layers.Dense(WIDTH, name=f"narrow{i}")(a)
    h = layers.LayerNormalization(epsilon=1e-6, name="norm")(h)
    model = keras.Model(x, layers.Dense(CLASSES, name="head")(h[:, 0]))
    for weight in model.weights:
        scale = 0.3 if len(weight.shape) > 1 else 0.1
        weight.assign(rng.normal("gamma" in weight.path, scale, size=weight.shape))
    return model


@pytest.fixture(scope="module")
def model():
    return transformer(np.random.default_rng(3), DEPTH)


@pytest.fixture(scope="module")
def explained(model, pictures):
    explanation = Explainer(model, composite="attnlrp", target=TARGET, also=["cp_lrp"])(pictures)
    return {"attnlrp": explanation.relevance, **explanation.maps}


@pytest.fixture(scope="module")
def shallow():
    model = transformer(np.random.default_rng(5), depth=1)
    return Explainer(model, composite="attnlrp", target="top1", also=["cp_lrp", "epsilon"])


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(4).normal(size=(3, SIDE, SIDE, 3)).astype(np.float32)


def halved(a):
    """The same value with half of its gradient."""
    return a / 2 + tf.stop_gradient(a / 2)


def modified_logits(model, x, attends, keep=lambda name, tokens: None):
    """The forward pass with other gradients: half through products, none through deviations.

    Without `attends` none through attention weights either. `keep` gets the hidden units of each
    block and the sum behind it.
    """
    layer = {one.name: one for one in model.layers}

    def dense(a, name):
        return a @ layer[name].kernel.value + layer[name].bias.value

    def norm(a, name):
        centred = a - tf.reduce_mean(a, -1, keepdims=True)
        deviation = tf.sqrt(tf.reduce_mean(centred**2, -1, keepdims=True) + 1e-6)
        centred /= tf.stop_gradient(deviation)
        return centred * layer[name].gamma.value + layer[name].beta.value

    patches = layer["patches"]
    h = tf.nn.conv2d(x, patches.kernel.value, PATCH, "VALID") + patches.bias.value
    h = tf.reshape(h, [len(x), -1, WIDTH])
    token = tf.tile(layer["tokens"].token.value, [len(x), 1, 1])
    h = tf.concat([token, h], 1) + layer["tokens"].positions.value
    for i in range(DEPTH):
        attention, a = layer[f"attention{i}"], norm(h, f"norm{i}a")
        query, key, value = (
            tf.einsum("btd,dhe->bhte", a, one.kernel.value) + one.bias.value[:, None]
            for one in (attention.query_dense, attention.key_dense, attention.value_dense)
        )
        scores = tf.matmul(halved(query), halved(key), transpose_b=True) / (WIDTH / HEADS) ** 0.5
        weights = tf.nn.softmax(scores)
        if attends:
            weights, value = halved(weights), halved(value)
        else:
            weights = tf.stop_gradient(weights)
        out = attention.output_dense
        attended = tf.matmul(weights, value)
        h += tf.einsum("bhte,hed->btd", attended, out.kernel.value) + out.bias.value
        wide = dense(norm(h, f"norm{i}b"), f"wide{i}")
        activated = keras.activations.gelu(wide, approximate=False)
        hidden = wide * tf.stop_gradient(activated / wide)
        keep(f"wide{i}", hidden)
        h += dense(hidden, f"narrow{i}")
        keep(f"sum{i}", h)
    return dense(norm(h, "norm")[:, 0], "head")


@pytest.mark.parametrize("name", ["attnlrp", "cp_lrp"])
def test_a_transformer_has_the_map_of_a_modified_gradient(name, model, pictures, explained):
    """Every step in proportion is input times gradient, if gradients stop at what is constant."""
    with tf.GradientTape() as tape:
        x = tf.constant(pictures)
        tape.watch(x)
        logits = modified_logits(model, x, attends=name == "attnlrp")
        logit = logits[:, TARGET]
    np.testing.assert_allclose(logits, model(pictures), atol=1e-4)
    started = tf.nn.softmax(logits)[:, TARGET] * tf.sign(logit)
    expected = x * tape.gradient(logit, x) * (started / logit)[:, None, None, None]
    for ours, theirs in zip(explained[name], expected.numpy(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


def test_products_of_a_transformer_may_be_rounded_on_the_way_back(model, pictures, explained):
    """Maps in `auto` precision correlate with those in float32 to 0.9999."""
    options = {"composite": "attnlrp", "also": ["cp_lrp"], "target": TARGET}
    explainer = Explainer(model, precision="auto", **options)
    assert explainer.precision == "bfloat16" and explainer.exact_forward
    rounded = explainer(pictures)
    for name, maps in {"attnlrp": rounded.relevance, **rounded.maps}.items():
        for one, other in zip(explained[name], maps, strict=True):
            assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.9999, name


@pytest.mark.parametrize("index", [0, 1], ids=["attnlrp", "cp_lrp"])
def test_the_account_of_a_transformer_closes(index, shallow, pictures):
    """Each step hands down what arrived, less what biases, constants and the softmax took."""
    records = {one.name: one for one in shallow.layers(pictures, index=index)}
    largest = max(np.abs(one.sums()).max() for one in records.values())
    assert max(np.abs(one.lost).max() for one in records.values()) < 1e-3 * largest
    assert records["norm0a"].taken_by_biases.all() and records["tokens/AddV2"].taken_by_biases.all()
    assert ("attention0/query/BatchMatMulV2" in records) == (index == 0)
    assert index == 1 or records["attention0/Softmax"].taken_by_biases.any()


def test_other_composites_treat_attention_weights_as_constants(shallow, pictures):
    """Nothing arrives at queries and keys; norms pass relevance unchanged."""
    records = {one.name: one for one in shallow.layers(pictures, index=2)}
    assert "attention0/query/BatchMatMulV2" not in records
    assert records["attention0/value/BatchMatMulV2"].arrived.any((1, 2)).all()
    norm = records["norm0a"]
    assert not norm.taken_by_biases.any()
    np.testing.assert_array_equal(norm.handed_down[0], norm.arrived)


def test_without_bias_shares_only_the_class_token_takes_relevance():
    """The position embedding and the offsets of the norms keep nothing."""
    model = transformer(np.random.default_rng(5), depth=1)
    explainer = Explainer(model, composite="cp_lrp", absorb_bias=False, target="top1")
    records = explainer.layers(np.random.default_rng(4).normal(size=(1, SIDE, SIDE, 3)))
    taking = [record.name for record in records if record.taken_by_biases.any()]
    assert taking == ["tokens/ConcatV2"]
    product = next(one for one in records if one.name == "attention0/Einsum:2")
    assert not product.handed_down[0].any() and product.handed_down[1].all()


def test_the_composite_that_nobody_names_suits_the_network(model, tiny_model):
    """`attnlrp_gamma` with attention, `cp_lrp` for such detectors, else `zplus`."""
    tiny = keras.models.load_model(tiny_model)
    made = Explainer(model)
    assert repr(made).endswith(": attnlrp_gamma, target 'all'>") and not made.advice
    assert repr(Explainer(tiny)).endswith(": zplus, target 'all'>")
    scores = keras.layers.Reshape((1, -1), name="scores")(model.output)
    boxes = keras.layers.Rescaling(0.0, name="boxes")(scores[..., :4])
    detector = keras.Model(model.input, {"boxes": boxes, "scores": scores})
    assert repr(Explainer(detector)).endswith(": cp_lrp, target 'all'>")
    rules = made.rules_by_layer
    assert rules.pop("patches") == "gamma(0.25)" and set(rules.values()) == {"gamma(0.05)"}


def test_what_a_network_refuses_is_unsuited(shallow, tiny_model):
    """A transformer has no ReLU; a network of convolutions has no attention."""
    assert shallow.unsuited == {"guided_backprop", "deconvnet"}
    with pytest.raises(UsageError, match="no ReLU"):
        Explainer(transformer(np.random.default_rng(5), depth=1), method="deconvnet")
    network = Explainer(keras.models.load_model(tiny_model))
    assert network.unsuited == {"attnlrp", "attnlrp_gamma", "cp_lrp"}
