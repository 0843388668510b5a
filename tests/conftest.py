"""What tests share. OpenCV is loaded as the package loads it: Keras would load it too."""

import gc
import logging
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray reads both once for a process
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all of this

import realtime_lrp.video.libraries  # isort: skip
import forks
import numpy as np
import program
import pytest
import uncompiled
from faults.clock import VirtualClock, until

from realtime_lrp.system import machine
from realtime_lrp.system.child import call_in_child

sys.dont_write_bytecode = False
gc.disable()  # what is imported is no garbage; on again when the tests are collected

if "PYTEST_XDIST_WORKER" in os.environ:  # pytest does not hold back what TensorFlow prints there
    import realtime_lrp.engine.tensorflow  # noqa: F401

# a shell without job control has its background jobs ignore Ctrl-C, nohup has them ignore the
# terminal's end, and their children inherit it
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

MOST_WORKERS = 4  # each takes up to 3 GB


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process per core and one more for the whole suite, this one for chosen files."""
    chosen = config.args != config.getini("testpaths") or config.option.collectonly
    if chosen or "not release" not in config.option.markexpr:
        return 0
    os.environ.setdefault("PYTHONHASHSEED", "0")  # sets in the names of tests have the same order
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = min((cores or 1) + 1, MOST_WORKERS)
    threads = str(max((cores or 1) // workers, 1))  # else each worker takes all cores
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    return workers


LONGEST = (
    "serve_page", "viewer_window", "speed", "methods", "workers", "saved_models", "teach", "shapes",
    "onnx", "traced", "video_faults", "hub", "kiosk_loop", "live_relevance", "evaluate", "layers",
    "documented_commands", "references", "serve_limits", "networks", "security", "video",
    "hardware", "model_files", "provenance", "explanation", "config", "sources", "concepts",
    "relevance", "kiosk_screen", "export_onnx", "heads", "packaging", "modes",
)  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that take longest: a file runs in one process, and none ends alone."""
    order = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_collection_finish() -> None:
    """No explainer is compiled any more, and what is imported is not searched for garbage."""
    uncompiled.begin()
    if hdf5_check := sys.modules.get("realtime_lrp.models.untrusted.hdf5_check"):
        hdf5_check.call_in_child = lambda file, function, *words, **limits: function(*words)
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _one_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Random weights and the measured precision do not depend on files that ran before."""
    from realtime_lrp.engine import measured

    if keras := sys.modules.get("keras"):
        keras.utils.set_random_seed(20)
    folder = tmp_path_factory.mktemp("figures")
    measured.user_cache_path = lambda name: folder
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _whole_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Programs keep nothing in the user's folders but Matplotlib's fonts: seconds to make."""
    os.environ.setdefault("MPLCONFIGDIR", os.path.expanduser("~/.cache/matplotlib"))
    for kind in ("STATE", "CACHE"):
        os.environ[f"XDG_{kind}_HOME"] = str(tmp_path_factory.mktemp(kind.lower()))
    machine.leave_out_of_collection = lambda: None  # unfreezing would search TensorFlow


def _levels() -> dict[str, int]:
    """The levels of this package's loggers, by name, and of all ("")."""
    names = [one for one in logging.root.manager.loggerDict if one.startswith("realtime_lrp")]
    return {name: logging.getLogger(name).level for name in ["", *names]}


def _inherited() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if "_NUM_" in name or name.startswith("PYTHON")
    }


COMPUTING = {"relevance", "engine_cache"}
"""Threads that go on for a while when they are told to end, which may end this process."""

STOPS = [one for one in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, one)]


