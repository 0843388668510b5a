"""`Explainer(output=..., at=...)`: models with several outputs, and outputs that are no vector."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp import Explainer, load_network
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


MASK = np.zeros((8, 8), bool)
MASK[2:4, 1:6] = MASK[7, 7] = True

PLACES = {
    "a pixel": ("regions", (3, 5), (3, 5)),
    "a pixel from behind": ("regions", (-1, 0), (7, 0)),
    "rows and columns": ("regions", (slice(2, 4), slice(None)), (slice(2, 4),)),
    "a mask": ("regions", MASK, MASK),
    "an anchor": ("boxes", 7, 7),
    "a row, all of its columns": ("regions", 3, 3),
    "some anchors": (0, (slice(3, 9),), slice(3, 9)),
    "a vector as it is": ("vector", (), ()),
}


def logits(model, name, x):
    """What a gradient differentiates: an output before its softmax."""
    before = {"regions": "regions", "boxes": "corners", "vector": "answer"}[name]
    return keras.Model(model.inputs, model.get_layer(before).output)(x)


@pytest.mark.parametrize("case", PLACES)
def test_maps_of_places_of_an_output(detector, x, case):
    """Scores are the mean there, the gradient is TensorFlow's, relevance adds up to the score."""
    output, at, index = PLACES[case]
    name = "boxes" if output == 0 else output
    gradient = Explainer(detector, "gradient", output=output, at=at, target=1)(x)
    with tf.GradientTape() as tape:
        pictures = tf.constant(x)
        tape.watch(pictures)
        values = logits(detector, name, pictures)
        chosen = tf.reshape(chosen_of(values, index), [2, -1, values.shape[-1]])
        explained = tf.reduce_sum(tf.reduce_mean(chosen, 1)[:, 1])
    expected = tape.gradient(explained, pictures).numpy()
    largest = np.abs(expected).max()
    np.testing.assert_allclose(gradient.relevance, expected, atol=1e-4 * largest)
    scores = chosen_of(detector(x)[name], index)
    scores = np.reshape(scores, (2, -1, scores.shape[-1])).mean(1)
    np.testing.assert_allclose(gradient.scores, scores, rtol=1e-4, atol=1e-6)
    relevance = Explainer(detector, composite="epsilon", output=output, at=at, target=1)(x)
    (account,) = relevance.accounts.values()
    np.testing.assert_allclose(np.abs(account.started), np.abs(scores[:, 1]), rtol=1e-4)
    np.testing.assert_allclose(account.reached + account.biases, account.started, rtol=1e-3)


def chosen_of(values, index):
    """The vectors at some places of [B, ..., classes]."""
    if isinstance(index, np.ndarray):
        return tf.boolean_mask(values, index, axis=1)
    return values[(slice(None), *(index if isinstance(index, tuple) else (index,)))]


def test_relevance_starts_at_the_places_alone(detector, x):
    """A pixel's relevance stays in the window of its convolutions; another place is elsewhere."""
    relevance = Explainer(detector, output="regions", at=(1, 6), target=0)(x).relevance
    outside = np.ones((8, 8), bool)
    outside[0:3, 5:8] = False
    assert np.abs(relevance).sum() > 0
    assert not relevance[:, outside].any()


