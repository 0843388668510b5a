"""Speed, precision and batches: the same maps as by the plain formula; what `bench` measures."""

import json
import os
import subprocess
import sys

import cv2
import keras
import media
import numpy as np
import pytest
import tensorflow as tf
import uncompiled
from drawing import draw_picture
from faults.networks import Bounded, Failing, deep_residual, overflowing
from keras import layers
from test_relevance import branched, largest_difference, vgg_like

from realtime_lrp import METHODS, Explainer, config, load_network
from realtime_lrp.commands.bench import timing
from realtime_lrp.engine import device as hardware
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine.device import Device
from realtime_lrp.errors import DamagedInputError, NotFiniteError, UnavailableError, UsageError
from realtime_lrp.relevance.maps import compiled, layer_views, plan
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.layers import steps_of
from realtime_lrp.relevance.rules.composites import COMPOSITES

SEED = 7


CONVOLUTIONS = {
    "3 x 3": layers.Conv2D(5, 3, padding="same"),
    "valid": layers.Conv2D(5, (3, 2), padding="valid"),
    "even": layers.Conv2D(5, (2, 4), padding="same"),
    "strides": layers.Conv2D(5, 3, strides=2, padding="same"),
    "1 x 1": layers.Conv2D(5, 1),
    "1 x 1, strides": layers.Conv2D(5, 1, strides=2),
    "1 x 1, uneven strides": layers.Conv2D(5, 1, strides=(2, 3)),
    "1 x 1, same, strides": layers.Conv2D(5, 1, strides=(3, 1), padding="same"),
    "first layer": layers.Conv2D(5, 3, strides=2),  # the last column is in no window
    "first layer, window of the stride": layers.Conv2D(5, 2, strides=2),
    "first layer, window within the stride": layers.Conv2D(5, 2, strides=3),
    "first layer, large": layers.Conv2D(5, 7, strides=3),
    "first layer, wide": layers.Conv2D(5, (3, 5), strides=2),
    "dilated": layers.Conv2D(5, 3, dilation_rate=2, padding="same"),
    "groups": layers.Conv2D(8, 3, groups=2, padding="same"),
    "depthwise": layers.DepthwiseConv2D(3, padding="same"),
    "depthwise, strides": layers.DepthwiseConv2D(3, strides=2, padding="valid"),
    "depthwise, 2 each": layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
    "depthwise, dilated": layers.DepthwiseConv2D(3, dilation_rate=2, padding="same"),
    "transposed": layers.Conv2DTranspose(5, 3, strides=2, padding="same"),
    "dense": layers.Dense(5),
}


CASES = [
    pytest.param(name, activation, dtype, marks=[pytest.mark.release] if (a + b + c) % 2 else [])
    for a, name in enumerate(CONVOLUTIONS)
    for b, activation in enumerate(["", "relu", "relu6"])
    for c, dtype in enumerate([tf.float32, tf.bfloat16])
]  # by default each layer with each activation, half of them in bfloat16


@pytest.mark.parametrize(("name", "activation", "dtype"), CASES)
def test_compiled_layers_give_what_keras_gives(name, activation, dtype, rng):
    layer = CONVOLUTIONS[name]
    # small integers: their sums are exact, also in bfloat16 and in any order
    a = tf.constant(rng.integers(-4, 5, (2, 9, 8, 4)), tf.float32)
    layer(a)
    layer.set_weights([rng.integers(-2, 3, w.shape) for w in layer.get_weights()])
    step = steps_of(layer)[0].cast(dtype)
    rectify = {"": tf.identity, "relu": tf.nn.relu, "relu6": tf.nn.relu6}[activation]
    with tf.GradientTape() as tape:
        tape.watch(a)
        plain = layer(a)
    s = tf.cast(tf.constant(rng.integers(-4, 5, plain.shape), tf.float32), dtype)
    adjoint = tape.gradient(plain, a, tf.cast(s, tf.float32))
    # graphs, which is where the fast operations are used
    forward = tf.function(lambda a: step.forward(a, activation), autograph=False)
    back = tf.function(lambda s: step.transpose(s, step.weights, tf.shape(a)), autograph=False)
    got = tf.cast(forward(tf.cast(a, dtype)), tf.float32)
    assert largest_difference(got, rectify(plain)) < 1e-5
    assert largest_difference(tf.cast(back(s), tf.float32), adjoint) < 1e-5


def rectified(first=None, second=None, third=None):
    """Convolutions whose ReLUs have these ceilings, the second one behind a batch norm."""
    x = keras.Input((12, 12, 3))
    h = layers.ReLU(max_value=first)(layers.Conv2D(6, 3, padding="same")(x))
    h = layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same", use_bias=False)(h))
    h = layers.ReLU(max_value=second)(h)
    h = layers.DepthwiseConv2D(3, padding="same")(h)
    h = layers.GlobalAveragePooling2D()(layers.ReLU(max_value=third)(h))
    return keras.Model(x, layers.Dense(4, activation="softmax")(h))


