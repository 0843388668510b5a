"""The embedded networks, the pictures that are drawn for them, and what the demo's clip shows."""

import json
import socket
from dataclasses import fields
from pathlib import Path

import cv2
import keras
import media
import numpy as np
import pytest
from detecting import average_precision, right_ones
from drawing import draw_picture
from drawing.batch import Batch, draw_batch
from drawing.scene import draw_scene
from measuring import explain, naming, pointing
from media import write_picture
from shapes import SIZE
from shapes_vit import build_shapes_vit
from train_detector import answers, draw_scenes

from realtime_lrp import Explainer, config, fit, load_network
from realtime_lrp.commands import demo
from realtime_lrp.commands.demo import CLIP
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.wording import top_scores
from realtime_lrp.models.drawings import CLASSES, NOTHING
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.system.scale import FULL
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.sources import moving_picture

ASSETS = Path(__file__).parents[1] / "assets"
FRESH = 271828


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return keras.models.load_model(ASSETS / "shapes.keras", compile=False)


@pytest.fixture(scope="module")
def explainer(model) -> Explainer:
    return Explainer(model, composite="zplus", target="all")


@pytest.mark.release
def test_it_names_fresh_pictures(model):
    fresh = draw_batch((FRESH,), 640)
    figures = naming(model.predict(fresh.pixels, batch_size=64, verbose=0), fresh.labels)
    assert figures["accuracy"] >= 0.97
    assert min(figures["accuracy_of_class"].values()) >= 0.9, "40 of each class"


@pytest.mark.parametrize("count", [40, pytest.param(80, marks=pytest.mark.release)])
@pytest.mark.parametrize("target", ["all", "top1"])
def test_the_largest_relevance_is_on_the_symbol(explainer, target, count):
    batch = draw_batch((FRESH,), count)
    _, maps = explain(explainer, batch.pixels, target)
    assert pointing(maps, batch)["peak_on_ink"] >= 0.95


def test_a_map_that_is_mostly_nothing_looks_like_nothing(explainer):
    pictures = [moving_picture(number, (SIZE, SIZE), 30) for number in (5, 60, 120, 200)]
    maps = explainer(np.stack(pictures).astype(np.float32)).relevance
    drawn = np.abs(strength(maps)[0].numpy().astype(int))
    assert (drawn > FULL / 5).mean((1, 2)).max() < 1 / 10
    assert (drawn == FULL).any((1, 2)).all()


@pytest.mark.parametrize("label", range(NOTHING))
def test_every_symbol_is_wholly_in_view_and_neither_tiny_nor_huge(label):
    rng = np.random.default_rng(40 + label)
    for _ in range(8):
        picture = draw_picture(rng, label)
        assert picture.label == label
        assert picture.pixels.shape == (128, 128, 3) and picture.pixels.dtype == np.uint8
        assert picture.mask.dtype == picture.silhouette.dtype == bool
        longest_side = max(map(np.ptp, np.nonzero(picture.silhouette))) + 1
        assert 0.15 <= longest_side / 128 <= 0.8
        border = picture.silhouette.copy()
        border[1:-1, 1:-1] = False
        assert not border.any()
        assert picture.mask.sum() > 30 and not (picture.mask & ~picture.silhouette).any()


@pytest.fixture(scope="module")
def network():
    return load_network("shapes_vit")


def test_the_network_is_the_one_that_is_built(network):
    assert (ASSETS / "shapes_vit.keras").stat().st_size < 4e6
    built = build_shapes_vit()
    assert network.model.name == built.name == "shapes_vit"
    assert [w.shape for w in network.model.weights] == [w.shape for w in built.weights]
    assert all(w.dtype == "float32" for w in network.model.weights)
    assert network.labels == list(CLASSES) and network.preprocess == "none"
    kernels = [
        load_network(name).model.get_layer("block3_conv2").kernel.numpy()
        for name in ("shapes", "shapes_vit")
    ]
    np.testing.assert_array_equal(*kernels)


