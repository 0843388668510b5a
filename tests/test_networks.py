"""Loading networks: labels, preprocessing, random weights."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from naive import assert_near, gradient_of
from web import sends, serving

import realtime_lrp
from realtime_lrp import Explainer, config
from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.config.preprocessing import NAMED, parse
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models import downloads, included, labels
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.models.files import kind_of
from realtime_lrp.models.labels import read_labels
from realtime_lrp.models.network import Network, prepared
from realtime_lrp.models.networks import load_network, prepares_pictures
from realtime_lrp.models.saved_models import scaled_pictures
from realtime_lrp.realtime.viewer.view import canvas_size
from realtime_lrp.relevance.network import onednn
from realtime_lrp.view.text import draw_lines

SEED = 4


def test_labels_may_be_a_list():
    names = [f"thing {number}" for number in range(10)]
    assert load_network("shapes", labels=names).labels == names
    with pytest.raises(UsageError, match="labels as a list of names, or the path"):
        load_network("shapes", labels=list(range(10)))


def test_preprocessing_by_hand():
    for mode, expected in (
        ("caffe", [0 - 103.939, 128 - 116.779, 255 - 123.68]), ("tf", [1, 128 / 127.5 - 1, -1]),
        ("torch", [(1 - 0.485) / 0.229, (128 / 255 - 0.456) / 0.224, (0 - 0.406) / 0.225]),
        ("rescale", [1, 128 / 255, 0]), ("none", [255, 128, 0]),
        ("0..1 mean=0.5 std=0.25", [2, (128 / 255 - 0.5) / 0.25, -2]),
        ("0..255 bgr mean=1,2,3", [-1, 126, 252]), ("-1..1 invert", [-1, 127 / 127.5 - 1, 1]),
        ("rescale bgr  invert std=1,2,4", [1, 127 / 255 / 2, 0]),
        ("0..255 mean=128 std=128", [127 / 128, 0, -1]),
    ):  # fmt: skip
        values = prepared(np.full((1, 2, 2, 3), (255, 128, 0), np.uint8), parse(mode))
        assert values.dtype == np.float32
        np.testing.assert_allclose(values[0, 1, 1], expected, atol=1e-4)


def test_a_wrong_preprocessing_says_what_is_expected():
    for text, expected in {
        "rescal": "Did you mean 'rescale'", "": "a range", "0-1": "a range",
        "1..0": "from a lower to a higher", "0..1 mean=1,2": "1 or 3 numbers",
        "0..1 std=0": "a std above", "0..1e99": "numbers up to", "torch bgr": "written out",
        "tf half": "has 'half'",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=expected):
            Network("any", None, preprocess=text)
        with pytest.raises(UsageError, match=expected):
            config.load(options={"--preprocess": text})


def test_a_users_file_brings_its_own_network(tiny_model, tmp_path, caplog):
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\nd\n")
    network = load_network(str(tiny_model), labels=str(names))
    assert (network.name, network.preprocess, network.labels) == ("tiny", "none", list("abcd"))
    assert "may be nonsense: the network gets RGB values from 0 to 255" in caplog.text
    assert "no --preprocess given" in network.warning
    caplog.clear()
    told = load_network(str(tiny_model), preprocess="tf")
    assert (told.preprocess, told.warning, caplog.text) == ("tf", "", "")


def test_random_vgg_needs_no_network(monkeypatch, tmp_path):
    def small(**options):
        return keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(64, 3)])

    monkeypatch.setattr(keras.applications, "VGG16", small)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    for module in ("included", "labels"):
        monkeypatch.setattr(
            f"realtime_lrp.models.{module}.fetch", lambda one: pytest.fail("a download")
        )
    network = load_network("vgg16", "random")
    kernel, bias = network.model.get_weights()
    limit = np.sqrt(6 / (9 * (3 + 64)))
    assert 0.99 * limit < np.abs(kernel).max() <= limit
    assert abs(kernel.mean()) < 0.05 * limit
    assert not bias.any()
    assert network.labels is None
    np.testing.assert_array_equal(kernel, load_network("vgg16", "random").model.get_weights()[0])


@pytest.mark.parametrize("mode", [*NAMED, "-2..3 mean=1 std=0.3 invert"])
def test_the_input_becomes_colours_again(mode, rng):
    pictures = rng.integers(0, 256, (2, 5, 4, 3), np.uint8)
    network = Network("any", None, preprocess=mode, channels=3)
    offset, matrix = network.colours()
    values = (network.prepare(pictures).numpy() - offset) @ matrix
    np.testing.assert_allclose(values, pictures, atol=1e-3)
    if not parse(mode).for_colours:
        grey = Network("grey", None, preprocess=mode, channels=1)
        offset, matrix = grey.colours()
        values = (grey.prepare(pictures).numpy() - offset) @ matrix
        luminance = pictures @ [0.299, 0.587, 0.114]  # ITU-R BT.601
        np.testing.assert_allclose(values, luminance[..., None].repeat(3, -1), atol=1e-3)


def test_pictures_that_a_network_cannot_read_are_refused():
    for network, expected in (
        (Network("radar", None, channels=4), r"reads 4 channels.*Explainer\(network.model\)"),
        (Network("grey", None, "caffe", channels=1), "The preprocessing 'caffe' is for colours"),
    ):
        with pytest.raises(UsageError, match=expected):
            network.prepare(np.zeros((1, 2, 2, 3), np.uint8))


BODY = bytes(range(256)) * 4096
MD5 = hashlib.md5(BODY).hexdigest()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    return tmp_path / "models"


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("answer", [
    sends(BODY[:-1]), sends(BODY[:500_000], len(BODY)), sends(b"<html>Please log in</html>"),
    sends(b"", status=404), lambda handler: handler.wfile.write(b"no HTTP\r\n"),
], ids=["wrong bytes", "dies in the middle", "another page", "404", "no HTTP"])  # fmt: skip
def test_what_is_not_the_file_is_never_kept(folder, answer):
    with serving(answer) as (address, _), pytest.raises(UnavailableError, match="could not be"):
        fetch(Download(f"{address}/w.h5", MD5))
    assert names(folder) == []


def test_a_server_that_hangs_times_out(folder, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT_S", 0.2)
    hold = threading.Event()

    def answer(handler):
        sends(BODY[:1000], len(BODY))(handler)
        hold.wait(300)

    with serving(answer) as (address, _), pytest.raises(UnavailableError, match="timed out"):
        fetch(Download(f"{address}/w.h5", MD5))
    hold.set()
    assert names(folder) == []


def test_a_file_that_is_there_is_never_changed(folder, caplog):
    folder.mkdir()
    (folder / "w.h5").write_bytes(BODY[:1000])
    with serving(sends(BODY)) as (address, asked):
        assert fetch(Download(f"{address}/w.h5", MD5)).read_bytes() == BODY[:1000]
        assert str(folder / "w.h5") in caplog.text
        assert fetch(Download(f"{address}/w.h5", None)).read_bytes() == BODY[:1000]
    assert asked == []


@pytest.fixture
def small(monkeypatch):
    """A small network stands for MobileNetV2; it gets its weights as those of Keras do."""

    def make(address="http://127.0.0.1:9"):
        def build(weights):
            model = keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), layers.Dense(2)])
            if weights == "imagenet":
                model.load_weights(
                    included.file_utils.get_file(NAME, f"{address}/{NAME}", cache_subdir="models")
                )
            return model

        monkeypatch.setattr(keras.applications, "MobileNetV2", build)
        return build

    return make


NAME = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.weights.h5"


def test_a_network_and_its_labels_come_from_the_server_once(folder, tmp_path, monkeypatch, small):
    """Weights, class names and preprocessing; each file is asked for once."""
    served = small()(None)
    served.save_weights(tmp_path / "w.weights.h5")
    index = json.dumps({"0": ["n0", "tench"], "1": ["n1", "goldfish"]}).encode()
    files = {f"/{NAME}": (tmp_path / "w.weights.h5").read_bytes(), "/index.json": index}
    with serving(lambda handler: sends(files[handler.path])(handler)) as (address, asked):
        small(address)
        classes = Download(f"{address}/index.json", hashlib.md5(index).hexdigest())
        monkeypatch.setattr(labels, "CLASS_INDEX", classes)
        for _ in range(2):
            network = load_network("MobileNet_V2")
    assert (network.name, network.preprocess) == ("mobilenet_v2", "tf")
    assert network.labels == ["tench", "goldfish"]
    np.testing.assert_array_equal(network.model.get_weights()[0], served.get_weights()[0])
    assert sorted(asked) == sorted(files)


def test_damaged_weights_are_named_and_left_alone(folder, small):
    small()
    folder.mkdir()
    (folder / NAME).write_bytes(BODY)
    with pytest.raises(DamagedInputError, match=f"(?s){NAME}.*move it away"):
        load_network("mobilenet_v2")
    assert (folder / NAME).read_bytes() == BODY


@pytest.mark.parametrize("text", ["", "<!DOCTYPE html>", '{"0": ["n01440764", "tench"], "1": ['])
def test_damaged_class_names_are_named_and_left_alone(folder, text, caplog):
    folder.mkdir()
    path = folder / labels.CLASS_INDEX.path.name
    path.write_text(text)
    assert labels.imagenet_labels(2, download=True) is None
    assert str(path) in caplog.text and path.read_text() == text


COMPOSITES = ("zplus", "epsilon_plus_flat")

LOSSES = {
    "mobilenet_v3_small": (0.05, 1e-3), "mobilenet": (0.4, 0.4), "mobilenet_v2": (0.4, 0.4),
    "mobilenet_v3_large": (0.1, 0.01), "mobilenet_v3_large_minimalistic": (0.4, 1e-3),
    "efficientnet_b0": (0.05, 0.05), "efficientnet_v2_b0": (0.05, 0.05),
    "densenet121": (1e-3, 1e-3), "convnext_tiny": (1e-3, 1e-3), "vgg16": (1e-3, 5e-3),
    "vgg19": (1e-3, 5e-3), "resnet50": (1e-3, 1e-3), "resnet50_v2": (0.05, 0.6),
    "inception_v3": (1e-3, 1e-3), "inception_resnet_v2": (1e-3, 1e-3), "xception": (0.6, 2.0),
    "nasnet_mobile": (0.5, 0.3),
}  # fmt: skip
"""Name -> how much of the relevance may be missing at the input, for each of `COMPOSITES`.

