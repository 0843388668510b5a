"""Gradient methods against TensorFlow's own derivatives and cases by hand; shared forward pass."""

import json
import re

import golden
import keras
import naive
import numpy as np
import pytest
import tensorflow as tf
from drawing.batch import draw_batch
from keras import layers, ops
from test_relevance import branched, largest_difference, vgg_like
from uncompiled import compiled

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.rules.composites import COMPOSITES

SEED = 5


@pytest.fixture(scope="module")
def vgg():
    keras.utils.set_random_seed(5)
    return vgg_like()


def logits_of(model):
    last = model.layers[-1]
    bare = layers.Dense(last.units, name="logits")
    logits = keras.Model(model.inputs, bare(last.input))
    bare.set_weights(last.get_weights())
    return logits


def factors(p, target):
    """The factor of each logit as docs/mathematics.md defines it, [B, classes]."""
    unit = np.eye(p.shape[1])
    if target == "all":
        return p
    if target == "top1":
        return unit[p.argmax(1)]
    if target == "top3":
        return p * (p >= np.sort(p, axis=1)[:, -3][:, None])
    if target == "1 - rest":
        rest = p * (1 - unit[1])
        return unit[1] - rest / rest.sum(1, keepdims=True)
    return np.tile(unit[0] - unit[2] if target == "0 - 2" else unit[target], (len(p), 1))


def gradient_of(logits, x, t):
    return naive.gradient_of(lambda a: logits(a) * tf.constant(t, tf.float32), x)


@pytest.mark.parametrize("build", [vgg_like, branched], ids=["vgg", "branched"])
def test_the_gradient_is_tensorflows_own(build, rng):
    model = build()
    logits = logits_of(model)
    x = rng.normal(size=(3, *model.input_shape[1:])).astype("float32") * 50
    explainer = Explainer(model, method="gradient", also=["input_x_gradient"])
    for target in ("all", "top1", "top3", 2, "0 - 2", "1 - rest"):
        got = explainer(x, target=target)
        expected = gradient_of(logits, x, factors(got.scores, target))
        assert largest_difference(got.relevance, expected) < 1e-5
        np.testing.assert_allclose(got.maps["input_x_gradient"], got.relevance * x, rtol=1e-5)


def guided_by_definition(logits, x, t, change):
    """The derivative with `change(gradient, a)` at every ReLU, by TensorFlow's custom gradients."""

    @tf.custom_gradient
    def relu(a):
        return tf.nn.relu(a), lambda gradient: change(gradient, a)

    def clone(layer):
        config = layer.get_config()
        if config.get("activation") == "relu":
            config["activation"] = relu
        return type(layer).from_config(config)

    copy = keras.models.clone_model(logits, clone_function=clone)
    copy.set_weights(logits.get_weights())
    return gradient_of(copy, x, t)


@pytest.mark.parametrize(("method", "change"), [
    ("guided_backprop", lambda g, a: tf.where((g > 0) & (a > 0), g, 0.0)),
    ("deconvnet", lambda g, a: tf.where(g > 0, g, 0.0)),
])  # fmt: skip
def test_guided_backprop_and_deconvnet_equal_their_definitions(method, change, rng):
    model = vgg_like()
    x = rng.normal(size=(2, 16, 16, 3)).astype("float32")
    got = Explainer(model, method=method, target=2)(x).relevance
    expected = guided_by_definition(logits_of(model), x, factors(np.ones((2, 5)), 2), change)
    assert largest_difference(got, expected) < 1e-5


def test_a_ceiling_stops_the_guided_gradient(rng):
    x = keras.Input((1, 1, 1))
    h = layers.Flatten()(layers.ReLU(6.0)(layers.Conv2D(1, 1, kernel_initializer="ones")(x)))
    model = keras.Model(x, layers.Dense(1, kernel_initializer="ones")(h))
    explainer = Explainer(model, method="guided_backprop")
    values = np.array([-1.0, 3.0, 7.0], "float32").reshape(3, 1, 1, 1)
    np.testing.assert_array_equal(explainer(values).relevance.ravel(), [0, 1, 0])


