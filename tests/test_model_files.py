"""Model and weight files from strangers: what they may not do, what they lie about, what fits."""

import copy
import io
import json
import os
import shutil
import socket
import sys
import tempfile
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models import size
from realtime_lrp.models.networks import load_network
from realtime_lrp.models.untrusted import allowlist, hdf5_check, loading
from realtime_lrp.models.untrusted.allowlist import check_description
from realtime_lrp.models.untrusted.loading import load_model, load_weights
from realtime_lrp.relevance import layers as rules

GIB = 1 << 30


def members(path):
    """What an archive holds, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(path, contents, packing=zipfile.ZIP_STORED):
    """Writes an archive of (name, data) pairs or a dictionary."""
    pairs = contents.items() if isinstance(contents, dict) else contents
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in pairs:
            archive.writestr(name, data)
    return path


@pytest.fixture
def parts(tiny_model):
    """The members of a good model file, to be changed."""
    return members(tiny_model)


@pytest.fixture
def changed(parts, tmp_path):
    """Writes the good model with its description changed by a function of its layers."""

    def write(change):
        described = json.loads(parts["config.json"])
        change(described["config"]["layers"])
        return archived(
            tmp_path / "bad.keras", {**parts, "config.json": json.dumps(described).encode()}
        )

    return write


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder for all temporary files; nothing may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def watched(monkeypatch):
    """Whatever a stranger's file might make the process do is a failure of the test."""

    def forbid(name):
        return lambda *words, **options: pytest.fail(f"{name}{words}")

    monkeypatch.setattr(os, "system", forbid("os.system"))
    monkeypatch.setattr(keras.utils, "get_file", forbid("get_file"))
    monkeypatch.setattr(socket.socket, "connect", forbid("connect"))
    monkeypatch.setattr(
        keras.config, "enable_unsafe_deserialization", forbid("enable_unsafe_deserialization")
    )
    monkeypatch.setattr("keras.src.utils.python_utils.func_load", forbid("func_load"))


def layer(kind, module="keras.layers", name="evil", **config):
    """A layer of a description, in the place of the Flatten layer."""
    return {
        "module": module,
        "class_name": kind,
        "config": {"name": name, **config},
        "registered_name": None,
        "name": name,
    }


def function(name, module="builtins"):
    """A function of a description."""
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


LAMBDA = {"class_name": "__lambda__", "config": {"value": ["4wAAAA==", None, None]}}