@pytest.mark.parametrize(("ceilings", "names"), [
    ((6, None, 2), ["lrp", "gradient", "grad_cam", "guided_backprop"]),
    pytest.param((None, 2, 6), METHODS, marks=pytest.mark.release),
    pytest.param((2, 6, None), METHODS, marks=pytest.mark.release),
])  # fmt: skip
@uncompiled.compiled()
def test_a_relu_computed_with_its_layer_changes_no_map(ceilings, names, rng, monkeypatch):
    model = rectified(*ceilings)
    x = rng.normal(size=(2, 12, 12, 3)).astype("float32") * 8
    options = {"also": names, "target": "top1", "samples": 3}
    fast = Explainer(model, **options)(x)
    np.testing.assert_allclose(fast.scores, model.predict_on_batch(x), atol=1e-6)
    monkeypatch.setattr("realtime_lrp.relevance.network.graph.RECTIFIERS", {})
    monkeypatch.setattr(onednn, "usable", lambda a, kernel: False)
    plain = Explainer(model, **options)(x)
    for name in names:
        assert largest_difference(fast.maps[name], plain.maps[name]) < 1e-5, name


@uncompiled.compiled()
def test_all_frames_are_one_trace(rng):
    model = rectified()
    explainer = Explainer(model, also=["epsilon_plus_flat", "gradient"], labels=list("abcd"))
    frames = rng.normal(size=(12, 12, 12, 3)).astype("float32")
    targets = ["all", "top1", "top3", 2, "b", "a - c", "d - rest", None]
    for number in range(24):  # each target with each batch size
        batch = frames[number % 8 : number % 8 + 1 + number % 3]
        explanation = explainer(batch, target=targets[number % len(targets)])
        explainer.set_target(targets[number % 7])
    assert explanation.relevance.shape == batch.shape
    assert explainer.traces == explainer._run.traces == 1
    explainer = Explainer(model)
    pipeline = explainer.compile_pipeline(lambda x: tf.cast(x, tf.float32), lambda r: r)
    pipeline(rng.integers(0, 255, (2, *explainer.input_shape), np.uint8))
    assert explainer.traces == 1 and explainer._run.traces == 0


@pytest.fixture(scope="module")
def model():
    return vgg_like()


@pytest.mark.parametrize(("samples", "chunk"), [(40, 8), (7, 3)])
@uncompiled.compiled()
def test_samples_in_chunks_give_the_map_of_all_at_once(samples, chunk, model, monkeypatch, rng):
    x = rng.normal(size=(2, 16, 16, 3)).astype("float32")
    options = {"method": "smoothgrad", "also": ["integrated_gradients"], "samples": samples}
    whole = Explainer(model, **options)
    monkeypatch.setattr(plan, "CHUNK_BYTES", chunk * whole._plans[0].activations)
    parts = Explainer(model, **options)
    got, expected = parts(x), whole(x)
    assert largest_difference(got.relevance, expected.relevance) < 1e-5
    path, all_at_once = (one.maps["integrated_gradients"] for one in (got, expected))
    assert largest_difference(path, all_at_once) < 1e-5
    assert parts.traces == 1


def test_a_large_batch_is_explained_in_parts(model, monkeypatch, rng):
    explainer = Explainer(model, also=["gradient"])
    x = rng.normal(size=(7, 16, 16, 3))
    targets = [0, "top1", "all", 3, 4, "0 - 1", 2]
    calls = ((x, targets), (x.astype("float32"), 1), (tf.constant(x), None), (x[:1], targets))
    expected = [explainer(*call) for call in calls]
    scores = explainer.scores(x)
    monkeypatch.setattr(Explainer, "pictures_at_once", lambda self: 3)
    for call, right in zip(calls, expected, strict=True):
        got = explainer(*call)
        assert got.scores.shape == (7, 5) and got.targets == right.targets
        np.testing.assert_allclose(got.scores, right.scores, atol=1e-6)
        np.testing.assert_allclose(got.relevance, right.relevance, atol=1e-7)
        assert largest_difference(got.maps["gradient"], right.maps["gradient"]) < 1e-5
        (account,), (other,) = got.accounts.values(), right.accounts.values()
        np.testing.assert_allclose(account.started, other.started, atol=1e-6)
    np.testing.assert_allclose(explainer.scores(x), scores, atol=1e-6)


def test_one_picture_that_overflows_is_found_among_many(monkeypatch):
    explainer = Explainer(overflowing())
    monkeypatch.setattr(Explainer, "pictures_at_once", lambda self: 3)
    x = np.zeros((5, 16, 16, 3), np.float32)
    x[4, ..., 0] = 255
    with pytest.raises(NotFiniteError, match="Inf in the layer 'second'"):
        explainer(x, target=[0, 1, 2, 0, 1])