def test_excitation_backprop_is_zplus_with_pixel_values(rng):
    model, x = vgg_like(), rng.normal(size=(2, 16, 16, 3)).astype("float32")
    got = Explainer(model, method="excitation_backprop", target=1)(x)
    lrp = Explainer(model, layers={"conv1": "zplus"}, target=1)(x)
    expected = lrp.relevance / lrp.scores[:, 1, None, None, None]
    assert largest_difference(got.relevance, expected) < 1e-4
    np.testing.assert_allclose(got.relevance.sum((1, 2, 3)), 1, atol=1e-3)


def cam_of(model, name, pictures):
    """Grad-CAM by its definition, at a convolution, for the first class."""
    records = Explainer(model, method="gradient", target=0).layers(pictures)
    conv = next(one for one in records if one.name.endswith(name))
    weights = conv.arrived.mean((1, 2), keepdims=True)
    cam = np.maximum((weights * conv.output).sum(-1, keepdims=True), 0)
    return np.repeat(tf.image.resize(cam, pictures.shape[1:3]), 3, axis=3) / 3


def test_grad_cam_at_a_layer_of_choice(rng):
    x = keras.Input((12, 12, 3))
    h = layers.ReLU()(layers.Conv2D(4, 3, name="first")(x))
    h = layers.ReLU()(layers.Conv2D(4, 3, name="second")(layers.MaxPooling2D(2, name="pool")(h)))
    h = layers.GlobalAveragePooling2D()(h)
    model = keras.Model(x, layers.Dense(3, activation="softmax", name="scores")(h))
    picture = rng.normal(size=(2, 12, 12, 3)).astype("float32")
    got = Explainer(model, "grad_cam", target=0, grad_cam_layer="first", also=["zplus"])(picture)
    assert largest_difference(got.relevance, cam_of(model, "first", picture)) < 1e-5
    expected = Explainer(model, target=0)(picture).relevance
    assert largest_difference(got.maps["zplus"], expected) < 1e-5
    with pytest.raises(UsageError, match=r"called 'scond'. Did you mean 'second'\?"):
        Explainer(model, "grad_cam", grad_cam_layer="scond")
    with pytest.raises(UsageError, match="called 'scores'"):
        Explainer(model, "grad_cam", grad_cam_layer="scores")


