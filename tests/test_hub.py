"""`--model hub:...`: networks of KerasHub, by name and from folders that it has saved."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError, MissingInputError, UnavailableError, UsageError
from realtime_lrp.models import hub
from realtime_lrp.models.names import model_files
from realtime_lrp.models.untrusted.presets import BACKBONE_WEIGHTS, HEAD_WEIGHTS, TASK
from realtime_lrp.relevance.maps.detections import best_boxes

SCALE, OFFSET = [0.017, 0.0175, 0.0174], [-2.1, -2.0, -1.8]


@pytest.fixture(scope="module", autouse=True)
def keras_hub():
    """Imported by the process that runs these tests alone: it takes long."""
    return pytest.importorskip("keras_hub")


def save(keras_hub, folder, family, backbone, classes, **options):
    """Saves a classifier of a family of KerasHub, with random weights."""
    models, layers = keras_hub.models, keras_hub.layers
    preprocessor = getattr(models, f"{family}ImageClassifierPreprocessor")(
        getattr(layers, f"{family}ImageConverter")(image_size=(32, 32), scale=SCALE, offset=OFFSET)
    )
    getattr(models, f"{family}ImageClassifier")(
        backbone, classes, preprocessor=preprocessor, **options
    ).save_to_preset(str(folder))
    return folder


@pytest.fixture(scope="module")
def convolutional(tmp_path_factory, keras_hub):
    """A preset whose backbone leaves the input size open; ImageNet's classes by name and number."""
    keras.utils.set_random_seed(1)
    backbone = keras_hub.models.VGGBackbone([1], [4], image_shape=(None, None, 3))
    folder = tmp_path_factory.mktemp("preset") / "tiny_imagenet"
    return save(keras_hub, folder, "VGG", backbone, 1000, pooling="avg", pooling_dim=4)


@pytest.fixture(scope="module")
def transformer(tmp_path_factory, keras_hub):
    keras.utils.set_random_seed(1)
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(32, 32, 3), patch_size=8, num_layers=1, num_heads=2, hidden_dim=16, mlp_dim=16
    )
    return save(keras_hub, tmp_path_factory.mktemp("preset") / "vit", "ViT", backbone, 5)


@pytest.fixture
def changed(transformer, tmp_path):
    """A function that writes the transformer's preset with another description; its address."""

    def write(change):
        folder = tmp_path / "changed"
        shutil.copytree(transformer, folder)
        described = json.loads((folder / TASK).read_text())
        described = change(described["config"]["backbone"]["config"], described) or described
        (folder / TASK).write_text(json.dumps(described))
        return f"hub:{folder}"

    return write


def test_a_saved_classifier_answers_as_in_keras_hub(transformer, keras_hub, rng):
    network = load_network(f"hub:{transformer}")
    classifier = keras_hub.models.ImageClassifier.from_preset(str(transformer))
    pictures = rng.integers(0, 256, (2, 32, 32, 3), np.uint8)
    x = network.prepare(pictures).numpy()
    expected = np.asarray(classifier.preprocessor.image_converter(pictures))
    np.testing.assert_allclose(x, expected, atol=1e-5)
    np.testing.assert_allclose(network.model(x), classifier(expected), atol=1e-5)
    assert (network.name, network.preprocess, network.labels) == ("vit", "preset", None)
    offset, matrix = network.colours()
    np.testing.assert_allclose((x - offset) @ matrix, pictures, atol=1e-3)
    (account,) = Explainer(network, composite="cp_lrp", target="top1")(x).accounts.values()
    np.testing.assert_allclose(account.started, account.reached + account.biases, rtol=1e-3)


def test_random_weights_need_the_description_alone(convolutional, tmp_path):
    shutil.copy(convolutional / TASK, tmp_path)
    first = load_network(f"hub:{tmp_path}", "random").model
    second = load_network(f"hub:{tmp_path}", "random", size=(40, 48)).model
    np.testing.assert_array_equal(first.get_weights()[0], second.get_weights()[0])
    assert np.abs(first.get_weights()[0]).max() > 0.01
    assert first.input_shape == (None, 32, 32, 3)
    assert second.input_shape == (None, 40, 48, 3)


