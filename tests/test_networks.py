"""Names and files to networks: weights, labels, preprocessing, strangers' files."""

import hashlib
import http.server
import json
import threading
import zipfile

import keras
import numpy as np
import pytest
from keras import layers

from realtime_lrp import config
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    UnavailableError,
    UsageError,
)
from realtime_lrp.models import labels as labels_module
from realtime_lrp.models import networks
from realtime_lrp.models.keras_files import load_model
from realtime_lrp.models.labels import imagenet_labels, read_labels
from realtime_lrp.models.networks import load_network
from realtime_lrp.models.preprocessing import PREPROCESSING, preprocess


@pytest.fixture
def web(tmp_path):
    """A folder that is served over HTTP: (folder, address)."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    """An empty folder of downloads, for Keras and for us."""
    import keras.src.backend.config as keras_config

    home = tmp_path / "keras"
    home.mkdir()
    monkeypatch.setattr(keras_config, "_KERAS_DIR", str(home))
    for module in (labels_module, networks):
        monkeypatch.setattr(module, "DOWNLOADS", home / "models")
    return home / "models"


def test_every_name_is_listed_once():
    """The schema, which must not load TensorFlow, knows the same names as the room."""
    assert tuple(config.MODELS) == networks.NAMES


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('["cat", "tiger cat"]', ["cat", "tiger cat"]),
        ('{"0": ["n01", "tench"], "1": ["n02", "goldfish"]}', ["tench", "goldfish"]),
        ('{"1": "b", "0": "a"}', ["a", "b"]),
        ("\ufeffcat\r\ntiger cat\n\n", ["cat", "tiger cat"]),
    ],
)
def test_labels_come_in_three_forms(tmp_path, text, names):
    """A JSON list, Keras's class index, one name a line."""
    path = tmp_path / "labels"
    path.write_text(text, encoding="utf-8", newline="")
    assert read_labels(path) == names


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"[1, 2]", b'{"a": "b"}', b"[]"])
def test_what_holds_no_names_is_refused(tmp_path, data):
    """Empty, binary, numbers, another kind of dictionary."""
    path = tmp_path / "labels.json"
    path.write_bytes(data)
    with pytest.raises(DamagedInputError, match=r"labels\.json"):
        read_labels(path)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("caffe", [0 - 103.939, 128 - 116.779, 255 - 123.68]),
        ("tf", [1, 128 / 127.5 - 1, -1]),
        ("torch", [(1 - 0.485) / 0.229, (128 / 255 - 0.456) / 0.224, (0 - 0.406) / 0.225]),
        ("rescale", [1, 128 / 255, 0]),
        ("none", [255, 128, 0]),
    ],
)
def test_preprocessing_by_hand(mode, expected):
    """An orange pixel (255, 128, 0) in RGB."""
    picture = np.full((1, 2, 2, 3), (255, 128, 0), np.uint8)
    values = preprocess(picture, mode)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[0, 1, 1], expected, atol=1e-4)
    assert mode in PREPROCESSING


def test_vgg_needs_rgb_and_keras_turns_it():
    """Our caffe preprocessing is the one of Keras's own VGG16 for an RGB picture."""
    picture = np.random.default_rng(0).integers(0, 256, (1, 4, 4, 3), np.uint8)
    expected = keras.applications.vgg16.preprocess_input(picture.astype(np.float32))
    np.testing.assert_allclose(preprocess(picture, "caffe"), expected)


def test_a_users_file_brings_its_own_network(tiny_model, tmp_path, caplog):
    """Any .keras file; without --preprocess the notice says what the network gets."""
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\nd\n")
    network = load_network(str(tiny_model), labels=str(names))
    assert (network.name, network.preprocessing, network.labels) == ("tiny", "none", list("abcd"))
    assert "0 to 255" in caplog.text
    caplog.clear()
    assert load_network(str(tiny_model), preprocessing="tf").preprocessing == "tf"
    assert not caplog.text


