"""The embedded network `shapes_detector`: what it finds, and where its maps lie."""

import numpy as np
import pytest
from detecting import average_precision, right_ones
from drawing.scene import draw_scene
from train_detector import answers, draw_scenes

from realtime_lrp import Explainer, fit, load_network


@pytest.fixture(scope="module")
def network():
    return load_network("shapes_detector")


def test_it_finds_symbols_and_its_maps_lie_in_their_boxes(network):
    """In 20 fresh scenes: most symbols, few wrong boxes, and most relevance in the boxes."""
    pixels, _, symbols = draw_scenes((4711, 0), 20)
    found = Explainer(network, composite="epsilon_plus_flat").detections(
        pixels.astype(np.float32), top=8
    )
    right = sum(sum(right_ones(found, picture, symbols[picture])) for picture in range(20))
    there = int((symbols[..., 4] >= 0).sum())
    assert 2 * right / (found.count.sum() + there) > 0.8
    assert found.inside[found.scores > 0].mean() > 0.7


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