def test_a_batch_is_halved_where_a_device_has_too_little_memory():
    tried = []

    def run(most):
        def limited(x):
            tried.append(len(x))
            if len(x) > most:
                raise tf.errors.ResourceExhaustedError(None, None, "OOM")
            return tf.constant(x) * 2

        return limited

    got = compiled.run_in_parts(run(2), [np.arange(7.0)], 100)
    np.testing.assert_array_equal(got, 2 * np.arange(7))
    assert tried == [7, 3, 1, 1, 1, 1, 1, 1, 1]
    with pytest.raises(UnavailableError, match="memory does not suffice to explain one picture"):
        compiled.run_in_parts(run(0), [np.arange(7.0)], 100)


def test_maps_that_do_not_fit_are_refused_at_once(model, monkeypatch, rng):
    explainer = Explainer(model)
    for module in (compiled, layer_views):
        monkeypatch.setattr(module, "available_bytes", lambda: 3 * explainer._plans[0].activations)
    assert explainer.pictures_at_once() == 1
    with pytest.raises(UnavailableError, match=r"The maps of 5000 pictures need 0\.0\d GiB"):
        explainer(np.zeros((5000, 16, 16, 3), np.float32))


@pytest.mark.release
@uncompiled.compiled()
def test_bench_measures_a_users_network(run, tiny_model, tmp_path):
    target = tmp_path / "b.json"
    words = ("--model", tiny_model, "--json", target, "--set", "live.camera_size=640x480")
    code, out, err = run("bench", "--quick", *words)
    assert code == 0, err
    assert "the pictures hold values" not in err, "noise is prepared as pictures are"
    report = json.loads(target.read_text())
    rows = {(r["what"], r["precision"], r["batch"]): r for r in report["maps"]}
    precisions = ("float32", *["bfloat16"] * hardware.computes_bfloat16())
    assert set(rows) == {
        ("origin", "float32", 1),
        ("exported", "float32", 1),
        *((what, p, 1) for what in ("map", "forward") for p in precisions),
        *((what, hardware.device().fast_precision, 8) for what in ("map", "forward")),
    }
    assert all(0 < row["p10"] <= row["ms"] <= row["p90"] for row in rows.values())
    (run_30,) = report["live"]
    assert run_30["fps"] == 30 and run_30["frames_shown"] > 20 and run_30["traces"] == 1
    captured, shown, dropped = (run_30[f"frames_{n}"] for n in ("captured", "shown", "dropped"))
    assert 0 <= captured - shown - dropped <= 2
    assert run_30["start_s"] > 0.5
    assert 100 < run_30["memory_mib"] <= run_30["peak_memory_mib"]
    assert all(times["carry"]["ms"] > 0.1 for times in report["pictures"].values())
    assert report["machine"] in out and report["tensorflow"] in out
    assert ("Run it alone" in out) == (report["load"] > 1)
    faster = rows["origin", "float32", 1]["ms"] / rows["map", "float32", 1]["ms"]
    assert f"{faster:.1f}" in out
    pace = run_30["engine_maps_per_s"]
    assert pace > 1 and f" {run_30['maps_per_s'] / min(pace, 30):.2f} " in out


def grouped():
    grouped = keras.layers.Conv2D(4, 3, groups=2, activation="relu")
    ends = keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3, activation="softmax")
    first = keras.layers.Conv2D(4, 3, activation="relu")
    return keras.Sequential([keras.Input((8, 8, 3)), first, grouped, *ends])


@pytest.mark.parametrize("build", [vgg_like, grouped])
@uncompiled.compiled()
def test_the_baseline_gives_our_maps(build, rng):
    keras.utils.set_random_seed(1)
    model = build()
    x = rng.uniform(0, 255, size=(2, *model.input_shape[1:])).astype("float32")
    origin, ours = timing.baseline(build_graph(model)), Explainer(model)
    assert largest_difference(origin(x).relevance, ours(x).relevance) < 1e-5
    types = [op.type for op in origin._run.traced().graph.get_operations()]
    assert types.count("Maximum") >= 4  # max(w, 0) for every picture
    assert "_MklNativeFusedConv2D" not in types


def test_operations_and_weights_are_counted():
    """By hand: 2 operations for each use of a weight."""
    x = keras.Input((8, 8, 3))
    h = keras.layers.Conv2D(4, 3, padding="same")(x)
    h = keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(h)
    h = keras.layers.Conv2DTranspose(2, 2, strides=2)(h)
    y = keras.layers.Dense(5, activation="softmax")(keras.layers.Flatten()(h))
    explainer = Explainer(keras.Model(x, y))
    assert explainer.weights == 108 + 36 + 32 + 640
    assert explainer.flops == 2 * (108 * 64 + 36 * 16 + 32 * 16 + 640)


