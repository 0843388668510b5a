"""Weight files from other people: what is refused, what fits, and what is never computed."""

import json
import re

import h5py
import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from keras import layers
from model_files import archived, dense, members

from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models import memory
from realtime_lrp.models.networks import load_network
from realtime_lrp.models.untrusted import loading
from realtime_lrp.models.untrusted.loading import load_model, load_weights


def with_data(tmp_path, write):
    """A weights file of `dense` whose kernel is replaced by `write(file, name)`."""
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with h5py.File(path, "r+") as file:
        del file["layers/dense/vars/0"]
        write(file, "layers/dense/vars/0")
    return path


def external_storage(file, name):
    """Data that are read from another file."""
    file.create_dataset(name, (3, 2), "f4", external=[("/etc/passwd", 0, 24)])


def virtual(file, name):
    """A dataset that is part of another file."""
    layout = h5py.VirtualLayout((3, 2), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (3, 2))
    file.create_virtual_dataset(name, layout)


HOSTILE = {
    "an external link": lambda file, name: file.__setitem__(name, h5py.ExternalLink("/x.h5", "/d")),
    "a soft link": lambda file, name: file.__setitem__(name, h5py.SoftLink("/layers/dense/vars/1")),
    "external storage": external_storage,
    "virtual data": virtual,
    "text": lambda file, name: file.create_dataset(name, data=np.array(["a"] * 6, "S5")),
    "references": lambda file, name: file.create_dataset(name, (3, 2), h5py.ref_dtype),
    "a claim of 4 TB": lambda file, name: file.create_dataset(name, (10**6, 10**6), "f4"),
    "a packed claim": lambda file, name: file.create_dataset(
        name, (10**5, 10**5), "f4", chunks=(1000, 1000), compression="gzip"
    ),
    "two claims that are small": lambda file, name: (
        [file.create_dataset(one, (10**7,), "f4") for one in ("one", "two")]
        and file.create_dataset(name, (3, 2), "f4")
    ),
    "another shape": lambda file, name: file.create_dataset(name, (2, 3), "f4"),
    "a group": lambda file, name: file.create_group(name),
    "nothing": lambda file, name: None,
}


@pytest.mark.parametrize(
    ("kind", "wrapped"),
    [*((kind, False) for kind in HOSTILE), ("external storage", True), ("another shape", True)],
)
def test_hostile_weights_are_refused(tmp_path, temporary_folder, kind, wrapped):
    """Reads of other files, data that are not numbers, claims beyond the size of the file."""
    path = with_data(tmp_path, HOSTILE[kind])
    used = psutil.Process().memory_info().rss
    if wrapped:
        dense().save(tmp_path / "m.keras")
        content = {**members(tmp_path / "m.keras"), "model.weights.h5": path.read_bytes()}
        with pytest.raises(DamagedInputError, match=r"m\.keras"):
            load_model(archived(tmp_path / "m.keras", content))
    else:
        with pytest.raises(DamagedInputError, match=r"w\.weights\.h5"):
            load_weights(dense(), path)
    assert psutil.Process().memory_info().rss - used < 64 << 20


def test_groups_that_hold_each_other_do_not_hang(tmp_path):
    """HDF5 allows circles."""
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with h5py.File(path, "r+") as file:
        file["layers/dense/again"] = file["layers"]
    load_weights(dense(), path)


def test_single_whole_numbers_are_read(tmp_path):
    """Such as how many pictures an adapted normalisation has seen."""
    adapted = layers.Normalization()
    adapted.adapt(np.random.default_rng(0).random((8, 4, 4, 3), np.float32))
    model = keras.Sequential([keras.Input((4, 4, 3)), adapted, layers.Flatten(), layers.Dense(2)])
    model.save(path := tmp_path / "adapted.keras")
    loaded = load_model(path)
    for before, after in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_weights_that_do_not_fit_are_refused(tiny_model, tmp_path):
    """No HDF5, a missing file, a network without imagenet weights."""
    (tmp_path / "bad.h5").write_bytes(b"nothing")
    with pytest.raises(DamagedInputError, match=r"bad\.h5"):
        load_network(str(tiny_model), str(tmp_path / "bad.h5"), preprocess="tf")
    with pytest.raises(UnavailableError, match="no weights"):
        load_network(str(tiny_model), str(tmp_path / "none.h5"), preprocess="tf")
    with pytest.raises(UsageError, match="imagenet"):
        load_network(str(tiny_model), "imagenet", preprocess="tf")


def deep(count):
    """A network with so many dense layers."""
    return keras.Sequential([keras.Input((3,)), *(layers.Dense(2) for _ in range(count))])


