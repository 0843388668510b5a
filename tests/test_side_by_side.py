"""Small networks compute a map on each core: which networks do, and that nothing else changes."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import media
import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.commands.video.overlay import overlay_file
from realtime_lrp.commands.video.task import Film
from realtime_lrp.engine import side_by_side
from realtime_lrp.engine.engine import Engine
from realtime_lrp.realtime.stats import Stats


@pytest.fixture
def decide(monkeypatch):
    """Whether a network computes maps side by side, as in a process without TensorFlow."""
    monkeypatch.setattr(side_by_side, "core_count", lambda: 2)
    monkeypatch.setenv(side_by_side.THREADS, "2")
    monkeypatch.delenv(side_by_side.THREADS)

    def decide(name, threads=None, loaded=False, **live):
        monkeypatch.setattr(side_by_side, "_pool", None)
        with monkeypatch.context() as patch:
            if not loaded:
                patch.delitem(sys.modules, "tensorflow")
            if threads:
                patch.setenv(side_by_side.THREADS, threads)
            values = {"model": {"name": str(name)}, "live": live}
            side_by_side.share_cores(config.Config.model_validate(values))
            found = side_by_side.pool() is not None
            assert (os.environ.pop(side_by_side.THREADS, None) == "1") == found
        return found

    return decide


def test_the_size_of_the_weights_decides_wherever_they_are(decide, tmp_path, monkeypatch):
    """A name, a file, a SavedModel, a preset that was saved or downloaded; else all cores share."""
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    preset = tmp_path / "models/keras/deit/keras/deit_tiny/1/model.weights.h5"
    small, large = tmp_path / "small.keras", tmp_path / "large.keras"
    saved, variables = tmp_path / "saved", tmp_path / "saved/variables/variables.data"
    for file in (small, large, variables, preset):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"weights")
    beside = ("shapes", "ResNet50", small, saved, "hub:deit_tiny", f"hub:{preset.parent}")
    assert all(map(decide, beside))
    os.truncate(large, side_by_side.SMALL + 1)
    os.truncate(variables, side_by_side.SMALL + 1)
    assert not any(map(decide, ("vgg16", large, saved, tmp_path / "missing.keras", "hub:vit")))


def test_who_sets_the_number_of_threads_decides(decide):
    """Nobody does where several networks share them, or TensorFlow has taken its number."""
    assert decide("vgg16", threads="1") and not decide("shapes", threads="4")
    assert not decide("shapes", also_models=["vgg16"]) and not decide("shapes", loaded=True)


@pytest.fixture(scope="module")
def engines(tiny_model):
    """One that computes one map at a time, and one that computes two."""
    with pytest.MonkeyPatch.context() as patch:
        chosen = config.load(options={"--model": str(tiny_model), "--batch": "3"}).config
        alone = Engine(chosen, moving=True)
        patch.setattr(side_by_side, "_pool", ThreadPoolExecutor(2))
        patch.setattr("realtime_lrp.engine.engine.core_count", lambda: 2)
        yield alone, Engine(chosen, moving=True)


def test_maps_and_scores_are_the_same_and_in_order(engines):
    alone, beside = engines
    assert (alone.in_flight, beside.in_flight) == (1, 2)
    pictures = np.random.default_rng(1).integers(0, 255, (5, 40, 30, 3), np.uint8)
    targets = [0, 1, "top1", "all", 1]
    expected = alone.explain(pictures, targets)
    for result, right in zip(beside.explain(pictures, targets), expected, strict=True):
        assert result.target == right.target
        np.testing.assert_allclose(result.scores, right.scores, atol=1e-6)
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
    size = alone.explainer.input_shape[:2]
    extracted = np.stack([alone.region(one.shape[:2]).extract(one) for one in pictures])
    assert extracted.shape[1:3] == size
    np.testing.assert_allclose(beside.scores(extracted), alone.scores(extracted), atol=1e-6)


def test_a_film_is_the_same_byte_for_byte(engines, tmp_path):
    source, films = media.recording(tmp_path / "in.mp4", count=14), []
    for number, engine in enumerate(engines):
        film = Film(source, tmp_path / f"{number}.mp4")
        report = overlay_file(engine, engine.config, film, Stats("CPU", "float32"))
        assert report.frames == 14
        films.append((tmp_path / f"{number}.mp4").read_bytes())
    assert films[0] == films[1]