FORBIDDEN = {
    "a Lambda of bytecode": layer("Lambda", function=LAMBDA),
    "CVE-2025-1550, any function": layer("Lambda", function=function("system", "os")),
    "CVE-2025-8747, a download": layer("Lambda", function=function("get_file", "keras.utils")),
    "CVE-2025-9906, safe mode off": layer(
        "Dense", activation=function("enable_unsafe_deserialization", "keras.config")
    ),
    "CVE-2025-12058, a file as vocabulary": layer("StringLookup", vocabulary="/etc/passwd"),
    "a file as vocabulary": layer("TextVectorization", vocabulary="/etc/passwd"),
    "CVE-2025-49655, a pickled module": layer("TorchModuleWrapper", module="UEsDBA=="),
    "a SavedModel": layer("TFSMLayer", filepath="/tmp/evil"),
    "JAX code": layer("JaxLayer", call_fn=LAMBDA),
    "an activation as code": layer("Dense", units=3, activation=LAMBDA),
    "an activation of another module": layer("Dense", units=3, activation=function("eval")),
    "an initialiser as code": layer(
        "Dense", units=3, kernel_initializer=layer("Popen", "subprocess", args=["id"])
    ),
    "a layer of another package": layer("Evil", "keras_hub.layers"),
    "a module of the same beginning": layer("Dense", "keras_evil"),
    "no module": {"class_name": "Lambda", "config": {"name": "evil"}, "name": "evil"},
    "no module, the old way": {"class_name": "Dense", "config": {"units": 3}, "name": "evil"},
    "a class that somebody registered": {
        **layer("Dense", units=3), "registered_name": "package>Dense",
    },
    "a type specification": {"class_name": "__typespec__", "spec_name": "eval", "config": []},
    "an optimiser": layer("Adam", "keras.optimizers"),
    "a wrapper of a layer": layer("TimeDistributed", layer=layer("Lambda", function=LAMBDA)),
    "constants that are objects": {"class_name": "__numpy__", "config": {"dtype": "O"}},
    "a name that is a list": {**layer("Dense"), "class_name": ["Dense"]},
    "a name that moves the cursor": layer("Dense", name="\x1b[2J"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_what_is_not_known_is_never_built(changed, here, watched, kind):
    """Each way of a stranger's file to code, to files or to the network that is known."""
    path = changed(lambda described: described.__setitem__(3, copy.deepcopy(FORBIDDEN[kind])))
    with pytest.raises(DamagedInputError, match=r"bad\.keras") as refusal:
        load_model(path)
    assert len(str(refusal.value).splitlines()) == 1
    assert "\x1b" not in str(refusal.value)


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


@keras.saving.register_keras_serializable("mine")
class NoLayer:
    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        raise AssertionError("it was built")


def test_of_what_python_has_registered_only_layers_are_built(changed):
    """Another class, or a layer under a name that is no text, is a stranger as before."""
    for name in ("mine>NoLayer", "mine>OwnLayer", ["mine>NoLayer"]):
        one = {**layer("NoLayer", "elsewhere"), "registered_name": name}
        with pytest.raises(DamagedInputError, match=r"bad\.keras"):
            load_model(changed(lambda described, one=one: described.__setitem__(3, one)))


def test_everything_is_looked_at_wherever_it_stands(changed, watched):
    """In a nested model, in what a layer was called with, in a description of the build."""
    evil = layer("Lambda", function=LAMBDA)
    nested = layer("Functional", "keras.models", layers=[evil])
    called = {"args": [], "kwargs": {"inputs": {"a": [[evil]]}}}
    for change in (
        lambda described: described.append(nested),
        lambda described: described[1].__setitem__("inbound_nodes", [called]),
        lambda described: described[1].__setitem__("build_config", {"input_shape": evil}),
    ):
        with pytest.raises(DamagedInputError, match="Lambda code"):
            load_model(changed(change))


@pytest.mark.parametrize("steps", [2**31, [1, 2**31], -(2**40), 1e30])
def test_steps_beyond_any_picture_are_refused(changed, steps):
    """TensorFlow would end the process."""

    def change(layers):
        layers[1]["config"]["strides"] = steps

    with pytest.raises(
        DamagedInputError, match=r"The strides of layer .* is larger than any picture"
    ):
        load_model(changed(change))


@pytest.mark.parametrize("shape", [[None, 1, 1, 10**9], [None, 4, 4, "3"], [None], None])
def test_normalisation_of_more_than_pictures_have_is_refused(changed, monkeypatch, shape):
    """It computes with what it subtracts as soon as it is built, so it is not built."""
    one = {**layer("Normalization", axis=[-1]), "build_config": shape and {"input_shape": shape}}
    path = changed(lambda described: described.__setitem__(3, one))
    monkeypatch.setattr(layers.Normalization, "build", lambda *words: pytest.fail("it was built"))
    with pytest.raises(DamagedInputError, match=r"bad\.keras.*at most 16,777,216 values"):
        load_model(path)


def test_networks_of_too_many_layers_are_refused(changed):
    """Keras would build them for hours."""
    with pytest.raises(DamagedInputError, match=r"describes \d+,\d+ layers"):
        load_model(changed(lambda layers: layers.extend(layers * 4000)))


def test_a_layer_without_a_rule_is_named_with_its_type(changed):
    """Its name, its type, and where a rule would be added."""
    path = changed(lambda described: described.__setitem__(3, layer("LSTM", name="memory")))
    with pytest.raises(DamagedInputError, match=r"'memory' \(LSTM\).*add a row to LAYERS"):
        load_model(path)


def serialised(one):
    """What Keras writes of a layer."""
    return keras.saving.serialize_keras_object(one)


def test_every_layer_that_has_a_rule_is_allowed():
    """The two tables agree: a new row needs its name in the other one."""
    expected = {kind.__name__ for kind in rules.LAYERS} | {"InputLayer"}
    assert set(allowlist.LAYERS) == expected
    assert set(allowlist.ACTIVATIONS) == {*rules.NONNEGATIVE, *rules.SIGNED, "linear"}
    for operation in (*rules.OPERATIONS, *rules.FUNCTIONS, rules.DIVISION):
        assert operation.__name__ in allowlist.ALLOWED_CLASSES[operation.__module__]
    names = set().union(*allowlist.ALLOWED_CLASSES.values())
    assert names >= set(rules.BY_NAME)


def test_nothing_that_is_allowed_runs_code_or_reads_files():
    """No class of the table has a way to code, files or other modules among its arguments."""
    for module, kinds in allowlist.ALLOWED_CLASSES.items():
        assert module is None or module.startswith("keras")
        assert not kinds & {
            "Lambda", "StringLookup", "IntegerLookup", "TextVectorization", "TorchModuleWrapper",
            "JaxLayer", "FlaxLayer", "TFSMLayer", "FeatureSpace", "Hashing", "Wrapper", "RNN",
        }  # fmt: skip


def test_what_keras_writes_of_applications_is_allowed():
    """Their own layers."""
    model = keras.applications.ConvNeXtTiny(weights=None)
    check_description(json.loads(model.to_json()), "it")


@pytest.mark.release
@pytest.mark.parametrize(
    "name",
    [
        "VGG16", "VGG19", "ResNet50", "ResNet50V2", "DenseNet121", "MobileNet", "MobileNetV2",
        "InceptionV3", "InceptionResNetV2", "EfficientNetB0", "Xception", "ConvNeXtTiny",
    ],
)  # fmt: skip
def test_applications_are_loaded_from_files(name, tmp_path):
    """What Keras itself writes of them is loaded, with the same weights."""
    model = getattr(keras.applications, name)(weights=None)
    model.save(tmp_path / "m.keras")
    loaded = load_model(tmp_path / "m.keras")
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_keras_writes_around_layers_is_allowed(tmp_path):
    """Expressions, constants, regularisers, policies, nested and compiled models, augmentation."""
    x = keras.Input((8, 8, 3))
    inner = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(3, 1, activation="silu")])
    inner.compile(optimizer="adam", loss="mse")
    y = layers.RandomFlip(seed=1)(
        inner(layers.Normalization(mean=[1.0] * 3, variance=[1.0] * 3)(x))
    )
    y = keras.ops.relu((y + x) * np.float32([1, 2, 3]) / 3.0 - x)
    y = layers.Conv2D(
        2, 1, kernel_regularizer="l2", kernel_constraint="max_norm", dtype="mixed_bfloat16",
        kernel_initializer=keras.initializers.Constant(0.5), activation=keras.activations.gelu,
    )(y)  # fmt: skip
    model = keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.PReLU()(y))))
    model.compile(optimizer="adam", loss="mse")
    model.save(tmp_path / "m.keras")
    loaded = load_model(tmp_path / "m.keras")
    picture = np.random.default_rng(0).random((1, 8, 8, 3), np.float32)
    np.testing.assert_allclose(model(picture), loaded(picture), atol=1e-6)
    assert not loaded.compiled