def test_random_weights_differ_from_the_own_ones_and_are_the_same_each_time(tiny_model):
    """The sanity check of a trained network."""
    own, first, second = (
        load_network(str(tiny_model), weights, preprocessing="tf").model.get_weights()[0]
        for weights in (None, "random", "random")
    )
    assert np.abs(own - first).max() > 0.01
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", ["w.weights.h5", "w.keras", "w.h5"])
def test_weights_come_from_local_files(tiny_model, tmp_path, name):
    """Each of Keras's formats."""
    source = keras.models.load_model(tiny_model)
    source.set_weights([weight + 1 for weight in source.get_weights()])
    path = tmp_path / name
    if name.endswith(".weights.h5"):
        source.save_weights(path)
    else:
        source.save(path)
    loaded = load_network(str(tiny_model), str(path), preprocessing="tf").model
    for got, expected in zip(loaded.get_weights(), source.get_weights(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_weights_that_do_not_fit_are_refused(tiny_model, tmp_path):
    """Another shape, a damaged file, no file, a network without imagenet weights."""
    other = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    other.save_weights(tmp_path / "o.weights.h5")
    other.save(tmp_path / "o.keras")
    (tmp_path / "bad.h5").write_bytes(b"nothing")
    for name in ("o.weights.h5", "o.keras", "bad.h5"):
        with pytest.raises(DamagedInputError, match=name):
            load_network(str(tiny_model), str(tmp_path / name), preprocessing="tf")
    with pytest.raises(UnavailableError, match="no weights"):
        load_network(str(tiny_model), str(tmp_path / "none.h5"), preprocessing="tf")
    with pytest.raises(UsageError, match="imagenet"):
        load_network(str(tiny_model), "imagenet", preprocessing="tf")


def test_unknown_models_are_refused(tmp_path):
    """A wrong name, a file that is not there, a file of another kind."""
    with pytest.raises(UsageError, match="'vgg16'"):
        load_network("vgg6")
    with pytest.raises(MissingInputError, match=r"none\.keras"):
        load_network(str(tmp_path / "none.keras"))
    path = tmp_path / "old.h5"
    path.touch()
    with pytest.raises(DamagedInputError, match="save"):
        load_network(str(path))


class OwnLayer(layers.Layer):
    def call(self, x):
        return x


def test_files_that_bring_code_are_refused(tmp_path):
    """A Lambda layer and a layer from another module: nothing of them runs."""
    x = keras.Input((4, 4, 3))
    for name, layer, words in (
        ("lambda", layers.Lambda(lambda v: v), "Lambda"),
        ("own", OwnLayer(), "not in Keras"),
    ):
        path = tmp_path / f"{name}.keras"
        keras.Model(x, layers.Flatten()(layer(x))).save(path)
        with pytest.raises(DamagedInputError, match=words):
            load_model(path)


@pytest.mark.parametrize("kind", ["text", "empty", "zip", "truncated"])
def test_damaged_model_files_are_refused(tiny_model, tmp_path, kind):
    """Nothing but DamagedInputError comes out."""
    path = tmp_path / "bad.keras"
    data = tiny_model.read_bytes()
    contents = {"text": b"hello", "truncated": data[: len(data) // 2]}
    path.write_bytes(contents.get(kind, b""))
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", json.dumps({"class_name": "Functional"}))
    with pytest.raises(DamagedInputError, match=r"bad\.keras"):
        load_model(path)


def test_imagenet_weights_and_labels_are_downloaded_and_cached(web, downloads, monkeypatch):
    """Keras's own download of VGG16, from a local server that has a small network."""
    from keras.src.applications import vgg16

    folder, address = web
    (folder / "index.json").write_text(json.dumps({"0": ["n0", "tench"], "1": ["n1", "goldfish"]}))

    def small(weights):
        model = keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), layers.Dense(2)])
        if weights == "imagenet":
            model.load_weights(
                keras.utils.get_file("w.weights.h5", vgg16.WEIGHTS_PATH, cache_subdir="models")
            )
        return model

    served = small(None)
    served.save_weights(folder / "w.weights.h5")
    monkeypatch.setattr(vgg16, "WEIGHTS_PATH", f"{address}/w.weights.h5")
    monkeypatch.setattr(labels_module, "CLASS_INDEX_URL", f"{address}/index.json")
    digest = hashlib.md5((folder / "index.json").read_bytes()).hexdigest()
    monkeypatch.setattr(labels_module, "CLASS_INDEX_HASH", digest)
    monkeypatch.setitem(networks.IMAGENET, "vgg16", (small, "w.weights.h5"))

    network = load_network("VGG16")
    assert (network.name, network.preprocessing) == ("vgg16", "caffe")
    assert network.labels == ["tench", "goldfish"]
    np.testing.assert_array_equal(network.model.get_weights()[0], served.get_weights()[0])
    assert {p.name for p in downloads.iterdir()} == {"w.weights.h5", "imagenet_class_index.json"}
    for file in folder.iterdir():
        file.unlink()
    assert load_network("vgg16").labels == ["tench", "goldfish"]


def test_the_class_index_is_the_one_that_keras_uses():
    """Address and hash agree with Keras's own."""
    import inspect

    from keras.src.applications import imagenet_utils

    assert labels_module.CLASS_INDEX_URL == imagenet_utils.CLASS_INDEX_PATH
    assert labels_module.CLASS_INDEX_HASH in inspect.getsource(imagenet_utils)


def test_a_class_index_with_another_hash_is_not_used(web, downloads, monkeypatch, caplog):
    """What was changed on the way is refused; classes are then shown by index, and we say so."""
    folder, address = web
    (folder / "index.json").write_text('["forged"]')
    monkeypatch.setattr(labels_module, "CLASS_INDEX_URL", f"{address}/index.json")
    assert imagenet_labels(download=True) is None
    assert "by index" in caplog.text


def test_without_a_network_the_message_says_where_the_file_belongs(downloads, monkeypatch):
    """Exit code 69, the file's name and its place."""
    from keras.src.applications import vgg16

    monkeypatch.setattr(vgg16, "WEIGHTS_PATH", "http://127.0.0.1:9/none.h5")
    monkeypatch.setattr(vgg16.layers, "Dense", lambda units, **_: layers.Activation("linear"))
    with pytest.raises(UnavailableError) as refusal:
        load_network("vgg16")
    name = "vgg16_weights_tf_dim_ordering_tf_kernels.h5"
    assert str(downloads / name) in str(refusal.value)
    assert "--weights" in str(refusal.value)


def test_random_vgg_needs_no_network(downloads, monkeypatch):
    """No download is tried, not even of the labels."""
    monkeypatch.setattr(keras.utils, "get_file", lambda *a, **k: pytest.fail("a download"))
    network = load_network("vgg16", "random")
    assert network.model.output_shape == (None, 1000)
    assert network.labels is None
