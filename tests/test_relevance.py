"""The engine against naive re-derivations, hand-computed cases and conservation."""

import re
from dataclasses import replace

import keras
import naive
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp import Explainer, rule_named
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.relevance.network import steps
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.layers import UnsupportedLayerError, steps_of
from realtime_lrp.relevance.rules.composites import COMPOSITES, with_layers
from realtime_lrp.relevance.rules.layer_contexts import layer_contexts
from realtime_lrp.relevance.rules.rules import RULES, AlphaBeta, Epsilon, Gamma, LayerContext, ZBox
from realtime_lrp.relevance.rules.sharing import weighted

SEED = 5


def largest_difference(a, b) -> float:
    """The largest difference as a share of the largest entry."""
    return float(np.abs(np.asarray(a) - b).max() / np.abs(b).max())


@pytest.mark.parametrize("share", [False, True], ids=["winner takes all", "average"])
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize(
    ("window", "strides"), [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((2, 3), (1, 2))]
)
def test_max_pool_equals_the_naive_one(window, strides, padding, share, rng):
    """Overlapping windows and ties (values are small integers, so most windows have one)."""
    a = rng.integers(0, 3, size=(7, 8, 3)).astype("float32")
    pool = steps.MaxPool(window, strides, padding)
    pool.shares = share
    out = pool.forward(tf.constant(a[None]))
    relevance = rng.uniform(size=out.shape).astype("float32")
    (got,) = pool.relevance([tf.constant(a[None])], out, tf.constant(relevance))
    expected = naive.max_pool(a, relevance[0], window, strides, padding, share)
    assert largest_difference(got[0], expected) < 1e-5


