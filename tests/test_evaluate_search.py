"""`evaluate --search`: what it tries, how it chooses, what it says, and settings that work."""

import json
from types import SimpleNamespace

import keras
import media
import numpy as np
import pytest
from shapes import build_shapes

from realtime_lrp import config
from realtime_lrp.commands.evaluate import search
from realtime_lrp.commands.evaluate.measuring import AnswerEvaluation
from realtime_lrp.commands.evaluate.samples import Samples, photo_samples
from realtime_lrp.commands.evaluate.search import (
    FOUND,
    GAIN,
    Candidate,
    best_first,
    layer_groups,
    search_lines,
    search_report,
)
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import UsageError


def groups_of(model):
    """The groups of a Keras model's layers."""
    lrp = SimpleNamespace(pool="max")
    return layer_groups(SimpleNamespace(model=model, config=SimpleNamespace(lrp=lrp)))


def samples(names):
    """Samples of 2 x 2 pixels with these names."""
    count = len(names)
    pictures = np.arange(count * 12, dtype=np.uint8).reshape(count, 2, 2, 3)
    return Samples(pictures, np.ones((count, 2, 2), bool), [None] * count, list(names), "")


def test_layers_are_grouped_from_input_to_output():
    """Dense layers behind the convolutions are the output; without them the last layer is."""
    groups = groups_of(build_shapes())
    assert groups["input"] == ["block1_conv1"]
    assert groups["output"] == ["fc1", "predictions"]
    assert groups["early"] + groups["middle"] + groups["late"] == [
        f"block{block}_conv{conv}" for block in (2, 3, 4, 5) for conv in (1, 2)
    ]
    x = keras.Input((8, 8, 3))
    shared = keras.layers.Conv2D(3, 3, padding="same", name="shared")
    two = [keras.layers.Conv2D(3, 1, name=name)(x) for name in ("left", "right")]
    h = shared(shared(keras.layers.Add()(two)))
    h = keras.layers.Conv2D(2, 8, name="last")(h)
    branches = keras.Model(x, keras.layers.Softmax()(keras.layers.Flatten()(h)))
    assert groups_of(branches) == {
        "input": ["left", "right"], "early": ["shared"], "output": ["last"]
    }  # fmt: skip
    dense = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()])
    dense.add(keras.layers.Dense(2, name="only"))
    assert groups_of(dense) == {"input": ["only"]}


def test_no_photo_is_on_both_halves():
    """Two samples of one photo stay together; another seed splits otherwise."""
    names = [f"{n}.jpg: {label}" for n in range(10) for label in "ab"]
    to_search, to_report = search.halves(samples(names), 0)
    photos = [{names[index].split(":")[0] for index in half} for half in (to_search, to_report)]
    assert len(photos[0]) == len(photos[1]) == 5 and not photos[0] & photos[1]
    assert sorted([*to_search, *to_report]) == [*range(20)]
    assert len({names[index].split(":")[0] for index in to_search[:5]}) == 5
    assert search.halves(samples(names), 1)[1] != to_report
    with pytest.raises(UsageError, match="one photo"):
        search.halves(samples(names[:2]), 0)


def test_rounds_by_hand():
    """The last one has all photos, each before it a third; at least two candidates reach it."""
    assert [search.search_rounds(photos, 100) for photos in (1, 12, 13, 120)] == [
        [1], [12], [5, 13], [5, 14, 40, 120]
    ]  # fmt: skip
    assert [search.search_rounds(120, candidates) for candidates in (3, 4, 10, 28)] == [
        [120], [40, 120], [14, 40, 120], [5, 14, 40, 120]
    ]  # fmt: skip


def searched(gains, photos=40):
    """The candidates after a search among those that score so much instead of being measured."""

    def faithfulness(samples, settings):
        gain = gains[settings["composite"]]
        if isinstance(gain, Exception):
            raise gain
        return {GAIN: np.full(3, gain + 0.001 * len(samples))}

    tried = [Candidate(name, name) for name in gains]
    search.search(SimpleNamespace(faithfulness=faithfulness), range(photos), tried)
    return tried


def test_the_best_third_goes_on():
    """10 on 5 photos, 3 of the 9 that work on 14, one on 40."""
    tried = searched({f"c{n}": n / 10 for n in range(9)} | {"broken": UsageError("no")})
    assert [len(one.gains) for one in tried] == [1] * 6 + [2, 2, 3, 0]
    best = best_first(tried)
    assert [one.name for one in best] == [f"c{n}" for n in range(8, -1, -1)]
    assert best[0].gains == pytest.approx({5: 0.805, 14: 0.814, 40: 0.84})
    assert [len(one.gains) for one in searched({f"c{n}": n for n in range(4)})] == [1, 1, 2, 2]