Random weights whose batch norms were set by a batch of noise. Depthwise layers lose what their
bias alone makes positive, which has no input to go to: about 0.3 in the MobileNets, 0.5 in
xception. In resnet50_v2 and xception sums of both signs nearly cancel before their batch norms:
inside, relevance of +1e6 and -1e6 adds up to 1, and float32 rounds.
"""


def network(name):
    """Keras's own random weights; batch norms that fit them, as after training."""
    loaded = load_network(name, weights="random")
    keras.utils.set_random_seed(1)
    model = keras.models.clone_model(loaded.model)
    size = (4, *model.input_shape[1:])
    x = loaded.prepare(np.random.default_rng(0).integers(0, 256, size, np.uint8))
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(x, training=True)
    return model, x[:2]


@pytest.mark.release
@pytest.mark.parametrize(("name", "losses"), LOSSES.items())
def test_a_network_by_name_builds_runs_and_conserves(name, losses):
    model, x = network(name)
    explainer = Explainer(model, also=["epsilon_plus_flat"])
    found = explainer._run(tf.constant(x), explainer._default)
    np.testing.assert_allclose(found.scores, model.predict_on_batch(x), atol=2e-6)
    for composite, relevance, account, loss in zip(
        COMPOSITES, found.maps, found.accounts, losses, strict=True
    ):
        sums = relevance.numpy().sum((1, 2, 3), dtype=np.float64)
        started, magnitude, taken = account.numpy().T
        missing = (started - sums - taken) / magnitude
        assert (np.abs(missing) < loss).all(), (composite, missing)
    gradient = Explainer(model, method="gradient", target=7)(x).relevance
    model.layers[-1].activation = keras.activations.linear
    expected = gradient_of(lambda a: model(a)[:, 7], x)
    # a ReLU at 0 may be on in one and off in the other
    assert np.linalg.norm(gradient - expected) < 1e-2 * np.linalg.norm(expected)