@pytest.mark.parametrize("count", [20, pytest.param(160, marks=pytest.mark.release)])
def test_it_names_fresh_pictures_and_points_at_the_symbol(network, count):
    fresh = draw_batch((314159,), count)
    explainer = Explainer(network, composite="zplus", target="top1")
    assert explainer.unsuited == set()
    scores, maps = explain(explainer, fresh.pixels, "top1")
    assert naming(scores, fresh.labels)["accuracy"] >= 0.93
    batch = Batch(*(getattr(fresh, field.name) for field in fields(Batch)))
    assert pointing(maps, batch)["peak_on_ink"] >= 0.9


@pytest.fixture(scope="module")
def detector():
    return load_network("shapes_detector")


def test_it_finds_symbols_and_its_maps_lie_in_their_boxes(detector):
    pixels, _, symbols = draw_scenes((4711, 0), 8)
    found = Explainer(detector, composite="epsilon_plus_flat").detections(
        pixels.astype(np.float32), top=8
    )
    parts = zip(found.count, found.boxes, found.labels, symbols, strict=True)
    right = sum(
        sum(right_ones(boxes[:n], labels[:n], wanted)) for n, boxes, labels, wanted in parts
    )
    assert 2 * right / (found.count.sum() + int((symbols[..., 4] >= 0).sum())) > 0.8
    assert found.inside[found.scores > 0].mean() > 0.7


def test_commands_write_every_box(run, tmp_path):
    scene = draw_scene(np.random.default_rng(5), 640, empty=0).pixels
    write_picture(tmp_path / "in.png", scene), write_picture(tmp_path / "no.png", 0 * scene)
    words = "--model", "shapes_detector", "--composite", "zplus", "--sidecar"
    out = tmp_path / "out.npz"
    assert run("image", tmp_path / "in.png", "-o", out, *words)[0] == 0
    network = load_network("shapes_detector")
    x, region = fit(scene, network)
    found = Explainer(network, composite="zplus").detections(x, top=8)
    data, count = np.load(out), found.count[0]
    assert count > 1
    y0, x0, y1, x1 = found.boxes[0, :count].T
    expected = [region.in_picture(one) for one in np.stack([x0, y0, x1, y1], 1)]
    np.testing.assert_allclose(data["found_box"], expected, atol=0.02)
    np.testing.assert_allclose(data["found_score"], found.scores[0, :count], atol=1e-5)
    np.testing.assert_allclose(data["found_inside"], found.inside[0, :count], atol=1e-4)
    np.testing.assert_allclose(data["found_maps"], found.maps[0, :count], atol=1e-5)
    np.testing.assert_allclose(data["relevance"], found.maps[0].sum(0), atol=1e-5)
    row = json.loads((tmp_path / "out.jsonl").read_text())
    labels = [network.labels[label] for label in found.labels[0, :count]]
    assert [one["label"] for one in row["boxes"]] == labels == data["found_label"].tolist()
    code, _, err = run("image", tmp_path / "no.png", "-o", tmp_path / "no-out.png", *words)
    assert code == 0 and "nothing found; nothing is drawn" in err
    drawn = read_picture(tmp_path / "no-out.png")
    assert drawn.shape == scene.shape and not drawn.any()


def test_a_class_as_target_shows_its_boxes_alone(detector):
    scene = draw_scene(np.random.default_rng(5), 640, empty=0).pixels
    engine = Engine(config.load(sets=["model.name=shapes_detector", "lrp.composite=zplus"]).config)
    (every,) = engine.explain([scene])
    labels = [one.label for one in every.found]
    first, last = engine.label(labels[0]), engine.label(labels[-1])
    for target, kept in ((first, labels[:1]), (f"{last} - {first}", [labels[0], labels[-1]])):
        (some,) = engine.explain([scene], [target])
        assert [one.label for one in some.found] == [one for one in labels if one in kept]
    assert some.found[0].maps[0].started < 0 < some.found[-1].maps[0].started