def kept(model, path):
    """Saves the weights of a model, in the format that the ending says; returns the path."""
    (model.save_weights if path.name.endswith(".weights.h5") else model.save)(path)
    return path


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_weights_that_do_not_fit_are_refused_in_each_format(tmp_path, temporary_folder, suffix):
    """The first layer that differs with both shapes, more or fewer layers, a file that is cut."""
    path = kept(dense(units=5), tmp_path / f"w{suffix}")
    with pytest.raises(DamagedInputError) as refusal:
        load_weights(dense(), path)
    assert all(part in str(refusal.value) for part in (path.name, "(3, 2)", "(3, 5)"))
    assert re.search(r"named d\)|/d/kernel", str(refusal.value))
    assert len(str(refusal.value).splitlines()) == 1
    for there, wanted in ((1, 2), (2, 1)):
        with pytest.raises(DamagedInputError, match="do not fit"):
            load_weights(deep(wanted), kept(deep(there), path))
    data = kept(dense(), path).read_bytes()
    for quarter in range(4):
        path.write_bytes(data[: len(data) * quarter // 4])
        with pytest.raises(DamagedInputError, match=path.name):
            load_weights(dense(), path)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_weights_that_a_file_holds_twice_fit(tmp_path, suffix):
    """A normalised layer's kernel, which its wrapper has too; a layer in two models."""

    def network():
        shared = layers.Dense(4)
        inner = [keras.Sequential([keras.Input((4,)), shared]) for _ in range(2)]
        wrapped = layers.SpectralNormalization(layers.Dense(4))
        return keras.Sequential([keras.Input((3,)), wrapped, *inner])

    source, model = network(), network()
    load_weights(model, kept(source, tmp_path / f"w{suffix}"))
    for before, after in zip(source.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5"])
def test_far_more_weights_than_the_network_has_are_never_read(tmp_path, monkeypatch, suffix):
    """Keras would read them before it compares shapes; an .h5 may name the same data often."""
    monkeypatch.setattr(loading, "SMALL_VALUES", 0)
    read, directly = [], h5py.Dataset.read_direct
    monkeypatch.setattr(
        h5py.Dataset, "read_direct", lambda self, *to: (read.append(self.size), directly(self, *to))
    )
    path, model = tmp_path / f"w{suffix}", dense()
    if suffix == ".h5":
        model.save(path)
        with h5py.File(path, "r+") as file:
            attributes = file["model_weights/d"].attrs
            attributes["weight_names"] = list(attributes["weight_names"]) * 5
    else:
        dense(units=10).save_weights(path)
    with pytest.raises(DamagedInputError, match=r"far more values than the network"):
        load_weights(model, path)
    assert sum(read) <= 16


def test_the_content_of_a_file_says_how_it_is_read(tmp_path):
    """Published weights have a name of the old form, whatever a user puts there.

    A list of shards, which names further files, and arrays of NumPy are refused.
    """
    for written, named in (("w.weights.h5", "v.h5"), ("w.h5", "v.weights.h5")):
        model, other = dense(), dense()
        load_weights(other, kept(model, tmp_path / written).rename(tmp_path / named))
        np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])
    for name in ("w.weights.json", "w.npz", "w"):
        path = tmp_path / name
        path.write_text('{"weight_map": {"/layers/dense/vars": "../../secret.weights.h5"}}')
        with pytest.raises(DamagedInputError, match=r"Expected \.h5"):
            load_weights(dense(), path)


# --- Nothing is computed, and takes no memory, before the file has shown that it holds the weights


@pytest.fixture
def computed(monkeypatch):
    """Names of the initialisers that computed values, not only shapes."""
    names = []

    def watch(kind):
        before = kind.__call__

        def call(self, *words, **options):
            if tf.executing_eagerly():
                names.append(kind.__name__)
            return before(self, *words, **options)

        monkeypatch.setattr(kind, "__call__", call)

    for kind in vars(keras.initializers).values():
        if isinstance(kind, type) and "__call__" in vars(kind):
            watch(kind)
    zeros = memory._zeros

    def noted(shape, dtype=None):
        names.append("zeros")
        return zeros(shape, dtype)

    monkeypatch.setattr(memory, "_zeros", noted)
    return names


@keras.saving.register_keras_serializable("mine")
class Composite(layers.Layer):
    """A layer with a layer in it."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.inner = layers.Dense(units)

    def build(self, shape):
        self.inner.build(shape)
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, x):
        return self.scale * self.inner(x)

    def get_config(self):
        return {**super().get_config(), "units": self.inner.units}


def test_initialisers_in_a_file_never_compute(tmp_path, computed):
    """Their values would be replaced, and Orthogonal takes cubic time."""
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, kernel_initializer="orthogonal", bias_initializer="normal"),
            layers.PReLU(alpha_initializer="he_normal"),
            layers.BatchNormalization(gamma_initializer=keras.initializers.Constant(3.0)),
            layers.Flatten(),
            Composite(5),
            layers.Dense(5, kernel_initializer="identity"),
        ]
    )
    model.save(tmp_path / "m.keras")
    assert "Orthogonal" in computed
    computed.clear()
    loaded = load_model(tmp_path / "m.keras")
    assert set(computed) == {"zeros"}
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    picture = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    np.testing.assert_array_equal(model(picture), loaded(picture))
    assert isinstance(loaded.layers[0].kernel_initializer, keras.initializers.Orthogonal)


@pytest.mark.parametrize("kind", ["missing", "other", "within"])
def test_memory_is_taken_only_for_weights_in_the_file(tmp_path, computed, kind):
    """Missing weights, those of a smaller layer, or of a layer inside a layer."""
    made = Composite(3) if kind == "within" else layers.Dense(3, name="d")
    keras.Sequential([keras.Input((8,)), made], name="net").save(tmp_path / "m.keras")
    held = members(tmp_path / "m.keras")
    described = json.loads(held["config.json"])
    described["config"]["layers"][1]["config"]["units"] = 10**7
    held["config.json"] = json.dumps(described)
    if kind == "missing":
        keras.Sequential([keras.Input((8,)), layers.ReLU()]).save(tmp_path / "none.keras")
        held["model.weights.h5"] = members(tmp_path / "none.keras")["model.weights.h5"]
    computed.clear()
    count = {"missing": 0, "other": 27, "within": 28}[kind]
    with pytest.raises(DamagedInputError, match=rf"has 90,000,00\d values, the file {count}\)"):
        load_model(archived(tmp_path / "m.keras", held))
    assert computed == []
