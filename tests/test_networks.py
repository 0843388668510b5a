"""Loading networks: labels, preprocessing, random weights."""

import hashlib
import json
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from web import sends, serving

from realtime_lrp import Explainer, config
from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.config.preprocessing import NAMED, parse
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models import downloads, included, labels
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.models.labels import read_labels
from realtime_lrp.models.network import Network, prepared
from realtime_lrp.models.networks import load_network


def test_labels_come_in_three_forms(tmp_path):
    """A JSON list, Keras's class index, one name per line; and what holds no names is refused."""
    path = tmp_path / "labels.json"
    twelve = {str(n): "abcdefghijkl"[n] for n in range(11, -1, -1)}
    for text, names in (
        ('["cat", "tiger cat"]', ["cat", "tiger cat"]),
        ('{"0": ["n01", "tench"], "1": ["n02", "goldfish"]}', ["tench", "goldfish"]),
        (json.dumps(twelve), [*"abcdefghijkl"]),
        ("\ufeffcat\r\ntiger cat\n\n", ["cat", "tiger cat"]),
    ):
        path.write_text(text, encoding="utf-8", newline="")
        assert read_labels(path) == names
    for data in (b"", b"\xff\xfe\x00", b"[1, 2]", b'{"a": "b"}', b"[]"):
        path.write_bytes(data)
        with pytest.raises(DamagedInputError, match=r"labels\.json"):
            read_labels(path)


def test_labels_may_be_a_list():
    """What a file would hold."""
    names = [f"thing {number}" for number in range(10)]
    assert load_network("shapes", labels=names).labels == names
    with pytest.raises(UsageError, match="labels as a list of names, or the path"):
        load_network("shapes", labels=list(range(10)))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("caffe", [0 - 103.939, 128 - 116.779, 255 - 123.68]),
        ("tf", [1, 128 / 127.5 - 1, -1]),
        ("torch", [(1 - 0.485) / 0.229, (128 / 255 - 0.456) / 0.224, (0 - 0.406) / 0.225]),
        ("rescale", [1, 128 / 255, 0]),
        ("none", [255, 128, 0]),
        ("0..1 mean=0.5 std=0.25", [2, (128 / 255 - 0.5) / 0.25, -2]),
        ("0..255 bgr mean=1,2,3", [-1, 126, 252]),
        ("-1..1 invert", [-1, 127 / 127.5 - 1, 1]),
        ("rescale bgr  invert std=1,2,4", [1, 127 / 255 / 2, 0]),
        ("0..255 mean=128 std=128", [127 / 128, 0, -1]),
    ],
)
def test_preprocessing_by_hand(mode, expected):
    """For an orange pixel (255, 128, 0) in RGB."""
    picture = np.full((1, 2, 2, 3), (255, 128, 0), np.uint8)
    values = prepared(picture, parse(mode))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[0, 1, 1], expected, atol=1e-4)


def test_a_wrong_preprocessing_says_what_is_expected():
    """In Python and in a configuration."""
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
    """Any .keras file; without --preprocess a warning says what the network gets."""
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
    """No download, not even of labels; kernels fill the Glorot range, biases are 0."""

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
    again = load_network("vgg16", "random").model.get_weights()
    np.testing.assert_array_equal(kernel, again[0])


@pytest.mark.parametrize("mode", [*NAMED, "-2..3 mean=1 std=0.3 invert"])
def test_the_input_becomes_colours_again(mode, rng):
    """To the same pixels; a grey input becomes a grey picture."""
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
    """With what to do instead."""
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
    """An empty folder for downloads."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    return tmp_path / "models"


def names(folder):
    """The names of the files in the folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize(
    "answer",
    [
        sends(BODY[:-1]),
        sends(BODY[:500_000], len(BODY)),
        sends(b"<html>Please log in</html>"),
        sends(b"", status=404),
        lambda handler: handler.wfile.write(b"no HTTP\r\n"),
    ],
    ids=["wrong bytes", "dies in the middle", "another page", "404", "no HTTP"],
)
def test_what_is_not_the_file_is_never_kept(folder, answer):
    """Nothing is left in the folder, not even a temporary file."""
    with serving(answer) as (address, _), pytest.raises(UnavailableError, match="could not be"):
        fetch(Download(f"{address}/w.h5", MD5))
    assert names(folder) == []


def test_a_server_that_hangs_times_out(folder, monkeypatch):
    """The timeout counts from the last byte."""
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
    """The user may have put it there; one that is not as published is named."""
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
                path = included.file_utils.get_file(
                    NAME, f"{address}/{NAME}", cache_subdir="models"
                )
                model.load_weights(path)
            return model

        monkeypatch.setattr(keras.applications, "MobileNetV2", build)
        return build

    return make


NAME = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.weights.h5"


def test_a_network_and_its_labels_come_from_the_server_and_then_from_the_disk(
    folder, tmp_path, monkeypatch, small
):
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
    """Keras publishes no checksum for the MobileNets."""
    small()
    folder.mkdir()
    (folder / NAME).write_bytes(BODY)
    with pytest.raises(DamagedInputError, match=f"(?s){NAME}.*move it away"):
        load_network("mobilenet_v2")
    assert (folder / NAME).read_bytes() == BODY


@pytest.mark.parametrize("text", ["", "<!DOCTYPE html>", '{"0": ["n01440764", "tench"], "1": ['])
def test_damaged_class_names_are_named_and_left_alone(folder, text, caplog):
    """The classes are shown by number."""
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
    """Keras's scores, the tape's gradient, nearly all relevance accounted for."""
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
    expected = of_the_logit(model, x, 7)  # a ReLU at 0 may be on in one and off in the other
    assert np.linalg.norm(gradient - expected) < 1e-2 * np.linalg.norm(expected)


def of_the_logit(model, x, index):
    """The gradient of a class's logit by TensorFlow's tape."""
    model.layers[-1].activation = keras.activations.linear
    with tf.GradientTape() as tape:
        tape.watch(x)
        wanted = model(x)[:, index]
    return tape.gradient(wanted, x).numpy()


@pytest.mark.release
@pytest.mark.parametrize("name", APPLICATIONS)
def test_each_row_says_what_keras_downloads(name):
    """The file's name, and a size that its parameters explain within a tenth."""
    application, downloads = APPLICATIONS[name], []
    with keras.StatelessScope(initialize_variables=False), included._noting_downloads(downloads):
        builder = getattr(keras.applications, application.builder)
        model = builder(weights="imagenet", **application.options)
    assert [download.name for download in downloads] == [application.file]
    assert application.megabytes == pytest.approx(4 * model.count_params() / 2**20, rel=0.1, abs=2)