def test_it_sees_the_whole_of_a_wide_picture(detector):
    scene = draw_scene(np.random.default_rng(3), 512, empty=0).pixels  # 384 x 512
    wide = np.concatenate([scene, np.full((384, 320, 3), 127, np.uint8)], axis=1)
    x, region = fit(wide, detector)
    assert x.shape == (1, 192, 256, 3)
    assert region.box == (0, 0, 832, 384) and region.inner[2] - region.inner[0] == 256


def test_average_precision_by_hand():
    """Right, wrong, right of three symbols: (1 + 2 / 3) / 3."""
    scores = np.array([0.7, 0.9, 0.8])
    assert average_precision(np.array([True, True, False]), scores, 3) == pytest.approx(5 / 9)


def test_the_place_nearest_to_a_symbol_answers_for_it():
    symbols = np.full((1, 6, 5), -1, np.float32)
    symbols[0, 0] = 50, 90, 98, 138, 4  # its middle is 74, 114: row 9, column 14
    wanted, boxes, weight = (one.numpy() for one in answers(symbols))
    place = 9 * 32 + 14
    assert wanted[0, :, 4].argmax() == place and wanted[0, place, 4] == pytest.approx(1)
    assert wanted[0, place + 1, 4] == pytest.approx(np.exp(-0.5))  # 8 pixels, a sixth of the box
    assert not wanted[0, :, :4].any() and wanted[0, 0, 4] < 1e-6
    np.testing.assert_array_equal(boxes[0, place], symbols[0, 0, :4])
    np.testing.assert_allclose(weight[0], wanted[0, :, 4])


@pytest.mark.parametrize("frames", [24, pytest.param(300, marks=pytest.mark.release)])
def test_the_demo_writes_video_and_sheet_offline(
    frames, run, tmp_path, tmp_path_factory, monkeypatch
):
    clip = CLIP
    if frames < 300:
        clip = media.slowed(CLIP, tmp_path_factory.mktemp("clip") / "demo.mp4", 1, frames)
        monkeypatch.setattr(demo, "CLIP", clip)

    def no_network(*words):
        raise OSError("the network is unplugged")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "demo.mp4" in out
    assert "demo.png" in out
    codec, rows, columns, _ = media.stream_of("demo.mp4")
    assert (codec, rows, columns) == ("h264", 480, 640)
    assert media.times_of("demo.mp4") == media.times_of(clip)
    assert len(media.times_of("demo.mp4")) == frames
    assert cv2.imread("demo.png").shape == (3 * 244 + 4, 4 * 324 + 4, 3)
    assert run("demo")[0] == 73
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo.mp4", "demo.png"]


# second of the clip -> symbol in it
SHOWN = {1.5: "star", 2.0: "star", 4.0: "heart", 4.5: "heart", 6.0: "house", 8.5: "fish"}


@pytest.fixture(scope="module")
def explained():
    """(frame, result, best label) for some moments of the clip."""
    engine = Engine(config.load(options={"--model": "shapes"}).config)
    with VideoReader(CLIP) as reader:
        frames = [frame.picture for frame in reader]
    moments = {second: frames[round(second * 30)] for second in SHOWN}
    results = engine.explain(list(moments.values()))
    return {
        second: (picture, result, top_scores(engine.label, result.scores, 1)[0])
        for (second, picture), result in zip(moments.items(), results, strict=True)
    }


@pytest.mark.parametrize("second", SHOWN)
def test_the_symbol_is_named_and_the_map_lies_on_it(second, explained):
    picture, result, (name, score) = explained[second]
    assert name == SHOWN[second]
    assert score > 0.8
    relevance = cv2.GaussianBlur(result.relevance.sum(-1), (0, 0), 1)
    rows, columns = np.unravel_index(relevance.argmax(), relevance.shape)
    x0, y0, x1, y1 = result.region.box
    y = y0 + (rows + 0.5) * (y1 - y0) / 128
    x = x0 + (columns + 0.5) * (x1 - x0) / 128
    around = picture[int(y) - 12 : int(y) + 13, int(x) - 12 : int(x) + 13].reshape(-1, 3)
    assert np.ptp(around.astype(int).sum(-1)) > 200, "no edge of ink where the map points"