def test_a_file_of_another_keras_says_so(changed, parts):
    """An argument that a later version knows: both versions are named."""
    parts["metadata.json"] = b'{"keras_version": "9.9.9"}'
    path = changed(lambda described: described[1]["config"].update(unheard_of=1))
    with pytest.raises(
        DamagedInputError, match=f"Keras '9.9.9', this is Keras {keras.__version__}"
    ):
        load_model(path)
    parts["metadata.json"] = b"[]"
    with pytest.raises(DamagedInputError, match=r"loaded \(Error when|loaded \(<class"):
        load_model(changed(lambda described: described[1]["config"].update(unheard_of=1)))


# --- The archive and its weights


def test_other_members_of_an_archive_are_never_unpacked(parts, tmp_path, here):
    """Names that lead out of the folder, links: they are not even looked at."""
    link = zipfile.ZipInfo("assets/link")
    link.external_attr = 0o120777 << 16
    names = ["../../out.txt", "/tmp/realtime-lrp-out.txt", "assets/../../out.txt", "C:\\out.txt"]
    path = archived(
        tmp_path / "m.keras", [*parts.items(), *((n, b"x") for n in names), (link, "/")]
    )
    assert load_model(path).name == "tiny"
    assert {p.name for p in tmp_path.iterdir()} == {"m.keras", "temporary"}
    assert not Path("/tmp/realtime-lrp-out.txt").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "metadata.json"])
