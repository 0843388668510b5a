"""Model files from other people: what they may not do, and what they may not claim."""

import copy
import io
import json
import math
import os
import re
import socket
import time
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
from model_files import archived, dense, members, serialise

from realtime_lrp.errors import DamagedInputError, UnavailableError
from realtime_lrp.models import memory as of_models
from realtime_lrp.models.memory import aligned_empty, assigned_without_copies, shared_tensor
from realtime_lrp.models.untrusted import allowlist, hdf5_check, loading
from realtime_lrp.models.untrusted.allowlist import check_description
from realtime_lrp.models.untrusted.loading import load_model, load_weights
from realtime_lrp.relevance.network import checks
from realtime_lrp.relevance.reading import layers as rules
from realtime_lrp.system import child, machine
from realtime_lrp.system.child import call_in_child


@pytest.fixture
def parts(tiny_model):
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
    described = {"module": module, "class_name": kind, "config": {"name": name, **config}}
    return {**described, "registered_name": None, "name": name}


def function(name, module="builtins"):
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
    for name in ("mine>NoLayer", "mine>OwnLayer", ["mine>NoLayer"]):
        one = {**layer("NoLayer", "elsewhere"), "registered_name": name}
        with pytest.raises(DamagedInputError, match=r"bad\.keras"):
            load_model(changed(lambda described, one=one: described.__setitem__(3, one)))
        with pytest.raises(ValueError, match=r"needs code that is not in Keras|not text"):
            check_description({"layers": [one]})


def test_every_part_of_a_description_is_checked(changed, guarded):
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
    page = Path(__file__).parents[1].joinpath("docs", "networks.md").read_text()
    listed = page.split("may hold these layers:")[1].split(".")[0].replace("`", "").split()
    assert {name.strip(",") for name in listed} == {*allowlist.LAYERS, *allowlist.TRACED}


def test_operations_and_layers_of_applications_that_have_a_rule_are_allowed():
    for operation in (*rules.EXPRESSIONS, *rules.FUNCTIONS, rules.DIVISION):
        assert operation.__name__ in allowlist.ALLOWED_CLASSES[operation.__module__]
    names = set().union(*allowlist.ALLOWED_CLASSES.values())
    assert names >= set({one.rpartition(".")[2] for one in rules.OF_APPLICATIONS})


def test_what_keras_writes_around_layers_is_allowed(tmp_path):
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
    parts["metadata.json"] = b'{"keras_version": "9.9.9"}'
    path = changed(lambda described: described[1]["config"].update(unheard_of=1))
    versions = f"Keras '9.9.9', this is Keras {keras.__version__}"
    with pytest.raises(DamagedInputError, match=versions):
        load_model(path)


def test_other_members_of_an_archive_are_never_unpacked(parts, tmp_path, temporary_folder):
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
    monkeypatch.setattr(loading, "SMALL_BYTES", 1 << 20)
    path = tmp_path / "m.keras"
    sizes = {"config.json": loading.MAX_DESCRIPTION_BYTES + 1, loading.WEIGHTS: 4 << 20}
    for name, size_ in sizes.items():
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
    def full(*words, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, full)
    with pytest.raises(UnavailableError, match=r"No space left.*TMPDIR"):
        load_model(tiny_model)


GIB = 1 << 30


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])


def huge(tmp_path, model_of):
    """A file that describes a large model and holds no weights; made without allocating them."""

    def described_only():
        with keras.StatelessScope(initialize_variables=False):
            return serialise(model_of())

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
    tmp_path, temporary_folder, without_gpu, kind
):
    path = huge(tmp_path, HUGE[kind])
    before = psutil.Process().memory_info().rss
    with pytest.raises(UnavailableError, match=r"too large.*needs [\d,.]+ GiB.*GiB are free"):
        load_model(path)
    assert psutil.Process().memory_info().rss - before < 64 << 20
    dense().save(tmp_path / "small.keras")
    assert load_model(tmp_path / "small.keras").name == "net", "nothing is left to be allocated"