@pytest.mark.release
@pytest.mark.parametrize("name", APPLICATIONS)
def test_each_row_says_what_keras_downloads(name):
    application, downloads = APPLICATIONS[name], []
    with keras.StatelessScope(initialize_variables=False), included._noting_downloads(downloads):
        builder = getattr(keras.applications, application.builder)
        model = builder(weights="imagenet", **application.options)
    assert [download.name for download in downloads] == [application.file]
    assert application.megabytes == pytest.approx(4 * model.count_params() / 2**20, rel=0.1, abs=2)


class Doubled(layers.Layer):
    def call(self, a):
        return a * 2.0


def constant_input(f):
    maps, numbers = keras.Input(f.shape[1:]), keras.Input((4,))
    of_numbers = layers.Reshape((1, 1, 6))(layers.Dense(6)(numbers))
    return keras.Model([maps, numbers], maps * of_numbers)([f, tf.constant([[0.5, -1, 2, 0.3]])])


def open_backbone(f):
    """A layer without a row in a nested model that leaves sizes open, twice nested."""
    inner = keras.Sequential([keras.Input((None, None, 6)), Doubled(), layers.Conv2D(6, 3)])
    maps = keras.Input((None, None, 6))
    return keras.Model(maps, inner(layers.MaxPooling2D(2)(maps)))(f)