def test_a_member_that_stands_there_twice_is_refused(parts, tmp_path, name):
    """Two readers could see two different models."""
    path = archived(tmp_path / "m.keras", [*parts.items(), (name, parts[name])])
    with pytest.raises(DamagedInputError, match=f"{name} twice"):
        load_model(path)


@pytest.mark.parametrize("missing", ["config.json", "model.weights.h5"])
def test_a_missing_member_is_named(parts, tmp_path, missing):
    """An archive without its description or its weights."""
    del parts[missing]
    with pytest.raises(DamagedInputError, match=missing):
        load_model(archived(tmp_path / "m.keras", parts))


@pytest.mark.parametrize("kind", ["text", "empty", "zip", "truncated", "bits", "deep"])
def test_damaged_model_files_are_refused(tiny_model, tmp_path, here, kind):
    """Nothing but DamagedInputError comes out."""
    path = tmp_path / "bad.keras"
    data = tiny_model.read_bytes()
    middle = data.index(b"\x89HDF") + 3000
    path.write_bytes(
        {
            "text": b"hello",
            "truncated": data[: len(data) // 2],
            "bits": data[:middle] + bytes(b ^ 255 for b in data[middle : middle + 50])
            + data[middle + 50 :],
        }.get(kind, b"")
    )  # fmt: skip
    if kind in ("zip", "deep"):
        described = json.dumps({"class_name": "Functional"}) if kind == "zip" else "[" * 100_000
        archived(path, {"config.json": described})
    with pytest.raises(DamagedInputError, match=r"bad\.keras"):
        load_model(path)


def test_bombs_are_refused_before_they_are_unpacked(parts, tmp_path, here, monkeypatch):
    """A description and weights that are mostly zeros; limits made small for the test."""
    monkeypatch.setattr(loading, "SMALL_BYTES", 1 << 20)
    for name, size_ in (
        ("config.json", loading.MAX_DESCRIPTION_BYTES + 1),
        (loading.WEIGHTS, 4 << 20),
    ):
        path = archived(tmp_path / "m.keras", {**parts, name: bytes(size_)}, zipfile.ZIP_DEFLATED)
        with pytest.raises(DamagedInputError, match=f"claims {size_:,} bytes"):
            load_model(path)


def test_bytes_that_an_archive_only_claims_to_hold_do_not_count(parts, tmp_path, here, monkeypatch):
    """Weights that are mostly zeros, with a packed size beyond the archive's."""
    monkeypatch.setattr(loading, "SMALL_BYTES", 1 << 20)
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**parts, loading.WEIGHTS: bytes(4 << 20)}.items():
            archive.writestr(name, data)
        archive.getinfo(loading.WEIGHTS).compress_size = 4 << 20
    with pytest.raises(DamagedInputError, match=f"holds only {path.stat().st_size:,}"):
        load_model(path)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "metadata.json"])
