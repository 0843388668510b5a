"""What is written beside films and pictures: sidecars, raw maps, summaries."""

import json
import os
from pathlib import Path

import cv2
import media
import numpy as np
import pytest
from viewer import LOOK

from realtime_lrp import Explainer
from realtime_lrp.models.networks import load_network
from realtime_lrp.results.companions import TOP_CONCEPTS, concept_records
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.region import region_of
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import ColouredMap, Painted


def test_maps_in_between_are_carried_along(run, words, tmp_path):
    """Every third frame is explained; the sidecar says which; a moved map follows the picture."""
    source = media.recording(tmp_path / "in.mp4", count=20)
    target, stats = tmp_path / "out.mp4", tmp_path / "s.json"
    options = ("--stride", 3, "--batch", 2, "--sidecar", "--stats", stats)
    assert run("video", source, "-o", target, *words, *options)[0] == 0
    assert media.frame_times(target) == media.frame_times(source)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["frame"] for row in rows] == list(range(20))
    assert [row["frame"] for row in rows if row["explained"]] == list(range(0, 20, 3))
    assert rows[4]["top5"] == rows[3]["top5"]
    figures = json.loads(stats.read_text())
    assert (figures["maps"], figures["frames_shown"], figures["traces"]) == (7, 20, 1)
    assert figures["display_fps"] is figures["frame_age_ms"] is figures["reconnects"] is None


def test_a_carried_map_lies_on_what_moved():
    """A textured square moves by 24 pixels; held where it was the map is off by as much."""
    rng = np.random.default_rng(4)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (60, 60, 3), np.uint8), (0, 0), 2)
    still = cv2.GaussianBlur(rng.integers(60, 120, (240, 320, 3), np.uint8), (0, 0), 6)

    def picture(x, y):
        result = still.copy()
        result[y : y + 60, x : x + 60] = texture
        return result

    def centre(overlay):
        y, x = np.mgrid[0:200, 0:240]
        shares = overlay.alpha / overlay.alpha.sum()
        return np.array([(shares * x).sum() + 40, (shares * y).sum() + 20])

    alpha, colour = np.zeros((200, 240), np.float32), np.zeros((200, 240, 3), np.uint8)
    alpha[60:120, 60:120] = 1  # over the square at x = 100, y = 80
    colour[60:120, 60:120] = (255, 90, 0)
    overlay = ColouredMap(colour, alpha, (40, 20, 280, 220), LOOK)
    follower = Follower(Painted(picture(100, 80), (overlay,)))
    before = centre(*follower(picture(100, 80)).overlays)
    np.testing.assert_allclose(before, [129.5, 109.5], atol=1)
    for dx, dy in ((24, 0), (-12, 15), (3, -2)):
        (overlay,) = follower(picture(100 + dx, 80 + dy)).overlays
        np.testing.assert_allclose(centre(overlay) - before, [dx, dy], atol=2)
        x, y = np.round(centre(overlay)).astype(int) - (40, 20)
        assert tuple(overlay.colour[y, x]) == (255, 90, 0)
    for shift in range(14, 100, 14):  # too far for one step
        (overlay,) = follower(picture(100 + shift, 80)).overlays
    np.testing.assert_allclose(centre(overlay) - before, [98, 0], atol=2)