def test_the_limit_is_where_it_should_be(without_gpu, monkeypatch):
    model = keras.Sequential(
        [keras.Input((10, 10, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(5)]
    )
    weights = 4 * (3 * 3 * 3 * 4 + 4 + 256 * 5 + 5)
    activations = 4 * (300 + 256 + 256 + 5)
    assert of_models.needed_bytes(model) in (weights + activations, weights + activations - 4 * 300)
    needed = of_models.needed_bytes(model)
    monkeypatch.setattr(checks, "available_bytes", lambda: needed)
    checks.refuse_beyond_memory(needed, "it")
    monkeypatch.setattr(checks, "available_bytes", lambda: needed - 1)
    with pytest.raises(UnavailableError, match="it is too large"):
        checks.refuse_beyond_memory(needed, "it")


def test_the_memory_of_a_control_group_counts(tmp_path, monkeypatch):
    group = tmp_path / "system.slice" / "kiosk.service"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    own = psutil.Process().memory_info().rss
    (group.parent / "memory.max").write_text(f"{own + GIB}\n")
    real = Path.read_text
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    ours = {"/proc/self/cgroup": "0::/system.slice/kiosk.service\n"}
    monkeypatch.setattr(Path, "read_text", lambda path: ours.get(str(path)) or real(path))
    assert abs(machine.available_bytes() - GIB) < 64 << 20


def test_memory_that_runs_out_is_named(tiny_model, monkeypatch):
    def full(*words, **options):
        raise MemoryError

    monkeypatch.setattr(keras.Model, "load_weights", full)
    with pytest.raises(UnavailableError, match=r"tiny\.keras.*too large"):
        load_model(tiny_model)


def test_weights_share_the_memory_of_what_is_loaded(tmp_path):
    values = aligned_empty((3, 5))
    values[...] = np.arange(15).reshape(3, 5)
    shared = shared_tensor(values)
    values[0, 0] = 7
    assert shared[0, 0].numpy() == 7 and shared.shape == (3, 5)
    model = keras.Sequential([keras.Input((512,)), layers.Dense(512), layers.Dense(2)])
    expected = [
        np.full(weight.shape, n + 1.0, np.float32) for n, weight in enumerate(model.weights)
    ]
    with assigned_without_copies(model.weights):
        for weight, value in zip(model.weights, expected, strict=True):
            weight.assign(value)
        with pytest.raises(ValueError):
            model.weights[0].assign(np.zeros((512, 3)))
    assert all(np.array_equal(w.numpy(), v) for w, v in zip(model.weights, expected, strict=True))
    model.weights[0].assign(expected[0] * 2)
    assert model.weights[0].numpy().max() == 2
    assert "assign" not in vars(model.weights[0])


def test_weights_are_read_from_a_file_into_memory_of_their_own(tmp_path):
    """Without a copy in between; other types as h5py reads them, as it does all of them later."""
    values = np.arange(of_models.LARGE, dtype=np.float32).reshape(512, -1)
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for name, dtype in (("same", "<f4"), ("double", "<f8"), ("swapped", ">f4")):
            file[name] = values.astype(dtype)
        file["empty"] = values[:0]
    usual = h5py.Dataset.__array__
    with h5py.File(tmp_path / "w.h5") as file:
        with of_models.assigned_without_copies([]):
            for name, dataset in file.items():
                read = np.array(dataset)
                assert read.dtype == dataset.dtype
                np.testing.assert_array_equal(read, dataset[()])
                assert name != "same" or of_models._is_aligned(read)
        assert h5py.Dataset.__array__ is usual


IN_CHILD = pytest.mark.usefixtures("new_processes")


@IN_CHILD
@pytest.mark.parametrize("suffix", [".weights.h5", ".h5"])
def test_the_child_reports_what_the_function_returns(tmp_path, suffix):
    path, model = tmp_path / f"w{suffix}", dense()
    (model.save_weights if suffix == ".weights.h5" else model.save)(path)
    assert hdf5_check.stored_values(path, "w", "it") == 8
    assert hdf5_check.examine(str(path), "it") == 8
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DamagedInputError, match=r"^it is damaged .* Expected what model\.save"):
        hdf5_check.stored_values(path, "w", "it")


@IN_CHILD
def test_a_hang_is_told_of_the_file_that_the_user_named(tmp_path, monkeypatch):
    dense().save(path := tmp_path / "Ann's.keras")
    monkeypatch.setattr(hdf5_check, "BASE_CPU_S", 0.01)
    monkeypatch.setattr(child, "module_command", lambda module: ["sleep", "600"])
    with pytest.raises(DamagedInputError, match=re.escape(f"{str(path)!r} makes the decoder hang")):
        load_weights(dense(), path)


@IN_CHILD
def test_what_hangs_crashes_or_fails_does_so_in_a_child():
    for function, words, cpu_s, expected in (
        (time.sleep, [600], 0.01, "makes the decoder hang: nothing in 0.12 s"),
        (math.factorial, [10**7], 1, r"makes the decoder (crash \(SIGXCPU\)|hang)"),
        (os.abort, [], 9, r"makes the decoder crash \(SIGABRT\)"),
        (os._exit, [3], 9, r"makes the decoder end early \(exit code 3\)"),
        (json.loads, ["no JSON"], 9, "makes the decoder fail"),
    ):
        with pytest.raises(DamagedInputError, match=f"'bad.h5' {expected}"):
            call_in_child("bad.h5", function, *words, cpu_s=cpu_s)


@IN_CHILD
def test_the_child_limits_itself():
    resource = pytest.importorskip("resource")
    limits = {"cpu_s": 7, "memory": 5 << 30}
    of_cpu, of_memory = (
        call_in_child("x", resource.getrlimit, kind, **limits)
        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)
    )
    assert (of_cpu[0], of_memory) == (7, [5 << 30] * 2)