def test_packings_that_have_no_limit_are_refused(parts, tmp_path, here, name, packing):
    """What is packed by bzip2 or LZMA comes out whole, whatever size is claimed."""
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in parts.items():
            archive.writestr(member, data, packing if member == name else zipfile.ZIP_DEFLATED)
    for load in (load_model, lambda path: load_weights(dense(), path)):
        with pytest.raises(DamagedInputError, match=rf"{name} in .*m\.keras' .*method {packing}"):
            load(path)


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "metadata.json"])
def test_a_member_is_unpacked_no_further_than_it_claims(changed, tmp_path, here, name):
    """64 MiB of zeros that claim to be 1000 bytes take less than 16 MiB."""
    good = members(changed(lambda described: described[1]["config"].update(unheard_of=1)))
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**good, name: bytes(64 << 20)}.items():
            archive.writestr(member, data)
        archive.getinfo(name).file_size = 1000
    tracemalloc.start()
    with pytest.raises(DamagedInputError, match=r"m\.keras"):
        load_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("place", ["shutil.copyfileobj", "tempfile.mkdtemp"])
def test_no_room_to_unpack_is_no_damage(tiny_model, here, monkeypatch, place):
    """A full disk and no folder for temporary files are named as such, exit code 69."""

    def full(*words, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, full)
    with pytest.raises(UnavailableError, match=r"No space left.*TMPDIR"):
        load_model(tiny_model)


def dense(units=2, inputs=3):
    return keras.Sequential([keras.Input((inputs,)), layers.Dense(units, name="d")], name="net")


def with_data(tmp_path, write):
    """A good file of weights of `dense`, its kernel replaced by what `write(file, name)` makes."""
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with h5py.File(path, "r+") as file:
        del file["layers/dense/vars/0"]
        write(file, "layers/dense/vars/0")
    return path


def external_storage(file, name):
    file.create_dataset(name, (3, 2), "f4", external=[("/etc/passwd", 0, 24)])


def virtual(file, name):
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
def test_hostile_weights_are_refused(tmp_path, here, kind, wrapped):
    """What would read other files, what is no number, what claims more than it holds."""
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


def test_bytes_that_hang_or_crash_the_library_do_so_in_a_child(tmp_path, monkeypatch):
    """HDF5 has such faults: a child that does not end, or ends oddly, is a damaged file."""
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with monkeypatch.context() as patched:
        patched.setattr(hdf5_check, "WALL_FACTOR", 0.0)
        with pytest.raises(DamagedInputError, match=r"w\.weights\.h5.*does not end within 0 s"):
            load_weights(dense(), path)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(DamagedInputError, match=r"w\.weights\.h5.*ended with code 1"):
        load_weights(dense(), path)


def test_a_folder_of_strangers_files_brings_no_modules(tmp_path, monkeypatch):
    """What lies where the program was started is not imported by the child."""
    monkeypatch.chdir(tmp_path)
    dense().save_weights("w.weights.h5")
    for name in ("h5py", "json", "realtime_lrp"):
        Path(f"{name}.py").write_text("open('ran', 'w')")
    load_weights(dense(), Path("w.weights.h5"))
    assert not Path("ran").exists()


def test_groups_that_hold_each_other_do_not_hang(tmp_path):
    """HDF5 allows circles."""
    path = tmp_path / "w.weights.h5"
    dense().save_weights(path)
    with h5py.File(path, "r+") as file:
        file["layers/dense/again"] = file["layers"]
    load_weights(dense(), path)