@compiled()
def test_integrated_gradients_account_for_the_whole_difference(vgg, rng):
    """Completeness: the sum is logit(x) - logit(0) (Sundararajan et al. 2017, prop. 1)."""
    model, x = vgg, rng.normal(size=(2, 16, 16, 3)).astype("float32")
    logits = logits_of(model)
    explainer = Explainer(model, "integrated_gradients", samples=200, also=["gradient"])
    got = explainer(x, target=[2, "0 - 1"])
    rise = (logits(x) - logits(np.zeros_like(x))).numpy()
    difference = np.array([rise[0, 2], rise[1, 0] - rise[1, 1]])
    (account,) = got.accounts.values()
    np.testing.assert_allclose(account.started, difference, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(got.relevance.sum((1, 2, 3)), difference, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(account.lost, account.started - got.relevance.sum((1, 2, 3)))
    assert not account.biases.any() and explainer.differences == (True, False)


@pytest.mark.release
def test_the_default_samples_come_near_the_difference():
    network = load_network("shapes")
    x = network.prepare(draw_batch((31415,), 2).pixels)
    explainer = Explainer(network, "integrated_gradients", target="top1", also=["smoothgrad"])
    (account,) = explainer(x).accounts.values()
    assert (np.abs(account.lost) < 0.05 * np.abs(account.started)).all()
    assert explainer.passes == 50 + 20


@compiled()
def test_smoothgrad_is_the_mean_gradient_under_noise(rng):
    x = keras.Input((4, 4, 3))
    h = layers.Flatten()(layers.Conv2D(3, 3, activation="elu")(x))
    model = keras.Model(x, layers.Dense(2, activation="softmax")(h))
    picture = rng.normal(size=(2, 4, 4, 3)).astype("float32")
    explainer = Explainer(model, method="smoothgrad", target=1, samples=3)
    got = explainer(picture).relevance
    np.testing.assert_array_equal(got, explainer(picture).relevance)
    noise = np.stack([tf.random.stateless_normal([4, 4, 3], [20, number]) for number in range(3)])
    logits = logits_of(model)
    for one, relevance in zip(picture, got, strict=True):
        noisy = one + 0.1 * (one.max() - one.min()) * noise
        expected = gradient_of(logits, noisy, np.eye(2)[[1, 1, 1]]).mean(0)
        assert largest_difference(relevance, expected) < 1e-5


def test_copies_of_a_picture_that_several_layers_read_are_averaged(rng):
    x = keras.Input((6, 6, 3))
    padded = layers.ZeroPadding2D(1)(x)
    branches = [layers.Conv2D(4, 3, activation="elu")(one) for one in (padded, padded, x)]
    h = layers.Concatenate()([layers.Flatten()(one) for one in (*branches, layers.ReLU()(x))])
    model = keras.Model(x, layers.Dense(3, activation="softmax")(h))
    picture = rng.normal(size=(2, 6, 6, 3)).astype("float32")
    got = Explainer(model, "integrated_gradients", target=1, samples=3)(picture).relevance
    gradient = Explainer(model, "gradient", target=1)
    middles = np.array([1, 3, 5]) / 6
    parts = [2 * u / 3 * gradient((u**2 * picture).astype("float32")).relevance for u in middles]
    assert largest_difference(got, picture * sum(parts)) < 1e-5


def operations_in(explainer, *types) -> int:
    """The number of operations of these types in the compiled function."""
    explainer(np.zeros((1, *explainer.input_shape)))
    return sum(op.type in types for op in explainer._run.traced().graph.get_operations())


@compiled()
def test_many_methods_cost_one_forward_pass():
    model, convolutions = vgg_like(), ("Conv2D", "Conv2DBackpropInput", "_MklNativeFusedConv2D")
    others = ("lrp", "excitation_backprop")
    gradients = [one for one in METHODS if not METHODS[one].perturb and one not in others]
    backward = 2 * len(gradients)
    explainer = Explainer(model, method="gradient", also=gradients[1:])
    assert operations_in(explainer, "MaxPool") == 2
    assert operations_in(explainer, *convolutions) == 2 + backward
    # z+ of conv2; z of conv1 is a constant
    assert operations_in(Explainer(model), *convolutions) == 2 + 1 + 2
    together = Explainer(model, also=gradients)
    assert operations_in(together, "MaxPool") == 2
    assert operations_in(together, *convolutions) == 2 + 1 + 2 + backward


NAMES = [*METHODS, *COMPOSITES]


@pytest.fixture(scope="module")
def together():
    """A network, three pictures, the maps of every method and composite from one explainer."""
    keras.utils.set_random_seed(5)
    model = vgg_like(12)
    x = np.random.default_rng(20).uniform(0, 255, size=(3, 12, 12, 3)).astype("float32")
    with compiled():
        explainer = Explainer(model, also=NAMES, target="top1", samples=3, low=0.0, high=255.0)
    maps = explainer(x).maps
    assert list(maps) == NAMES and explainer.traces == 1
    return model, x, maps


@pytest.mark.parametrize("name", [
    "gradient", "epsilon_gamma_box",
    *(pytest.param(one, marks=pytest.mark.release) for one in NAMES),
])  # fmt: skip
def test_an_explainer_of_many_maps_gives_those_of_explainers_of_one(name, together):
    model, x, maps = together
    kind = {"method": name} if name in METHODS else {"composite": name}
    explainer = Explainer(model, target="top1", samples=3, low=0, high=255, **kind)
    assert largest_difference(maps[name], explainer(x).relevance) < 1e-4


def test_wrong_words_are_answered(vgg):
    for arguments, words in (
        ({"method": "zplus"}, "composite='zplus'"),
        ({"method": "integrads"}, "'integrated_gradients'"),
        ({"composite": "epsilon_gamma_box"}, "low="),
        ({"composite": "epsilon_gamma_box", "low": 1, "high": 0}, "low below high"),
        ({"composite": "epsilon_gamma_box", "low": [1, 2], "high": 3}, "each channel"),
        ({"layers": {"cov1": "flat"}}, "'conv1'"), ({"layers": {"conv1": "flatt"}}, "'flat'"),
        ({"layers": {"Conv2D": "flat", "conv1": "gamma"}}, "Put it before"),
        ({"target": "1 - 1"}, "with itself"),
        ({"layers": {"fc1": "zbox"}, "low": 0, "high": 1}, "'fc1' lies behind"),
        ({"samples": 0}, "samples"), ({"also": "gradient"}, "list"),
        ({"layers": {"conv1": "epsilon(-1)"}}, "from 0 upwards"), ({"target": "top9"}, "5 classes"),
        ({"composite": "lrp.z_plus"}, "'zplus'"), ({"composite": "zplsu"}, "'zplus'"),
        ({"method": "magic"}, "lrp"), ({"precision": "float8"}, "float32"),
        ({"target": 5}, "0 to 4"), ({"target": "e"}, "labels"),
        ({"target": "d", "labels": list("abcdd")}, "3 or 4"),
        ({"target": "tigr cat", "labels": ["tiger_cat", *"abcd"]}, "'tiger_cat'"),
        ({"size": (8, 8)}, "16 x 16"), ({"size": 16}, "(rows, columns)"),
        ({"target": True}, "name or index"),
        ({"labels": list("abcde"), "target": "a - b - c"}, "'b - c'"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=re.escape(words)):
            Explainer(vgg, **arguments)


def test_a_network_without_relu_has_nothing_to_guide():
    x = keras.Input((4, 4, 3))
    model = keras.Model(x, layers.Dense(2, activation="softmax")(layers.Flatten()(x)))
    with pytest.raises(UsageError, match="no ReLU"):
        Explainer(model, method="guided_backprop")
    with pytest.raises(UsageError, match="convolutions"):
        Explainer(model, method="grad_cam")


def test_rules_for_layers_change_the_composite_and_no_further_map(rng):
    model = vgg_like()
    x = rng.uniform(0, 255, size=(2, *model.input_shape[1:])).astype("float32")
    own = {"Conv2D": "gamma(0.1)", "Dense": "epsilon(0.01)"}
    both = Explainer(model, "lrp", "zplus", layers=own, also=["zplus", "lrp"])(x)
    alone, changed = Explainer(model)(x).relevance, Explainer(model, layers=own)(x).relevance
    naive.assert_near(both.maps["zplus"], alone, 1e-6)
    naive.assert_near(both.relevance, changed, 1e-6)
    np.testing.assert_array_equal(both.maps["lrp"], both.relevance)
    assert np.abs(both.relevance - alone).max() > 0.1 * np.abs(alone).max()


def test_grad_cam_takes_maps_of_the_picture(rng):
    x = keras.Input((8, 8, 3))
    maps = layers.Conv2D(4, 3, activation="relu", name="maps")(x)
    inner = keras.Model(x, [maps, layers.Conv2D(5, 3)(maps)])
    h = layers.Permute((3, 1, 2))(layers.ZeroPadding2D(2)(inner(x)[0]))
    model = keras.Model(x, layers.Dense(3, activation="softmax")(layers.Flatten()(h)))
    picture = rng.normal(size=(1, 8, 8, 3)).astype("float32")
    got = Explainer(model, method="grad_cam", target=0)(picture)
    np.testing.assert_allclose(got.relevance, cam_of(model, "maps", picture), atol=1e-6)


def test_the_box_is_that_of_the_layers_own_input(rng):
    def build(*before):
        head = [layers.Conv2D(4, 3), layers.ReLU(), layers.Flatten()]
        last = layers.Dense(2, activation="softmax")
        return keras.Sequential([keras.Input((6, 6, 3)), *before, *head, last])

    plain, rescaled = build(), build(layers.Rescaling(-1 / 127.5, offset=1.0))
    rescaled.set_weights(plain.get_weights())
    x = rng.uniform(0, 255, size=(1, 6, 6, 3)).astype("float32")
    expected = Explainer(plain, composite="epsilon_gamma_box", low=-1, high=1)(1 - x / 127.5)
    got = Explainer(rescaled, composite="epsilon_gamma_box", low=0, high=255)(x)
    assert largest_difference(got.relevance, expected.relevance) < 1e-4


GOLDEN = json.loads(golden.GOLDEN.read_text())


@pytest.fixture(scope="module")
def outcomes():
    return golden.measured()


def test_the_scores_are_golden(outcomes):
    assert outcomes["classes"] == GOLDEN["classes"]
    np.testing.assert_allclose(outcomes["scores"], GOLDEN["scores"], atol=1e-4)


@pytest.mark.parametrize("name", [*COMPOSITES, *METHODS])
def test_every_map_is_golden(name, outcomes):
    now, then = outcomes["maps"][name], GOLDEN["maps"][name]
    np.testing.assert_allclose(now["magnitude"], then["magnitude"], rtol=0.01)
    np.testing.assert_allclose(now["cells"], then["cells"], atol=0.002)


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
        centred /= tf.stop_gradient(tf.sqrt(tf.reduce_mean(centred**2, -1, keepdims=True) + 1e-6))
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
        hidden = wide * tf.stop_gradient(keras.activations.gelu(wide, approximate=False) / wide)
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
        naive.assert_near(ours, theirs, 1e-4)


def test_products_of_a_transformer_may_be_rounded_on_the_way_back(model, pictures, explained):
    options = {"composite": "attnlrp", "also": ["cp_lrp"], "target": TARGET}
    explainer = Explainer(model, precision="auto", **options)
    assert explainer.precision == "bfloat16" and explainer.exact_forward
    rounded = explainer(pictures)
    for name, maps in {"attnlrp": rounded.relevance, **rounded.maps}.items():
        for one, other in zip(explained[name], maps, strict=True):
            assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.9999, name


@pytest.mark.parametrize("index", [0, 1], ids=["attnlrp", "cp_lrp"])
def test_the_account_of_a_transformer_closes(index, shallow, pictures):
    records = {one.name: one for one in shallow.layers(pictures, index=index)}
    largest = max(np.abs(one.sums()).max() for one in records.values())
    assert max(np.abs(one.lost).max() for one in records.values()) < 1e-3 * largest
    assert records["norm0a"].taken_by_biases.all() and records["tokens/AddV2"].taken_by_biases.all()
    assert ("attention0/query/BatchMatMulV2" in records) == (index == 0)
    assert index == 1 or records["attention0/Softmax"].taken_by_biases.any()


def test_other_composites_treat_attention_weights_as_constants(shallow, pictures):
    records = {one.name: one for one in shallow.layers(pictures, index=2)}
    assert "attention0/query/BatchMatMulV2" not in records
    assert records["attention0/value/BatchMatMulV2"].arrived.any((1, 2)).all()
    norm = records["norm0a"]
    assert not norm.taken_by_biases.any()
    np.testing.assert_array_equal(norm.handed_down[0], norm.arrived)


def test_without_bias_shares_only_the_class_token_takes_relevance():
    model = transformer(np.random.default_rng(5), depth=1)
    explainer = Explainer(model, composite="cp_lrp", absorb_bias=False, target="top1")
    records = explainer.layers(np.random.default_rng(4).normal(size=(1, SIDE, SIDE, 3)))
    taking = [record.name for record in records if record.taken_by_biases.any()]
    assert taking == ["tokens/ConcatV2"]
    product = next(one for one in records if one.name == "attention0/Einsum:2")
    assert not product.handed_down[0].any() and product.handed_down[1].all()


def test_the_composite_that_nobody_names_suits_the_network(model, tiny_model):
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
    assert shallow.unsuited == {"guided_backprop", "deconvnet"}
    with pytest.raises(UsageError, match="no ReLU"):
        Explainer(transformer(np.random.default_rng(5), depth=1), method="deconvnet")
    network = Explainer(keras.models.load_model(tiny_model))
    assert network.unsuited == {"attnlrp", "attnlrp_gamma", "cp_lrp"}