def test_a_sidecar_and_raw_maps_hold_what_the_explainer_gives(run, words, tiny_model, tmp_path):
    """Against the explainer itself on the decoded frames; centre and spread by hand."""
    source = media.recording(tmp_path / "in.mp4", count=5, size=(48, 80))
    options = ("--sidecar", "--summary", "--maps", tmp_path / "maps", "--target", "top1")
    options += ("--precision", "float32")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words, *options)
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    data = np.load(tmp_path / "maps" / "out" / "maps_000000.npz")
    network = load_network(str(tiny_model), preprocess="none")
    explainer = Explainer(network.model, target="top1")
    region = region_of((48, 80), (32, 32), "crop")
    with VideoReader(source) as reader:
        views = np.stack([region.extract(frame.picture) for frame in reader])
    explanation = explainer(network.prepare(views))
    maps = explanation.relevance.sum(-1)
    assert data["relevance"].dtype == np.float16
    raw = data["relevance"].astype(np.float32) * data["scale"][:, None, None]
    np.testing.assert_allclose(raw, maps, atol=np.abs(maps).max() * 1e-3)
    assert data["names"].tolist() == list(range(5))
    np.testing.assert_allclose(data["times"], np.arange(5) / 30, atol=1e-6)
    np.testing.assert_array_equal(data["box"], [[16, 0, 64, 48]] * 5)
    labels = ["red", "green", "blue", "other"]
    for number, row in enumerate(rows):
        order = np.argsort(-explanation.scores[number])
        assert [one["label"] for one in row["top5"]] == [labels[n] for n in order]
        shares = [one["probability"] for one in row["top5"]]
        np.testing.assert_allclose(shares, explanation.scores[number][order], atol=1e-5)
        weight = np.abs(maps[number])
        y, x = np.mgrid[0:32, 0:32] * 1.5 + 0.75
        centre = [(weight * (x + 16)).sum() / weight.sum(), (weight * y).sum() / weight.sum()]
        square = (weight * ((x + 16 - centre[0]) ** 2 + (y - centre[1]) ** 2)).sum()
        np.testing.assert_allclose(row["centre"], centre, atol=0.1)
        assert row["spread"] == pytest.approx(np.sqrt(square / weight.sum()), abs=0.1)
        assert row["relevance_sum"] == pytest.approx(maps[number].sum(), rel=1e-3)
        accounted = row["relevance_sum"] + row["taken_by_biases"] + row["lost"]
        assert accounted == pytest.approx(row["started"], rel=1e-5)
        assert row["started"] == pytest.approx(explanation.scores[number].max(), abs=1e-5)
        assert row["lost_in"] is None
        assert (row["time"], row["target"]) == (pytest.approx(number / 30, abs=1e-5), "top1")
    summary = cv2.imread(str(tmp_path / "out.summary.png"))
    assert summary.shape[1] > 1000 and summary.std() > 20


def test_a_sidecar_names_the_layer_that_loses_relevance(run, tmp_path):
    """Where more than 1 % is lost, as where a neuron has no negative inputs; and a note."""
    source = media.recording(tmp_path / "in.mp4", count=3, size=(64, 64))
    options = ("--model", "shapes", "--composite", "epsilon_alpha2_beta1_flat")
    options += ("--sidecar", "--precision", "float32")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *options)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert code == 0 and all(abs(row["lost"]) > 0.01 * abs(row["started"]) for row in rows)
    assert {row["lost_in"] for row in rows} == {rows[0]["lost_in"]} != {None}
    assert "of the relevance that started" in err and "3 of 3 maps" in err
    assert f"; the layer {rows[0]['lost_in']!r}" in err


def test_photos_get_the_same(run, words, tmp_path, rng):
    """A folder: one sidecar, one folder of maps; the damaged one is named."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in ("a.png", "b.png"):
        media.write_picture(folder / name, rng.integers(0, 256, (40, 60, 3), np.uint8))
    (folder / "c.png").write_text("no picture")
    options = ("--sidecar", "--maps", tmp_path / "maps")
    code, _, err = run("image", folder, "-o", out, *words, *options)
    assert code == 65 and "c.png" in err
    rows = [json.loads(line) for line in (out / "pictures.jsonl").read_text().splitlines()]
    assert [Path(row["file"]).name for row in rows] == ["a.png", "b.png"]
    data = np.load(tmp_path / "maps" / "pictures" / "maps_000000.npz")
    sums = (data["relevance"].astype(float) * data["scale"][:, None, None]).sum((1, 2))
    np.testing.assert_allclose(sums, [row["relevance_sum"] for row in rows], rtol=2e-3)
    names = {"a.png", "b.png", "pictures.jsonl", ".pictures.resume.jsonl"}
    assert set(os.listdir(out)) == names
    assert run("image", folder / "a.png", "-o", tmp_path / "x.png", *words, "--sidecar")[0] == 0
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 1
    assert run("image", folder / "b.png", "-o", tmp_path / "x.png", *words, "--sidecar")[0] == 73


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
    best = concept_records(np.float32([0.2, -0.5, 0.1]), {1: "wheel"})[0]
    assert best == {"channel": 1, "share": -0.625, "name": "wheel"}, "also against the class"
