"""bfloat16 and XLA against float32: the same maps within their bits."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from drawing import draw_picture
from keras import layers
from test_relevance import branched, largest_difference, vgg_like

from realtime_lrp import METHODS, Explainer, load_network
from realtime_lrp.relevance.rules.composites import COMPOSITES

pytestmark = pytest.mark.usefixtures("compiled")

STEADY = {
    "zplus": 0.995, "epsilon_plus_flat": 0.995, "excitation_backprop": 0.99, "grad_cam": 0.99,
}  # fmt: skip
"""Maps that rounding keeps -> the least correlation with float32, of random weights."""


@pytest.fixture(autouse=True)
def _same_weights_in_every_run():
    keras.utils.set_random_seed(5)


NAMES = [*COMPOSITES, *METHODS]
OPTIONS = {"target": "top1", "low": 0, "high": 255, "samples": 3}


@pytest.mark.parametrize(
    ("build", "names"),
    [
        pytest.param(vgg_like, [*STEADY, "epsilon_gamma_box", "guided_backprop"], id="vgg"),
        pytest.param(vgg_like, NAMES, id="all maps", marks=pytest.mark.release),
        pytest.param(branched, NAMES, id="branched", marks=pytest.mark.release),
    ],
)
def test_bfloat16_gives_the_maps_of_float32(build, names):
    """Every composite and method runs in one trace; those without cancelling sums agree."""
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
        pairs = zip(got.maps[name].sum(3), expected.maps[name].sum(3), strict=True)
        correlations = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs]
        assert min(correlations) > least, name


@pytest.fixture(scope="module")
def drawings():
    """The embedded network, and pictures of the first three symbols that it names."""
    network = load_network("shapes")
    rng = np.random.default_rng(3)
    pictures = [draw_picture(rng, label, sizes=(0.4, 0.77)).pixels for label in range(3)]
    return network, np.asarray(network.prepare(np.stack(pictures)))


def correlations(maps, others):
    """The correlation of each map of a batch with another."""
    pairs = zip(maps, others, strict=True)
    return [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs]


def test_auto_gives_the_default_map_of_drawn_pictures(drawings):
    """Everything in bfloat16: correlation 0.998 with float32, class by class."""
    network, x = drawings
    options = {"composite": "epsilon_plus_flat", "labels": network.labels, **network.box()}
    exact = Explainer(network.model, **options)
    fast = Explainer(network.model, precision="auto", **options)
    assert (fast.precision, fast.exact_forward) == ("bfloat16", False)
    scores = exact.scores(x)
    assert (scores[range(3), range(3)] > 0.99).all()
    for target in ("all", "top1", *range(3)):
        found = correlations(fast(x, target).relevance, exact(x, target).relevance)
        for picture, correlation in enumerate(found):
            if isinstance(target, str) or scores[picture, target] > 1e-6:
                # 0.999 where products in bfloat16 are added in float32, as AVX512_BF16 and AMX do
                assert correlation >= 0.998, target


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
    found = correlations(fast(pictures).relevance, exact(pictures).relevance)
    assert min(found) > 0.999


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
    """Dense layers before a convolution, and networks without one."""
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


@pytest.mark.release
@pytest.mark.parametrize("build", [vgg_like, branched])
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
    model = keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.Conv2D(8, 3, padding="same", groups=2, activation="relu"),
            layers.Conv2D(8, 3, padding="same", dilation_rate=2, activation="relu"),
            layers.Conv2D(8, (2, 3), dilation_rate=(1, 2), activation="relu"),
            layers.Conv2D(8, 3, strides=2, groups=4, activation="relu"),
            layers.Reshape((35, 8)),
            layers.Conv1D(6, 2, groups=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ]
    )
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
