"""A detector's boxes: where they lie in the picture, and their outlines."""

import numpy as np

from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.region import region_of
from realtime_lrp.view.boxes import Outline, draw_outlines


def test_a_box_of_a_letterboxed_mirrored_picture():
    """200 x 400 pixels become 50 x 100, below 25 rows of grey: a pixel of the input is 4 wide."""
    region = region_of((200, 400), (100, 100), "letterbox")
    assert region.inner == (0, 25, 100, 75)
    assert region.in_picture((10, 30, 35, 55)) == (40, 20, 140, 120)

    picture = np.zeros((200, 400, 3), np.uint8)
    picture[20:120, 260:360] = 255  # x from 400 - 140 to 400 - 40
    seen = region.extract(mirrored(picture, True), border=0)
    expected = np.zeros((100, 100, 3), np.uint8)
    expected[30:55, 10:35] = 255
    np.testing.assert_array_equal(seen, expected)


def test_a_box_of_a_cropped_picture():
    """The middle 200 columns of 400 are seen, half as large."""
    region = region_of((200, 400), (100, 100), "crop")
    assert region.in_picture((10, 30, 35, 55)) == (120, 60, 170, 110)


def test_an_outline_changes_the_four_sides_alone():
    """Beside its text, which stands above it. The tile is twice the picture."""
    before = np.full((400, 600, 3), 128, np.uint8)
    tile = before.copy()
    draw_outlines(tile, [Outline((50, 60, 150, 160), "")], (200, 300))
    changed = (tile != before).any(-1)
    near = np.zeros_like(changed)
    near[116:325, 96:305] = True  # the box is at 100, 120, 300, 320 there
    near[125:316, 105:296] = False
    label = np.zeros_like(changed)
    label[90:120, 90:130] = True
    assert not (changed & ~near & ~label).any()
    for side in (tile[120, 100:301], tile[320, 100:301], tile[120:321, 100], tile[120:321, 300]):
        assert (side == 255).all()


def test_the_first_outline_is_the_brightest_and_thickest():
    tile = np.full((400, 600, 3), 128, np.uint8)
    draw_outlines(tile, [Outline((50, 60, 150, 160), ""), Outline((350, 60, 450, 160), "")])
    first, second = tile[110, 40:60], tile[110, 340:360]
    assert first.max() == 255 > second.max() > 128
    assert (first > 128).any(-1).sum() > (second > 128).any(-1).sum()  # the light line


def test_boxes_beyond_the_picture_are_closed_at_its_edge():
    tile = np.full((100, 100, 3), 128, np.uint8)
    draw_outlines(tile, [Outline((-20, -30, 140, 130), "star 93 %")])
    assert (tile[99] == 255).all() and (tile[50:, 0] == 255).all()
