"""Networks as people bring them: what is found out about them, and parts that were refused."""

import io
import json
import os
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

import realtime_lrp
from realtime_lrp import Explainer, Network, load_network
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models.files import kind_of
from realtime_lrp.models.labels import read_labels
from realtime_lrp.models.preparing import prepares_pictures, scaled_pictures
from realtime_lrp.realtime.viewer.view import canvas_size
from realtime_lrp.relevance.network import onednn
from realtime_lrp.view.text import draw_lines


@pytest.fixture(autouse=True)
def _same_weights():
    keras.utils.set_random_seed(4)


class Doubled(layers.Layer):
    """A layer without a row."""

    def call(self, a):
        return a * 2.0


def constant_input(f):
    """A nested model whose second input is a constant."""
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
    with tf.GradientTape() as tape:
        pictures = tf.constant(x)
        tape.watch(pictures)
        value = logits(pictures, training=False)[:, 1]
    wanted = tape.gradient(value, pictures).numpy()
    explained = Explainer(model, "gradient", target=1)(x)
    np.testing.assert_allclose(explained.scores, model(x, training=False), atol=1e-5)
    np.testing.assert_allclose(explained.relevance, wanted, atol=1e-4 * np.abs(wanted).max())
    account = Explainer(model, composite="epsilon", target=1)(x).accounts["epsilon"]
    np.testing.assert_allclose(account.reached + account.biases, account.started, rtol=0.05)


def test_a_network_of_grey_pictures_without_a_channel_is_explained(tmp_path, rng):
    """As its twin, whose pictures have a channel."""
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
    """By what lies before its first weights, in nested models too; also by its operations."""
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


def test_numbers_before_all_names_are_removed(tmp_path):
    """Where they count the lines; a name that is a number stays."""
    path = tmp_path / "labels.txt"
    for text, names in (
        ("0 cardboard\n1 plastic bag\n", ["cardboard", "plastic bag"]),
        ("1: cat\n2: dog\n3: owl", ["cat", "dog", "owl"]), ("0\tcat\n1\tdog", ["cat", "dog"]),
        ("0,cat\n1,dog", ["cat", "dog"]), ("0\n1\n2", ["0", "1", "2"]),
        ("1 way\n3 ways\n", ["1 way", "3 ways"]), ("2 doors\n3 doors\n", ["2 doors", "3 doors"]),
        ("cat\n1 dog", ["cat", "1 dog"]), ("ClassId,Name\r\n0,cat\r\n1,dog\r\n", ["cat", "dog"]),
        ("cat, dog", ["cat", "dog"]), ('"cat"\n"dog"', ["cat", "dog"]),
        ("{0: 'cat', 1: 'dog'}", ["cat", "dog"]), ('{"dog": 1, "cat": 0}', ["cat", "dog"]),
    ):  # fmt: skip
        path.write_text(text)
        assert read_labels(path) == names


def test_labels_beside_a_file_are_used_where_their_number_fits(tmp_path, caplog):
    """A line says so; --labels comes first, and other names are left alone."""
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
    """-1 to 1, known by the names that it gives to its dense layers."""
    head = keras.Sequential([keras.Input((48,)), layers.Dense(2, name="dense_Dense2")])
    keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), head]).save(tmp_path / "k.h5")
    network = load_network(str(tmp_path / "k.h5"))
    assert (network.preprocess, network.warning) == ("tf", "")
    assert "-1 to 1" in caplog.text
    assert load_network(str(tmp_path / "k.h5"), preprocess="none").preprocess == "none"


def zipped(*names):
    """An archive of empty files."""
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
    """In one or two lines, with what to do, whatever the file is called."""
    data, expected = KINDS[name]
    path = tmp_path / name.split(",")[0]
    path.write_bytes(data)
    with pytest.raises(DamagedInputError, match=f"(?s){expected}") as refusal:
        load_network(str(path))
    assert len(str(refusal.value).splitlines()) == 2


def test_a_folder_that_is_no_savedmodel_is_named_by_what_it_holds(tmp_path):
    """With what to give instead; an archive of Keras is told by its members."""
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
    """Every layer that works in training alone may be in a file."""
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
    """Instead of a list of what was expected."""
    for package, way in (("tf_keras.src", r"Keras 2.*save\('name.h5'\)"), ("torch.nn", "onnx")):
        model = type("Foreign", (), {"__module__": package})()
        for take in (Explainer, lambda model: Network("mine", model)):
            with pytest.raises(UsageError, match=way):
                take(model)


def test_another_backend_of_keras_is_not_used_or_refused(monkeypatch):
    """The package chooses TensorFlow, unless a program has imported Keras before."""
    said = subprocess.run(
        [sys.executable, "-c", "import os, realtime_lrp; print(os.environ['KERAS_BACKEND'])"],
        env=os.environ | {"KERAS_BACKEND": "jax"}, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout == "tensorflow\n"
    with monkeypatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: "torch")
        with pytest.raises(UnavailableError, match=r"torch.*KERAS_BACKEND"):
            realtime_lrp._require_tensorflow()
    patched = tf.compat.v1
    monkeypatch.setattr(patched, "executing_eagerly_outside_functions", lambda: False)
    with pytest.raises(UnavailableError, match="eager execution"):
        realtime_lrp._require_tensorflow()


def test_functions_that_run_eagerly_change_nothing(rng):
    """What a notebook leaves switched on for its own debugging."""
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
    """The line under one ends within it: small letters, and what is too long is cut with a margin.

    Never the number alone. The canvas is larger by a whole number; that of others is no larger.
    """
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
