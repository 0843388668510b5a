"""Models with several outputs, and segmentations, whose output has classes for every place."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp import Explainer, load_network
from realtime_lrp.config.names import COMPOSITES
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.network import Network
from realtime_lrp.relevance.reading.building import build_graph


@pytest.fixture(scope="module")
def detector():
    """A network with a segmentation, a detector's boxes and classes, and one vector."""
    keras.utils.set_random_seed(4)
    x = keras.Input((8, 8, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu", name="body")(x)
    regions = layers.Conv2D(3, 1, name="regions", bias_initializer="random_normal")(a)
    flat = layers.Reshape((16, 16), name="anchors")(a)
    outputs = {
        "regions": layers.Softmax(name="softmax")(regions),
        "boxes": layers.Dense(4, name="corners")(flat),
        "vector": layers.Dense(5, name="answer")(layers.GlobalAveragePooling2D()(a)),
    }
    return keras.Model(x, outputs, name="detector")


@pytest.fixture
def x(rng):
    """Two pictures."""
    return rng.normal(size=(2, 8, 8, 3)).astype(np.float32)


MASK = np.zeros((16, 16), bool)
MASK[3:5, 4:9] = MASK[15, 14] = True


def segmentation(stride=1, resize="", classes=3, size=16):
    """A network [B, size, size, 3] -> [B, h, w, classes], without its last activation."""
    keras.utils.set_random_seed(4)
    x = keras.Input((size, size, 3))
    a = layers.Conv2D(4, 3, stride, padding="same", activation="relu")(x)
    if resize == "transposed":
        a = layers.Conv2DTranspose(4, 4, 4, activation="relu", bias_initializer="random_normal")(a)
    a = layers.Conv2D(classes, 1, bias_initializer="random_normal")(a)
    if resize in ("bilinear", "nearest"):
        a = layers.UpSampling2D(4, interpolation=resize)(a)
    return keras.Model(x, a)


FORMS = [(1, ""), (4, ""), (8, ""), (4, "transposed"), (4, "bilinear"), (4, "nearest")]


@pytest.mark.parametrize("form", FORMS)
def test_the_map_of_a_region_is_the_mean_of_its_pixels_maps(form, x):
    """For LRP and gradients; scores too, and the gradient is that of a tape."""
    logits, x = segmentation(*form), x[:1].repeat(2, 1).repeat(2, 2)
    model = keras.Model(logits.input, layers.Softmax()(logits.output))
    scores = model(x)[0].numpy()
    stride = 16 // len(scores)
    for method, composite in (
        ("lrp", "zplus"), ("lrp", "epsilon"), ("lrp", "epsilon_plus_flat"),
        ("lrp", "epsilon_alpha2_beta1"), ("gradient", "auto"),
    ):  # fmt: skip
        explainer = Explainer(model, method, composite, target=1)
        whole = explainer(x, region=MASK)
        pixels = [explainer(x, at=(row, column)) for row, column in np.argwhere(MASK).tolist()]
        mean = np.mean([one.relevance for one in pixels], 0)
        atol = 1e-5 * np.abs(mean).max()
        np.testing.assert_allclose(whole.relevance, mean, atol=atol, rtol=0, err_msg=composite)
        np.testing.assert_allclose(
            whole.scores, np.mean([one.scores for one in pixels], 0), atol=1e-6
        )
        np.testing.assert_allclose(pixels[3].scores[0], scores[3 // stride, 7 // stride], atol=1e-6)
        if composite == "epsilon":
            (account,) = whole.accounts.values()
            assert account.reached + account.biases == pytest.approx(account.started, rel=1e-3)
    with tf.GradientTape() as tape:
        pictures = tf.constant(x)
        tape.watch(pictures)
        logit = logits(pictures)[0, 3 // stride, 4 // stride, 1]
    expected = tape.gradient(logit, pictures).numpy()
    ours = Explainer(model, "gradient", target=1)(x, at=(3, 4)).relevance
    np.testing.assert_allclose(ours, expected, atol=1e-5 * np.abs(expected).max())


LOSING = ("zplus", "epsilon_alpha2_beta1", "epsilon_alpha2_beta1_flat")
"""Composites whose relevance is lost, or grows, at neurons with contributions of one sign."""


@pytest.mark.parametrize("composite", COMPOSITES.known())
def test_every_composite_explains_a_region_by_the_mean_of_its_pixels(composite, rng):
    """At an answer of a sixteenth of the picture's rows and columns."""
    x = rng.normal(size=(1, 48, 48, 3)).astype(np.float32)
    region = np.zeros((48, 48), bool)
    region[10:20, 20] = region[40, 40] = True
    explainer = Explainer(
        segmentation(16, size=48), composite=composite, target=1, low=-6.0, high=6.0
    )
    whole = explainer(x, region=region)
    pixels = [explainer(x, at=at).relevance for at in ((10, 20), (16, 20), (40, 40))]
    mean = np.average(pixels, 0, weights=[6, 4, 1])
    np.testing.assert_allclose(whole.relevance, mean, atol=1e-5 * np.abs(mean).max(), rtol=0)
    if composite not in LOSING:
        (account,) = whole.accounts.values()
        assert account.reached + account.biases == pytest.approx(account.started, rel=1e-3)


@pytest.mark.usefixtures("compiled")
def test_places_regions_and_classes_do_not_retrace(x):
    """A hundred of them, several targets of a picture among them."""
    explainer = Explainer(segmentation(), labels=["background", "cat", "dog"])
    x = x.repeat(2, 1).repeat(2, 2)
    for place in range(100):
        explainer(x, place % 3, at=divmod(place, 16))
    explainer(x, ["cat", "top1"], region=MASK)
    explainer(x)
    assert explainer.traces == 1
    several = explainer(x[:1], ["cat", "dog", "all"], at=(5, 5))
    for number, target in enumerate(("cat", "dog", "all")):
        expected = explainer(x[:1], target, at=(5, 5)).relevance[0]
        np.testing.assert_allclose(several.relevance[number], expected, atol=1e-6)


def flood(classes, start):
    """The places of the same class that are reached from one by their sides, as a mask."""
    found, left = np.zeros(classes.shape, bool), [start]
    while left:
        row, column = left.pop()
        found[row, column] = True
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            inside = all(0 <= n < size for n, size in zip(near, classes.shape, strict=True))
            if inside and not found[near] and classes[near] == classes[row, column]:
                left.append(near)
    return found


def test_without_a_place_the_largest_region_is_explained(rng):
    """Of no background, unless there is nothing else; in each picture of a batch."""
    x = keras.Input((24, 20, 3))
    model = keras.Model(x, layers.Rescaling(4)(x))  # the colours are the logits
    batch = rng.normal(size=(3, 24, 20, 3)).astype(np.float32)
    batch[:, 3:20, 4:6, 2] += 5
    batch[:, 18:20, 4:16, 2] += 5
    batch[1:, ..., 0] += 9
    batch[1, 2:4, 7:12, 1] += 30
    explainer = Explainer(
        model, "gradient", labels=["background", "cat", "dog"], scores="probabilities"
    )
    found = explainer(batch)
    for picture, classes in enumerate(batch.argmax(-1)):
        regions = [flood(classes, place) for place in np.ndindex(classes.shape)]
        things = [r for r in regions if classes[r][0] != 0] or regions
        largest = max(things, key=np.sum)
        assert (found.region[picture] == largest).all()
        mean = (4 * batch)[picture][largest].mean(0)
        np.testing.assert_allclose(found.scores[picture], mean, rtol=1e-4)
    assert (found.inside <= 1.0001).all() and (found[1:].region == found.region[1:]).all()
    np.testing.assert_allclose(explainer.scores(batch), found.scores, rtol=1e-5)


@pytest.mark.parametrize("shape", [(16, 16, 1), (16, 16)])
def test_a_mask_has_two_classes(x, shape):
    """A sigmoid p is [1 - p, p], with the logits [-z, z]; the rest is background."""
    logits, x = segmentation(classes=1), x[:1].repeat(2, 1).repeat(2, 2)
    p = layers.Activation("sigmoid")(logits.output)
    model = keras.Model(logits.input, layers.Reshape(shape)(p))
    explainer = Explainer(model, "gradient", target="top1")
    expected = model(x)[0].numpy().reshape(16, 16)
    for at in ((2, 3), (9, 9)):
        found = explainer(x, at=at)
        np.testing.assert_allclose(found.scores[0], [1 - expected[at], expected[at]], atol=1e-6)
        with tf.GradientTape() as tape:
            pictures = tf.constant(x)
            tape.watch(pictures)
            logit = logits(pictures)[0, at[0], at[1], 0] * (1 if expected[at] > 0.5 else -1)
        np.testing.assert_allclose(found.relevance, tape.gradient(logit, pictures), atol=1e-5)
    assert (expected[explainer(x).region[0]] > 0.5).all()


def test_wrong_places_are_refused(x, detector):
    """With the size of the pictures; a classifier has one answer for the whole picture."""
    explainer, pictures = Explainer(segmentation()), x.repeat(2, 1).repeat(2, 2)
    for place, expected in (
        ({"at": (16, 0)}, "16 rows"), ({"at": (-1, 0)}, "no pixel"),
        ({"at": (1.5, 2)}, "whole numbers"), ({"at": 5}, "row, column"),
        ({"region": MASK[:4]}, "truth values .16, 16"), ({"region": ~MASK & MASK}, "no pixel"),
        ({"region": 255 * MASK.astype(np.uint8)}, "mask > 0"),
        ({"at": (1, 1), "region": MASK}, "both"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=expected):
            explainer(pictures, **place)
    with pytest.raises(UsageError, match="whole picture"):
        Explainer(detector, output="vector")(x, at=(1, 1))


def test_a_vector_among_several_outputs_is_explained_as_ever(detector, x):
    """With the softmax that logits get, and as if it were the only output; also unnamed."""
    alone = keras.Model(detector.inputs, detector.output["vector"])
    ours, expected = Explainer(detector, output="vector")(x), Explainer(alone)(x)
    np.testing.assert_array_equal(Explainer(detector)(x).scores, ours.scores)
    np.testing.assert_allclose(ours.scores.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(ours.relevance, expected.relevance, atol=1e-6)
    names = {node.layer for node in build_graph(detector, "vector").nodes}
    assert "corners" not in names


def test_wrong_outputs_are_refused(detector):
    """With the names, or what was expected."""
    for options, kind, expected in (
        ({"output": "region"}, UsageError, "Did you mean 'regions'"),
        ({"output": 3}, UsageError, "Its outputs 0 to 2 are: 'boxes'"),
        ({"output": 1.5}, UsageError, "by name or position"),
        ({"output": "boxes"}, DamagedInputError, "classes for every place"),
    ):
        with pytest.raises(kind, match=expected):
            Explainer(detector, **options)


def test_a_loaded_network_has_the_output_that_is_named(detector, x, tmp_path):
    """In a Keras file and in a SavedModel; other names are refused."""
    model = keras.Model(detector.inputs, detector.output)
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "net", verbose=False)
    expected = Explainer(detector, output="regions", target=1)(x, at=(3, 5))
    for name in ("net.keras", "net"):
        with pytest.raises(UsageError, match="Did you mean 'regions'"):
            load_network(str(tmp_path / name), output="region")
        network = load_network(str(tmp_path / name), preprocess="none", output="regions")
        found = Explainer(network.model, target=1)(x, at=(3, 5))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
        np.testing.assert_allclose(found.relevance, expected.relevance, atol=1e-5)


def test_labels_are_those_of_the_output_that_is_named():
    """A detector's boxes have coordinates and no classes."""
    scores, boxes = (load_network("shapes_detector", output=one) for one in ("scores", "boxes"))
    assert len(scores.labels) == scores.model.output_shape[-1] and boxes.labels is None


def test_outputs_without_names_are_chosen_in_python(monkeypatch):
    """Those of a subclassed model of one's own."""
    own = type("Own", (keras.Model,), {})()
    monkeypatch.setitem(NETWORKS, "own", SimpleNamespace(load=lambda *_: Network("own", own)))
    assert load_network("own").model is own
    with pytest.raises(UsageError, match=r"subclassed .* Explainer\(model, output"):
        load_network("own", output="regions")
