"""The picture: colours, where the map lies, what stays untouched."""

import numpy as np
import pytest

from realtime_lrp.errors import UsageError
from realtime_lrp.view.colormaps import COLORMAPS, colormap_named, compile_colours
from realtime_lrp.view.overlay import Painter, Scale, lay_over
from realtime_lrp.view.sheet import contact_sheet
from realtime_lrp.view.text import draw_lines, text_size

BOX, INNER = (40, 0, 100, 60), (0, 0, 30, 30)


def picture_of(rng):
    return rng.integers(0, 256, (60, 140, 3), np.uint8)


def test_a_colour_string_is_compiled_to_equal_steps():
    """Ends and middle by hand."""
    table = compile_colours("000 f00 fff")
    np.testing.assert_array_equal(table[[0, 255]], [[0, 0, 0], [255, 255, 255]])
    np.testing.assert_array_equal(table[[64, 191]], [[128, 0, 0], [255, 127, 127]])


@pytest.mark.parametrize("name", COLORMAPS)
def test_signed_maps_have_zero_in_the_middle(name):
    """Plus and minus differ where the map is signed; zero is one colour."""
    colours = COLORMAPS[name](np.array([-1.0, 0.0, 1.0]))
    assert (colours[0] != colours[1]).any() == COLORMAPS[name].signed
    assert (colours[1] != colours[2]).any()


def test_an_unknown_colour_map_is_refused_with_the_nearest():
    """Other spellings are answered with ours."""
    with pytest.raises(UsageError, match="'gray'"):
        colormap_named("grey")
    with pytest.raises(UsageError, match="'fire'"):
        colormap_named("fyre")


@pytest.mark.parametrize("style", ["grey", "rgb"])
@pytest.mark.parametrize("colormap", COLORMAPS)
def test_zero_relevance_leaves_the_picture_untouched(style, colormap, rng):
    """But for the faint outline of the region."""
    picture = picture_of(rng)
    layer = Painter(style, colormap, 1.0)(np.zeros((30, 30, 3), np.float32), BOX, INNER)
    drawn = lay_over(picture, layer)
    np.testing.assert_array_equal(drawn[1:-1, 41:99], picture[1:-1, 41:99])
    np.testing.assert_array_equal(drawn[:, :40], picture[:, :40])
    np.testing.assert_array_equal(drawn[:, 100:], picture[:, 100:])


def test_relevance_lies_where_it_belongs(rng):
    """A spot around (row 20, column 10) of a 30 x 30 map in a 60 x 60 box at x = 40."""
    picture = picture_of(rng)
    relevance = np.zeros((30, 30, 3), np.float32)
    relevance[19:22, 9:12] = 1
    drawn = lay_over(picture, Painter("grey", "fire", 1.0)(relevance, BOX, INNER))
    changed = np.argwhere((drawn != picture).any(-1)[1:-1, 41:99]) + np.array([1, 41])
    np.testing.assert_allclose(changed.mean(0), [20 * 2 + 0.5, 40 + 10 * 2 + 0.5], atol=0.6)
    assert (drawn[40, 60] == COLORMAPS["fire"].table[255]).all(-1)
    assert np.ptp(changed[:, 0]) <= 8


def test_a_letterboxed_map_loses_its_borders(rng):
    """Only the inner part of the map is laid over the picture."""
    relevance = np.zeros((30, 30, 3), np.float32)
    relevance[:6] = 1
    picture = picture_of(rng)
    whole = (0, 0, 140, 60)
    drawn = lay_over(picture, Painter("grey", "fire", 1.0)(relevance, whole, (0, 6, 30, 24)))
    np.testing.assert_array_equal(drawn, picture)


def test_opacity_mixes_picture_and_colour():
    """Half opacity over black: half the colour."""
    relevance = np.ones((30, 30, 3), np.float32)
    layer = Painter("grey", "hot", 0.5)(relevance, BOX, INNER)
    drawn = lay_over(np.zeros((60, 140, 3), np.uint8), layer)
    assert np.abs(drawn[30, 70].astype(int) - 128).max() <= 1


def test_negative_relevance_is_drawn_by_signed_maps_only():
    """Fire hides it, coldnhot shows it in its own colour."""
    relevance = -np.ones((30, 30, 3), np.float32)
    black = np.zeros((60, 140, 3), np.uint8)
    hidden = lay_over(black, Painter("grey", "fire", 1.0)(relevance, BOX, INNER))
    assert (hidden[10:50, 50:90] == 0).all()
    cold = lay_over(black, Painter("grey", "coldnhot", 1.0)(relevance, BOX, INNER))
    np.testing.assert_array_equal(cold[30, 70], [0, 255, 255])


def test_rgb_maps_show_each_channel_by_itself():
    """Relevance in the green channel alone is drawn green."""
    relevance = np.zeros((30, 30, 3), np.float32)
    relevance[..., 1] = 1
    black = np.zeros((60, 140, 3), np.uint8)
    drawn = lay_over(black, Painter("rgb", "fire", 1.0)(relevance, BOX, INNER))
    np.testing.assert_array_equal(drawn[30, 70], [0, 255, 0])


def test_the_scale_of_a_video_follows_slowly():
    """A sudden map of ten times the size moves the scale by a tenth of the way."""
    scale = Scale(0.9)
    assert scale(np.ones(100)) == 1.0
    assert scale(np.full(100, 10.0)) == pytest.approx(1.9)
    assert Scale()(np.zeros(100)) == 1.0


def test_text_is_readable_on_white_and_on_black():
    """White letters on a darkened strip; accents and CJK leave ink."""
    for background in (0, 255):
        for line in ("tiger cat  48%", "Größe: ñ é", "网络看到了什么"):
            picture = np.full((200, 300, 3), background, np.uint8)
            draw_lines(picture, [line], (0, 0, 300, 200), bottom=True)
            strip = picture[-text_size(200) :]
            assert strip.max() >= 240
            assert np.median(strip) <= 0.5 * 255
            assert (strip > 200).all(-1).sum() > 40
            assert (picture[:100] == background).all()


def test_a_contact_sheet_holds_every_picture():
    """Five pictures in two rows of four places."""
    pictures = [np.full((10, 20, 3), 40 * n, np.uint8) for n in range(1, 6)]
    sheet = contact_sheet(pictures)
    assert sheet.shape == (2 * 14 + 4, 4 * 24 + 4, 3)
    assert (sheet[4:14, 4:24] == 40).all()
    assert (sheet[18:28, 4:24] == 200).all()
