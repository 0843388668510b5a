"""Model files from other people: what they may not do, and what they may not claim."""

import copy
import json
import os
import socket
import tracemalloc
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from model_files import archived, dense, members

from realtime_lrp.errors import DamagedInputError, UnavailableError
from realtime_lrp.models.untrusted import allowlist, loading
from realtime_lrp.models.untrusted.allowlist import check_description
from realtime_lrp.models.untrusted.loading import load_model, load_weights
from realtime_lrp.relevance.reading import layers as rules


@pytest.fixture
def parts(tiny_model):
    """The members of a good model file, by name."""
    return members(tiny_model)


@pytest.fixture
def changed(parts, tmp_path):
    """A function that writes the good model after another function has changed its layers."""

    def write(change):
        described = json.loads(parts["config.json"])
        change(described["config"]["layers"])
        return archived(
            tmp_path / "bad.keras", {**parts, "config.json": json.dumps(described).encode()}
        )

    return write


@pytest.fixture
def guarded(monkeypatch):
    """Fails the test if a file makes the process run code, connect or download."""

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
    """The description of a layer."""
    described = {"module": module, "class_name": kind, "config": {"name": name, **config}}
    return {**described, "registered_name": None, "name": name}


def function(name, module="builtins"):
    """The description of a function."""
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
def test_what_is_not_on_the_list_is_never_built(changed, temporary_folder, guarded, kind):
    """Every known way from a model file to code, to other files or to the internet."""
    path = changed(lambda described: described.__setitem__(3, copy.deepcopy(FORBIDDEN[kind])))
    with pytest.raises(DamagedInputError, match=r"bad\.keras") as refusal:
        load_model(path)
    assert len(str(refusal.value).splitlines()) == 1
    assert "\x1b" not in str(refusal.value)


@keras.saving.register_keras_serializable("mine")
class NoLayer:
    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        raise AssertionError("it was built")


def test_of_what_python_has_registered_only_layers_are_built(changed):
    """Another registered class is refused, and a registered name that is not text."""
    for name in ("mine>NoLayer", "mine>OwnLayer", ["mine>NoLayer"]):
        one = {**layer("NoLayer", "elsewhere"), "registered_name": name}
        with pytest.raises(DamagedInputError, match=r"bad\.keras"):
            load_model(changed(lambda described, one=one: described.__setitem__(3, one)))
        with pytest.raises(ValueError, match=r"needs code that is not in Keras|not text"):
            check_description({"layers": [one]})


def test_every_part_of_a_description_is_checked(changed, guarded):
    """Nested models, the arguments of a call, the description of the build."""
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
    """TensorFlow would abort the process."""
    path = changed(lambda layers: layers[1]["config"].update(strides=steps))
    with pytest.raises(DamagedInputError, match=r"the strides of layer .* is larger than any"):
        load_model(path)


@pytest.mark.parametrize("shape", [[None, 1, 1, 10**9], [None, 4, 4, "3"], [None], None])
def test_a_large_normalisation_is_refused(changed, monkeypatch, shape):
    """It would allocate and compute as soon as it is built, so it is not built."""
    one = {**layer("Normalization", axis=[-1]), "build_config": shape and {"input_shape": shape}}
    path = changed(lambda described: described.__setitem__(3, one))
    monkeypatch.setattr(layers.Normalization, "build", lambda *words: pytest.fail("it was built"))
    with pytest.raises(DamagedInputError, match=r"bad\.keras.*at most 16,777,216 values"):
        load_model(path)


def test_networks_of_too_many_layers_are_refused(changed, tmp_path, monkeypatch):
    """Keras would need hours to build thousands, and follows those in a row by recursion."""
    monkeypatch.setattr(allowlist, "MAX_LAYERS", 50)
    with pytest.raises(DamagedInputError, match=r"describes \d+ layers, more than 50"):
        load_model(changed(lambda layers: layers.extend(layers * 20)))
    monkeypatch.setattr(allowlist, "MAX_ROW", 2)
    path = tmp_path / "row.keras"
    dense().save(path)
    load_model(path)
    keras.Sequential([keras.Input((4,)), layers.Dropout(0.5), layers.Dense(2)]).save(path)
    with pytest.raises(DamagedInputError, match="3 layers in a row"):
        load_model(path)


