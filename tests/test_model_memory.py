"""Models that are too large for this machine are refused before they allocate memory."""

import io
import json
import math
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from keras import layers
from model_files import archived, dense, serialise

from realtime_lrp.errors import DamagedInputError, UnavailableError
from realtime_lrp.models import memory as of_models
from realtime_lrp.models.memory import aligned_empty, assigned_without_copies, shared_tensor
from realtime_lrp.models.untrusted import hdf5_check
from realtime_lrp.models.untrusted.loading import load_model, load_weights
from realtime_lrp.relevance.network import checks
from realtime_lrp.system import call, machine
from realtime_lrp.system.call import call_in_child

GIB = 1 << 30


@pytest.fixture
def without_gpu(monkeypatch):
    """A machine without a GPU."""
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
    """The message gives the memory needed and free; exit code 69."""
    path = huge(tmp_path, HUGE[kind])
    before = psutil.Process().memory_info().rss
    with pytest.raises(UnavailableError, match=r"too large.*needs [\d,.]+ GiB.*GiB are free"):
        load_model(path)
    assert psutil.Process().memory_info().rss - before < 64 << 20
    dense().save(tmp_path / "small.keras")
    assert load_model(tmp_path / "small.keras").name == "net", "nothing is left to be allocated"


def test_the_limit_is_where_it_should_be(without_gpu, monkeypatch):
    """All weights and the activations of one picture, to the byte."""
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
    """The smallest limit of the group and its parents, minus what this process has."""
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
    """If the estimate was too low: exit code 69, not "damaged"."""

    def full(*words, **options):
        raise MemoryError

    monkeypatch.setattr(keras.Model, "load_weights", full)
    with pytest.raises(UnavailableError, match=r"tiny\.keras.*too large"):
        load_model(tiny_model)


def test_weights_share_the_memory_of_what_is_loaded(tmp_path):
    """Large weights are the array that was read; small ones and other shapes go through Keras."""
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
    """The number of values of a good file; damage as the same error."""
    path, model = tmp_path / f"w{suffix}", dense()
    (model.save_weights if suffix == ".weights.h5" else model.save)(path)
    assert hdf5_check.stored_values(path, "w", "it") == 8
    assert hdf5_check.examine(str(path), "it") == 8
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DamagedInputError, match=r"^it is damaged .* Expected what model\.save"):
        hdf5_check.stored_values(path, "w", "it")


@IN_CHILD
def test_a_hang_is_told_of_the_file_that_the_user_named(tmp_path, monkeypatch):
    """And not of the weights that were unpacked from it."""
    dense().save(path := tmp_path / "Ann's.keras")
    monkeypatch.setattr(hdf5_check, "BASE_CPU_S", 0.01)
    monkeypatch.setattr(call, "module_command", lambda module: ["sleep", "600"])
    with pytest.raises(DamagedInputError, match=re.escape(f"{str(path)!r} makes the decoder hang")):
        load_weights(dense(), path)


@IN_CHILD
@pytest.mark.parametrize(
    ("function", "words", "cpu_s", "expected"),
    [
        (time.sleep, [600], 0.01, "makes the decoder hang: nothing in 0.12 s"),
        (math.factorial, [10**7], 1, r"makes the decoder (crash \(SIGXCPU\)|hang)"),
        (os.abort, [], 9, r"makes the decoder crash \(SIGABRT\)"),
        (os._exit, [3], 9, r"makes the decoder end early \(exit code 3\)"),
        (json.loads, ["no JSON"], 9, "makes the decoder fail"),
    ],
)
def test_what_hangs_crashes_or_fails_does_so_in_a_child(function, words, cpu_s, expected):
    """Here it means a damaged file, which the message names."""
    with pytest.raises(DamagedInputError, match=f"'bad.h5' {expected}"):
        call_in_child("bad.h5", function, *words, cpu_s=cpu_s)


@IN_CHILD
def test_the_child_limits_itself():
    """To its seconds of CPU time, and to its memory."""
    resource = pytest.importorskip("resource")
    limits = {"cpu_s": 7, "memory": 5 << 30}
    of_cpu, of_memory = (
        call_in_child("x", resource.getrlimit, kind, **limits)
        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)
    )
    assert (of_cpu[0], of_memory) == (7, [5 << 30] * 2)