PARTS = {
    "a constant input of a nested model": constant_input,
    "where with a comparison": lambda f: ops.where(f > 0, f, 0.1 * f),
    "a mask of a comparison": lambda f: f * ops.cast(ops.greater(f, 0), "float32"),
    "a layer without a row in an open backbone": open_backbone,
    "TimeDistributed": lambda f: layers.TimeDistributed(layers.Dense(6, "relu"))(f),
    "operations of keras.ops": lambda f: ops.clip(ops.stack([f[..., 0], f[:, :, :, 1]], 3), 0, 6),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_tensorflows_gradient_and_its_relevance_is_accounted_for(name, rng):
    """Between two convolutions, for a batch of two, or one where a constant asks for it."""
    seen = keras.Input((12, 12, 3))
    f = PARTS[name](layers.Conv2D(6, 3)(seen))
    z = layers.Dense(4)(layers.GlobalAveragePooling2D()(layers.Conv2D(6, 3, activation="relu")(f)))
    model, logits = keras.Model(seen, layers.Softmax()(z)), keras.Model(seen, z)
    x = rng.normal(size=(1 if "constant" in name else 2, 12, 12, 3)).astype(np.float32)
    wanted = gradient_of(lambda a: logits(a, training=False)[:, 1], x)
    explained = Explainer(model, "gradient", target=1)(x)
    np.testing.assert_allclose(explained.scores, model(x, training=False), atol=1e-5)
    assert_near(explained.relevance, wanted, 1e-4)
    account = Explainer(model, composite="epsilon", target=1)(x).accounts["epsilon"]
    np.testing.assert_allclose(account.reached + account.biases, account.started, rtol=0.05)


def test_a_network_of_grey_pictures_without_a_channel_is_explained(tmp_path, rng):
    flat, dense = layers.Flatten(), layers.Dense(3, "softmax")
    plain = keras.Sequential([keras.Input((7, 6)), flat, dense])
    twin = keras.Sequential([keras.Input((7, 6, 1)), layers.Flatten(), dense])
    plain.save(tmp_path / "plain.keras")
    network = load_network(str(tmp_path / "plain.keras"), preprocess="rescale")
    x = network.prepare(rng.integers(0, 256, (2, 7, 6, 3), np.uint8)).numpy()
    assert x.shape == (2, 7, 6, 1)
    found, wanted = (Explainer(one, composite="epsilon", target=1)(x) for one in (network, twin))
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6)
    np.testing.assert_allclose(found.relevance, wanted.relevance, atol=1e-6)