def correlations(maps, others):
    pairs = zip(maps, others, strict=True)
    return [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs]


STEADY = {
    "zplus": 0.995, "epsilon_plus_flat": 0.995, "excitation_backprop": 0.99, "grad_cam": 0.99,
}  # fmt: skip
"""Maps that rounding keeps -> the least correlation with float32, of random weights."""


NAMES = [*COMPOSITES, *METHODS]
OPTIONS = {"target": "top1", "low": 0, "high": 255, "samples": 3}


@pytest.mark.parametrize(("build", "names"), [
    pytest.param(vgg_like, [*STEADY, "epsilon_gamma_box", "guided_backprop"], id="vgg"),
    pytest.param(vgg_like, NAMES, id="all maps", marks=pytest.mark.release),
    pytest.param(branched, NAMES, id="branched", marks=pytest.mark.release),
])  # fmt: skip
@uncompiled.compiled()
def test_bfloat16_gives_the_maps_of_float32(build, names):
    model, rng = build(), np.random.default_rng(20)
    x = rng.uniform(0, 255, size=(4, *model.input_shape[1:])).astype("float32")
    expected = Explainer(model, precision="float32", also=names, **OPTIONS)(x)
    fast = Explainer(model, precision="bfloat16", also=names, **OPTIONS)
    got = fast(x)
    assert fast.traces == 1
    np.testing.assert_allclose(got.scores, expected.scores, atol=0.02)
    np.testing.assert_allclose(got.scores.sum(1), 1, atol=1e-5)
    sums = got.relevance.sum((1, 2, 3), dtype="float64")
    np.testing.assert_allclose(sums, got.scores.max(1), rtol=0.01)
    for name in names:
        assert got.maps[name].dtype == np.float32
        assert np.isfinite(got.maps[name]).all(), name
    for name, least in STEADY.items():
        assert min(correlations(got.maps[name].sum(3), expected.maps[name].sum(3))) > least, name


@pytest.fixture(scope="module")
def drawings():
    """The embedded network, and pictures of the first three symbols that it names."""
    network = load_network("shapes")
    rng = np.random.default_rng(3)
    pictures = [draw_picture(rng, label, sizes=(0.4, 0.77)).pixels for label in range(3)]
    return network, np.asarray(network.prepare(np.stack(pictures)))


@uncompiled.compiled()
def test_auto_gives_the_default_map_of_drawn_pictures(drawings):
    network, x = drawings
    options = {"composite": "epsilon_plus_flat", "labels": network.labels, **network.box()}
    exact = Explainer(network.model, **options)
    fast = Explainer(network.model, precision="auto", **options)
    assert (fast.precision, fast.exact_forward) == ("bfloat16", True)
    scores = exact.scores(x)
    assert (scores[range(3), range(3)] > 0.99).all()
    for target in ("all", "top1", *range(3)):
        found = correlations(fast(x, target).relevance, exact(x, target).relevance)
        for picture, correlation in enumerate(found):
            if isinstance(target, str) or scores[picture, target] > 1e-6:
                assert correlation >= 0.999, target


def test_input_layers_see_pixels_as_they_are(rng):
    """A batch norm takes away what all pixels share: 0.999, where rounded pixels gave 0.6."""
    x = keras.Input((32, 32, 3))
    h = layers.ReLU()(layers.BatchNormalization(momentum=0.0)(layers.Conv2D(8, 3, strides=2)(x)))
    h = layers.ReLU()(layers.BatchNormalization(momentum=0.0)(layers.Conv2D(8, 3, strides=2)(h)))
    h = layers.GlobalAveragePooling2D()(h)
    model = keras.Model(x, layers.Dense(4, activation="softmax")(h))
    pictures = rng.integers(0, 256, (6, 32, 32, 3)).astype("float32") + 1000
    model(pictures, training=True)
    exact, fast = (
        Explainer(model, composite="epsilon_plus_flat", precision=precision)
        for precision in ("float32", "auto")
    )
    assert (fast.precision, fast.exact_forward) == ("bfloat16", False)
    assert min(correlations(fast(pictures).relevance, exact(pictures).relevance)) > 0.999


def test_contrasts_that_nearly_cancel_are_kept():
    """A drawing whose classes share nearly all their relevance: 0.99999, where sums are exact."""
    network = load_network("shapes")
    rng = np.random.default_rng(3)
    labels = [label for label in range(4) for _ in range(2)]
    pictures = [draw_picture(rng, label, sizes=(0.35, 0.77)).pixels for label in labels]
    x = network.prepare(np.stack(pictures[6:7]))
    exact, fast = (
        Explainer(network.model, precision=precision, target="0 - rest")
        for precision in ("float32", "auto")
    )
    got, expected = fast(x, "3 - rest"), exact(x, "3 - rest")
    assert (fast.precision, fast.exact_forward) == ("bfloat16", True)
    np.testing.assert_allclose(got.scores, expected.scores, atol=1e-6)
    assert np.any(got.relevance != expected.relevance)
    assert correlations(got.relevance, expected.relevance)[0] > 0.9999