def test_data_of_several_names_count_once(tmp_path):
    """Two layers whose weights are the same bytes of the file."""
    path = tmp_path / "w.weights.h5"
    model = keras.Sequential([keras.Input((3,)), layers.Dense(3), layers.Dense(3)])
    model.save_weights(path)
    with h5py.File(path, "r+") as file:
        del file["layers/dense_1/vars/0"]
        file["layers/dense_1/vars/0"] = file["layers/dense/vars/0"]
    with pytest.raises(DamagedInputError, match="it has 24 values, the file 15"):
        load_weights(model, path)


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


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_the_first_layer_that_differs_is_named_with_both_shapes(tmp_path, suffix):
    """Another network's weights, in each of Keras's formats."""
    path = tmp_path / f"w{suffix}"
    model, other = dense(), dense(units=5)
    (other.save_weights if suffix == ".weights.h5" else other.save)(path)
    with pytest.raises(DamagedInputError) as refusal:
        load_weights(model, path)
    assert "layer 'd' has weights of 3 x 2, 2, the file 3 x 5, 5" in str(refusal.value)
    assert path.name in str(refusal.value)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_a_layer_that_lacks_its_weights_is_named(tmp_path, suffix):
    """With their shapes, in one line."""
    one, two = layers.Dense(2, name="one"), layers.Dense(4, name="two")
    path = tmp_path / f"w{suffix}"
    other = keras.Sequential([keras.Input((3,)), one])
    (other.save_weights if suffix == ".weights.h5" else other.save)(path)
    with pytest.raises(DamagedInputError) as refusal:
        load_weights(keras.Sequential([keras.Input((3,)), one, two]), path)
    assert "the file lacks those of layer 'two', 2 x 4, 4." in str(refusal.value)
    assert path.name in str(refusal.value)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
@pytest.mark.parametrize("more", [True, False], ids=["more", "fewer"])
def test_weights_of_more_or_fewer_layers_are_refused(tmp_path, suffix, more):
    """Also where those that are there fit."""

    def network(deep):
        tail = [layers.Dense(2)] if deep else []
        return keras.Sequential([keras.Input((3,)), layers.Dense(2), *tail])

    path = tmp_path / f"w{suffix}"
    other = network(more)
    (other.save_weights if suffix == ".weights.h5" else other.save)(path)
    with pytest.raises(DamagedInputError, match="do not fit"):
        load_weights(network(not more), path)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras"])