def backbone(x):
    return keras.Sequential([keras.Input((8, 8, 3)), layers.Rescaling(1 / 255), conv()])(x)


def conv():
    return layers.Conv2D(3, 3)


def augmented(x):
    for layer in (layers.RandomFlip(), layers.RandomZoom(0.1), layers.CenterCrop(6, 6)):
        x = layer(x)
    return keras.Sequential([keras.Input((6, 6, 3)), layers.RandomContrast(0.1)])(x)


PREPARED = {
    "Rescaling in a backbone": (backbone, True),
    "Rescaling behind augmentations": (
        lambda x: conv()(layers.Rescaling(1 / 255)(augmented(x))), True),
    "a Normalization": (lambda x: layers.Normalization(mean=[1, 2, 3], variance=[1] * 3)(x), True),
    "preprocess_input, tf": (keras.applications.mobilenet_v2.preprocess_input, True),
    "preprocess_input, caffe": (keras.applications.vgg16.preprocess_input, True),
    "divided": (lambda x: conv()(x / 255.0), True),
    "nothing": (lambda x: conv()(augmented(x)), False),
    "Rescaling behind a convolution": (lambda x: layers.Rescaling(0.5)(conv()(x)), False),
    "two branches of pixels": (lambda x: conv()(layers.Concatenate()([x, x])), False),
    "a residual": (lambda x: layers.Add()([x, layers.Conv2D(3, 3, padding="same")(x)]), False),
}  # fmt: skip


@pytest.mark.parametrize("name", PREPARED)
def test_a_network_that_prepares_pictures_itself_is_recognised(name):
    build, expected = PREPARED[name]
    seen = keras.Input((8, 8, 3))
    model = keras.Model(seen, layers.Dense(2)(layers.Flatten()(build(seen))))
    assert prepares_pictures(model) == expected
    traced = tf.function(lambda x: model(x, training=False)).get_concrete_function(
        tf.TensorSpec([None, 8, 8, 3])
    )
    weights = [one.op.name for one in traced.inputs if one.dtype == tf.resource]
    nodes = traced.graph.as_graph_def().node
    assert bool(scaled_pictures(nodes, traced.inputs[0].op.name, weights)) == expected


def test_labels_come_in_many_forms(tmp_path):
    """Numbers go where they count the lines, a name that is one stays; no names are refused."""
    path = tmp_path / "labels.txt"
    twelve = {str(n): "abcdefghijkl"[n] for n in range(11, -1, -1)}
    for text, names in (
        ('["cat", "tiger cat"]', ["cat", "tiger cat"]), (json.dumps(twelve), [*"abcdefghijkl"]),
        ('{"0": ["n01", "tench"], "1": ["n02", "goldfish"]}', ["tench", "goldfish"]),
        ("\ufeffcat\r\ntiger cat\n\n", ["cat", "tiger cat"]),
        ("0 cardboard\n1 plastic bag\n", ["cardboard", "plastic bag"]),
        ("1: cat\n2: dog\n3: owl", ["cat", "dog", "owl"]), ("0\tcat\n1\tdog", ["cat", "dog"]),
        ("0,cat\n1,dog", ["cat", "dog"]), ("0\n1\n2", ["0", "1", "2"]),
        ("1 way\n3 ways\n", ["1 way", "3 ways"]), ("2 doors\n3 doors\n", ["2 doors", "3 doors"]),
        ("cat\n1 dog", ["cat", "1 dog"]), ("ClassId,Name\r\n0,cat\r\n1,dog\r\n", ["cat", "dog"]),
        ("cat, dog", ["cat", "dog"]), ('"cat"\n"dog"', ["cat", "dog"]),
        ("{0: 'cat', 1: 'dog'}", ["cat", "dog"]), ('{"dog": 1, "cat": 0}', ["cat", "dog"]),
    ):  # fmt: skip
        path.write_text(text, encoding="utf-8", newline="")
        assert read_labels(path) == names
    for data in (b"", b"\xff\xfe\x00", b"[1, 2]", b'{"a": "b"}', b"[]"):
        path.write_bytes(data)
        with pytest.raises(DamagedInputError, match=r"labels\.txt"):
            read_labels(path)