def verdicts(photos):
    """What is said of rows with known gains on so many photos."""
    random = Candidate("random 1", "epsilon", gains={4: 0.5})
    found = np.linspace(0.4, 0.8, photos)
    waving = np.resize([0.1, -0.1], photos)
    gains = {FOUND: found, "behind": found - 0.1, "ahead": found + 0.1, "like": found + waving}
    ones = np.ones(photos)
    rows = {name: {GAIN: gain, "insertion": ones, "deletion": ones} for name, gain in gains.items()}
    names = [str(number) for number in range(photos)]
    return "\n".join(search_lines(search_report([random], ["a"], names, rows, {}), random))


def test_the_verdict_by_hand():
    """Ahead by 0.1 on every picture beats; ahead on half and behind on half does not."""
    text = verdicts(6)
    assert "found beats behind: gain +0.1000 (95 % interval +0.1000 to +0.1000" in text
    assert text.count(", 6 pictures of 6 photos)") == 3
    assert "found is worse than ahead: keep that: gain -0.1000" in text
    assert "found cannot be told from like: gain +0.0000" in text


def test_few_photos_beat_nothing():
    """Five photos that agree do so by chance in one of 16 cases: no winner is named."""
    for photos in (1, 2, 5):
        text = verdicts(photos)
        assert text.count("too few photos") == 1
        assert "beats" not in text and "worse" not in text and "told from" not in text


@pytest.fixture
def folder_of_photos(tmp_path, rng):
    """Four photos, without boxes."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        picture = rng.integers(0, 256, (40, 40, 3), np.uint8)
        media.write_picture(folder / f"{number}.png", picture)
    return folder


def test_the_command(run, folder_of_photos, tiny_model, tmp_path, monkeypatch):
    """The settings that it prints are those that it measured, and the same at each run."""
    monkeypatch.setattr(search, "COMPOSITES", {"zplus": None})
    monkeypatch.setattr(search, "DEFAULTS", ("zplus",))
    words = ("evaluate", "--search", 2, "--images", folder_of_photos, "--model", tiny_model)
    words = (*words, "--preprocess", "rescale", "-o")
    code, out, err = run(*words, tmp_path / "one")
    assert (code, err) == (0, "")
    assert "2 of 2 candidates measured on 2 pictures" in out
    report = json.loads((tmp_path / "one" / "search.json").read_text())
    assert not {*report["searched_on"]} & {*report["reported_on"]}
    assert [row["name"] for row in report["rows"]] == ["found", "zplus"]
    for row in report["rows"]:
        assert row["gain"] == pytest.approx(row["insertion"] - row["deletion"], abs=2e-4)
    assert report["provenance"]["model"]["sha256"].keys() == {"model"}
    loaded = config.load(str(tmp_path / "one" / "settings.yaml")).config.lrp
    assert loaded.layers == report["found"]["lrp"]["layers"]
    assert (tmp_path / "one" / "settings.yaml").read_text() in out
    assert run(*words, tmp_path / "one")[0] == 73
    assert run(*words, tmp_path / "two")[1] == out


@pytest.fixture
def with_biases(tmp_path):
    """A saved network whose biases take relevance, with a layer between the first and the last."""
    keras.utils.set_random_seed(3)
    hidden = {"padding": "same", "activation": "relu", "bias_initializer": "random_uniform"}
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for stride in (1, 4):
        model.add(keras.layers.Conv2D(6, 3, strides=stride, **hidden))
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(4, activation="softmax"))
    model.save(tmp_path / "biases.keras")
    return tmp_path / "biases.keras"


def test_the_settings_measure_what_was_reported(
    run, folder_of_photos, with_biases, tmp_path, monkeypatch
):
    """They hold what candidates were measured with, such as `start`; without it figures differ."""
    monkeypatch.setattr(search, "DEFAULTS", ())
    words = ("evaluate", "--search", 1, "--images", folder_of_photos, "--model", with_biases)
    words = (*words, "--preprocess", "rescale", "--set", "lrp.start=logit", "-o", tmp_path / "out")
    words = (*words, "--set", "lrp.absorb_bias=true", "--set", "lrp.target=1")
    code, _, err = run(*words)
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "out" / "search.json").read_text())
    assert report["found"]["lrp"] == {
        "method": "lrp", "composite": "zplus", "pool": "max", "layers": {},
        "absorb_bias": True, "start": "logit",
    }  # fmt: skip

    def gains(settings):
        options = {"--model": str(with_biases), "--preprocess": "rescale"}
        engine = Engine(config.load(settings, options=options).config, keep_model=True)
        photos = photo_samples(folder_of_photos, None, engine, None, 0)
        _, to_report = search.halves(photos, 0)
        evaluation = AnswerEvaluation(engine, photos, 0, forgetting=False)
        return evaluation.faithfulness(to_report, {})[GAIN]

    expected = report["rows"][0]["values"]["gain"]
    np.testing.assert_allclose(gains(str(tmp_path / "out" / "settings.yaml")), expected, atol=1e-6)
    assert np.abs(gains(None) - expected).max() > 1e-5