def vgg_like(size=16, classes=5):
    """Convolutions, pools, dense layers: VGG16 in small."""
    return keras.Sequential(
        [
            keras.Input((size, size, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1"),
            layers.MaxPooling2D(name="pool1"),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="conv2"),
            layers.MaxPooling2D(3, 2, name="pool2"), layers.Flatten(name="flatten"),
            layers.Dense(16, activation="relu", name="fc1"), layers.Dropout(0.5, name="dropout"),
            layers.Dense(classes, activation="softmax", name="predictions"),
        ]
    )  # fmt: skip


@pytest.fixture(scope="module")
def abcde():
    """A network, and its explainer with the classes a to e."""
    keras.utils.set_random_seed(5)
    model = vgg_like()
    return model, Explainer(model, labels=list("abcde"))


@pytest.mark.parametrize("target", ["all", "top1", "top3", 3, "d", "a - c", "b - rest"])
def test_a_whole_network_equals_the_naive_one(target, abcde, rng):
    model, explainer = abcde
    x = rng.normal(size=(3, 16, 16, 3)).astype("float32")
    explanation = explainer(x, target=target)
    np.testing.assert_allclose(explanation.scores, model(x, training=False), atol=1e-6)
    for picture, p, relevance in zip(x, explanation.scores, explanation.relevance, strict=True):
        start = {
            "all": p, "top1": p * (p == p.max()), "top3": p * (p >= np.sort(p)[-3]),
            3: p * np.eye(5)[3], "d": p * np.eye(5)[3], "a - c": p * [1, 0, -1, 0, 0],
            "b - rest": p[1] * np.where(np.arange(5) == 1, 1, -p / (1 - p[1])),
        }[target]  # fmt: skip
        rules = ("zplus_input", "zplus", "zplus", "zplus")
        expected = naive.handed_to_pixels(model, picture, start, rules, absorb=False)
        assert largest_difference(relevance, expected) < 1e-5


@pytest.fixture(scope="module")
def of_several(abcde):
    also = ["gradient", "grad_cam", "integrated_gradients"]
    return Explainer(abcde[0], also=also, samples=3, labels=list("abcde"))


def test_each_picture_has_its_own_target(of_several, rng):
    explainer = of_several
    x = rng.normal(size=(5, 16, 16, 3)).astype("float32")
    targets = ["all", "top2", np.int64(4), "b", "a - rest"]
    together = explainer(x, target=targets)
    records = explainer.layers(x, target=targets)
    for number, target in enumerate(targets):
        alone = explainer(x[number : number + 1], target=target)
        assert largest_difference(together.relevance[number], alone.relevance[0]) < 1e-5
        for name, maps in alone.maps.items():
            np.testing.assert_allclose(together.maps[name][number], maps[0], atol=1e-6)
        start = alone.relevance.sum()  # z+ keeps what starts
        np.testing.assert_allclose(records[0].arrived[number].sum(), start, rtol=1e-3, atol=1e-6)
    assert explainer.traces == 1


def test_one_picture_has_several_targets(of_several, rng):
    explainer = of_several
    x = rng.normal(size=(1, 16, 16, 3)).astype("float32")
    targets = np.array([3, 0, 3, 1])
    together = explainer(x, target=targets)
    assert together.scores.shape == (4, 5)
    for number, target in enumerate(targets):
        alone = explainer(x, target=target)
        np.testing.assert_allclose(together.scores[number], alone.scores[0], atol=1e-6)
        assert largest_difference(together.relevance[number], alone.relevance[0]) < 1e-5
        got, expected = (one.maps["integrated_gradients"] for one in (together, alone))
        assert largest_difference(got[number], expected[0]) < 1e-5
    first = explainer.layers(x, target=[2, 4])[0]
    assert first.name == "predictions"
    np.testing.assert_allclose(first.sums(), together.scores[0, [2, 4]], rtol=1e-4)


def test_wrong_sequences_of_targets_are_refused(abcde, rng):
    x = rng.normal(size=(3, 16, 16, 3))
    for targets, message in (
        ([0, 1], "a sequence of 3, one for each picture. Received a sequence of 2"),
        (["a", "top1", "q"], "Target 2 of the sequence: There is no class 'q'"),
        ([[0], [1], [2]], "Target 0 of the sequence: Expected a class"),
        ({0, 1, 2}, "Expected a class by name or index"),
    ):
        with pytest.raises(UsageError, match=message):
            abcde[1](x, target=targets)


def branched():
    """Branches, a shared layer, nested models, an overlapping pool and padding before the input."""
    shared = layers.Conv2D(6, 3, padding="same", activation="relu", name="shared")
    inner_in = keras.Input((14, 14, 6))
    inner = keras.Model(inner_in, layers.AveragePooling2D(2)(shared(inner_in)), name="inner")
    tail = keras.Sequential(
        [layers.Conv2D(4, 1, activation="relu"), layers.GlobalAveragePooling2D(name="gap")],
        name="tail",
    )
    x = keras.Input((12, 12, 3))
    h = layers.ZeroPadding2D(2)(layers.Rescaling(1 / 127.5, offset=-1)(x))
    h = layers.Conv2D(6, 3, activation="relu", name="first")(h)
    joined = layers.Concatenate()([inner(shared(h)), layers.MaxPooling2D(3, 2, padding="same")(h)])
    pooled = layers.Concatenate()([tail(joined), layers.GlobalMaxPooling2D()(joined)])
    return keras.Model(x, layers.Dense(4, activation="softmax", name="last")(pooled))


@pytest.mark.parametrize("pool", ["max", "average"])
def test_branches_nested_models_and_shared_layers_conserve_relevance(pool, rng):
    model = branched()
    explainer = Explainer(model, pool=pool)
    x = rng.uniform(0, 255, size=(2, 12, 12, 3)).astype("float32")
    explanation = explainer(x)
    np.testing.assert_allclose(explanation.scores, model(x, training=False), atol=1e-6)
    np.testing.assert_allclose(explanation.relevance.sum((1, 2, 3)), 1, atol=2e-3)
    assert {"inner/shared", "shared", "tail/gap"} <= {one.name for one in explainer.layers(x)}


def test_padding_before_the_first_convolution_takes_no_relevance(rng):
    inside = keras.Input((8, 8, 3))
    conv = layers.Conv2D(4, 3, name="first", activation="relu")
    head = layers.Dense(3, activation="softmax", name="last")
    padded = keras.Model(inside, head(layers.Flatten()(conv(layers.ZeroPadding2D(1)(inside)))))
    same_conv = layers.Conv2D(4, 3, name="first", padding="same", activation="relu")
    same = keras.Model(inside, head(layers.Flatten()(same_conv(inside))))
    same_conv.set_weights(conv.get_weights())
    x = rng.normal(size=(1, 8, 8, 3)).astype("float32")
    expected = Explainer(same)(x).relevance
    assert largest_difference(Explainer(padded)(x).relevance, expected) < 1e-5
    np.testing.assert_allclose(expected.sum(), 1, atol=1e-4)


def test_average_pools_share_in_proportion(rng):
    x = rng.integers(1, 4, size=(4, 6, 2)).astype("float32")
    pool = steps.AveragePool((2, 3), (2, 3), "valid")
    relevance = rng.uniform(size=(2, 2, 2)).astype("float32")
    out = pool.forward(tf.constant(x[None]))
    (got,) = pool.relevance([tf.constant(x[None])], out, tf.constant(relevance[None]))
    expected = naive.max_pool(x, relevance, (2, 3), (2, 3), "valid", share=True)
    assert largest_difference(got[0], expected) < 1e-5
    maximum = steps.GlobalMaxPool()
    for step, share in ((steps.GlobalAveragePool(), True), (maximum, True), (maximum, False)):
        step.shares = share
        (got,) = step.relevance(
            [tf.constant(x[None])], step.forward(x[None]), tf.constant(relevance[:1, :1][None])
        )
        expected = naive.max_pool(x, relevance[:1, :1], (4, 6), (4, 6), "valid", share=share)
        assert largest_difference(got[0], expected) < 1e-5


def test_a_model_that_ends_in_logits_gets_a_softmax_and_says_so(caplog, rng):
    x = keras.Input((6, 6, 3))
    model = keras.Model(x, layers.Dense(4)(layers.Flatten()(x)), name="bare")
    explainer = Explainer(model)
    assert "bare" in caplog.text and "a softmax makes" in caplog.text
    picture = rng.normal(size=(1, 6, 6, 3)).astype("float32")
    scores = explainer(picture).scores
    np.testing.assert_allclose(scores, keras.ops.softmax(model(picture)), atol=1e-6)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "linear"])