def test_a_preset_by_name_is_what_keras_hub_downloads(convolutional, monkeypatch, tmp_path):
    from keras_hub.src.utils import preset_utils

    name, asked = "vgg_16_imagenet", []

    def get_file(address, file):
        asked.append((address.split("/")[2:6], file))
        return str(convolutional / file)

    monkeypatch.setattr(preset_utils, "get_file", get_file)
    monkeypatch.setattr(
        hub, "imagenet_labels", lambda classes, download: list(map(str, range(classes)))
    )
    network = load_network(f"hub:{name}")
    of_vgg = ["keras", "vgg", "keras", name]
    assert asked == [(of_vgg, TASK), (of_vgg, BACKBONE_WEIGHTS), (of_vgg, HEAD_WEIGHTS)]
    assert (network.name, len(network.labels)) == (name, 1000)
    files = model_files(f"hub:{convolutional}", None, None)
    assert {kind: path.name for kind, path in files.items()} == {
        "model": TASK, "weights": BACKBONE_WEIGHTS, "head": HEAD_WEIGHTS,
    }  # fmt: skip
    assert list(model_files(f"hub:{convolutional}", "random", None)) == ["model"]
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    assert model_files(f"hub:{name}", None, None) == {}


def test_without_a_connection_the_message_says_what_to_do(monkeypatch, tmp_path):
    from keras_hub.src.utils import preset_utils

    def get_file(address, file):
        raise ConnectionError("no route")

    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    monkeypatch.setattr(preset_utils, "get_file", get_file)
    with pytest.raises(UnavailableError, match="no route") as raised:
        load_network("hub:vgg_16_imagenet")
    assert len(str(raised.value).splitlines()) == 2
    assert "hub:FOLDER" in str(raised.value)


def test_what_is_no_preset_is_refused():
    for name, kind, expected in (
        ("", UsageError, "after hub:"),
        ("vit_base_patch16_224_imagnet", UsageError, "Did you mean vit_base_patch16_224_im"),
        ("vit_base_patch16_224_imagenet21", UsageError, "Did you mean vit_base_patch16_"),
        ("nothing at all", UsageError, "Expected a name such as"),
        ("hf://keras/vit", UsageError, "There is no preset"),
        ("kaggle://keras/vit", UsageError, "kaggle://OWNER/MODEL/keras/VARIATION"),
        ("bert_base_en", UsageError, "no classifier, detector"),
        ("./none", MissingInputError, "There is no folder './none'"),
    ):
        with pytest.raises(kind, match=expected) as raised:
            load_network(f"hub:{name}")
        assert "imagenet21k" not in str(raised.value), "it has no classifier head"
        assert len(str(raised.value).splitlines()) <= 2


def test_a_folder_without_a_classifier_is_refused(transformer, tmp_path):
    with pytest.raises(DamagedInputError, match=r"is no preset of KerasHub"):
        load_network(f"hub:{tmp_path}")
    shutil.copy(transformer / "config.json", tmp_path)
    with pytest.raises(DamagedInputError, match="has no head"):
        load_network(f"hub:{tmp_path}")
    shutil.copy(transformer / TASK, tmp_path)
    with pytest.raises(DamagedInputError, match=r"has no file model\.weights\.h5"):
        load_network(f"hub:{tmp_path}")
    with pytest.raises(UsageError, match="has no imagenet weights"):
        load_network(f"hub:{transformer}", "imagenet")


def _converter(**values):
    return lambda b, d: d["config"]["preprocessor"]["config"]["image_converter"]["config"].update(
        values
    )


LAMBDA = {"class_name": "__lambda__", "config": {"value": "4wEA"}}


TOKENIZER = {
    "module": "keras_hub.tokenizers", "class_name": "WordPieceTokenizer",
    "config": {"vocabulary": "/etc/passwd"}, "registered_name": "keras_hub>WordPieceTokenizer",
}  # fmt: skip