def test_truncated_weights_are_refused(tmp_path, here, suffix):
    """At every quarter of the file; each time the file is named."""
    path = tmp_path / f"w{suffix}"
    model = dense()
    (model.save_weights if suffix == ".weights.h5" else model.save)(path)
    data = path.read_bytes()
    for quarter in range(4):
        path.write_bytes(data[: len(data) * quarter // 4])
        with pytest.raises(DamagedInputError, match=path.name):
            load_weights(model, path)


@pytest.mark.parametrize("name", ["w.weights.json", "w.npz", "w"])
def test_other_files_of_weights_are_refused(tmp_path, name):
    """A list of shards names further files; arrays of NumPy are not what is expected."""
    path = tmp_path / name
    path.write_text('{"weight_map": {"/layers/dense/vars": "../../secret.weights.h5"}}')
    with pytest.raises(DamagedInputError, match=r"Expected \.h5"):
        load_weights(dense(), path)


# --- Nothing is computed, and takes no memory, before the file has shown that it holds the weights


@pytest.fixture
def computed(monkeypatch):
    """The names of the initialisers that computed values, which is not where shapes are found."""
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


def test_initialisers_of_a_description_never_compute(tmp_path, computed):
    """Their values would be replaced; Orthogonal takes time by the third power."""
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
    assert set(computed) == {"Zeros"}
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    picture = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    np.testing.assert_array_equal(model(picture), loaded(picture))
    assert isinstance(loaded.layers[0].kernel_initializer, keras.initializers.Orthogonal)


@pytest.mark.parametrize("kind", ["missing", "other", "within"])
def test_no_layer_takes_memory_that_the_file_has_no_weights_for(tmp_path, computed, kind):
    """No weights, those of a smaller layer, or of one that has a layer in it."""
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
    problem = {
        "missing": "lacks those of layer 'd', 8 x 10000000, 10000000",
        "other": "'d' has weights of 8 x 10000000, 10000000, the file 8 x 3, 3",
        "within": "has 90,000,001 values, the file 28",
    }[kind]
    with pytest.raises(DamagedInputError, match=problem):
        load_model(archived(tmp_path / "m.keras", held))
    assert computed == []


# --- Too large for this machine


@pytest.fixture
def without_gpu(monkeypatch):
    """A machine whose only memory is its own."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])


def huge(tmp_path, model_of):
    """A model file that claims more than it holds: built without memory, then its weights cut."""

    def described_only():
        with keras.StatelessScope(initialize_variables=False):
            return serialised(model_of())

    with ThreadPoolExecutor(1) as thread:  # with it goes Keras's list of what has no memory yet
        described = thread.submit(described_only).result()
    with io.BytesIO() as file, h5py.File(file, "w"):
        empty = file.getvalue()
    return archived(
        tmp_path / "huge.keras",
        {"metadata.json": "{}", "config.json": json.dumps(described), "model.weights.h5": empty},
    )


HUGE = {
    "units": lambda: keras.Sequential([keras.Input((1000,)), layers.Dense(10**9)]),
    "picture": lambda: keras.Sequential([keras.Input((10**6, 10**6, 3)), layers.ReLU()]),
    "padding": lambda: keras.Sequential(
        [keras.Input((8, 8, 3)), layers.ZeroPadding2D(10**6), layers.GlobalAveragePooling2D()]
    ),
    "filters": lambda: keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(10**11, 3)]),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_model_that_is_too_large_is_refused_before_it_takes_memory(
    tmp_path, here, without_gpu, kind
):
    """With what it needs and what is there; exit code 69."""
    path = huge(tmp_path, HUGE[kind])
    before = psutil.Process().memory_info().rss
    with pytest.raises(UnavailableError, match=r"too large.*needs [\d,.]+ GiB.*GiB are free"):
        load_model(path)
    assert psutil.Process().memory_info().rss - before < 64 << 20
    assert load_model_again_works(tmp_path)


def load_model_again_works(tmp_path):
    """What was refused leaves nothing that gets memory later."""
    path = tmp_path / "small.keras"
    dense().save(path)
    return load_model(path).name == "net"


def test_the_limit_is_where_it_should_be(without_gpu, monkeypatch):
    """Weights once and the activations of one picture, to the byte."""
    model = keras.Sequential(
        [keras.Input((10, 10, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(5)]
    )
    weights = 4 * (3 * 3 * 3 * 4 + 4 + 256 * 5 + 5)
    activations = 4 * (300 + 256 + 256 + 5)
    assert size.needed_bytes(model) in (weights + activations, weights + activations - 4 * 300)
    needed = size.needed_bytes(model)
    monkeypatch.setattr(size, "available_bytes", lambda: needed)
    size.refuse_too_large(model, "it")
    monkeypatch.setattr(size, "available_bytes", lambda: needed - 1)
    with pytest.raises(UnavailableError, match="it is too large"):
        size.refuse_too_large(model, "it")


def test_named_networks_are_measured_as_well(without_gpu, monkeypatch):
    """VGG16's weights are 528 MiB."""
    monkeypatch.setattr(size, "available_bytes", lambda: 528 << 20)
    with pytest.raises(UnavailableError, match=r"vgg16 is too large.*0\.\d\d GiB"):
        load_network("vgg16", "random")


def test_the_memory_of_a_control_group_counts(tmp_path, monkeypatch):
    """The smallest limit of the group and of those above it, less what this process has."""
    group = tmp_path / "system.slice" / "kiosk.service"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    own = psutil.Process().memory_info().rss
    (group.parent / "memory.max").write_text(f"{own + GIB}\n")
    real = Path.read_text
    monkeypatch.setattr(size, "_CGROUPS", tmp_path)
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path: (
            "0::/system.slice/kiosk.service\n" if str(path) == "/proc/self/cgroup" else real(path)
        ),
    )
    assert abs(size.available_bytes() - GIB) < 64 << 20


def test_memory_that_runs_out_all_the_same_is_named(tiny_model, monkeypatch):
    """Where the estimate was too low: exit code 69, not "damaged"."""

    def full(*words, **options):
        raise MemoryError

    monkeypatch.setattr(keras.Model, "load_weights", full)
    with pytest.raises(UnavailableError, match=r"tiny\.keras.*too large"):
        load_model(tiny_model)