def test_what_the_last_values_are_can_be_said(activation, rng):
    x = keras.Input((6, 6, 3))
    dense = layers.Dense(2, use_bias=False)(layers.Flatten()(x))
    model = keras.Model(x, dense)
    explainer = Explainer(model, composite="epsilon", target=1, output_activation=activation)
    picture = rng.normal(size=(1, 6, 6, 3)).astype("float32")
    found = explainer(picture)
    np.testing.assert_allclose(
        found.scores, getattr(keras.activations, activation)(model(picture)), atol=1e-6
    )
    np.testing.assert_allclose(np.abs(found.relevance.sum()), abs(found.scores[0, 1]), rtol=1e-4)
    ended = keras.Model(x, layers.Softmax()(dense))
    if activation == "softmax":
        np.testing.assert_allclose(
            Explainer(ended, output_activation=activation)(picture).scores, found.scores, atol=1e-6
        )
    else:
        with pytest.raises(UsageError, match="ends in a softmax already"):
            Explainer(ended, output_activation=activation)
    with pytest.raises(UsageError, match="Did you mean 'linear'"):
        Explainer(model, output_activation="liner")


def softmax_of_features(x):
    return layers.Dense(3, activation="softmax")(layers.Flatten()(x))


ENDS_IN_SCORES = {
    "two sigmoids": lambda x: layers.Concatenate()(
        [layers.Dense(1, activation="sigmoid")(layers.Flatten()(x)) for _ in range(2)]
    ),
    "averaged softmax": lambda x: layers.GlobalAveragePooling2D()(
        layers.Conv2D(3, 1, activation="softmax")(x)
    ),
    "softmax over rows": lambda x: layers.Dense(2, activation="softmax")(
        layers.Flatten()(layers.Softmax(axis=1)(x))
    ),
    "averaged heads": lambda x: (softmax_of_features(x) + softmax_of_features(x)) / 2,
    "scaled": lambda x: layers.Rescaling(1.0)(softmax_of_features(x)),
    "one value": lambda x: layers.Dense(1)(layers.Flatten()(x)),
}


@pytest.mark.parametrize("build", ENDS_IN_SCORES.values(), ids=ENDS_IN_SCORES)
def test_scores_stay_as_they_are(build, caplog, rng):
    x = keras.Input((6, 6, 3))
    model = keras.Model(x, build(x))
    picture = rng.normal(size=(2, 6, 6, 3)).astype("float32")
    np.testing.assert_allclose(Explainer(model)(picture).scores, model(picture), atol=1e-6)
    assert "a softmax makes" not in caplog.text


