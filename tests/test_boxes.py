"""A detector's boxes: where they lie in the picture, and their outlines."""

from dataclasses import replace
from types import SimpleNamespace

import cv2
import numpy as np
from viewer import LOOK

from realtime_lrp.engine.boxes import REMEMBERED, BoxNumbers, drawn_map, outlines_of
from realtime_lrp.engine.result import FoundBox, MapKind, Result, ResultMap
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.region import region_of
from realtime_lrp.view.boxes import COLOURS, Outline, draw_outlines
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.overlay import Overlay
from realtime_lrp.view.painting import Painted
from realtime_lrp.view.text import WHITE


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


def test_a_box_of_a_cropped_or_squashed_picture():
    """The middle 200 columns of 400 are seen, half as large; or all, a quarter as wide."""
    region = region_of((200, 400), (100, 100), "crop")
    assert region.in_picture((10, 30, 35, 55)) == (120, 60, 170, 110)
    region = region_of((200, 400), (100, 100), "squash")
    assert region.in_picture((10, 30, 35, 55)) == (40, 60, 140, 110)


def test_an_outline_changes_the_four_sides_alone():
    """The tile is twice the picture."""
    before = np.full((400, 600, 3), 128, np.uint8)
    tile = before.copy()
    draw_outlines(tile, [Outline((50, 60, 150, 160), "", "", (9, 200, 30))], (200, 300))
    changed = (tile != before).any(-1)
    near = np.zeros_like(changed)
    near[116:325, 96:305] = True  # the box is at 100, 120, 300, 320 there
    near[125:316, 105:296] = False
    assert not (changed & ~near).any()
    for side in (tile[120, 100:301], tile[320, 100:301], tile[120:321, 100], tile[120:321, 300]):
        assert (side == (9, 200, 30)).all()
    first, second = (Outline((50, 60, 150, 160), "", "", one) for one in COLOURS[:2])
    draw_outlines(tile, [first, second], (200, 300))
    assert (tile[120, 100:301] == COLOURS[0]).all(), "the first is on top"


def test_boxes_beyond_the_picture_are_closed_at_its_edge():
    tile = np.full((100, 100, 3), 128, np.uint8)
    draw_outlines(tile, [Outline((-20, -30, 140, 130), "star 93 %", "71 % inside", WHITE)])
    assert (tile[99, 90:] == 255).all() and (tile[30:60, 0] == 255).all()


def result_of(*boxes, strengths=None):
    """What a detector found: boxes of class 1, each with a map of its own."""
    kind = MapKind("zplus")
    drawn = strengths or [np.full((4, 6), 10 * n, np.int8) for n, _ in enumerate(boxes, 1)]
    maps = [ResultMap(one, 1.0, 0, 0, lambda: None, kind, False, 0, 0, 0) for one in drawn]
    found = tuple(
        FoundBox(box, 1, 0.9, 0.71, (one,), number, None, number)
        for number, (box, one) in enumerate(zip(boxes, maps, strict=True))
    )
    region = region_of((40, 60), (4, 6), "squash")
    return Result(np.zeros(3), (0.9, 0.9), region, tuple(maps[:1]), "top1", found=found)


def numbers_of(result):
    return [one.number for one in result.found]


def labelled(result, label):
    return replace(result, found=tuple(one._replace(label=label) for one in result.found))


def test_a_box_keeps_its_number_by_its_overlap():
    """Two boxes move and swap their ranks; one goes and comes back."""
    left, right, below = (10, 10, 30, 30), (100, 10, 120, 30), (10, 100, 40, 140)
    number = BoxNumbers()
    assert numbers_of(number(result_of(left, right))) == [0, 1]
    assert numbers_of(number(result_of((104, 12, 124, 32), (12, 10, 32, 30), below))) == [1, 0, 2]
    assert numbers_of(number(result_of(below))) == [2]
    assert numbers_of(number(result_of(left, below))) == [0, 2]
    other = labelled(result_of(right, below), 2)
    assert numbers_of(number(other)) == [3, 2]  # another class where the second box was
    assert number.place_of(2) == below and number.place_of(None) is number.place_of(9) is None


def test_a_box_that_was_lost_has_its_number_again_by_its_class():
    """Also far away, in another file, or when a film begins again; in the end it is forgotten."""
    left, right, below = (10, 10, 30, 30), (100, 10, 120, 30), (10, 100, 40, 140)
    number = BoxNumbers()
    assert numbers_of(number(result_of(left), "a.mp4")) == [0]
    for _ in range(100):
        number(result_of(), "a.mp4")
    assert numbers_of(number(labelled(result_of(left), 2), "a.mp4")) == [1]
    assert numbers_of(number(result_of(right, below), "a.mp4")) == [0, 2]
    assert numbers_of(number(labelled(result_of(right, below), 2), "b.mp4")) == [1, 3]
    for label in range(3, REMEMBERED + 9):
        number(labelled(result_of((50 * label, 0, 50 * label + 9, 9)), label), "b.mp4")
    assert numbers_of(number(result_of(right), "b.mp4"))[0] > REMEMBERED


def test_each_box_has_its_colour_and_one_alone_the_usual_ones():
    """Where maps overlap the brightest is seen; negative relevance has no colour."""
    one, other = np.zeros((2, 4, 6), np.int8)
    one[0, :2], other[0, 1:3], other[3, 3] = 100, (40, 127), -90
    result = result_of((0, 0, 9, 9), (20, 0, 30, 9), strengths=[one, other])
    drawn = drawn_map(result, LOOK).strength
    first, second = (np.array(COLOURS[n]) / 255 for n in range(2))
    np.testing.assert_allclose(drawn[0, 0], 100 * first, atol=0.5)
    np.testing.assert_allclose(drawn[0, 1], np.maximum(100 * first, 40 * second), atol=0.5)
    np.testing.assert_allclose(drawn[0, 2], 127 * second, atol=0.5)
    assert not drawn[3, 3].any()
    np.testing.assert_array_equal(drawn_map(result, LOOK, alone=1).strength, other)
    of_all = drawn_map(result, replace(LOOK, colormap="fire")).strength
    np.testing.assert_array_equal(of_all, one, "of the whole result")
    texts = outlines_of(SimpleNamespace(label="abc".__getitem__), result, alone=1)
    assert [(text.above, text.below) for text in texts] == [("", ""), ("b 90 %", "71 % inside")]


def test_boxes_move_with_the_picture():
    """As the map does: a textured square moves by 14 and 9 pixels; where it is gone its box is."""
    rng = np.random.default_rng(4)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (60, 60, 3), np.uint8), (0, 0), 2)

    def picture(x, y):
        result = np.full((240, 320, 3), 90, np.uint8)
        result[y : y + 60, x : x + 60] = texture
        return result

    blank = Overlay(np.zeros((24, 32, 3), np.uint8), np.zeros((24, 32)), (0, 0, 320, 240), LOOK)
    outline = Outline((100, 80, 160, 140), "star", "", WHITE)
    follower = Follower(Painted(picture(100, 80), (blank,), (outline,)))
    assert follower(picture(100, 80)).outlines == (outline,)
    (moved,) = follower(picture(114, 89)).outlines
    assert moved.above == "star" and not follower.lost
    np.testing.assert_allclose(moved.box, (114, 89, 174, 149), atol=2)
    assert follower(rng.integers(0, 256, (240, 320, 3), np.uint8)).outlines == ()
    assert follower.lost == {0}
