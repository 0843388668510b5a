"""Studies of concepts: masked channels, steadiness in recordings, sidecars."""

import json
import re
import weakref
from pathlib import Path
from types import SimpleNamespace

import duckdb
import keras
import media
import numpy as np
import pytest
from keras import layers

from realtime_lrp import Explainer
from realtime_lrp.commands.evaluate.concepts import run as study
from realtime_lrp.commands.evaluate.concepts.masking import measure_layer
from realtime_lrp.commands.evaluate.concepts.stability import SteadinessStudy
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.networks import load_network
from realtime_lrp.relevance.channel_masks import ChannelMasks, resolution_of
from realtime_lrp.results.records import TOP_CONCEPTS
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.region import region_of

HOME = Path(__file__).parents[1]


def sidecar_of(film):
    """The lines of the sidecar beside a film."""
    return [json.loads(line) for line in film.with_suffix(".jsonl").read_text().splitlines()]


def test_a_sidecar_has_the_channels_that_the_explainer_gives(run, words, tiny_model, tmp_path):
    """The four largest shares of each frame, of all magnitudes; the same in batches of any size."""
    source = media.recording(tmp_path / "in.mp4", count=5, size=(48, 80))
    options = ("--sidecar", "--target", "top1")
    for batch in (1, 4):
        film = tmp_path / f"{batch}.mp4"
        code, _, err = run("video", source, "-o", film, *words, *options, "--batch", batch)
        assert (code, err) == (0, "")
    rows = sidecar_of(film)
    concepts = [
        [row["concepts"] for row in sidecar_of(tmp_path / name)] for name in ("1.mp4", "4.mp4")
    ]
    assert concepts[0] == concepts[1]
    network = load_network(str(tiny_model), preprocess="none")
    explainer = Explainer(network.model, target="top1")
    with VideoReader(source) as reader:
        region = region_of((48, 80), (32, 32), "crop")
        views = np.stack([region.extract(frame.picture) for frame in reader])
    found = explainer.concepts(network.prepare(views), explainer.concept_layers[-1], TOP_CONCEPTS)
    shares = found.shares / np.abs(found.by_channel).sum(1, keepdims=True)
    for number, row in enumerate(rows):
        assert [one["channel"] for one in row["concepts"]] == found.channels[number].tolist()
        written = [one["share"] for one in row["concepts"]]
        np.testing.assert_allclose(written, shares[number], atol=2e-6)


def test_methods_without_concepts_have_none_in_their_sidecars(run, words, tmp_path):
    """Concepts are defined for LRP only."""
    source = media.recording(tmp_path / "in.mp4", count=1)
    options = ("--sidecar", "--method", "gradient")
    assert run("video", source, "-o", tmp_path / "out.mp4", *words, *options)[0] == 0
    (row,) = sidecar_of(tmp_path / "out.mp4")
    assert "concepts" not in row


def residual_network():
    """A convolution, and another one whose output is added to it."""
    keras.utils.set_random_seed(4)
    x = keras.Input((6, 6, 3))
    first = layers.Conv2D(4, 3, padding="same", activation="relu", name="first")(x)
    second = layers.Conv2D(4, 3, padding="same", activation="relu", name="second")(first)
    pooled = layers.GlobalAveragePooling2D()(layers.Add(name="sum")([first, second]))
    answer = layers.Dense(3, activation="softmax", name="answer")(pooled)
    return keras.Model(x, answer)


@pytest.mark.parametrize("layer", ["first", "second", "sum"])
def test_masked_scores_are_those_of_a_network_without_the_channels(layer):
    """Against two Keras models, up to the layer and from there on; shares add up as concepts do."""
    model = residual_network()
    x = np.random.default_rng(2).normal(size=(3, 6, 6, 3)).astype("float32")
    masks = ChannelMasks(Explainer(model), layer)
    assert resolution_of(Explainer(model), layer) == (6, 6)
    kept = np.random.default_rng(3).integers(0, 2, (3, 5, 4))
    found = masks.masked_scores(x, kept)
    first, second, total = (model.get_layer(name) for name in ("first", "second", "sum"))
    for picture, mask in np.ndindex(3, 5):
        keep, one = kept[picture, mask], x[picture : picture + 1]
        a = first(one) * (keep if layer == "first" else 1)
        b = second(a) * (keep if layer == "second" else 1)
        joined = total([a, b]) * (keep if layer == "sum" else 1)
        naive = model.get_layer("answer")(np.asarray(joined).mean((1, 2)))
        np.testing.assert_allclose(found[picture, mask], naive[0], atol=1e-6)
    scores, shares, activations = masks.shares(x)
    concepts = Explainer(model).concepts(x, layer)
    np.testing.assert_allclose(scores, concepts.scores, atol=1e-6)
    np.testing.assert_allclose(shares, concepts.by_channel, atol=1e-6)
    assert activations.shape == shares.shape and (activations >= 0).all()


