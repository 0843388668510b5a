"""Maps in flight: which networks compute a map on each core, and that nothing else changes."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from realtime_lrp import config
from realtime_lrp.engine import measured
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import NotFiniteError
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
    """Nobody does once TensorFlow has taken its number."""
    assert decide("vgg16", threads="1") and not decide("shapes", threads="4")
    assert not decide("shapes", loaded=True)


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