def test_a_nested_model_may_have_an_output_that_nobody_uses(rng):
    inner_in = keras.Input((4, 4, 3))
    left = layers.Flatten()(layers.Conv2D(2, 1, activation="relu")(inner_in))
    right = layers.Flatten()(layers.Conv2D(2, 2)(inner_in))
    inner = keras.Model(inner_in, [left, right], name="inner")
    x = keras.Input((4, 4, 3))
    explainer = Explainer(keras.Model(x, layers.Dense(2, activation="softmax")(inner(x)[0])))
    picture = rng.normal(size=(1, 4, 4, 3))
    np.testing.assert_allclose(explainer(picture).relevance.sum(), 1, atol=1e-3)
    assert "inner/conv2d" in explainer.layers(picture)[-1].name


def test_quantised_weights_and_two_inputs_are_refused():
    """Integers without their scale would give wrong scores; only one picture is explained."""
    model = vgg_like()
    model.get_layer("fc1").quantize("int8")
    with pytest.raises(UnsupportedLayerError, match="quantised"):
        Explainer(model)
    a, b = keras.Input((4, 4, 3)), keras.Input((4, 4, 3))
    two = keras.Model([a, b], layers.Flatten()(layers.Concatenate()([a, b])))
    with pytest.raises(DamagedInputError, match="2 inputs"):
        Explainer(two)


def test_half_precision_models_are_explained_in_float32(rng):
    policy = keras.DTypePolicy("mixed_bfloat16")
    x = keras.Input((6, 6, 3))
    h = layers.Flatten()(layers.Conv2D(4, 3, activation="relu", dtype=policy)(x))
    model = keras.Model(x, layers.Dense(3, activation="softmax", dtype=policy)(h))
    explanation = Explainer(model)(rng.normal(size=(1, 6, 6, 3)))
    assert explanation.scores.dtype == explanation.relevance.dtype == np.float32
    np.testing.assert_allclose(explanation.relevance.sum(), 1, atol=1e-3)


def test_a_model_without_a_fixed_size_needs_one(rng):
    x = keras.Input((None, None, 3))
    h = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 5, activation="relu")(x))
    model = keras.Model(x, layers.Dense(3, activation="softmax")(h))
    with pytest.raises(UsageError, match="size"):
        Explainer(model)
    with pytest.raises(UsageError, match="3 x 3"):
        Explainer(model, size=(3, 3))
    explainer = Explainer(model, size=(9, 11))
    assert explainer(rng.normal(size=(1, 9, 11, 3))).relevance.shape == (1, 9, 11, 3)


def test_names_of_classes(abcde):
    explainer = Explainer(vgg_like(), labels=["A", "b", "B", "d_e", "d e"])
    for index, name in enumerate(("a", "b", "B", "d_e", "d e")):
        assert explainer.read_target(name).classes == (index,)
    for name, words in (("D E", "'D E' occurs twice"), ("a-rest", "Did you mean 'a - rest'")):
        with pytest.raises(UsageError, match=words):
            explainer.read_target(name)
    explainer = Explainer(abcde[0], labels=["a - b", "c", "d", "e - f", "g"])
    x = np.ones((1, 16, 16, 3), "float32")
    p = explainer(x).scores[0]
    for target, weights in {
        "a - b": [1, 0, 0, 0, 0], "a - b - c": [1, -1, 0, 0, 0],
        "c - a - b": [-1, 1, 0, 0, 0], "e - f - a - b": [-1, 0, 0, 1, 0],
    }.items():  # fmt: skip
        begin = explainer.layers(x, target=target)[0].arrived[0]
        np.testing.assert_allclose(begin, p * weights, atol=1e-6, err_msg=target)


def test_the_sign_of_maps_is_known():
    x = keras.Input((6, 6, 3))
    assert Explainer(keras.Model(x, layers.Dense(1)(layers.Flatten()(x)))).signs[0]
    explainer = Explainer(vgg_like())
    assert not explainer.signs[0]
    explainer.set_target("0 - 1")
    assert explainer.signs[0]
    assert Explainer(vgg_like(), composite="epsilon_plus").signs[0]
    assert not Explainer(vgg_like(), method="grad_cam").signs[0]


