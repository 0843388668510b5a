"""Two maps at once: for which networks, and that each is of its own picture and target."""

import sys
import zipfile
from types import SimpleNamespace

import keras
import pytest

from realtime_lrp.config import Config
from realtime_lrp.realtime import map_pairs
from realtime_lrp.realtime.map_pairs import MapPairs, is_small_transformer


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """A model file with attention."""
    file = tmp_path_factory.mktemp("models") / "transformer.keras"
    x = keras.Input((4, 8))
    keras.Model(x, keras.layers.MultiHeadAttention(2, 4)(x, x)).save(file)
    return file


def test_only_small_files_with_attention_are_small_transformers(
    transformer, tiny_model, tmp_path, monkeypatch
):
    """No other file is one, and none makes it fail."""
    damaged, empty = tmp_path / "damaged.keras", tmp_path / "empty.keras"
    damaged.write_bytes(b"no archive")
    zipfile.ZipFile(empty, "w").close()
    others = (tiny_model, damaged, empty, tmp_path, tmp_path / "missing.keras", "", "vgg16", "a\0b")
    assert is_small_transformer(str(transformer))
    assert is_small_transformer("hub:deit_tiny_distilled_patch16_224_imagenet")
    assert not is_small_transformer("hub:vit_base_patch16_224_imagenet")
    assert not any(is_small_transformer(str(one)) for one in others)
    monkeypatch.setattr(map_pairs, "LARGEST", 100)
    assert not is_small_transformer(str(transformer))


def pairs_of(model, **live):
    one = MapPairs(Config.model_validate({"model": {"name": str(model)}, "live": live}))
    one.decide()
    return one


def test_maps_are_computed_in_pairs(transformer, tiny_model, monkeypatch):
    """With TensorFlow not yet imported; each map is that of its own picture and target."""
    engine = SimpleNamespace(in_flight=1, begin=lambda *asked: lambda: asked)
    assert pairs_of(transformer).at_once(engine) == 1
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.setenv(map_pairs.THREADS, "2")
    assert pairs_of(transformer).at_once(engine) == 1
    monkeypatch.delenv(map_pairs.THREADS)
    alone = pairs_of(tiny_model), pairs_of(transformer, also_models=["vgg16"])
    assert [one.at_once(engine) for one in alone] == [1, 1]
    assert alone[0].wait_s(1) == 0 and alone[0].begin(engine, "picture", 3)() == (["picture"],)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    pairs = pairs_of(transformer)
    assert pairs.at_once(engine) == 2 and pairs.wait_s(1) and not pairs.wait_s(2)
    results = [pairs.begin(engine, picture, target) for picture, target in (("a", 1), ("b", "all"))]
    assert [one() for one in results] == [(["a"], [1]), (["b"], ["all"])]
