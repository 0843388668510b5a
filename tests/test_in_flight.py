"""How many maps are computed at once, by what was measured here, and that nothing else changes."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from viewer import Viewer, engine_of

from realtime_lrp import config
from realtime_lrp.commands import models
from realtime_lrp.commands.bench import run as bench
from realtime_lrp.engine import measured
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.measured import (
    PACES,
    THREADS,
    Pace,
    network_here,
    pace_of,
    quicker_network,
)
from realtime_lrp.errors import NotFiniteError, UnavailableError
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.relevance.maps import compiled as functions


@pytest.fixture
def decide(monkeypatch):
    """Whether a network computes a map on each core, as in a process without TensorFlow."""
    monkeypatch.setattr(measured, "core_count", lambda: 2)
    monkeypatch.setenv(measured.THREADS, "2")
    monkeypatch.delenv(measured.THREADS)

    def decide(name, threads=None, loaded=False):
        monkeypatch.setattr(measured, "_pool", None)
        with monkeypatch.context() as patch:
            if not loaded:
                patch.delitem(sys.modules, "tensorflow")
            if threads:
                patch.setenv(measured.THREADS, threads)
            measured.share_cores(str(name))
            found = measured.pool() is not None
            assert (os.environ.pop(measured.THREADS, None) == "1") == found
        return found

    return decide


def test_the_size_of_the_weights_decides_wherever_they_are(decide, tmp_path, monkeypatch):
    """A name, a file, a SavedModel, a preset that was saved or downloaded; else all cores share."""
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    preset = tmp_path / "kaggle/models/keras/deit/keras/deit_tiny/1/model.weights.h5"
    small, large = tmp_path / "small.keras", tmp_path / "large.keras"
    saved, variables = tmp_path / "saved", tmp_path / "saved/variables/variables.data"
    for file in (small, large, variables, preset):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"weights")
    each_its_own = ("shapes", "ResNet50", small, saved, "hub:deit_tiny", f"hub:{preset.parent}")
    assert all(map(decide, each_its_own))
    os.truncate(large, measured.SMALL + 1)
    os.truncate(variables, measured.SMALL + 1)
    shared = "vgg16", large, saved, tmp_path / "missing.keras", "hub:vit", "", "x" * 5000
    assert not any(map(decide, shared))


def test_who_sets_the_number_of_threads_decides(decide):
    """Nobody does once TensorFlow has taken its number; else what was measured decides."""
    assert decide("vgg16", threads="1") and not decide("shapes", threads="4")
    assert not decide("shapes", loaded=True)
    assert decide("shapes") and not decide("vgg16")
    put(shapes=(20, 25), vgg16=(9.7, 8.3))
    assert not decide("shapes") and decide("vgg16")


@pytest.fixture(scope="module")
def engines(tiny_model):
    """One that computes one map at a time, and one that computes two."""
    with pytest.MonkeyPatch.context() as patch:
        chosen = config.load(options={"--model": str(tiny_model)}).config
        alone = Engine(chosen, moving=True)
        patch.setattr(measured, "_pool", ThreadPoolExecutor(2))
        patch.setattr("realtime_lrp.engine.engine.core_count", lambda: 2)
        yield alone, Engine(chosen, moving=True)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_maps_and_scores_are_the_same_and_in_order(engines, count):
    alone, beside = engines
    assert (alone.in_flight, beside.in_flight) == (1, 2)
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 255, (40 + n, 30, 3), np.uint8) for n in range(count)]
    targets = [0, 1, "top1", "all", 1][:count]
    begun = beside.begin(pictures, targets)
    for result, right in zip(begun(), alone.explain(pictures, targets), strict=True):
        assert (result.target, result.region) == (right.target, right.region)
        np.testing.assert_allclose(result.scores, right.scores, atol=1e-6)
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
    assert begun.done() and beside.explainer.traces == 1
    extracted = np.stack([alone.region(one.shape[:2]).extract(one) for one in pictures])
    np.testing.assert_allclose(beside.scores(extracted), alone.scores(extracted), atol=1e-6)


def test_an_error_in_one_part_reaches_who_asked(engines, monkeypatch):
    """The engine goes on with the next batch."""
    _, beside = engines
    begin, pictures = beside._begin, np.zeros((4, 32, 32, 3), np.uint8)
    pictures[3] = 1

    def fail(batch):
        if batch.pictures[-1].any():
            raise NotFiniteError("the last part")
        return begin(batch)

    monkeypatch.setattr(beside, "_begin", fail)
    with pytest.raises(NotFiniteError, match="the last part"):
        beside.explain(pictures)
    assert len(beside.explain(pictures[:3])) == 3


def test_no_more_pictures_are_computed_at_once_than_fit(engines, monkeypatch):
    """Half as many in each of two threads; the results are all there."""
    _, beside = engines
    sizes, pipeline = [], beside._pipeline
    monkeypatch.setattr(beside.explainer, "pictures_at_once", lambda: 4)
    monkeypatch.setattr(
        beside,
        "_pipeline",
        lambda batch, targets: (sizes.append(len(batch)), pipeline(batch, targets))[1],
    )
    assert len(beside.explain(np.zeros((12, 32, 32, 3), np.uint8))) == 12
    assert sum(sizes) == 12 and max(sizes) <= 2


def test_each_thread_has_computed_a_map_before_the_first_one_counts(engines, monkeypatch):
    """Memory that is too small for it is told when a picture comes."""
    _, beside = engines
    sizes, pipeline = [], beside._pipeline

    def noted(batch, targets):
        sizes.append(len(batch))
        if len(sizes) > 2:
            raise tf.errors.ResourceExhaustedError(None, None, "")
        return pipeline(batch, targets)

    for engine in engines:
        monkeypatch.setattr(engine, "_pipeline", noted)
        engine.warm_up()
    assert sizes == [1, 1], "a map that all cores share is hardly slower the first time"
    beside.warm_up()


def test_no_map_in_flight_grows_old_while_others_get_their_time(engines, monkeypatch):
    """They are shown before the thread rests, in the order of their pictures."""
    _, beside = engines
    chosen, frames, steps = beside.config, Slot(), []
    thread = RelevanceThread(chosen, frames, first_request(chosen), Stats())
    thread.others = lambda: 1
    monkeypatch.setattr(thread._stop, "wait", lambda seconds: steps.append("rest"))
    monkeypatch.setattr(
        thread.maps, "put", lambda explained, _: steps.append(explained.frame.number)
    )
    for number in range(4):
        frames.put(np.full((32, 32, 3), number, np.uint8), float(number))
        thread._go_on(thread.request, beside)
    assert steps == [1, 2, "rest", 3, 4, "rest"]


def test_a_function_is_compiled_once_however_many_threads_call_it(compiled):
    traced, start = [], threading.Barrier(4)
    lazy = functions.Lazy(lambda: traced.append(1) or 7)

    def call(_):
        start.wait()
        return int(lazy())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(4))) == [7] * 4
    assert traced == [1]


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch, tmp_path):
    """An empty cache; the weights of four networks are there."""
    names = ["shapes", "vgg16", "mobilenet_v2", "efficientnet_b0", "efficientnet_b1"]
    for module in (measured, models, bench):
        monkeypatch.setattr(module, "present_networks", lambda: names)
    monkeypatch.setattr(measured, "user_cache_path", lambda name: tmp_path / name)


def put(**paces):
    for name, pace in paces.items():
        PACES.add(network_here(name), Pace(*pace))


def test_bench_runs_live_both_ways_and_keeps_what_it_measured(monkeypatch, caplog):
    """A network that cannot be run is named and left out."""
    asked = []

    def watch(words, duration_s, environment):
        threads, lines = environment[THREADS], Path(words[2]).read_text().splitlines()
        name = next(line for line in lines if line.startswith("  name: ")).split()[1]
        asked.append((name, threads))
        if name == "vgg16":
            raise UnavailableError("no weights")
        Path(words[4]).write_text(f'{{"maps_per_s": {40 if threads == "1" else 30}}}')
        return {"start_s": 2.0}

    monkeypatch.setattr(bench, "_watch", watch)
    monkeypatch.setattr(bench, "core_count", lambda: 2)
    monkeypatch.setattr(bench, "present_networks", lambda: ["shapes", "vgg16"])
    (row,) = bench.measure_networks(SimpleNamespace(status=lambda what: None))
    assert asked == [("shapes", "1"), ("shapes", "2"), ("vgg16", "1")] and "vgg16" in caplog.text
    assert row["each_core"] == row["maps_per_s"] == 40
    figures = {"precision": "float32", "map_age_ms": {"p50": 60.0, "p99": 90.0}}
    _, line, _ = bench.PARTS["networks"].lines([row | figures], {"map": "zplus"})
    assert " ".join(line.split()) == "shapes 40.0 30.0 float32 60 ms 90 ms 2.0 s"
    assert pace_of("Shapes") == Pace(40, 30) and pace_of("vgg16") is None


def test_a_quick_network_is_named_with_its_figure():
    """The one that is right most often, of those with 15 maps a second; nothing for quick ones."""
    assert "mobilenet_v2 is quicker (14 MB, not measured here)" in quicker_network("VGG16", 2.94)
    small = "mobilenet_v2", "MobileNet_V2", "mobilenet_v3_small"
    assert [quicker_network(name, 3.0) for name in small] == [""] * 3
    put(mobilenet_v2=(27, 16), efficientnet_b0=(18, 9), efficientnet_b1=(14, 9))
    text = quicker_network("vgg16", 2.94)
    assert text.startswith("vgg16 makes 2.9 ") and "efficientnet_b0 is quicker (29 MB, 18 " in text
    quick = quicker_network("vgg16", 5.0), quicker_network("mine.keras", 1), quicker_network("", 1)
    assert quick == ("", "", "")
    put(mobilenet_v2=(4, 3), efficientnet_b0=(2, 1), efficientnet_b1=(2, 1))
    assert quicker_network("vgg16", 2.94) == "", "none that was measured as slow"
    put(efficientnet_b0=(18, 9))
    assert "efficientnet_b0 is quicker" in quicker_network("mobilenet_v2", 3.0)
    assert quicker_network("efficientnet_b0", 3.0) == "", "not the network itself"


def test_the_viewer_says_once_that_its_network_is_slow(caplog):
    """After five maps, on standard error and in the picture."""
    viewer = Viewer(**{"--model": "vgg16"})
    viewer.relevance.engine = engine_of(["cat", "dog"])
    for seconds in [2.0, *[0.4] * 3]:
        viewer.stats.map_made(1, seconds)
    viewer.loop._note_pace()
    assert not caplog.text
    viewer.stats.map_made(1, 0.4)
    for _ in range(2):
        viewer.loop._note_pace()
    assert viewer.state.notice.text.startswith("vgg16 makes 2.5 maps a second: ")
    assert caplog.text.count(viewer.state.notice.text) == 1