def test_the_page_on_networks_lists_the_layers_of_files():
    """As the allowlist has them."""
    page = Path(__file__).parents[1].joinpath("docs", "networks.md").read_text()
    listed = page.split("may hold these layers:")[1].split(".")[0].replace("`", "").split()
    assert {name.strip(",") for name in listed} == {*allowlist.LAYERS, *allowlist.TRACED}


def test_operations_and_layers_of_applications_that_have_a_rule_are_allowed():
    """A new row has to be added to the allowlist too."""
    for operation in (*rules.EXPRESSIONS, *rules.FUNCTIONS, rules.DIVISION):
        assert operation.__name__ in allowlist.ALLOWED_CLASSES[operation.__module__]
    names = set().union(*allowlist.ALLOWED_CLASSES.values())
    assert names >= set({one.rpartition(".")[2] for one in rules.OF_APPLICATIONS})


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
    """An argument that this Keras does not know: the message gives both versions."""
    parts["metadata.json"] = b'{"keras_version": "9.9.9"}'
    path = changed(lambda described: described[1]["config"].update(unheard_of=1))
    versions = f"Keras '9.9.9', this is Keras {keras.__version__}"
    with pytest.raises(DamagedInputError, match=versions):
        load_model(path)


# --- The archive and its weights


def test_other_members_of_an_archive_are_never_unpacked(parts, tmp_path, temporary_folder):
    """Links, and names that lead out of the folder."""
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


def test_damaged_model_files_are_refused(tiny_model, tmp_path, temporary_folder):
    """Text, nothing, cut, with wrong bits, descriptions that are none: always DamagedInputError."""
    path, data = tmp_path / "bad.keras", tiny_model.read_bytes()
    middle = data.index(b"\x89HDF") + 3000
    wrong = bytes(b ^ 255 for b in data[middle : middle + 50])
    damaged = [b"hello", b"", data[: len(data) // 2], data[:middle] + wrong + data[middle + 50 :]]
    for described in (json.dumps({"class_name": "Functional"}), "[" * 100_000):
        damaged.append(archived(path, {"config.json": described}).read_bytes())
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DamagedInputError, match=r"bad\.keras"):
            load_model(path)


def test_bombs_are_refused_before_they_are_unpacked(parts, tmp_path, temporary_folder, monkeypatch):
    """A description and weights that are mostly zeros; the limits are small for the test.

    A claim of a packed size beyond the size of the file does not count.
    """
    monkeypatch.setattr(loading, "SMALL_BYTES", 1 << 20)
    path = tmp_path / "m.keras"
    for name, size_ in (
        ("config.json", loading.MAX_DESCRIPTION_BYTES + 1),
        (loading.WEIGHTS, 4 << 20),
    ):
        archived(path, {**parts, name: bytes(size_)}, zipfile.ZIP_DEFLATED)
        with pytest.raises(DamagedInputError, match=f"claims {size_:,} bytes"):
            load_model(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**parts, loading.WEIGHTS: bytes(4 << 20)}.items():
            archive.writestr(name, data)
        archive.getinfo(loading.WEIGHTS).compress_size = 4 << 20
    with pytest.raises(DamagedInputError, match=f"holds only {path.stat().st_size:,}"):
        load_model(path)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "metadata.json"])
def test_compression_without_a_limit_is_refused(parts, tmp_path, temporary_folder, name, packing):
    """bzip2 and LZMA unpack everything, whatever size the archive claims."""
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in parts.items():
            archive.writestr(member, data, packing if member == name else zipfile.ZIP_DEFLATED)
    for load in (load_model, lambda path: load_weights(dense(), path)):
        with pytest.raises(DamagedInputError, match=rf"m\.keras' .*{name} .*method {packing}"):
            load(path)


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "metadata.json"])
def test_a_member_is_unpacked_no_further_than_it_claims(changed, tmp_path, temporary_folder, name):
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
def test_no_room_to_unpack_is_no_damage(tiny_model, temporary_folder, monkeypatch, place):
    """A full disk and a missing temporary folder have their own message, exit code 69."""

    def full(*words, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, full)
    with pytest.raises(UnavailableError, match=r"No space left.*TMPDIR"):
        load_model(tiny_model)