def test_auto_is_float32_where_epsilon_does_not_end_the_network(rng):
    x = keras.Input((8, 8, 3))
    h = layers.Conv2D(4, 1, activation="relu")(layers.Dense(4, activation="relu")(x))
    between = keras.Model(x, layers.Dense(3, activation="softmax")(layers.Flatten()(h)))
    h = layers.Dense(4, activation="relu")(layers.Flatten()(x))
    dense = keras.Model(x, layers.Dense(3, activation="softmax")(h))
    options = {"precision": "auto", "composite": "epsilon_plus"}
    assert Explainer(between, **options).precision == "float32"
    assert Explainer(dense, **options).precision == "float32"
    assert Explainer(dense, **{**options, "composite": "zplus"}).precision == "bfloat16"
    assert Explainer(vgg_like(), **options).precision == "bfloat16"
    assert Explainer(vgg_like(), **options, also=["gradient"]).precision == "float32"
    for changed in ({"absorb_bias": False}, {"target": "0 - 1"}):
        explainer = Explainer(vgg_like(), **options, **changed)
        assert (explainer.precision, explainer.exact_forward) == ("bfloat16", True)


def norm_behind_sums():
    """Adds branches of both signs, and a batch norm reads the sum, as in ResNet V2."""
    x = keras.Input((16, 16, 3))
    h = layers.Conv2D(8, 3, padding="same")(x)
    for _ in range(2):
        branch = layers.ReLU()(layers.BatchNormalization()(h))
        h = layers.Add()([h, layers.Conv2D(8, 3, padding="same")(branch)])
    h = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.BatchNormalization()(h)))
    return keras.Model(x, layers.Dense(4, activation="softmax")(h))


@pytest.mark.parametrize(("build", "options"), [
    (norm_behind_sums, {}), (vgg_like, {"composite": "epsilon"}),
    (vgg_like, {"method": "gradient"}),
])  # fmt: skip
def test_where_rounding_changes_a_map_bfloat16_warns_and_auto_is_float32(build, options, caplog):
    auto = Explainer(build(), precision="auto", **options)
    assert (auto.precision, "not good" in caplog.text) == ("float32", False)
    asked = Explainer(build(), precision="bfloat16", **options)
    assert (asked.precision, "bfloat16 is not good" in caplog.text) == ("bfloat16", True)


