"""The embedded network `shapes_detector`: what it finds, and where its maps lie."""

import json

import numpy as np
import pytest
from detecting import average_precision, right_ones
from drawing.scene import draw_scene
from media import write_picture
from train_detector import answers, draw_scenes

from realtime_lrp import Explainer, config, fit, load_network
from realtime_lrp.engine.engine import Engine
from realtime_lrp.video.pictures import read_picture


@pytest.fixture(scope="module")
def network():
    return load_network("shapes_detector")


def test_it_finds_symbols_and_its_maps_lie_in_their_boxes(network):
    """In 8 fresh scenes: most symbols, few wrong boxes, and most relevance in the boxes."""
    pixels, _, symbols = draw_scenes((4711, 0), 8)
    found = Explainer(network, composite="epsilon_plus_flat").detections(
        pixels.astype(np.float32), top=8
    )
    parts = zip(found.count, found.boxes, found.labels, symbols, strict=True)
    right = sum(
        sum(right_ones(boxes[:n], labels[:n], wanted)) for n, boxes, labels, wanted in parts
    )
    there = int((symbols[..., 4] >= 0).sum())
    assert 2 * right / (found.count.sum() + there) > 0.8
    assert found.inside[found.scores > 0].mean() > 0.7


def test_commands_write_every_box(run, tmp_path):
    """Against `Explainer.detections`: in the raw map, whose parts add up, and in the sidecar."""
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


def test_a_class_as_target_shows_its_boxes_alone(network):
    """And one class against another those of both."""
    scene = draw_scene(np.random.default_rng(5), 640, empty=0).pixels
    chosen = config.load(sets=["model.name=shapes_detector", "lrp.composite=zplus"]).config
    engine = Engine(chosen)
    (every,) = engine.explain([scene])
    labels = [one.label for one in every.found]
    first, last = engine.label(labels[0]), engine.label(labels[-1])
    for target, kept in ((first, labels[:1]), (f"{last} - {first}", [labels[0], labels[-1]])):
        (some,) = engine.explain([scene], [engine.explainer.canonical(target)])
        assert [one.label for one in some.found] == [one for one in labels if one in kept]
    assert some.found[0].maps[0].started < 0 < some.found[-1].maps[0].started


def test_it_sees_the_whole_of_a_wide_picture(network):
    """Boxes are in pixels of its input, which a wide picture fills from side to side."""
    scene = draw_scene(np.random.default_rng(3), 512, empty=0).pixels  # 384 x 512
    wide = np.concatenate([scene, np.full((384, 320, 3), 127, np.uint8)], axis=1)
    x, region = fit(wide, network)
    assert x.shape == (1, 192, 256, 3)
    assert region.box == (0, 0, 832, 384) and region.inner[2] - region.inner[0] == 256


def test_average_precision_by_hand():
    """Right, wrong, right of three symbols: (1 + 2 / 3) / 3."""
    scores = np.array([0.7, 0.9, 0.8])
    assert average_precision(np.array([True, True, False]), scores, 3) == pytest.approx(5 / 9)


def test_the_place_nearest_to_a_symbol_answers_for_it():
    """Fully; the next ones by less, and others not."""
    symbols = np.full((1, 6, 5), -1, np.float32)
    symbols[0, 0] = 50, 90, 98, 138, 4  # its middle is 74, 114: row 9, column 14
    wanted, boxes, weight = (one.numpy() for one in answers(symbols))
    place = 9 * 32 + 14
    assert wanted[0, :, 4].argmax() == place and wanted[0, place, 4] == pytest.approx(1)
    assert wanted[0, place + 1, 4] == pytest.approx(np.exp(-0.5))  # 8 pixels, a sixth of the box
    assert not wanted[0, :, :4].any() and wanted[0, 0, 4] < 1e-6
    np.testing.assert_array_equal(boxes[0, place], symbols[0, 0, :4])
    np.testing.assert_allclose(weight[0], wanted[0, :, 4])