@pytest.fixture(autouse=True)
def _same_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Logs, signals, variables, limits and threads do not outlive a test, so any order will do."""
    if seed := getattr(request.module, "SEED", 0):
        sys.modules["keras"].utils.set_random_seed(seed)
    if canonise := sys.modules.get("realtime_lrp.relevance.network.canonise"):
        canonise.warn_once.cache_clear()
    levels, handlers = _levels(), logging.root.handlers[:]
    stops = {name: signal.getsignal(getattr(signal, name)) for name in STOPS}
    variables, files = _inherited(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    until(lambda: not COMPUTING & {one.name for one in threading.enumerate()})
    for handler in logging.root.handlers[:]:
        if isinstance(handler, logging.FileHandler) and handler not in handlers:
            logging.root.removeHandler(handler)
            handler.close()
    for name, level in _levels().items():
        if level != levels.get(name, logging.NOTSET):
            logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
    for name, handler in stops.items():
        if handler is not None and signal.getsignal(getattr(signal, name)) is not handler:
            signal.signal(getattr(signal, name), handler)
    for name in _inherited():
        del os.environ[name]
    os.environ.update(variables)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


@pytest.fixture(autouse=True, scope="session")
def _stem() -> Iterator[forks.Stem | None]:
    """This package's processes are forked from one, for all tests of this process."""
    if not hasattr(subprocess, "_fork_exec") or not sys.platform.startswith("linux"):
        yield None
        return
    stem = forks.Stem()
    with forks.forking(stem):
        yield stem
    stem.close()


@pytest.fixture
def new_processes(_stem: forks.Stem | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes are begun as they are for users, also to look through weights."""
    monkeypatch.setattr("realtime_lrp.models.untrusted.hdf5_check.call_in_child", call_in_child)
    if _stem:
        monkeypatch.setattr(_stem, "forks", False)


@pytest.fixture
def light_scripts(_stem: forks.Stem | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test runs with `python` is forked too: it has the command line imported."""
    if _stem:
        monkeypatch.setattr(_stem, "scripts", True)


@pytest.fixture(scope="module")
def compiled() -> Iterator[None]:
    """Explainers that a file of tests builds are compiled."""
    with uncompiled.compiled():
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A saved network of random weights: 32 x 32 pictures, four classes."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((32, 32, 3)),
        layers.Conv2D(6, 3, padding="same", activation="relu", name="conv2d"),
        layers.MaxPooling2D(4), layers.Flatten(), layers.Dense(4, activation="softmax"),
    ], name="tiny")  # fmt: skip
    path = tmp_path_factory.mktemp("model") / "tiny.keras"
    model.save(path)
    return path


@pytest.fixture
def words(tiny_model, tmp_path):
    """Options for the tiny network and its labels."""
    labels = tmp_path / "labels.txt"
    labels.write_text("red\ngreen\nblue\nother\n")
    return ("--model", tiny_model, "--preprocess", "none", "--labels", labels)


@pytest.fixture(scope="session")
def vanishing_model(tmp_path_factory):
    """A saved network, 32 x 32, so small in its values that the stabiliser takes all relevance."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(3)
    small = keras.initializers.RandomUniform(0, 1e-12)
    model = keras.Sequential([
        keras.Input((32, 32, 3)),
        layers.Conv2D(4, 3, activation="relu", kernel_initializer=small, name="conv"),
        layers.GlobalAveragePooling2D(), layers.Dense(4, activation="softmax", name="answer"),
    ])  # fmt: skip
    path = tmp_path_factory.mktemp("vanishing") / "vanishing.keras"
    model.save(path)
    return path


@pytest.fixture
def clock(monkeypatch):
    """Virtual time for everything that is started."""
    clock = VirtualClock()
    monkeypatch.setattr(threading.Thread, "start", lambda thread: clock.start(thread))
    return clock


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch):
    """An empty folder for all temporary files; nothing may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="session")
def display():
    """A virtual display with a window manager; its DISPLAY value. Skips where there is none."""
    with program.virtual_display("1280x800") as (number, _):
        yield number


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs a command in this process; gives (exit code, stdout, stderr)."""
    from realtime_lrp.cli import main

    def run_command(*words):
        monkeypatch.setattr("sys.argv", ["realtime-lrp", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capfd.readouterr())

    return run_command