@pytest.mark.parametrize("precision", ["auto", "bfloat16"])
def test_dense_layers_by_epsilon_keep_the_map_of_strong_biases(precision):
    """Behind a rounded forward pass other neurons would be 0: correlation 0.986 in VGG16."""
    x = keras.Input((32, 32, 3))
    h = x
    for size in (16, 16, 32, 32):
        h = layers.Conv2D(size, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.Flatten()(h)
    for _ in range(2):
        h = layers.Dense(64, activation="relu")(h)
    model = keras.Model(x, layers.Dense(5, activation="softmax")(h))
    rng = np.random.default_rng(0)
    for layer in model.layers[1:-1]:
        if layer.weights:
            layer.bias.assign(np.abs(rng.standard_normal(layer.bias.shape)) + 0.3)
    pictures = rng.normal(size=(6, 32, 32, 3)).astype("float32")
    options = {"composite": "epsilon_plus_flat", "target": "top1"}
    exact, fast = (Explainer(model, precision=one, **options) for one in ("float32", precision))
    assert fast.precision == "bfloat16"
    assert min(correlations(fast(pictures).relevance, exact(pictures).relevance)) > 0.999


@pytest.mark.release
@pytest.mark.parametrize("build", [vgg_like, branched])
@uncompiled.compiled()
def test_xla_gives_the_maps_of_the_plain_graph(build, rng):
    """For batches of two sizes. SmoothGrad is left out: XLA draws other noise."""
    model = build()
    names = [name for name in (*COMPOSITES, *METHODS) if name != "smoothgrad"]
    x = rng.uniform(0, 255, size=(3, *model.input_shape[1:])).astype("float32")
    options = {"also": names, "target": "top1", "low": 0, "high": 255, "samples": 3}
    plain, compiled = (Explainer(model, xla=xla, **options) for xla in (False, True))
    assert compiled._run.function._jit_compile and not plain._run.function._jit_compile
    for batch in (x, x[:1]):
        expected, got = plain(batch), compiled(batch)
        np.testing.assert_allclose(got.scores, expected.scores, atol=1e-5)
        for name in names:
            assert largest_difference(got.maps[name], expected.maps[name]) < 1e-3, name
    assert compiled.traces == 1


def test_only_what_lies_between_weights_computes_in_bfloat16(rng):
    """The rescaling before the first layer gets a brightness that bfloat16 cannot hold."""
    x = keras.Input((2, 2, 1))
    h = layers.Flatten()(layers.Rescaling(1.0, offset=-1000.0)(x))
    model = keras.Model(x, layers.Dense(2, activation="softmax")(h))
    model.layers[-1].set_weights([np.ones((4, 2)) * [1, -1], np.zeros(2)])
    explainer = Explainer(model, precision="bfloat16")
    scores = explainer(np.full((1, 2, 2, 1), 1000.25, "float32")).scores
    np.testing.assert_allclose(scores, tf.nn.softmax([[1.0, -1.0]]), rtol=1e-5)
    records = explainer.layers(np.full((1, 2, 2, 1), 1000.25, "float32"))
    assert {record.arrived.dtype for record in records} == {np.dtype("float32")}


WITHOUT_ONEDNN = """
import sys
import keras
import numpy as np
from realtime_lrp import Explainer

model, x = keras.models.load_model(sys.argv[1]), np.load(sys.argv[2])
np.save(sys.argv[3], Explainer(model)(x).relevance)
"""


@pytest.mark.release
def test_groups_and_dilations_need_no_kernels_of_one_processor(tmp_path):
    """TensorFlow's own gradients of such convolutions exist on some processors only."""
    model = keras.Sequential([layers.Input((16, 16, 3))])
    for kernel, options in (
        (3, {"padding": "same"}), (3, {"padding": "same", "groups": 2}),
        (3, {"padding": "same", "dilation_rate": 2}), ((2, 3), {"dilation_rate": (1, 2)}),
        (3, {"strides": 2, "groups": 4}),
    ):  # fmt: skip
        model.add(layers.Conv2D(8, kernel, activation="relu", **options))
    for last in (layers.Reshape((35, 8)), layers.Conv1D(6, 2, groups=2, activation="relu")):
        model.add(last)
    model.add(layers.Flatten())
    model.add(layers.Dense(4, activation="softmax"))
    x = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype(np.float32)
    files = [tmp_path / name for name in ("model.keras", "x.npy", "maps.npy")]
    model.save(files[0])
    np.save(files[1], x)
    words = [sys.executable, "-c", WITHOUT_ONEDNN, *files]
    variables = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    subprocess.run(words, check=True, env=variables, capture_output=True)
    got = np.load(files[2])
    np.testing.assert_allclose(got.sum((1, 2, 3)), 1, rtol=2e-3)
    assert largest_difference(got, Explainer(model, precision="float32")(x).relevance) < 1e-5


WAYS = [
    *({"composite": name} for name in ("zplus", "epsilon_plus_flat", "epsilon_gamma_box")),
    *({"method": name} for name in ("gradient", "guided_backprop", "grad_cam", "smoothgrad")),
]


@pytest.fixture(scope="module")
def overflowing_words(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "overflowing.keras"
    overflowing().save(path)
    path.with_suffix(".txt").write_text("a\nb\nc\n")
    return ("--model", path, "--labels", path.with_suffix(".txt"), "--preprocess", "none")


BRIGHT, DARK = np.full((1, 16, 16, 3), 200.0), np.zeros((1, 16, 16, 3))
"""Pictures for which that network overflows, and does not."""


@pytest.fixture(scope="module")
def hiding():
    """That network; its scores are finite, because ReLUs turn NaN into 0."""
    model = overflowing()
    with uncompiled.compiled():
        assert np.isfinite(Explainer(model).scores(BRIGHT)).all()
    return model


@pytest.mark.parametrize("way", WAYS, ids=lambda way: next(iter(way.values())))
@uncompiled.compiled()
def test_every_method_notices_what_a_relu_hides(way, hiding):
    explainer = Explainer(hiding, **way, low=0.0, high=255.0)
    with pytest.raises(NotFiniteError, match=r"Inf in the layer 'second' \(Conv2D\)"):
        explainer(np.concatenate([DARK, BRIGHT]))
    assert np.isfinite(explainer(DARK).relevance).all()


def test_weights_that_are_not_finite_are_refused_with_their_layer():
    for value in (np.nan, np.inf):
        model = overflowing()
        kernel, bias = model.get_layer("third").get_weights()
        bias[2] = value
        model.get_layer("third").set_weights([kernel, bias])
        with pytest.raises(DamagedInputError, match=r"'bias' of the layer 'third' \(Conv2D\)"):
            Explainer(model)


def test_a_batch_that_is_no_array_of_finite_numbers_is_refused(hiding):
    """With a message, not with TensorFlow's traceback; a fused ReLU would hide Inf."""
    explainer, batch = Explainer(hiding), "Expected a batch of pictures"
    for x, words in (
        (np.full((1, 16, 16, 3), -np.inf), "NaN or Inf"), ("abc", batch),
        ([[1.0], [2.0, 3.0]], batch),
        (np.zeros((16, 16, 3)), r"x\[None\]"),
        (np.zeros((0, 16, 16, 3)), "at least one"),  # pools would crash
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            explainer(x)


def test_a_picture_is_refused_and_the_others_are_explained(run, overflowing_words, tmp_path):
    bright = media.write_picture(tmp_path / "bright.png", media.plain((200, 9, 9)))
    dark = media.write_picture(tmp_path / "dark.png", media.plain((0, 0, 0)))
    (tmp_path / "out").mkdir()
    code, out, err = run("image", bright, "-o", tmp_path / "one.png", *overflowing_words)
    assert (code, out) == (65, "") and "Inf in the layer 'second' (Conv2D)" in err
    assert len(err.splitlines()) == 1 and not (tmp_path / "one.png").exists()
    code, out, err = run("image", bright, dark, "-o", tmp_path / "out", *overflowing_words)
    assert code == 65 and "dark.png: " in out and "Inf in the layer 'second'" in err
    assert "1 of 2 pictures explained, 1 failed" in err
    assert [one.name for one in (tmp_path / "out").glob("[!.]*")] == ["dark.png"]


def test_frames_without_a_map_are_kept_and_counted(run, overflowing_words, tmp_path):
    """All frames are written; those without a map say so in the picture and in the sidecar."""
    dark, bright = media.plain((0, 0, 0)), media.plain((200, 9, 9))
    source = media.write_video(tmp_path / "in.mp4", [dark] * 5 + [bright] * 3 + [dark] * 4)
    target = tmp_path / "out.mp4"
    options = ("--sidecar", "--summary", "--batch", "4", *overflowing_words)
    code, out, err = run("video", source, "-o", target, *options)
    assert code == 0 and "12 frames" in out
    assert "3 frames have no map: the network computes NaN or Inf" in err
    assert err.count("Inf in the layer 'second'") == 1
    assert len(media.times_of(target)) == 12
    rows = [json.loads(line) for line in target.with_suffix(".jsonl").read_text().splitlines()]
    assert [bool(row["top5"]) for row in rows] == [True] * 5 + [False] * 3 + [True] * 4
    assert cv2.imread(str(target.with_suffix(".summary.png"))) is not None
    source = media.write_video(tmp_path / "bright.mp4", [bright] * 12)
    before = {*tmp_path.iterdir()}
    code, _, err = run("video", source, "-o", tmp_path / "b.mp4", *overflowing_words)
    assert code == 65 and "Inf in the layer 'second'" in err and {*tmp_path.iterdir()} == before


def settings(file):
    options = {"--model": str(file), "--preprocess": "none", "--precision": "float32"}
    return config.load(options=options).config


def test_a_batch_that_is_too_large_is_explained_in_halves(tiny_model, rng):
    engine = engines.Engine(settings(tiny_model))
    pictures = rng.integers(0, 256, (7, 40, 50, 3), np.uint8)
    expected = [engine.explain([picture])[0] for picture in pictures]
    engine._pipeline = bounded = Bounded(engine._pipeline, 2)
    for result, right in zip(engine.explain(pictures), expected, strict=True):
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
    assert bounded.tried == [7, 4, 2, 2, 3, 2, 1]
    targets = [0, 1, 2, 3, "top1", "0 - 1", "all"]
    results = engine.explain(pictures, targets)
    for picture, target, result in zip(pictures, targets, results, strict=True):
        (right,) = engine.explain([picture], [target])
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
        assert str(result.target) == str(target) and result.maps[0].started == right.maps[0].started
    np.testing.assert_allclose(results[1].maps[0].started, results[1].scores[1], rtol=1e-5)
    with pytest.raises(UsageError, match="one target for each of 7 pictures"):
        engine.explain(pictures, [1, 2])
    engine._pipeline = Bounded(bounded._explain, 0)
    with pytest.raises(UnavailableError, match="memory does not suffice to explain one picture"):
        engine.explain(pictures)


def test_what_fails_from_the_first_picture_on_is_told_and_tried_again(tiny_model, monkeypatch):
    monkeypatch.setattr("realtime_lrp.realtime.explaining.RETRY_S", 0.05)
    failing = Failing(settings(tiny_model), NotFiniteError("Inf in the layer 'x'."), times=5)
    with failing.thread as thread:
        told = failing.until(lambda: thread.maps.count)
    assert list(told)[:2] == ["", "no map, trying again: Inf in the layer 'x'."]
    assert failing.thread.failing == "" and failing.left < 0


@pytest.mark.parametrize(
    ("error", "device"), [(RuntimeError("CUDA"), "CPU"), (NotFiniteError("Inf"), "Small GPU")]
)
def test_a_gpu_that_fails_three_times_is_left(tiny_model, monkeypatch, caplog, error, device):
    """But not because of NaN or Inf, which the CPU would compute as well."""
    monkeypatch.setattr("realtime_lrp.realtime.explaining.RETRY_S", 0.05)
    monkeypatch.setattr(engines, "device", lambda: Device("/GPU:0", "Small GPU", "float32"))
    failing = Failing(settings(tiny_model), error, times=4)
    with failing.thread as thread:
        failing.until(lambda: thread.maps.count)
    assert failing.engine.device == device
    assert caplog.text.count("computing on the CPU") == (device == "CPU")


def test_pictures_too_large_for_the_memory_are_refused(run, tmp_path, monkeypatch):
    x = keras.Input((None, None, 3))
    h = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    y = layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling2D()(h))
    keras.Model(x, y).save(tmp_path / "free.keras")
    picture = media.write_picture(tmp_path / "in.png", media.plain())
    network = ("--model", tmp_path / "free.keras", "--preprocess", "none", "--size", "300x200")
    numbers = 300 * 200 * (3 + 4 + 4) + 4 + 4 + 2 + 2  # up to the ReLU; pool, flat; dense, softmax
    for there, code in ((4 * numbers - 1, 69), (4 * numbers, 0)):
        monkeypatch.setattr(
            "realtime_lrp.relevance.network.checks.available_bytes", lambda there=there: there
        )
        ended, _, err = run("image", picture, "-o", tmp_path / f"{code}.png", *network)
        assert ended == code, err
        assert (code == 0) != ("with pictures of 300 x 200 is too large" in err)


GROWN = "the map explains nothing: relevance grew by a factor of "
NULL = "leave lrp.absorb_bias at null, or choose another --composite"
WITHOUT_BIASES = ("--composite", "epsilon", "--set", "lrp.absorb_bias=false")


@pytest.fixture(scope="module")
def deep_words(tmp_path_factory):
    """A file of nine such blocks and a picture of noise: the options and the picture."""
    folder = tmp_path_factory.mktemp("deep")
    deep_residual(blocks=9).save(folder / "deep.keras")
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    cv2.imwrite(str(folder / "noise.png"), pixels)
    options = ("--model", folder / "deep.keras", "--preprocess", "tf", "--target", "top1")
    return folder / "noise.png", options


@pytest.mark.parametrize(("blocks", "names"), [
    (5, ["epsilon", "epsilon_alpha2_beta1_flat", "epsilon_gamma_box"]),
    pytest.param(16, list(COMPOSITES), marks=pytest.mark.release),
])  # fmt: skip
def test_a_deep_residual_network_stays_within_its_answer(blocks, names, rng):
    deep = deep_residual(blocks)
    x = rng.uniform(-1, 1, (2, 16, 16, 3)).astype("float32")
    explanation = Explainer(deep, also=names, target="top1", low=-1, high=1)(x)
    for name, relevance in explanation.maps.items():
        assert (np.abs(relevance).sum((1, 2, 3)) < 1000 * explanation.scores.max(1)).all(), name


@pytest.mark.release
def test_image_and_inspect_name_the_layer_once(run, deep_words, tmp_path):
    picture, options = deep_words
    code, out, err = run("image", picture, "-o", tmp_path / "x.png", *options, *WITHOUT_BIASES)
    assert code == 0 and "explains nothing: relevance grew without limit)" in out
    assert err.count(GROWN) == 1 and NULL in err and "most in the layer 'mix" in err
    code, _, err = run("inspect", picture, "--logdir", tmp_path, *options, *WITHOUT_BIASES)
    assert code == 0 and err.count(GROWN) == 1 and NULL in err


def test_relevance_that_overflows_blames_the_way_back_not_the_weights():
    model = keras.Sequential(
        [keras.Input((1, 2, 1)), layers.Flatten(),
         layers.Dense(2, activation="softmax", name="cancels")]
    )  # fmt: skip
    weights = [np.array([[100.0, 100.0], [-100.0, -100.0]]), np.full(2, 2e-38)]
    model.get_layer("cancels").set_weights(weights)
    with pytest.raises(NotFiniteError) as refused:
        Explainer(model, composite="epsilon", layers={"*": "epsilon(0)"})(np.ones((1, 1, 2, 1)))
    text = str(refused.value)
    assert "behind the layer 'cancels' (Dense)" in text
    assert "choose another --composite, or other rules for its layers (lrp.layers)" in text
    assert "weights" not in text and "preprocess" not in text