def test_a_vector_among_several_outputs_is_explained_as_ever(detector, x):
    """With the softmax that logits get, and as if it were the only output."""
    alone = keras.Model(detector.inputs, detector.output["vector"])
    ours, expected = Explainer(detector, output="vector")(x), Explainer(alone)(x)
    np.testing.assert_allclose(ours.scores.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(ours.relevance, expected.relevance, atol=1e-6)
    names = {node.layer for node in build_graph(detector, "max", "vector").nodes}
    assert "corners" not in names


@pytest.mark.parametrize(
    ("options", "kind", "expected"),
    [
        ({}, DamagedInputError, "has 3 outputs: 'boxes', 'regions', 'vector'"),
        ({"output": "region"}, UsageError, "Did you mean 'regions'"),
        ({"output": 3}, UsageError, "Its outputs 0 to 2 are: 'boxes'"),
        ({"output": 1.5}, UsageError, "by name or position"),
        ({"output": "regions"}, DamagedInputError, r"Explainer\(model, at=...\)"),
        ({"output": "regions", "at": (8, 0)}, UsageError, r"It has 8 x 8\. Received \(8, 0\)"),
        ({"output": "regions", "at": (1, 2, 3)}, UsageError, "one for each axis"),
        ({"output": "regions", "at": (1.5, 2)}, UsageError, "whole numbers and slices"),
        ({"output": "regions", "at": (slice(5, 5),)}, UsageError, "names no place"),
        ({"output": "regions", "at": MASK[:4]}, UsageError, "Received an array bool .4, 8"),
        ({"output": "regions", "at": np.zeros((8, 8), bool)}, UsageError, "names no place"),
        ({"output": "regions", "at": 255 * MASK.astype(np.uint8)}, UsageError, "mask > 0"),
        ({"output": "vector", "at": 0}, UsageError, "it is a vector"),
        ({"output": "boxes", "at": 0, "target": 4}, UsageError, "the classes 0 to 3"),
    ],
)
def test_wrong_outputs_and_places_are_refused(detector, options, kind, expected):
    """With the names, or the size of the output."""
    with pytest.raises(kind, match=expected):
        Explainer(detector, **options)


def hub_models():
    """Networks of KerasHub with random weights: name -> (model, its places)."""
    hub = pytest.importorskip("keras_hub")
    keras.utils.set_random_seed(2)
    models = hub.models
    image_encoder = models.MiTBackbone(
        layerwise_depths=[1] * 4, image_shape=(64, 64, 3), hidden_dims=[8, 16, 24, 32],
        num_layers=4, layerwise_num_heads=[1, 2, 2, 2], layerwise_sr_ratios=[2, 1, 1, 1],
        max_drop_path_rate=0.1, layerwise_patch_sizes=[7, 3, 3, 3],
        layerwise_strides=[4, 2, 2, 2],
    )  # fmt: skip
    segformer = models.SegFormerImageSegmenter(
        models.SegFormerBackbone(image_encoder, 16), num_classes=4
    )

    def resnet(size):
        return models.ResNetBackbone(
            [64], [7], [64] * 4, [1] * 4, [1, 2, 2, 2], "basic_block", image_shape=(size, size, 3)
        )

    deeplab = models.DeepLabV3ImageSegmenter(
        models.DeepLabV3Backbone(
            resnet(64), spatial_pyramid_pooling_key="P4", upsampling_size=4,
            dilation_rates=[1, 2, 3], low_level_feature_key="P2", projection_filters=8,
            image_shape=(64, 64, 3),
        ),
        num_classes=4,
    )  # fmt: skip
    from keras_hub.src.models.retinanet.retinanet_label_encoder import RetinaNetLabelEncoder

    anchors = hub.layers.AnchorGenerator(
        "xyxy", min_level=3, max_level=5, num_scales=1, aspect_ratios=[1.0], anchor_size=4.0
    )
    retinanet = models.RetinaNetObjectDetector(
        backbone=models.RetinaNetBackbone(
            image_encoder=resnet(128), min_level=3, max_level=5, use_p5=False,
            image_shape=(128, 128, 3),
        ),
        anchor_generator=anchors, num_classes=3, bounding_box_format="xyxy",
        label_encoder=RetinaNetLabelEncoder(anchors, bounding_box_format="xyxy"),
    )  # fmt: skip
    mask = np.zeros((64, 64), bool)
    mask[10:20, 3:9] = True
    return {
        "SegFormer": (segformer, {None: mask}),
        "DeepLabV3": (deeplab, {None: mask}),
        "RetinaNet": (retinanet, {"bbox_regression": 7, "cls_logits": slice(3, 9)}),
    }


@pytest.mark.release
def test_heads_of_keras_hub_are_explained(rng):
    """SegFormer's and DeepLabV3's regions, RetinaNet's boxes and classes."""
    for name, (model, places) in hub_models().items():
        x = rng.normal(size=(1, *model.input_shape[1:])).astype(np.float32)
        for output, at in places.items():
            whole = keras.Model(
                model.inputs, model.output if output is None else model.output[output]
            )
            gradient = Explainer(model, "gradient", output=output, at=at, target=1)(x)
            with tf.GradientTape() as tape:
                pictures = tf.constant(x)
                tape.watch(pictures)
                values = chosen_of(whole(pictures, training=False), at)
                scores = tf.reduce_mean(tf.reshape(values, [-1, values.shape[-1]]), 0)
                explained = scores[1]
            expected = tape.gradient(explained, pictures).numpy()
            atol = 1e-4 * np.abs(expected).max()
            np.testing.assert_allclose(gradient.relevance, expected, atol=atol, err_msg=name)
            np.testing.assert_allclose(gradient.scores[0], scores, rtol=1e-3, atol=1e-5)
            relevance = Explainer(model, composite="epsilon_plus", output=output, at=at, target=1)(
                x
            )
            (account,) = relevance.accounts.values()
            np.testing.assert_allclose(account.started, scores[1], rtol=1e-3)
            np.testing.assert_allclose(account.reached + account.biases, account.started, rtol=0.02)


def test_a_loaded_network_has_the_output_that_is_named(detector, x, tmp_path):
    """In a Keras file and in a SavedModel; other names are refused."""
    model = keras.Model(detector.inputs, detector.output)
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "net", verbose=False)
    expected = Explainer(detector, output="regions", at=(3, 5), target=1)(x)
    for name in ("net.keras", "net"):
        with pytest.raises(UsageError, match="Did you mean 'regions'"):
            load_network(str(tmp_path / name), output="region")
        network = load_network(str(tmp_path / name), preprocess="none", output="regions")
        found = Explainer(network.model, at=(3, 5), target=1)(x)
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