def one_channel_carries_the_class():
    """Channel 0 gets the first colour and alone decides; channel 1 is 100 times as strong."""
    model = keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.Conv2D(8, 1, activation="relu", use_bias=False, name="conv"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2, activation="softmax", use_bias=False, name="answer"),
        ]
    )
    kernel = np.zeros((1, 1, 2, 8), "float32")
    kernel[0, 0, 0, 0], kernel[0, 0, 1, 1], kernel[0, 0, 0, 2:] = 1, 100, 0.5
    model.get_layer("conv").set_weights([kernel])
    weights = np.zeros((8, 2), "float32")
    weights[0, 0] = 3
    model.get_layer("answer").set_weights([weights])
    return model


def test_the_curve_of_a_network_that_one_channel_decides():
    """Exactly: it is gone with the first of most relevance, and the second of most activation."""
    model = one_channel_carries_the_class()
    engine = SimpleNamespace(network=SimpleNamespace(prepare=lambda pictures: pictures))
    masks = ChannelMasks(Explainer(model), "conv")
    x = np.ones((20, 4, 4, 2), np.float32)
    found = measure_layer(engine, "conv", masks, x, np.zeros(20, int), seed=0)
    sure, unsure = 1 / (1 + np.exp(-3)), 0.5
    assert found.counts.tolist() == [0, 1, 2, 4]
    np.testing.assert_allclose(found.curves["relevance"].T, [[sure] + 3 * [unsure]] * 20, rtol=1e-5)
    np.testing.assert_allclose(
        found.curves["activation"].T, [2 * [sure] + 2 * [unsure]] * 20, rtol=1e-5
    )
    expected = [sure - (sure - unsure) * count / 8 for count in found.counts]  # of any order
    np.testing.assert_allclose(found.curves["random"].mean(1), expected, atol=0.06)
    area = (sure / 2 + unsure * 2.5) / 3
    np.testing.assert_allclose(found.areas["relevance"], area, rtol=1e-5)


def test_steadiness_of_a_hand_made_sequence():
    """Channels 0 to 3 for two frames, then 1 to 4: overlap 1, 3/5, 1; 0.2 s, 0.4 s and 0.2 s."""
    shares = np.tile(np.array([5.0, 4, -3, 2, 1]) / 15, (4, 1))
    shares[2:, 0], shares[2:, 4] = 0, -0.5
    frames = [(number / 10, {"conv": row}) for number, row in enumerate(shares)]
    study = SteadinessStudy(["conv"], [0.0, 0.9])
    study.add("clip.mp4", frames)
    found, slow = study.results()
    np.testing.assert_allclose(found.overlaps, [1, 3 / 5, 1])
    np.testing.assert_allclose(sorted(found.stays), [0.2, 0.2, 0.4, 0.4, 0.4])
    assert (found.different, found.seconds) == (5, ["clip.mp4: 0"] * 3)
    np.testing.assert_allclose(slow.overlaps, [1, 1, 1])
    study.add("other.mp4", frames[:2])  # nothing goes on from one recording to the next
    found, _ = study.results()
    np.testing.assert_allclose(found.overlaps, [1, 3 / 5, 1, 1])
    assert found.stays.size == 9 and found.seconds[-1] == "other.mp4: 0"
    with pytest.raises(DamagedInputError, match=r"'short\.mp4' has 1 frames"):
        study.add("short.mp4", frames[:1])


def test_recordings_of_any_length_are_studied_frame_by_frame(rng):
    """The shares of earlier frames are not kept."""
    alive = weakref.WeakSet()

    def frames():
        for number in range(50):
            row = rng.normal(size=8).view(Row)
            alive.add(row)
            yield number / 10, {"conv": row}
            del row
            assert len(alive) <= 6

    study = SteadinessStudy(["conv"])
    study.add("clip.mp4", frames())
    assert [one.overlaps.size for one in study.results()] == [49] * 3