KERNEL, X = np.array([[1, 2, 1], [0.5, -0.99995, -1]], np.float32), np.array([1, 2], np.float32)


@pytest.fixture(scope="module")
def nearly_zero():
    """A dense layer with the logits 2, 0.0001 and -1."""
    model = keras.Sequential(
        [keras.Input((1, 2, 1)), layers.Flatten(), layers.Dense(3, use_bias=False, name="dense")]
    )
    model.layers[-1].set_weights([KERNEL])
    return model


def test_relevance_starts_at_the_probability_or_at_the_logit(nearly_zero):
    """By hand, with `epsilon`. Of all classes a logit near 0 covers the map; from logits not."""
    cases = {"all": None, "top1": (1, 0, 0), 2: (0, 0, 1), "0 - 2": (1, 0, -1)}
    for target, weights in cases.items():
        z = X @ KERNEL
        p = np.exp(z) / np.exp(z).sum()
        t = p if weights is None else np.array(weights)
        starts = {"probability": np.array(weights or 1) * p * np.sign(z), "logit": t * z}
        for start, begin in starts.items():
            explainer = Explainer(nearly_zero, composite="epsilon", target=target, start=start)
            found = explainer(X.reshape(1, 1, 2, 1))
            by_hand = (X[:, None] * KERNEL) @ (begin / (z + 1e-6 * np.sign(z)))
            np.testing.assert_allclose(found.relevance.ravel(), by_hand, rtol=2e-3)
            np.testing.assert_allclose(found.accounts["epsilon"].started, begin.sum(), rtol=1e-3)
            drowned = target == "all" and start == "probability"
            assert (np.abs(by_hand).sum() > 1000) == drowned
            assert ("--target top1" in explainer.flood_advice("dense")) is drowned


SHAPE = (6, 5, 3)


LAYERS = {
    "Conv2D": layers.Conv2D(6, 3),
    "Conv2D, stride 2, same": layers.Conv2D(6, 3, strides=2, padding="same"),
    "Conv2D, stride (1, 2)": layers.Conv2D(4, (2, 3), strides=(1, 2)),
    "Conv2D, dilation 2, same": layers.Conv2D(4, 3, dilation_rate=2, padding="same"),
    "Conv2D, groups": layers.Conv2D(6, 3, groups=3),
    "DepthwiseConv2D": layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
    "DepthwiseConv2D, stride 2": layers.DepthwiseConv2D(3, strides=2, padding="same"),
    "Conv2DTranspose": layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
    "Conv2DTranspose, valid": layers.Conv2DTranspose(2, 3, strides=2),
    "Dense on places": layers.Dense(4),
}


def quarters(rng, shape):
    """Random numbers from -2 to 2."""
    return rng.integers(-8, 9, shape).astype("float32") / 4


def built(layer):
    """A layer with weights and biases of both signs, and its step.

    They are quarters, as the inputs are: sums of such products are exact on every processor.
    """
    if not layer.built:
        layer.build((None, *SHAPE))
    rng = np.random.default_rng(7)
    layer.set_weights([quarters(rng, w.shape) for w in layer.get_weights()])
    return steps_of(layer)[0]


def naive_layer(layer) -> naive.Layer:
    """The same layer as a matrix, filled from the definition of its type."""
    kernel, bias = (np.asarray(w, "float64") for w in layer.get_weights())
    shapes = []

    def matrix(kernel):
        if isinstance(layer, layers.Dense):
            kernel = kernel[None, None]
        options = {}
        if isinstance(layer, layers.DepthwiseConv2D):
            rows, columns, depth, multiplier = kernel.shape
            kernel = kernel.reshape(rows, columns, 1, depth * multiplier)
            options["groups"] = depth
        elif isinstance(layer, layers.Conv2D):
            options["groups"] = layer.groups
        if not isinstance(layer, layers.Dense):
            options |= {"strides": layer.strides, "padding": layer.padding}
            options["dilation"] = layer.dilation_rate
        if isinstance(layer, layers.Conv2DTranspose):
            out = layer.compute_output_shape((1, *SHAPE))[1:]
            del options["dilation"]
            found, _ = naive.convolution_matrix(kernel, out, **options)
            shapes.append(out)
            return found.T
        found, out = naive.convolution_matrix(kernel, SHAPE, **options)
        shapes.append(out)
        return found

    weights, connected = matrix(kernel), matrix(np.ones_like(kernel))
    return naive.Layer(weights, connected, np.tile(bias, shapes[0][0] * shapes[0][1]))