UNKNOWN = "in a way that is not known here"
HOSTILE = {
    "code": (lambda b, d: b.update(activation=LAMBDA), "Lambda code, which is never run"),
    "a tokenizer, which reads files": (
        lambda b, d: b.update(x=TOKENIZER), "does not belong in a network for pictures"),
    "another class": (
        lambda b, d: b.update(x={"module": "os", "class_name": "system", "config": {}}),
        "needs code that is not in Keras",
    ),
    "another task": (
        lambda b, d: d.update(
            registered_name="keras_hub>BertTextClassifier", class_name="BertTextClassifier"
        ), "or segmentation of KerasHub, but 'BertText"),
    "endless layers": (lambda b, d: b.update(num_layers=10**9), "Expected at most 1,000"),
    "a huge size": (lambda b, d: b.update(mlp_dim=10**9), "Expected at most 131,072"),
    "quantised": (
        lambda b, d: b.update(dtype={"class_name": "QuantizedDTypePolicy", "config": {}}),
        "it is quantised",
    ),
    "larger than its weights": (
        lambda b, d: d["config"].update(num_classes=50), "holds 85 values, the network has 850",
    ),
    "a scale that is no number": (_converter(scale="a"), UNKNOWN),
    "a scale of zero": (_converter(scale=[1, 0, 1]), UNKNOWN),
    "channels first": (_converter(data_format="channels_first"), UNKNOWN),
    "other shapes": (lambda b, d: b.update(num_heads=4), "cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_preset_is_refused(changed, case):
    change, expected = HOSTILE[case]
    with pytest.raises(DamagedInputError, match=expected) as raised:
        load_network(changed(change))
    assert len(str(raised.value).splitlines()) <= 2


def test_damaged_files_of_a_preset_are_refused(changed):
    address = changed(lambda backbone, described: None)
    folder = hub.Path(address.removeprefix("hub:"))
    (folder / HEAD_WEIGHTS).write_bytes(b"no HDF5")
    with pytest.raises(DamagedInputError, match=r"task.weights.h5 of the preset .* is damaged"):
        load_network(address)
    (folder / TASK).write_bytes(b"{")
    with pytest.raises(DamagedInputError, match="cannot be loaded"):
        load_network(address)


def retina_net(keras_hub):
    """A small RetinaNet of random weights, for pictures of any size; boxes are x0, y0, x1, y1."""
    keras.utils.set_random_seed(3)
    shape, models = {"image_shape": (None, None, 3)}, keras_hub.models
    encoder = models.ResNetBackbone([64], [7], [64] * 3, [1] * 3, [1, 2, 2], "basic_block", **shape)
    backbone = models.RetinaNetBackbone(encoder, 3, 4, use_p5=False, **shape)
    detector = models.RetinaNetObjectDetector(
        backbone, 80, "xyxy", pre_logits_num_conv_layers=1,
        preprocessor=models.RetinaNetObjectDetectorPreprocessor(
            keras_hub.layers.RetinaNetImageConverter((64, 64), 1 / 255)
        ),
    )  # fmt: skip
    detector.box_head.prediction_layer.bias.assign(np.zeros(36))
    return detector


@pytest.fixture(scope="module")
def detector(tmp_path_factory, keras_hub):
    folder = tmp_path_factory.mktemp("preset") / "retinanet_coco"
    retina_net(keras_hub).save_to_preset(str(folder))
    return folder


def predicted(keras_hub, folder, x, top):
    """What KerasHub itself predicts: its best boxes, y0, x0, y1, x1, with labels and scores."""
    task = keras_hub.models.ObjectDetector.from_preset(str(folder), preprocessor=None)
    task.prediction_decoder = keras_hub.layers.NonMaxSuppression(
        task.bounding_box_format, True, confidence_threshold=0.0, max_detections=top
    )
    found = task.predict(x, verbose=0)
    if task.bounding_box_format == "xyxy":
        found["boxes"] = found["boxes"][..., [1, 0, 3, 2]]
    return found


def test_a_saved_detector_has_the_boxes_of_keras_hub(detector, keras_hub, rng):
    network = load_network(f"hub:{detector}")
    assert network.detects and network.fit == "letterbox"
    assert network.model.input_shape == (None, 64, 64, 3)
    assert (network.labels[0], network.labels[11], network.labels[79]) == (
        "person", "stop sign", "toothbrush",
    )  # fmt: skip
    x = network.prepare(rng.integers(0, 256, (2, 64, 64, 3), np.uint8)).numpy()
    found = network.model(x)
    places, values = best_boxes(found["boxes"], tf.reduce_max(found["scores"], -1), 5)
    expected = predicted(keras_hub, detector, x, 5)
    labels = tf.gather(tf.argmax(found["scores"], -1), places, batch_dims=1)
    boxes = tf.gather(found["boxes"], places, batch_dims=1)
    np.testing.assert_array_equal(labels, expected["labels"])
    np.testing.assert_allclose(values, expected["confidence"], atol=1e-4)
    np.testing.assert_allclose(boxes, expected["boxes"], atol=1e-4 * 64)


def test_a_hostile_detector_is_refused(detector, tmp_path):
    folder = shutil.copytree(detector, tmp_path / "changed")
    for change, expected in (
        ({"min_level": -20}, "more than 1,048,576 places"),
        ({"min_level": 2}, "The boxes of .* cannot be computed"),
        ({"max_level": 10**5}, "has no size that fits"),
        ({"num_scales": 4}, "values, the network has"),
    ):
        described = json.loads((detector / TASK).read_text())
        described["config"]["anchor_generator"]["config"].update(change)
        described["config"]["label_encoder"] = LAMBDA  # is for training alone, and never read
        (folder / TASK).write_text(json.dumps(described))
        with pytest.raises(DamagedInputError, match=expected):
            load_network(f"hub:{folder}")


@pytest.mark.release
@pytest.mark.parametrize("family", ["retina_net", "d_fine"])
def test_a_detector_is_explained_box_by_box(keras_hub, tmp_path, rng, family):
    globals()[family](keras_hub).save_to_preset(str(tmp_path))
    network = load_network(f"hub:{tmp_path}")
    x = network.prepare(rng.integers(0, 256, (1, *network.model.input_shape[1:]), np.uint8)).numpy()
    expected = predicted(keras_hub, tmp_path, x, 3)
    gradients = Explainer(network, method="gradient").detections(x, top=3, threshold=0)
    relevance = Explainer(network, composite="cp_lrp").detections(x, top=3, threshold=0)
    for found in (gradients, relevance):
        assert found.labels.tolist() == expected["labels"].tolist()
        np.testing.assert_allclose(found.scores, expected["confidence"], atol=1e-4)
        np.testing.assert_allclose(found.boxes, expected["boxes"], atol=1e-4 * x.shape[1])
    with tf.GradientTape(persistent=True) as tape:
        watched = tf.constant(x)
        tape.watch(watched)
        scores = network.model(watched)["scores"][0]
        best = [scores[pair] for pair in zip(found.places[0], found.labels[0], strict=True)]
        logits = [tf.math.log(one / (1 - one)) for one in best]
    for computed, logit in zip(gradients.maps[0], logits, strict=True):
        one = tape.gradient(logit, watched).numpy()[0]
        assert np.linalg.norm(computed - one) < 1e-3 * np.linalg.norm(one)
    signs = np.where(relevance.scores < 0.5, -1, 1)
    reached = relevance.maps.sum((2, 3, 4)) + relevance.taken
    np.testing.assert_allclose(reached, signs * relevance.scores, rtol=0.05)


def d_fine(keras_hub):
    """A small D-FINE of random weights: pictures of 160 x 160, 60 queries, 5 classes."""
    keras.utils.set_random_seed(0)
    kept = {"image_shape": (160, 160, 3), "out_features": ["stage3", "stage4"]}
    backbone = keras_hub.models.HGNetV2Backbone(
        stem_channels=[3, 8, 8], depths=[1, 1, 1, 1], hidden_sizes=[32, 64, 128, 256],
        stackwise_stage_filters=[
            [8, 8, 32, 1, 2, 3], [32, 16, 64, 1, 2, 3], [64, 32, 128, 1, 2, 5],
            [128, 32, 256, 1, 2, 5],
        ],
        apply_downsample=[False, True, True, True], embedding_size=8, hidden_act="relu",
        use_lightweight_conv_block=[False, False, True, True], use_learnable_affine_block=True,
        **kept,
    )  # fmt: skip
    backbone = keras_hub.models.DFineBackbone(
        backbone, decoder_in_channels=[32, 32], encoder_hidden_dim=32, num_denoising=0,
        num_labels=5, hidden_dim=32, learn_initial_query=False, num_queries=60,
        anchor_image_size=(160, 160), feat_strides=[16, 32], num_feature_levels=2,
        encoder_in_channels=[128, 256], encode_proj_layers=[1], num_attention_heads=4,
        encoder_ffn_dim=64, num_encoder_layers=1, hidden_expansion=0.5, depth_multiplier=0.34,
        eval_idx=-1, num_decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64,
        decoder_n_points=[3, 3], lqe_hidden_dim=16, num_lqe_layers=2, **kept,
    )  # fmt: skip
    return keras_hub.models.DFineObjectDetector(
        backbone, 5, preprocessor=keras_hub.models.DFineObjectDetectorPreprocessor(
            keras_hub.layers.DFineImageConverter((160, 160), 1 / 255)
        ),
    )  # fmt: skip


def segmenter(keras_hub, family):
    """A segmentation of a family of KerasHub with 21 classes, whose input size is open."""
    models, layers = keras_hub.models, keras_hub.layers
    shape = (None, None, 3)
    if family == "SegFormer":
        encoder = models.MiTBackbone(
            layerwise_depths=[1] * 4, image_shape=(64, 64, 3), hidden_dims=[8, 16, 24, 32],
            num_layers=4, layerwise_num_heads=[1, 2, 2, 2], layerwise_sr_ratios=[2, 1, 1, 1],
            max_drop_path_rate=0.1, layerwise_patch_sizes=[7, 3, 3, 3],
            layerwise_strides=[4, 2, 2, 2],
        )  # fmt: skip
        backbone = models.SegFormerBackbone(encoder, 16)
    else:
        encoder = models.ResNetBackbone(
            [64], [7], [64] * 4, [1] * 4, [1, 2, 2, 2], "basic_block", image_shape=shape
        )
        backbone = models.DeepLabV3Backbone(
            encoder, "P4", 4, [1, 2, 3], "P2", projection_filters=8, image_shape=shape
        )
    preprocessor = getattr(models, f"{family}ImageSegmenterPreprocessor")(
        getattr(layers, f"{family}ImageConverter")(image_size=(64, 64), scale=SCALE, offset=OFFSET)
    )
    task = getattr(models, f"{family}ImageSegmenter")
    return task(backbone=backbone, num_classes=21, preprocessor=preprocessor)


@pytest.mark.release
@pytest.mark.parametrize(
    ("family", "composite"), [("DeepLabV3", "epsilon_plus"), ("SegFormer", "attnlrp")]
)
def test_a_saved_segmentation_is_explained_at_a_place(keras_hub, tmp_path, rng, family, composite):
    keras.utils.set_random_seed(1)
    folder = tmp_path / "tiny_pascalvoc"
    segmenter(keras_hub, family).save_to_preset(str(folder))
    network = load_network(f"hub:{folder}")
    own = keras_hub.models.ImageSegmenter.from_preset(str(folder))
    x = network.prepare(rng.integers(0, 256, (1, 64, 64, 3), np.uint8))
    assert network.labels[0] == "background" and network.labels[15] == "person"
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = own(x, training=False)
        logit = values[0, 9 * values.shape[1] // 64, 20 * values.shape[2] // 64, 15]
    np.testing.assert_allclose(network.model(x, training=False), values, atol=1e-5)
    expected = tape.gradient(logit, x).numpy()
    gradient = Explainer(network, "gradient", target="person", scores="logits")(x, at=(9, 20))
    np.testing.assert_allclose(gradient.relevance, expected, atol=1e-5 * np.abs(expected).max())
    explainer = Explainer(network, composite=composite, target="person", scores="logits")
    (account,) = explainer(x, at=(9, 20)).accounts.values()
    np.testing.assert_allclose(account.started, account.reached + account.biases, rtol=0.02)
