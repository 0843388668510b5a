"""Loading networks: labels, preprocessing, random weights."""

import keras
import numpy as np
import pytest

from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    UsageError,
)
from realtime_lrp.models.labels import read_labels
from realtime_lrp.models.networks import Network, load_network
from realtime_lrp.models.preprocessing import (
    COLOUR_ONLY,
    PREPROCESSING,
    preprocess,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('["cat", "tiger cat"]', ["cat", "tiger cat"]),
        ('{"0": ["n01", "tench"], "1": ["n02", "goldfish"]}', ["tench", "goldfish"]),
        (
            str({str(n): "abcdefghijkl"[n] for n in range(11, -1, -1)}).replace("'", '"'),
            [*"abcdefghijkl"],
        ),
        ("\ufeffcat\r\ntiger cat\n\n", ["cat", "tiger cat"]),
    ],
)
def test_labels_come_in_three_forms(tmp_path, text, names):
    """A JSON list, Keras's class index, one name per line."""
    path = tmp_path / "labels"
    path.write_text(text, encoding="utf-8", newline="")
    assert read_labels(path) == names


def test_labels_may_be_a_list():
    """What a file would hold."""
    names = [f"thing {number}" for number in range(10)]
    assert load_network("shapes", labels=names).labels == names
    with pytest.raises(UsageError, match="labels as a list of names, or the path"):
        load_network("shapes", labels=list(range(10)))


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"[1, 2]", b'{"a": "b"}', b"[]"])
def test_what_holds_no_names_is_refused(tmp_path, data):
    """An empty or binary file, numbers, another kind of dictionary."""
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
    """For an orange pixel (255, 128, 0) in RGB."""
    picture = np.full((1, 2, 2, 3), (255, 128, 0), np.uint8)
    values = preprocess(picture, mode)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values[0, 1, 1], expected, atol=1e-4)
    assert mode in PREPROCESSING


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


def test_random_weights_are_new_and_always_the_same(tiny_model):
    """Compared with the trained ones and with a second load."""
    own, first, second = (
        load_network(str(tiny_model), weights, preprocess="tf").model.get_weights()[0]
        for weights in (None, "random", "random")
    )
    assert np.abs(own - first).max() > 0.01
    np.testing.assert_array_equal(first, second)


def test_unknown_models_are_refused(tmp_path):
    """A wrong name, a missing file, a file of another kind."""
    with pytest.raises(UsageError, match="'vgg16'"):
        load_network("vgg6")
    with pytest.raises(MissingInputError, match=r"none\.keras"):
        load_network(str(tmp_path / "none.keras"))
    path = tmp_path / "old.h5"
    path.touch()
    with pytest.raises(DamagedInputError, match="save"):
        load_network(str(path))


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


@pytest.mark.parametrize("mode", PREPROCESSING)
def test_the_input_becomes_colours_again(mode, rng):
    """To the same pixels; a grey input becomes a grey picture."""
    pictures = rng.integers(0, 256, (2, 5, 4, 3), np.uint8)
    network = Network("any", None, preprocess=mode, channels=3)
    offset, matrix = network.colours()
    values = (network.prepare(pictures).numpy() - offset) @ matrix
    np.testing.assert_allclose(values, pictures, atol=1e-3)
    if mode not in COLOUR_ONLY:
        grey = Network("grey", None, preprocess=mode, channels=1)
        offset, matrix = grey.colours()
        values = (grey.prepare(pictures).numpy() - offset) @ matrix
        luminance = pictures @ [0.299, 0.587, 0.114]  # ITU-R BT.601
        np.testing.assert_allclose(values, luminance[..., None].repeat(3, -1), atol=1e-3)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Network("radar", None, channels=4), r"reads 4 channels.*Explainer\(network.model\)"),
        (Network("grey", None, "caffe", channels=1), "preprocess='caffe' is for colours"),
    ],
)
def test_pictures_that_a_network_cannot_read_are_refused(network, expected):
    """With what to do instead."""
    with pytest.raises(UsageError, match=expected):
        network.prepare(np.zeros((1, 2, 2, 3), np.uint8))