@pytest.mark.parametrize("absorb_bias", [False, True], ids=["bias out", "bias absorbs"])
@pytest.mark.parametrize("nonnegative", [True, False], ids=["input >= 0", "signed input"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_every_rule_equals_its_naive_derivation(layer, nonnegative, absorb_bias, rng):
    step, plain = built(layer), naive_layer(layer)
    a = quarters(rng, (2, *SHAPE))
    a = np.maximum(a, 0) if nonnegative else a
    support = (rng.uniform(size=SHAPE) < 0.8).astype("float32")
    low, high = quarters(rng, SHAPE) - 5, quarters(rng, SHAPE) + 5
    context = LayerContext(
        nonnegative=nonnegative, support=tf.constant(support[None]), is_input=True,
        box=tuple(tf.constant(end[None], tf.float32) for end in (low, high)),
        absorb_bias=absorb_bias,
    )  # fmt: skip
    plain.support, plain.low, plain.high = support.ravel(), low.ravel(), high.ravel()
    plain.absorbed = plain.bias if absorb_bias else 0.0
    z = step.transform(a, step.ready(step.kernel))
    # outputs near 0 would magnify the rounding of z, with and without bias
    clear = np.minimum(np.abs(z), np.abs(z + step.bias)) > 0.5
    relevance = rng.normal(size=z.shape).astype("float32") * clear
    differences = {}
    for name, rule in RULES.items():
        got, *biases = rule().bind(step, context)(tf.constant(a), tf.constant(relevance))
        for taken in biases:
            missing = relevance.sum((1, 2, 3)) - np.sum(got, (1, 2, 3))
            if name not in ("zplus", "alpha_beta", "zplus_input"):  # they lose a part
                differences[f"{name}, biases"] = largest_difference(taken, missing) / 100
        expected = [
            getattr(naive, name)(plain, one.ravel(), r.ravel()).reshape(SHAPE)
            for one, r in zip(a.astype("float64"), relevance.astype("float64"), strict=True)
        ]
        differences[name] = largest_difference(got, np.stack(expected))
    assert {name: d for name, d in differences.items() if d > 1e-5} == {}


def dense(kernel, bias):
    layer = layers.Dense(len(bias))
    layer.build((None, len(kernel)))
    layer.set_weights([np.array(kernel, "float32"), np.array(bias, "float32")])
    return steps_of(layer)[0]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_by_hand(name):
    """Fractions worked out on paper for one dense layer; R = (1, 2)."""
    context = LayerContext(
        nonnegative=True, support=tf.ones([1, 3]), is_input=True,
        box=(tf.zeros([1, 3]), tf.fill([1, 3], 4.0)),
    )  # fmt: skip
    rule = rule_named(name).bind(dense(naive.KERNEL, naive.BIAS), context)
    got = rule(tf.constant([naive.A]), tf.constant([[1.0, 2.0]]))
    expected = naive.BY_HAND[name]
    np.testing.assert_allclose(got[0][0], expected, rtol=5e-6)  # the stabiliser, 1e-6 of z


def test_a_bias_that_absorbs_takes_its_share():
    """z+ by hand: the first output's bias 5 holds 5/12 of its relevance, which no input gets."""
    inputs, biases = rule_named("zplus").bind(
        dense(naive.KERNEL, naive.BIAS), LayerContext(nonnegative=True, absorb_bias=True)
    )(tf.constant([naive.A]), tf.constant([[1.0, 2.0]]))
    np.testing.assert_allclose(inputs[0], [1 / 12 + 4 / 8, 6 / 12, 12 / 8], rtol=2e-6)
    np.testing.assert_allclose(biases, [5 / 12], rtol=2e-6)


def test_outputs_of_zero():
    """Under gamma neither branch applies; the stabiliser is positive: 2 and -2 over +0.5."""
    step, a, relevance = dense([[1.0], [-1.0]], [0.0]), tf.fill([1, 2], 2.0), tf.fill([1, 1], 3.0)
    np.testing.assert_array_equal(Gamma().bind(step, LayerContext())(a, relevance)[0], [[0, 0]])
    (found,) = Epsilon(0.5).bind(step, LayerContext())(a, relevance)
    np.testing.assert_allclose(found, [[12, -12]])


def test_flat_ignores_the_pixels_and_the_padding(rng):
    step = built(layers.Conv2D(4, 3, padding="same"))
    support = np.zeros((1, *SHAPE), "float32")
    support[:, 1:5, 1:4] = 1
    propagate = rule_named("flat").bind(step, LayerContext(support=tf.constant(support)))
    relevance = tf.constant(rng.uniform(size=(1, 6, 5, 4)).astype("float32"))
    (bright,) = propagate(tf.fill([1, *SHAPE], 200.0), relevance)
    np.testing.assert_array_equal(bright, propagate(tf.fill([1, *SHAPE], -3.0), relevance)[0])
    assert np.all(bright.numpy()[support == 0] == 0)
    np.testing.assert_allclose(np.sum(bright), np.sum(relevance), rtol=1e-4)


def test_a_rule_is_written_as_it_prints_and_a_wrong_one_is_answered_with_the_right_form():
    for rule in (Epsilon(0.25), AlphaBeta(1, 0), Gamma(), rule_named("flat"), ZBox()):
        assert rule_named(str(rule)) == rule
    assert str(AlphaBeta()) == "alpha_beta(2, 1)"
    assert rule_named(" gamma( 0.5 ) ") == Gamma(0.5)
    for text, words in {
        "epsilonn": "'epsilon'", "w_square": "'wsquare'", "flat(3)": "flat without brackets",
        "gamma(x)": "gamma(gamma)", "epsilon(inf)": "from 0 upwards",
        "alpha_beta(2, 2)": "alpha - beta = 1", "eps(": "rule",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=re.escape(words)):
            rule_named(text)


def test_zbox_needs_an_input_layer_and_a_box():
    step = dense(naive.KERNEL, naive.BIAS)
    with pytest.raises(UsageError, match="'fc1' lies behind"):
        ZBox().bind(step, LayerContext(name="fc1"))
    with pytest.raises(UsageError, match=r"low=.*high="):
        ZBox().bind(step, LayerContext(is_input=True, support=tf.ones([1, 3])))


def test_what_biases_took_is_weighted_as_what_inputs_got():
    """Alpha-beta's two terms: 2 * 3 - 1 * 4 for inputs, 2 * 5 - 1 * 7 for biases."""
    shares = [[tf.constant([[x]]), tf.constant([b])] for x, b in ((3.0, 5.0), (4.0, 7.0))]
    inputs, biases = weighted([(2.0, shares[0]), (-1.0, shares[1])])
    assert (float(inputs[0, 0]), float(biases[0])) == (2.0, 3.0)


A = np.array([1.0, 2.0, 3.0])
WEIGHTS = np.array([[2.0, -1.0], [-1.0, 0.5], [1.0, -2.0]])
BIAS = np.array([0.5, 1.0])
# logits: 2 - 2 + 3 + 0.5 = 3.5 and -1 + 1 - 6 + 1 = -5


def dense_model(activation="softmax"):
    model = keras.Sequential(
        [keras.Input((1, 3, 1)), layers.Flatten(), layers.Dense(2, activation=activation)]
    )
    model.layers[-1].set_weights([WEIGHTS, BIAS])
    return model


PICTURE = A.reshape(1, 1, 3, 1).astype("float32")
LOGITS = A @ WEIGHTS + BIAS
P = np.exp(LOGITS) / np.exp(LOGITS).sum()


def relevance_of(model, **options):
    return Explainer(model, **options)(PICTURE).relevance.ravel()


def test_evidence_for_a_class_with_a_negative_logit_is_positive():
    """Where scores are sigmoids too: only the second pixel raises the logit of class 1."""
    got = relevance_of(dense_model("sigmoid"), composite="epsilon", target=1)
    assert (np.sign(got) == [-1, 1, -1]).all()


def test_z_plus_and_a_single_linear_output_start_as_they_are():
    assert relevance_of(dense_model(), target=1) == pytest.approx([0, P[1], 0], abs=1e-6)
    model = keras.Sequential([keras.Input((1, 3, 1)), layers.Flatten(), layers.Dense(1)])
    model.layers[-1].set_weights([WEIGHTS[:, 1:], BIAS[1:]])
    np.testing.assert_allclose(
        relevance_of(model, composite="epsilon"), A * WEIGHTS[:, 1], rtol=1e-5
    )


ZPLUS = ("zplus", "excitation_backprop")


@pytest.mark.parametrize("absorb_bias", [None, False, True])
def test_biases_take_their_share_except_under_z_plus(absorb_bias):
    options = {"also": (*ZPLUS, "epsilon", "epsilon_plus"), "target": 0, "absorb_bias": absorb_bias}
    for name, map_ in Explainer(dense_model(), **options)(PICTURE).maps.items():
        started = 1.0 if name == "excitation_backprop" else P[0]
        if absorb_bias:
            assert map_.sum() < 0.95 * started, name
        else:
            share = 0 if name in ZPLUS or absorb_bias is False else BIAS[0] / LOGITS[0]
            assert map_.sum() == pytest.approx(started * (1 - share), rel=1e-5), name


NAIVE_RULES = {
    "zplus": ("zplus_input", "zplus", "zplus"), "epsilon": ("epsilon", "epsilon", "epsilon"),
    "epsilon_plus": ("zplus", "zplus", "epsilon"),
    "epsilon_plus_flat": ("flat", "zplus", "epsilon"),
    "epsilon_alpha2_beta1": ("alpha_beta", "alpha_beta", "epsilon"),
    "epsilon_alpha2_beta1_flat": ("flat", "alpha_beta", "epsilon"),
    "epsilon_gamma_box": ("zbox", "gamma", "epsilon"), "attnlrp": ("epsilon", "epsilon", "epsilon"),
    "attnlrp_gamma": ("gamma", "gamma", "gamma 0.05"), "cp_lrp": ("epsilon", "epsilon", "epsilon"),
}  # fmt: skip
"""The rules of the first convolution, the second one and the dense layer."""


def convolutional_model(rng):
    """Two convolutions and a dense layer, with biases of both signs, and a picture of noise."""
    model = keras.Sequential(
        [
            keras.Input((6, 5, 2)), layers.Conv2D(4, 3, activation="relu"),
            layers.Conv2D(5, 2, activation="relu"), layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )  # fmt: skip
    model.set_weights([rng.normal(scale=0.5, size=w.shape) for w in model.get_weights()])
    return model, rng.normal(size=(1, 6, 5, 2)).astype("float32")


def test_every_composite_equals_its_naive_derivation_with_biases(rng):
    model, x = convolutional_model(rng)
    explanation = Explainer(model, also=list(COMPOSITES), low=-6, high=6)(x)
    assert explanation.maps.keys() == NAIVE_RULES.keys()
    for name, rules in NAIVE_RULES.items():
        start, absorb = explanation.scores[0], name != "zplus"
        expected = naive.handed_to_pixels(model, x[0], start, rules, absorb)
        naive.assert_near(explanation.maps[name][0], expected, 1e-4, name)


@pytest.mark.parametrize("rule", ["epsilon", "gamma", "alpha_beta", "zplus", "wsquare", "flat"])
@pytest.mark.parametrize("composite", ["zplus", "epsilon"])
def test_a_rule_for_a_layer_treats_biases_as_its_source_does(composite, rule):
    graph = build_graph(dense_model())
    contexts = layer_contexts(graph, (1, 3, 1), None)
    plain = naive.Layer(WEIGHTS, np.ones_like(WEIGHTS), BIAS, support=np.ones(3))
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
        np.testing.assert_allclose(got[0][0], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("precision", "names"), [
    ("float32", ["zplus", "epsilon_alpha2_beta1_flat", "attnlrp_gamma"]),
    ("bfloat16", ["epsilon_gamma_box"]),
    pytest.param("float32", COMPOSITES, marks=pytest.mark.release),
    pytest.param("bfloat16", COMPOSITES, marks=pytest.mark.release),
])  # fmt: skip
def test_the_account_of_every_composite_closes(precision, names, rng):
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
        rest = started - np.sum(relevance) - taken - sum(record.lost[0] for record in records)
        assert abs(rest) < tolerance * magnitude, name
        rounding = 1e-6 if precision == "float32" else tolerance * float(magnitude)
        by_layer = sum(record.taken_by_biases[0] for record in records)
        assert by_layer == pytest.approx(taken, abs=rounding)
        assert bool(taken) is (name != "zplus")