class Row(np.ndarray):
    """An array that can be counted: equal and hashed by identity."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


def test_the_command_measures_prints_writes_and_goes_on(run, words, tmp_path, monkeypatch):
    """Interrupted after a layer, it resumes to the same figures; a finished one is not repeated."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        media.write_picture(
            photos / f"{number}.png", media.plain(size=(40, 40), colour=80 * number)
        )
    clip = media.recording(tmp_path / "in.mp4", count=4, size=(40, 40))
    command = ("evaluate", "--concepts", "--images", photos, "--recording", clip, *words)
    assert run(*command, "-o", tmp_path / "whole")[0] == 0
    whole = json.loads((tmp_path / "whole" / "report.json").read_text())
    (masking,) = whole["masking"]
    assert masking["channels"] == 6 and masking["masked"] == [0, 1, 2]
    assert [one["order"] for one in masking["orders"]] == ["relevance", "activation", "random"]
    assert [row["pairs_of_frames"] for row in whole["stability"]] == [3, 3, 3]
    assert not any("stay_interval" in row for row in whole["stability"]), "stays depend on another"
    names = {"report.json", "photos.csv", "masking.png", "masking.pdf"}
    assert {file.name for file in (tmp_path / "whole").iterdir()} == names
    lines = (tmp_path / "whole" / "photos.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 3 * 3
    with monkeypatch.context() as patch:
        patch.setattr(study, "write_concept_folder", interrupt)
        assert run(*command, "-o", tmp_path / "again")[0] == 130
    monkeypatch.setattr(study, "measure_layer", interrupt)
    code, out, err = run(*command, "-o", tmp_path / "again", "--resume")
    assert code == 0, err
    assert "overlap" in out and "relevance" in out
    assert json.loads((tmp_path / "again" / "report.json").read_text()) == whole
    code, out, err = run(*command, "-o", tmp_path / "again", "--resume")
    assert code == 0 and "finished before" in out, err
    assert run(*command, "--resume")[0] == 2, "nothing is unfinished, and no file is asked for"


def interrupt(*arguments):
    """Ctrl-C."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--only", "zplus"), 2, "--concepts goes without"),
        (("--search",), 2, "--concepts goes without"),
        (("--recording", "no.mp4"), 66, "no.mp4"),
        (("--set", "concepts.layer=conv9"), 78, "conv9"),
        (("--set", "lrp.method=gradient"), 78, "LRP only"),
    ],
)
def test_what_does_not_go_together_is_refused(run, more, code, told):
    """With the exit codes of the contract, before anything is measured."""
    found, _, err = run("evaluate", "--concepts", "--count", 1, *more)
    assert found == code and told in err, err


def test_a_recording_goes_with_concepts_only(run):
    """Otherwise nobody would look at it."""
    code, _, err = run("evaluate", "--recording", "a.mp4")
    assert code == 2 and "goes with --concepts" in err


def test_a_sidecar_has_names_and_can_be_searched(run, words, tmp_path, monkeypatch):
    """The layer is in the settings; a repeat is equal; DuckDB as documented finds the frames."""
    monkeypatch.chdir(tmp_path)
    source = media.recording(tmp_path / "in.mp4", count=6)
    assert run("video", source, "-o", "out.mp4", *words, "--sidecar")[0] == 0
    rows = sidecar_of(tmp_path / "out.mp4")
    first = rows[0]
    layer = first["provenance"]["settings"]["concepts.layer"]
    channel = first["concepts"][0]["channel"]
    assert not any("name" in one for row in rows for one in row["concepts"])
    (tmp_path / "names.yaml").write_text(f"{layer}:\n  {channel}: bar\n")
    again = ("video", source, "-o", "out.mp4", *words, "--sidecar", "--names", "names.yaml")
    code, _, err = run(*again, "--resume")
    assert code == 73 and "other settings" in err
    assert run(*again, "--overwrite")[0] == 0
    named = sidecar_of(tmp_path / "out.mp4")
    assert [one.get("name") for one in named[0]["concepts"]] == ["bar", None, None, None]
    repeat = ("video", source, "-o", "repeat.mp4", "--sidecar", "--config", "out.jsonl")
    assert run(*repeat)[0] == 0
    texts = [(tmp_path / name).read_text() for name in ("out.jsonl", "repeat.jsonl")]
    assert texts[0] == texts[1]
    (tmp_path / "repeat.jsonl").unlink()
    text = (HOME / "docs" / "concepts.md").read_text()
    (query,) = re.findall(r'duckdb\.sql\("""(.*?)"""\)', text, re.S)
    query = re.sub(r"channel = \d+", f"channel = {channel}", query).replace("> 0.1", "> 0")
    found = duckdb.sql(query).fetchall()
    shares = [(row["time"], one["share"]) for row in named for one in row["concepts"]
              if one["channel"] == channel]  # fmt: skip
    assert [row[1:] for row in found] == shares and shares


def test_wrong_names_end_before_the_first_frame(run, words, tmp_path):
    """A layer that the network does not have is named with its line, with or without a sidecar."""
    source = media.recording(tmp_path / "in.mp4", count=1)
    (tmp_path / "names.yaml").write_text("conv99:\n  1: bar\n")
    command = ("video", source, "-o", tmp_path / "out.mp4", *words)
    for sidecar in ((), ("--sidecar",)):
        code, _, err = run(*command, *sidecar, "--names", tmp_path / "names.yaml")
        assert code == 78 and "names.yaml:1" in err
        assert not (tmp_path / "out.mp4").exists()