def test_labels_beside_a_file_are_used_where_their_number_fits(tmp_path, caplog):
    model = keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), layers.Dense(2)])
    path, labels = tmp_path / "mine.keras", tmp_path / "labels.txt"
    model.save(path)
    labels.write_text("0 cat\n1 dog\n")
    assert load_network(str(path)).labels == ["cat", "dog"]
    assert "labels.txt" in caplog.text
    assert load_network(str(path), labels=["a", "b"]).labels == ["a", "b"]
    labels.write_text("cat\ndog\nowl\n")
    caplog.clear()
    assert load_network(str(path)).labels is None
    assert "has 3 names, the network 2 outputs" in caplog.text
    labels.write_bytes(b"\xff\xfe")
    assert load_network(str(path)).labels is None


def test_a_network_of_teachable_machine_is_prepared_as_there(tmp_path, caplog):
    head = keras.Sequential([keras.Input((48,)), layers.Dense(2, name="dense_Dense2")])
    keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), head]).save(tmp_path / "k.h5")
    network = load_network(str(tmp_path / "k.h5"))
    assert (network.preprocess, network.warning) == ("tf", "")
    assert "-1 to 1" in caplog.text
    assert load_network(str(tmp_path / "k.h5"), preprocess="none").preprocess == "none"


def zipped(*names):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return data.getvalue()


KINDS = {
    "model.keras, a web page": (b"\n<!DOCTYPE html><html>...", "is a web page"),
    "model.h5, Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha", "git lfs pull"),
    "model.keras, empty": (b"", "is empty"),
    "model.json, TensorFlow.js": (b'{"format": "layers-model", "modelTopology": {', "js's"),
    "model.json, architecture": (json.dumps({"class_name": "Model"}).encode(), "its weights"),
    "model.pth, PyTorch": (zipped("archive/data.pkl", "archive/data/0"), "PyTorch.*torch.onnx"),
    "model.pkl, a pickle": (b"\x80\x04\x95", "a pickle of Python, which is code"),
    "model.safetensors, weights": (b"\x10" + bytes(7) + b'{"a":{}}        ', "weights alone"),
    "keras.zip, an archive": (zipped("labels.txt", "keras_model.h5"), "holds 'keras_model.h5'"),
    "model.pb, a graph": (b"\x0a\x05abcde", "a graph of TensorFlow"),
    "model.xyz, unknown": (b"\x01\x02", "of a kind that is known.*\n.*model.save"),
    "model.tflite, an answer": (b"404: Not Found", "text that begins with '404: Not Found'"),
    "model.keras, cut": (b"PK\x03\x04", "cut or damaged"),
    "model.jpg, a picture": (b"\xff\xd8\xff\xe0", "is a picture"),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_network_is_named_by_what_it_is(tmp_path, name):
    data, expected = KINDS[name]
    path = tmp_path / name.split(",")[0]
    path.write_bytes(data)
    with pytest.raises(DamagedInputError, match=f"(?s){expected}") as refusal:
        load_network(str(path))
    assert len(str(refusal.value).splitlines()) == 2


def test_a_folder_that_is_no_savedmodel_is_named_by_what_it_holds(tmp_path):
    for number, (files, expected) in enumerate((
        ("keras_model.h5 labels.txt", "--model .*keras_model.h5"),
        ("config.json metadata.json model.weights.h5", "an unpacked .keras file"),
        ("model.json group1-shard1of1.bin", "TensorFlow.js"), ("metadata.json config.json", "hub:"),
    )):  # fmt: skip
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in files.split():
            (folder / name).touch()
        with pytest.raises(UsageError, match=expected):
            load_network(str(folder))
    path = tmp_path / "renamed.zip"
    path.write_bytes(zipped("config.json", "model.weights.h5"))
    assert kind_of(path) == "keras"


def test_augmentations_change_nothing_and_channels_first_is_said(tmp_path, rng):
    kinds = [getattr(layers, name) for name in ("RandomErasing", "RandomSharpness", "RandomHue")]
    model = keras.Sequential([keras.Input((8, 8, 3)), *(kind(0.2) for kind in kinds)])
    model.add(layers.Flatten())
    model.add(layers.Dense(2, "softmax"))
    model.save(tmp_path / "a.keras")
    x = rng.normal(size=(1, 8, 8, 3)).astype(np.float32)
    found = Explainer(load_network(str(tmp_path / "a.keras"), preprocess="none"))(x)
    np.testing.assert_allclose(found.scores, model(x, training=False), atol=1e-6)
    first = keras.Sequential([keras.Input((3, 8, 8)), layers.Flatten(), layers.Dense(2)])
    with pytest.raises(UsageError, match="channels first"):
        Network("first", first).prepare(np.zeros((1, 8, 8, 3), np.uint8))


def test_models_of_other_libraries_are_told_the_way(monkeypatch):
    for package, way in (("tf_keras.src", r"Keras 2.*save\('name.h5'\)"), ("torch.nn", "onnx")):
        model = type("Foreign", (), {"__module__": package})()
        for take in (Explainer, lambda model: Network("mine", model)):
            with pytest.raises(UsageError, match=way):
                take(model)


def test_another_backend_of_keras_is_not_used_or_refused(monkeypatch):
    said = subprocess.run(
        [sys.executable, "-c", "import os, realtime_lrp; print(os.environ['KERAS_BACKEND'])"],
        env=os.environ | {"KERAS_BACKEND": "jax"}, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout == "tensorflow\n"
    with monkeypatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: "torch")
        with pytest.raises(UnavailableError, match=r"torch.*KERAS_BACKEND"):
            realtime_lrp._import_tensorflow.__wrapped__()
    monkeypatch.setattr(tf.compat.v1, "executing_eagerly_outside_functions", lambda: False)
    with pytest.raises(UnavailableError, match="eager execution"):
        realtime_lrp._import_tensorflow.__wrapped__()


def test_functions_that_run_eagerly_change_nothing(rng):
    model = keras.Sequential([keras.Input((8, 8, 3)), conv(), layers.Flatten(), layers.Dense(2)])
    x = rng.normal(size=(1, 8, 8, 3)).astype(np.float32)
    wanted = Explainer(model)(x).relevance
    onednn.available.cache_clear()
    tf.config.run_functions_eagerly(True)
    try:
        found = Explainer(model)(x).relevance
    finally:
        tf.config.run_functions_eagerly(False)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("side", [40, 64, 96, 126])
def test_small_pictures_are_readable(side):
    for line in ("cat 25%", "Egyptian cat 36%", "black-footed ferret 100%"):
        picture = np.zeros((side, side, 3), np.uint8)
        draw_lines(picture, [line], (0, 0, side, side), bottom=True)
        lit = np.flatnonzero(picture.max((0, 2)) > 60)
        assert lit.size and lit[0] >= 3 and lit[-1] <= side - 4
        numbered = np.zeros_like(picture)
        draw_lines(numbered, [line.replace("%", "")], (0, 0, side, side), bottom=True)
        assert side == 40 or not np.array_equal(picture, numbered)
    for shape, size in (((40, 40), (320, 320)), ((96, 126), (288, 378)), ((128, 9), (128, 9))):
        assert canvas_size(np.zeros((*shape, 3), np.uint8)) == size
